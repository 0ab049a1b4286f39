"""Which headers and credentials cross the gateway, in either direction."""

import pytest

from tests.fake_upstream import FakeUpstream, answer, sse_error_after, status
from tests.gateway import MESSAGES, chat
from tests.proxy.asking import ask

FORWARDED = {
    "user-agent": "claude-cli/2.0 (external, cli)",
    "anthropic-beta": "context-1m-2025-08-07,fine-grained-tool-streaming-2025-05-14",
    "anthropic-version": "2023-06-01",
    "openai-beta": "assistants=v2",
    "x-stainless-lang": "python",
    "x-stainless-retry-count": "1",
    "x-app": "cli",
    "originator": "codex_cli_rs",
    "session-id": "abc",
    "x-codex-turn-state": "t",
    "x-client-request-id": "c-1",
    "x-goog-api-client": "gl-node/22",
    "x-unheard-of": "kept",
    "accept": "text/event-stream",
}
NEVER = {
    "cookie": "a=b",
    "proxy-authorization": "Basic eA==",
    "x-forwarded-for": "10.0.0.1",
    "x-forwarded-host": "inner",
    "forwarded": "for=10.0.0.1",
    "via": "1.1 proxy",
    "x-real-ip": "10.0.0.1",
    "true-client-ip": "10.0.0.1",
    "cf-connecting-ip": "10.0.0.1",
    "traceparent": "00-1-2-01",
    "baggage": "a=b",
    "te": "trailers",
    "keep-alive": "timeout=5",
    "openai-organization": "org-client",
    "openai-project": "proj-client",
    "chatgpt-account-id": "acc-client",
    "anthropic-workspace-id": "ws-client",
    "http-referer": "https://app.example",
    "x-title": "App",
    "x-pointsman-anything": "1",
    "x-session-id": "s-1",
}


def test_client_headers_reach_the_upstream(gateway, up):
    """Report 49: features depend on them."""
    gateway.post(gateway.serving(up, "k-1"), headers=FORWARDED)
    assert {name: up.last.header(name) for name in FORWARDED} == FORWARDED


def test_some_headers_never_do(gateway, up):
    """Report 49: minus credentials, hop-by-hop ones and those about the client's own account and network."""
    headers = {**NEVER, "connection": "keep-alive, X-Listed", "x-listed": "hop"}
    got = gateway.post(gateway.serving(up, "k-1"), headers=headers)
    assert got.status_code == 200
    assert {name: up.last.header(name) for name in [*NEVER, "x-listed"]} == dict.fromkeys([*NEVER, "x-listed"])


def test_an_upstreams_own_headers_replace_the_clients(gateway, up):
    world = gateway.serving(up, "k-1", upstream={"headers": {"X-App": "relay", "x-extra": "1"}})
    gateway.post(world, headers={"x-app": "cli"})
    assert [value for name, value in up.last.headers if name.lower() == "x-app"] == ["relay"]
    assert up.last.header("x-extra") == "1"


class TestCredentials:
    PLACES = ["authorization", "x-api-key", "api-key", "x-goog-api-key"]

    @staticmethod
    def header(place, secret):
        return (place, f"Bearer {secret}" if place == "authorization" else secret)

    @pytest.mark.parametrize("place", PLACES)
    def test_each_place(self, gateway, up, place):
        world = gateway.serving(up, "k-1")
        got = gateway.post(None, headers=[self.header(place, world.secret)])
        assert got.status_code == 200
        assert up.last.credentials == (("authorization", "k-1"),)

    @pytest.mark.parametrize("scheme", ["bearer ", "BEARER  ", ""])
    def test_spellings_of_bearer(self, gateway, up, scheme):
        world = gateway.serving(up, "k-1")
        assert gateway.post(None, headers={"authorization": scheme + world.secret}).status_code == 200

    @pytest.mark.parametrize("foreign", ["sk-ant-api03-" + "x" * 40, "sk-pm-" + "x" * 40, "none", "a b", "\xff\xfe"])
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_two_at_once_in_either_order(self, gateway, up, foreign, ours_first):
        world = gateway.serving(up, "k-1")
        pairs = [("authorization", world.secret), ("x-api-key", foreign)]
        if not ours_first:
            pairs = [("authorization", foreign), ("x-api-key", world.secret)]
        headers = [(name.encode(), self.header(name, value)[1].encode("latin-1")) for name, value in pairs]
        got = gateway.post(None, headers=headers)
        assert got.status_code == 200
        assert up.last.credentials == (("authorization", "k-1"),)
        assert all(foreign not in value for _, value in up.last.headers)

    @pytest.mark.parametrize("path", ["/v1beta/models/g:generateContent", "/v1/models/g:generateContent"])
    def test_the_query_of_gemini(self, gateway, up, path):
        world = gateway.serving(f"{up.url}/v1beta", "k-1", upstream={"dialect": "gemini"})
        body = {"contents": [{"parts": [{"text": "hi"}]}]}
        got = gateway.post(None, body, path=f"{path}?alt=json&key={world.secret}&x=%2F")
        assert got.status_code == 200
        assert up.last.credentials == (("x-goog-api-key", "k-1"),)
        assert up.last.target == "/v1beta/models/g:generateContent?alt=json&x=%2F"
        assert world.secret not in up.last.target

    def test_the_query_is_geminis_alone(self, gateway, up):
        world = gateway.serving(up, "k-1")
        assert gateway.post(None, path=f"/v1/chat/completions?key={world.secret}").status_code == 401
        assert up.requests == []

    @pytest.mark.parametrize(
        ("dialect", "auth", "expected"),
        [
            ("openai", "", [("authorization", "k-1")]),
            ("anthropic", "", [("x-api-key", "k-1")]),
            ("anthropic", "bearer", [("authorization", "k-1")]),
            ("anthropic", "both", [("authorization", "k-1"), ("x-api-key", "k-1")]),
            ("openai", "x-api-key", [("x-api-key", "k-1")]),
        ],
    )
    def test_what_the_upstream_gets(self, gateway, up, dialect, auth, expected):
        world = gateway.serving(up, "k-1", upstream={"dialect": dialect, "auth": auth})
        path = "/v1/messages" if dialect == "anthropic" else "/v1/chat/completions"
        got = gateway.post(world, chat(max_tokens=9), path=path)
        assert got.status_code == 200
        assert sorted(up.last.credentials) == expected


def test_headers_of_the_answer(gateway, up):
    kept = {"openai-processing-ms": "12", "x-codex-turn-state": "t", "openai-model": "m", "x-unheard-of": "kept"}
    dropped = {
        "set-cookie": "__cf_bm=1",
        "cf-ray": "1-FRA",
        "alt-svc": "h3",
        "strict-transport-security": "max-age=1",
        "openai-organization": "org-ours",
        "anthropic-organization-id": "org-ours",
        "x-ratelimit-remaining-requests": "9",
        "anthropic-ratelimit-tokens-remaining": "9",
        "connection": "close, x-listed",
        "x-listed": "hop",
        "server": "cloudflare",
    }
    up.script("k-1", answer().but(headers=tuple({**kept, **dropped}.items())))
    got = gateway.post(gateway.serving(up, "k-1"))
    assert {name: got.headers.get(name) for name in kept} == kept
    assert {name: got.headers.get(name) for name in dropped if name != "connection"} == dict.fromkeys(
        name for name in dropped if name != "connection"
    )
    assert got.headers["x-request-id"].startswith("req_")
    assert got.headers["request-id"] == got.headers["x-request-id"]
    assert got.headers["x-pointsman-attempts"] == "1"
    assert gateway.record(got).attempts.get().upstream_request_id == f"req_up_{up.last.number}"


@pytest.mark.parametrize("stream", [False, True])
def test_every_answer_tells_attempts_and_session(gateway, up, stream):
    up.script("k-1", status(500))
    world = gateway.serving(up, "k-1", "k-2")
    said = ask(gateway, world, stream=stream, extra_headers={"x-session-id": "s-1"})
    assert (said.headers["x-pointsman-attempts"], said.headers["x-pointsman-session"]) == ("2", "new")


class TestNothingLeaks:
    """Report 50: a key in an error's text reaches neither clients nor records nor logs."""

    SECRET = "AIzaSyFakeFakeFakeFakeFakeFakeFakeFake1"

    @pytest.fixture
    def gemini(self, gateway, up):
        return gateway.serving(f"{up.url}/v1beta", self.SECRET, upstream={"dialect": "gemini"})

    def call(self, gateway, world, method="generateContent"):
        body = {"contents": [{"parts": [{"text": "hi"}]}]}
        return gateway.post(world, body, path=f"/v1beta/models/g:{method}")

    @pytest.mark.parametrize("code", [400, 403, 404, 500])
    def test_in_an_error_body(self, gateway, up, gemini, caplog, code):
        up.default(status(code, f"Consumer 'api_key:{self.SECRET}' has been suspended at ?key={self.SECRET}&x=1"))
        got = self.call(gateway, gemini)
        assert got.status_code >= 400
        record = gateway.record(got)
        told = [got.text, record.message, *(a.message for a in record.attempts.all()), caplog.text]
        assert [self.SECRET in text for text in told] == [False] * len(told)
        assert up.last.credentials == (("x-goog-api-key", self.SECRET),)
        assert self.SECRET not in up.last.target

    def test_when_the_upstream_refuses(self, gateway, up, gemini, caplog):
        up.refuse()
        got = self.call(gateway, gemini)
        assert got.status_code == 502
        record = gateway.record(got)
        assert self.SECRET not in got.text + record.message + record.attempts.get().message + caplog.text

    @pytest.mark.parametrize("secret", ["relay-token-without-a-shape", "sk-live-" + "q" * 30])
    @pytest.mark.parametrize("stream", [False, True])
    def test_in_a_verbatim_error(self, gateway, up, secret, stream):
        """Any of the tenant's own secrets is taken out, whatever it looks like."""
        up.default(status(400, f"bad parameter, said the owner of {secret}"))
        got = gateway.post(gateway.serving(up, "k-1", secret), chat(stream=stream))
        assert got.status_code == 400
        assert secret not in got.text
        assert "bad parameter" in got.text

    @pytest.mark.parametrize("secret", ["relay-token-without-a-shape", "sk-live-" + "q" * 30])
    def test_in_an_error_event_behind_content(self, gateway, up, secret):
        up.default(sse_error_after(2, f"relay {secret} gave up"))
        got = gateway.post(gateway.serving(up, secret), chat(stream=True))
        record = gateway.record(got)
        assert "gave up" in got.text
        assert secret not in got.text + record.message + record.attempts.get().message


def test_cookies_are_not_kept_between_requests(gateway, up):
    up.default(answer().but(headers=(("set-cookie", "a=b; Path=/"),)))
    world = gateway.serving(up, "k-1")
    gateway.post(world)
    gateway.post(world)
    assert up.last.header("cookie") is None


def test_connections_to_an_upstream_are_kept(gateway, up: FakeUpstream):
    world = gateway.serving(up, "k-1")
    for _ in range(3):
        gateway.post(world, {"model": "gpt-4o", "messages": MESSAGES})
    assert up.counts.connections == 1


def test_an_idle_connection_that_the_upstream_closed_is_no_failure(gateway, up):
    world = gateway.serving(up, "k-1")
    for _ in range(3):
        assert gateway.post(world).status_code == 200
        up.drop_idle()
