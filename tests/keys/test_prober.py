"""Listing models with a key: what each kind of answer says, and that nothing else is ever asked."""

import pytest

from config import private_upstreams
from keys.core.outcome import Cause
from keys.prober import probe
from tests.factories import NOON, UpstreamFactory, UpstreamKeyFactory
from tests.fake_upstream import closed_port, empty, hang_up, html, raw, redirect, silent, status

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def loopback(settings):
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("127.0.0.1")


def key_of(base_url, secret="k-1", **upstream):
    return UpstreamKeyFactory(upstream=UpstreamFactory(base_url=base_url, **upstream), secret=secret)


def probed(up, reaction=None, **upstream):
    if reaction is not None:
        up.default(reaction, path="*/models")
    return probe(key_of(up.base_url, **upstream), NOON)


@pytest.mark.parametrize(
    ("dialect", "base", "header"),
    [
        ("openai", "/v1", "authorization"),
        ("openai-responses", "/v1", "authorization"),
        ("anthropic", "/v1", "x-api-key"),
        ("gemini", "/v1beta", "x-goog-api-key"),
    ],
)
def test_it_lists_models_with_the_keys_own_credential(up, dialect, base, header):
    up.models = ("b", "a", "b")
    result = probe(key_of(up.url + base, dialect=dialect, headers={"x-extra": "1"}), NOON)
    assert result.alive
    assert set(result.models) == {"a", "b"}
    assert len(result.models) == 2
    (seen,) = up.requests
    assert (seen.method, seen.path, seen.credentials) == ("GET", f"{base}/models", ((header, "k-1"),))
    assert seen.header("x-extra") == "1"
    assert (seen.header("anthropic-version") is not None) == (dialect == "anthropic")


@pytest.mark.parametrize(
    ("reaction", "cause"),
    [
        (status(401), Cause.AUTH_INVALID),
        (status(402), Cause.INSUFFICIENT_BALANCE),
        (status(403), Cause.PERMISSION_DENIED),
        (status(429), Cause.RATE_LIMITED),
        (status(500), Cause.SERVER_ERROR),
        (redirect("http://127.0.0.1:9/"), Cause.SERVER_ERROR),
        (hang_up(), Cause.CONNECTION),
        (hang_up(b"not http\r\n\r\n"), Cause.CONNECTION),
    ],
)
def test_a_refusal_is_classified(up, reaction, cause):
    result = probed(up, reaction)
    assert (result.alive, result.outcome.cause, result.models) == (False, cause, ())
    assert len(up.requests) == 1


@pytest.mark.parametrize("code", [404, 405, 501])
def test_a_relay_without_a_list_says_nothing_about_the_key(up, code):
    result = probed(up, status(code))
    assert (result.alive, result.outcome) == (False, None)


@pytest.mark.parametrize(
    "reaction", [html(), empty(), raw(b"[1, 2"), raw(b'"x"'), raw({"data": "x"}), raw({"data": [1]})]
)
def test_a_list_that_cannot_be_read_has_no_names(up, reaction):
    result = probed(up, reaction)
    assert (result.alive, result.models) == (True, ())


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"id": "a"}, {"id": "b"}]},
        {"models": [{"name": "models/a"}, {"name": "models/b"}]},
        [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": ""}],
    ],
)
def test_three_shapes_of_lists(up, body):
    assert probed(up, raw(body)).models == ("a", "b")


def test_a_refused_port():
    with closed_port() as url:
        assert probe(key_of(url), NOON).outcome.cause is Cause.CONNECTION


def test_silence_is_bounded(up, monkeypatch):
    monkeypatch.setattr("keys.prober.TIMEOUT_S", 0.2)
    assert probed(up, silent()).outcome.cause is Cause.TIMEOUT


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "0x7f000001"])
def test_inner_addresses_are_not_asked(up, settings, host):
    """Report 52."""
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("off")
    result = probe(key_of(f"http://{host}:{up.port}/v1"), NOON)
    assert (result.alive, up.requests) == (False, [])


def test_the_secret_is_not_in_the_message(up):
    secret = "relay-token-without-a-shape"
    up.default(status(401, f"no such key: {secret}"), path="*/models")
    result = probe(key_of(up.base_url, secret), NOON)
    assert "no such key" in result.outcome.message
    assert secret not in result.outcome.message
