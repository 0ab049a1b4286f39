"""How long an upstream asks to be left alone, from headers and body.

Order (wire reference, section 0): `retry-after-ms`; `retry-after`; the error object's fields; the message; reset
headers of the bucket whose remaining is 0. The result is what is stated, even when it is not credible.
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from zoneinfo import ZoneInfo

from keys.core.evidence import Evidence

PACIFIC = ZoneInfo("America/Los_Angeles")
BEIJING = timezone(timedelta(hours=8))  # provider texts in Chinese state Beijing time without a zone

MAX_TEXT = 64  # characters; no number and no time is longer
MAX_WAIT_S = 366 * 86400.0
EPOCH_S = 1_000_000_000  # a larger number is a time, not a wait
EPOCH_MS = 100_000_000_000

DELAY_FIELDS: tuple[str, ...] = (
    "retryDelay",
    "quotaResetDelay",
    "resets_in_seconds",
    "retry_after",
    "retryAfter",
    "retry_after_seconds",
)
DELAY_FIELDS += (
    "reset_seconds",
    "reset_after_seconds",
    "reset_after",
    "reset_in_seconds",
    "cooldown_seconds",
    "reset_in",
)
TIME_FIELDS: tuple[str, ...] = (
    "resets_at",
    "reset_at",
    "resetsAt",
    "resetAt",
    "reset_time",
    "resetTime",
    "quotaResetTimeStamp",
)

_UNIT_S = {
    "ms": 0.001,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_ZH_UNIT_S = {
    "毫": 0.001,
    "秒": 1.0,
    "分": 60.0,
    "小": 3600.0,
    "个": 3600.0,
    "时": 3600.0,
    "天": 86400.0,
    "日": 86400.0,
}

_GO = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ns|us|µs|ms|s|m|h|d|w)")
_GO_WHOLE = re.compile(r"(?:\d{1,12}(?:\.\d{1,12})?(?:ns|us|µs|ms|s|m|h|d|w)){1,8}")
_EN_PART = (
    r"\d{1,12}(?:\.\d{1,12})?\s?(?:milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)"
    r"(?![a-z])"
)
_EN_PART_LOOSE = _EN_PART.replace("(?![a-z])", "(?![a-z])[\\s,]{0,3}(?:and )?")
_EN = re.compile(
    r"\b(?:again|retry(?:ing)?|wait(?:ing)?|resets?|recovers?|available|resumes?|back)\b[^\d\n]{0,40}?"
    rf"((?:{_EN_PART_LOOSE}){{1,6}})",
)
_EN_WORD = re.compile(
    r"\b(?:again|retry(?:ing)?|wait|resets?)\b[^\d\n]{0,20}? (?:an?|one) (second|minute|hour|day|week)\b"
)
_EN_BARE = re.compile(r"\bretry[ -]after:?\s?(\d{1,9}(?:\.\d{1,6})?)(?!\.?\w|[:/-])")
_EN_ONE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s?(milliseconds?|msecs?|ms|[smhdw])")
_ZH_PART = r"\d{1,9}(?:\.\d{1,9})?\s?(?:毫秒|秒钟?|分钟?|个?小时|时|天|日)\s?"
_ZH = re.compile(
    rf"((?:{_ZH_PART}){{1,5}})(?:之后|以后|后|再)|(?:等待|请等|需等|冷却)\D{{0,8}}?((?:{_ZH_PART}){{1,5}})"
)
_ZH_ONE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?(毫|秒|分|小|个|时|天|日)")
_DATE = re.compile(
    r"(20\d\d)[-/年](\d{1,2})[-/月](\d{1,2})日?(?:t|\s)?\s?(?:at )?(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?"
    r"\s?(z\b|utc|gmt|[+-]\d\d:?\d\d)?"
)
_DATE_CONTEXT = re.compile(r"reset|regain|restor|recover|until|available|again|retry|恢复|重置|解除|刷新|之后|重试")
_PIPE_EPOCH = re.compile(r"limit reached\|(\d{10,13})\b")
_REMAINING = re.compile(r"(?P<head>.*ratelimit(?:-[a-z0-9-]+?)?-?)remaining(?P<tail>(?:-[a-z]+)*)$")


def stated_wait_s(evidence: Evidence, now: datetime) -> float | None:
    """Return the stated wait in seconds (0 counts as stated), or None. Never raises.

    Points in time are measured against the answer's own `date` header where it has one, else against `now`.
    """
    clock = clock_of(evidence.headers, now)
    for wait in _in_order(evidence, clock):
        if wait is not None and 0 <= wait <= MAX_WAIT_S:
            return wait
    return None


def clock_of(headers: Mapping[str, str], now: datetime) -> datetime:
    return _http_date(headers.get("date", "")) or now


def until_midnight_pacific_s(now: datetime) -> float:
    """Seconds to the next midnight in California, where Gemini's daily quotas are renewed."""
    local = now.astimezone(PACIFIC)
    midnight = datetime(local.year, local.month, local.day, tzinfo=PACIFIC) + timedelta(days=1)
    return (midnight.astimezone(UTC) - now).total_seconds()


def go_duration_s(text: str) -> float | None:
    """`1m30s`, `7.66s`, `12ms`, `1h0m0s` → seconds; None for anything else."""
    if not _GO_WHOLE.fullmatch(text):
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in _GO.findall(text))


def _in_order(evidence: Evidence, clock: datetime) -> Iterator[float | None]:
    headers = evidence.headers
    milliseconds = _number(headers.get("retry-after-ms"))
    yield None if milliseconds is None else milliseconds / 1000
    yield _retry_after(headers.get("retry-after", ""), clock)
    yield from _from_fields(evidence, clock)
    yield text_wait_s(evidence.message, clock)
    yield reset_header_s(headers, clock)


def _retry_after(value: str, clock: datetime) -> float | None:
    """Seconds, a Go duration, or an HTTP date (RFC 9110, 10.2.3); a date in the past is 0. Repeats: the first."""
    stated = _stated(value.strip(), clock)
    if stated is None and (date := _http_date(value)) is not None:
        return max(0.0, (date - clock).total_seconds())
    return stated if stated is not None or "," not in value else _stated(value.partition(",")[0].strip(), clock)


def _from_fields(evidence: Evidence, clock: datetime) -> Iterator[float | None]:
    for name in (*DELAY_FIELDS, "retry_after_ms", "retryAfterMs", *TIME_FIELDS):
        for item in evidence.objects:
            if name in item:
                wait = _stated(item[name], clock)
                yield wait / 1000 if wait is not None and name.lower().endswith("ms") else wait


def _stated(value: Any, clock: datetime) -> float | None:
    """Read seconds, an epoch in s or ms, a Go duration, RFC 3339, or protobuf's {seconds, nanos}."""
    if isinstance(value, Mapping):
        seconds, nanos = _number(value.get("seconds")), _number(value.get("nanos", 0))
        return None if seconds is None or nanos is None else seconds + nanos / 1e9
    if (number := _number(value)) is not None:
        if number < EPOCH_S:
            return number
        return number / (1000 if number > EPOCH_MS else 1) - clock.timestamp()
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        return None
    if (wait := go_duration_s(value.strip())) is not None:
        return wait
    return _rfc3339_wait(value, clock)


def _rfc3339_wait(value: str, clock: datetime) -> float | None:
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - clock).total_seconds()


def text_wait_s(message: str, clock: datetime) -> float | None:
    """Read 'try again in 7m12s', 'wait 33 seconds', '请在 30 秒后重试', 'resets at 2026-01-05 18:30', ...."""
    text = message[:2000].lower()
    if (found := _EN.search(text)) is not None:
        return sum(float(number) * _UNIT_S[_unit(unit)] for number, unit in _EN_ONE.findall(found[1]))
    if (found := _EN_BARE.search(text)) is not None:
        return float(found[1])
    if (found := _ZH.search(text)) is not None:
        return sum(float(number) * _ZH_UNIT_S[unit] for number, unit in _ZH_ONE.findall(found[1] or found[2]))
    if (found := _EN_WORD.search(text)) is not None:
        return _UNIT_S[found[1][0]]
    if (found := _PIPE_EPOCH.search(text)) is not None:
        return _stated(found[1], clock)
    return _dated(text, clock) if _DATE_CONTEXT.search(text) else None


def _unit(text: str) -> str:
    return "ms" if text in ("ms", "msec", "msecs") or text.startswith("milli") else text[0]


def _dated(text: str, clock: datetime) -> float | None:
    if (found := _DATE.search(text)) is None:
        return None
    zone = found[7]
    offset: timezone = BEIJING if not zone and not text.isascii() else UTC
    if zone and zone[0] in "+-":
        sign = -1 if zone[0] == "-" else 1
        offset = timezone(sign * timedelta(hours=int(zone[1:3]) % 24, minutes=int(zone[-2:]) % 60))
    try:
        year, month, day, hour, minute, second = (int(found[group] or 0) for group in range(1, 7))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=offset)
    except ValueError:
        return None
    return (moment - clock).total_seconds()


def reset_header_s(headers: Mapping[str, str], clock: datetime) -> float | None:
    """Return the longest reset of the buckets that are empty; of a lone reset when no bucket says what remains."""
    waits: list[float | None] = []
    buckets = False
    for name, value in headers.items():
        if (found := _REMAINING.match(name[:100])) is None or (remaining := _number(value)) is None:
            continue
        buckets = True
        if remaining <= 0:
            waits.append(_stated(headers.get(f"{found['head']}reset{found['tail']}", ""), clock))
    if headers.get("anthropic-ratelimit-unified-status") == "rejected":
        waits.append(_stated(headers.get("anthropic-ratelimit-unified-reset", ""), clock))
    for window in spent_codex_windows(headers):
        after = headers.get(f"x-codex-{window}-reset-after-seconds", headers.get(f"x-codex-{window}-reset-at", ""))
        waits.append(_stated(after, clock))
    if not buckets and not waits:
        waits = [_stated(value, clock) for name, value in headers.items() if "ratelimit-reset" in name]
    return max((wait for wait in waits if wait is not None and wait >= 0), default=None)


def spent_codex_windows(headers: Mapping[str, str]) -> Iterator[str]:
    for window in ("primary", "secondary"):
        used = _number(headers.get(f"x-codex-{window}-used-percent"))
        if used is not None and used >= 100:  # noqa: PLR2004 - per cent
            yield window


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(str(value)[:65]) > MAX_TEXT:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value[:64])
    except (ValueError, TypeError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
