"""Whose X-Forwarded-For is believed: the configured proxies' alone, by the server that really serves."""

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from config.serve import make_server


@pytest.fixture
def seen_by(settings):
    """Return a function that tells the address and scheme which the application sees."""

    async def ask(client, *, trusted, forwarded="203.0.113.5", scheme="https"):
        settings.POINTSMAN_TRUSTED_PROXIES = trusted
        config = make_server().config
        seen = []

        async def application(scope, _receive, _send):
            seen.append((scope["client"][0], scope["scheme"]))

        assert config.proxy_headers
        headers = [(b"x-forwarded-for", forwarded.encode()), (b"x-forwarded-proto", scheme.encode())]
        scope = {"type": "http", "client": (client, 1), "scheme": "http", "headers": headers}
        await ProxyHeadersMiddleware(application, trusted_hosts=config.forwarded_allow_ips)(scope, None, None)
        return seen[0]

    return ask


async def test_a_trusted_proxy_says_who_called(seen_by):
    assert await seen_by("10.1.2.3", trusted=["10.1.0.0/16"]) == ("203.0.113.5", "https")


async def test_a_stranger_says_nothing(seen_by):
    assert await seen_by("198.51.100.1", trusted=["10.1.0.0/16"]) == ("198.51.100.1", "http")


async def test_what_a_client_put_before_the_proxys_own_word_is_not_believed(seen_by):
    forwarded = "192.0.2.66, 203.0.113.5"  # the first is the client's invention
    assert await seen_by("10.1.2.3", trusted=["10.1.0.0/16"], forwarded=forwarded) == ("203.0.113.5", "https")
