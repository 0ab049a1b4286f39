"""Stated waits: every spelling, their order, and what is not a wait."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.evidence import Evidence
from keys.core.waits import go_duration_s, stated_wait_s, text_wait_s, until_midnight_pacific_s

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
DATE = "Mon, 05 Jan 2026 11:59:30 GMT"  # the upstream's clock is 30 s behind


def wait(headers: Mapping[str, str] = {}, body: Mapping[str, Any] | None = None, message: str = "") -> float | None:
    return stated_wait_s(Evidence(429, headers=headers, objects=(body,) if body else (), message=message), NOW)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after": "0"}, 0),
        ({"retry-after": " 0.25 "}, 0.25),
        ({"retry-after": "Mon, 05 Jan 2026 12:00:10 GMT"}, 10),
        ({"retry-after": "Mon, 05 Jan 2026 12:00:10 GMT", "date": DATE}, 40),
        ({"retry-after": "Mon, 05 Jan 2026 12:00:10 -0000"}, 10),
        ({"retry-after": "Mon, 05 Jan 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "1m30s"}, 90),
        ({"retry-after": "30, 30"}, 30),
        ({"retry-after": str(EPOCH + 60)}, 60),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "tomorrow, perhaps"}, None),
        ({"retry-after": "9" * 80}, None),
        ({"retry-after": "99999999999999999999"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert wait(headers) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-tokens": "12",
                "x-ratelimit-reset-tokens": "1h0m0s",
            },
            360,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12ms"}, 0.012),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "-1",
                "x-ratelimit-reset-tokens": "7.66s",
            },
            7.66,
        ),
        ({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "9"}, 9),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str((EPOCH + 50) * 1000)}, 50),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH + 50)}, 50),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "17"}, 17),
        ({"x-ratelimit-remaining": "0"}, None),
        ({"x-ratelimit-remaining": "few", "x-ratelimit-reset": "17"}, 17),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "17"}, None),
        ({"x-ratelimit-reset-requests": "17"}, 17),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH - 50)}, None),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-01-05T12:00:23Z",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-01-05T13:00:00Z",
            },
            23,
        ),
        (
            {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": str(EPOCH + 3600)},
            3600,
        ),
        (
            {
                "anthropic-ratelimit-unified-status": "allowed",
                "anthropic-ratelimit-requests-remaining": "3",
                "anthropic-ratelimit-unified-reset": str(EPOCH + 3600),
            },
            None,
        ),
        ({"x-codex-primary-used-percent": "100", "x-codex-primary-reset-after-seconds": "77"}, 77),
        (
            {
                "x-codex-secondary-used-percent": "103.5",
                "x-codex-secondary-reset-at": str(EPOCH + 88),
                "x-codex-primary-used-percent": "12",
                "x-codex-primary-reset-after-seconds": "999",
            },
            88,
        ),
    ],
)
def test_reset_headers_of_empty_buckets(headers: dict[str, str], expected: float | None) -> None:
    found = wait(headers)
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"retryDelay": "26s"}, 26),
        ({"retryDelay": "0.539477544s"}, 0.539477544),
        ({"retryDelay": {"seconds": 3, "nanos": 500_000_000}}, 3.5),
        ({"retryDelay": {"seconds": "3"}}, 3),
        ({"retryDelay": {"nanos": 1}}, None),
        ({"quotaResetDelay": "14h23m40.5s"}, 51820.5),
        ({"resets_in_seconds": 9000, "resets_at": 1}, 9000),
        ({"resets_at": EPOCH + 70}, 70),
        ({"resets_at": "2026-01-06T00:00:00Z"}, 43200),
        ({"resets_at": "2026-01-06T00:00:00"}, 43200),
        ({"resets_at": "2026-01-05T20:30:00+08:00"}, 1800),
        ({"resets_at": "later"}, None),
        ({"resets_at": "x" * 70}, None),
        ({"resets_at": "2020-01-01T00:00:00Z"}, None),
        ({"retry_after": 40}, 40),
        ({"retry_after": True}, None),
        ({"retry_after": None}, None),
        ({"retry_after_ms": 1500}, 1.5),
        ({"retry_after_ms": "x"}, None),
        ({"reset_seconds": "7200"}, 7200),
        ({"retry_after": 10**400}, None),
    ],
)
def test_fields_of_the_error(body: dict[str, Any], expected: float | None) -> None:
    assert wait(body=body) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Please try again in 20s. Visit x", 20),
        ("Please try again in 7m12s.", 432),
        ("Please try again in 644ms.", 0.644),
        ("Please try again in 1h2m3.5s.", 3723.5),
        ("Please try again in 6m0s", 360),
        ("Please retry in 56.185908122s.", 56.185908122),
        ("Please retry after 20 seconds.", 20),
        ("Please wait 33 seconds before retrying.", 33),
        ("please try again after 1 seconds", 1),
        ("Try again in 2 hours and 30 minutes", 9000),
        ("Try again in 1 day, 2 hrs", 93600),
        ("Limit resets in 3 h 5 min", 11100),
        ("try again in 150 milliseconds", 0.15),
        ("Retry-After: 12", 12),
        ("retry after 12.", 12),
        ("retry after 2026-01-05 12:01:00 UTC", 60),
        ("Please try again in a minute", 60),
        ("please retry in one hour.", 3600),
        ("quota will reset after 0s.", 0),
        ("Claude AI usage limit reached|" + str(EPOCH + 5), 5),
        ("You will regain access on 2026-01-05 at 14:00 UTC.", 7200),
        ("Your limit will reset at 2026-01-05 20:00:00+08:00", 0),
        ("Your limit will reset at 2026-01-05T07:30:00-05:00", 1800),
        ("Your limit will reset at 2026-13-45 20:00:00", None),
        ("您的限额将在 2026-01-05 20:30:00 重置。", 1800),
        ("将于 2026年1月5日 21:00 自动恢复", 3600),
        ("请在 30 秒后重试", 30),
        ("请 1小时5分钟后再试", 3900),
        ("请等待 2 分钟", 120),
        ("请于500毫秒后再试", 0.5),
        ("请等待约 1.5 秒", 1.5),
        ("created at 2027-01-01 00:00", None),
        ("Limit 20, Used 20", None),
        ("1分钟内最多请求60次", None),
        ("Please try again later.", None),
        ("", None),
    ],
)
def test_messages(message: str, expected: float | None) -> None:
    found = text_wait_s(message, NOW)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_the_order_is_header_field_text_bucket() -> None:
    buckets = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "4s"}
    body, message = {"retry_after": 2}, "try again in 3s"
    assert wait({"retry-after": "1", **buckets}, body, message) == 1
    assert wait(buckets, body, message) == 2
    assert wait(buckets, None, message) == 3
    assert wait(buckets) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1s", 1),
        ("2m59.56s", 179.56),
        ("12ms", 0.012),
        ("1h0m0s", 3600),
        ("5", None),
        ("", None),
        ("1s!", None),
        ("1µs", 1e-6),
    ],
)
def test_go_durations(text: str, expected: float | None) -> None:
    found = go_duration_s(text)
    assert found == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("now", "expected_h"),
    [
        (datetime(2026, 1, 5, 12, tzinfo=UTC), 20),
        (datetime(2026, 7, 5, 12, tzinfo=UTC), 19),
        (datetime(2026, 1, 5, 8, tzinfo=UTC), 24),
        (datetime(2026, 3, 8, 9, 59, tzinfo=UTC), 21 + 1 / 60),  # the day on which summer time begins
    ],
)
def test_midnight_in_california(now: datetime, expected_h: float) -> None:
    assert until_midnight_pacific_s(now) == pytest.approx(expected_h * 3600)


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        st.text(max_size=30),
    ),
    st.dictionaries(
        st.sampled_from(["retryDelay", "resets_at", "retry_after_ms"]),
        st.one_of(
            st.text(max_size=20),
            st.integers(),
            st.floats(),
            st.none(),
            st.dictionaries(st.sampled_from(["seconds", "nanos"]), st.one_of(st.integers(), st.text())),
        ),
    ),
    st.text(max_size=60),
)
def test_nothing_raises_and_nothing_is_negative(headers: dict[str, str], body: dict[str, Any], message: str) -> None:
    found = wait(headers, body, message)
    assert found is None or found >= 0
