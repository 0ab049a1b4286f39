"""Prometheus' figures."""

import pytest
from django.test import override_settings

from tests.fake_upstream import status
from tests.gateway import chat, wait_until


def value(text: str, name: str) -> float:
    found = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]
    return sum(found)


def test_requests_attempts_and_tokens_are_counted(gateway, up):
    up.script("k-1", status(429, retry_after=30))
    world = gateway.serving(up, "k-1", "k-2")
    before = gateway.get(None, "/metrics").text
    assert gateway.post(world, chat()).status_code == 200

    def grown(name: str, by: float) -> bool:
        return value(gateway.get(None, "/metrics").text, name) - value(before, name) == by

    finished = 'pointsman_requests_total{code="",dialect="openai",session="new",status="finished"}'
    # Attempts are counted last.
    wait_until(lambda: grown('pointsman_attempts_total{outcome="served",upstream="u2"}', 1))
    assert grown('pointsman_attempts_total{outcome="rate_limited",upstream="u1"}', 1)
    assert grown(finished, 1)
    assert grown('pointsman_tokens_total{kind="input"}', 25)
    assert grown("pointsman_request_seconds_count", 1)


@pytest.mark.parametrize(
    ("token", "headers", "expected"),
    [
        ("", {}, 200),
        ("", {"x-forwarded-for": "203.0.113.9"}, 403),
        ("secret", {"x-forwarded-for": "203.0.113.9"}, 403),
        ("secret", {"x-forwarded-for": "203.0.113.9", "authorization": "Bearer secret"}, 200),
        ("secret", {"x-forwarded-for": "203.0.113.9", "authorization": "Bearer wrong"}, 403),
        ("", {"x-forwarded-for": "203.0.113.9", "authorization": "Bearer x"}, 403),
    ],
)
def test_only_loopback_or_the_token_may_read(gateway, token, headers, expected):
    with override_settings(POINTSMAN_METRICS_TOKEN=token):
        assert gateway.get(None, "/metrics", headers=headers).status_code == expected
