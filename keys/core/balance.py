"""What an answer about money says: the shapes of OpenRouter, DeepSeek, Moonshot and of relays like new-api.

Read on 2026-11-30:

- OpenRouter, openrouter.ai/docs/api/api-reference: `GET /api/v1/credits` gives `data.total_credits` and `total_usage`
  in USD, but wants a management key; `GET /api/v1/key` gives the key's own `limit`, `limit_remaining` (null = none).
- DeepSeek, api-docs.deepseek.com/api/get-user-balance: `is_available`, and `balance_infos` with a row per currency
  (CNY, USD), amounts as texts.
- Moonshot, platform.moonshot.cn/docs/api/balance: `data.available_balance` (at or below 0 nothing is served), in CNY
  at moonshot.cn and in USD at moonshot.ai; the answer does not say which.
- one-api and new-api, controller/billing.go and token.go of both: `/dashboard/billing/subscription` gives
  `hard_limit_usd` (left and used together), `/dashboard/billing/usage` gives `total_usage` in hundredths;
  `/api/usage/token/` gives `data.total_available` in units, `/api/user/self` `data.quota` in the same, and
  `/api/status` how many of them (`quota_per_unit`, 500,000 by default) are a dollar and in which currency the site
  shows amounts. An unlimited token answers 100,000,000.

A shape is known by its fields, not by who sent it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson

AMOUNT_MAX = Decimal(10) ** 15
UNLIMITED = Decimal(100_000_000)
_PLACES = Decimal("0.000000000001")
_TEXT_MAX = 200
_CODE = 3  # letters of a currency

USAGE, SITE = "usage", "site"  # what else an answer may need


@dataclass(frozen=True, slots=True)
class Balance:
    """What is left.

    `currency` "" = a relay's own unit. `total`: what the answer holds it against, None = it does not say. `text`: the
    fields as they were read. `available` False: the provider says that it is not enough to call.
    """

    amount: Decimal
    currency: str
    total: Decimal | None = None
    text: str = ""
    available: bool = True

    @property
    def has_money(self) -> bool:
        return self.available and self.amount > 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an answer tells no balance, in words for people."""

    reason: str


Payload = Mapping[str, Any]


def known_addresses(base_url: str) -> tuple[str, ...]:
    """Return where the provider behind an upstream's base address tells balances, best first; empty = not known."""
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    paths = next((paths for name, paths in _KNOWN.items() if host == name or host.endswith(f".{name}")), ())
    return tuple(urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths)


_KNOWN: Mapping[str, tuple[str, ...]] = {
    "openrouter.ai": ("/api/v1/credits", "/api/v1/key"),
    "deepseek.com": ("/user/balance",),
    "moonshot.cn": ("/v1/users/me/balance",),
    "moonshot.ai": ("/v1/users/me/balance",),
}


def parsed(body: bytes) -> Payload | Unreadable:
    """Read a body as a JSON object."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        page = body.lstrip()[:1] == b"<"
        return Unreadable("a web page came instead of a balance" if page else "the answer is not JSON")
    return payload if isinstance(payload, dict) else Unreadable("the answer is no JSON object")


def follow_ups(url: str, payload: Payload) -> dict[str, str]:
    """Return what else has to be asked before this answer can be read: USAGE with the credential, SITE without."""
    parts = urlsplit(url)
    site = urlunsplit((parts.scheme, parts.netloc, "/api/status", "", ""))
    if "hard_limit_usd" in payload:
        path = parts.path.rstrip("/").rpartition("/")[0] + "/usage"
        return {USAGE: urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), SITE: site}
    data = _data(payload)
    return {SITE: site} if "total_available" in data or {"quota", "used_quota"} <= data.keys() else {}


def read_balance(
    payload: Payload, more: Mapping[str, Payload] | None = None, *, host: str = "", currency: str = ""
) -> Balance | Unreadable:
    """Read the balance.

    `more`: what `follow_ups` asked for, as far as it came. `host` is who answered. `currency` is preferred where the
    answer has several.
    """
    answers = more or {}
    if complaint := _complaint(payload):
        return complaint
    data = _data(payload)
    found = _read(payload, data, answers, host, currency)
    if found is None:
        return Unreadable(f"the answer has no balance that is known here ({_fields(data or payload)})")
    return found


def _read(
    payload: Payload, data: Payload, more: Mapping[str, Payload], host: str, currency: str
) -> Balance | Unreadable | None:
    if "balance_infos" in payload:
        return _deepseek(payload, currency)
    if "hard_limit_usd" in payload:
        return _subscription(payload, more)
    shapes: tuple[tuple[str, Callable[[], Balance | Unreadable]], ...] = (
        ("available_balance", lambda: _moonshot(data, host)),
        ("total_credits", lambda: _credits(data)),
        ("limit_remaining", lambda: _key_limit(data)),
        ("total_available", lambda: _units(data, "total_available", "total_granted", more)),
        ("used_quota", lambda: _units(data, "quota", "", more)),
        ("totalBalance", lambda: _plain(data, "totalBalance")),
        ("balance", lambda: _plain(data, "balance")),
    )
    return next((read() for name, read in shapes if name in data), None)


def _deepseek(payload: Payload, preferred: str) -> Balance | Unreadable:
    listed = payload["balance_infos"]
    rows = [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list) else []
    amounts = [
        (_code(row.get("currency")), amount)
        for row in rows
        if (amount := _number(row.get("total_balance"))) is not None
    ]
    if not amounts:
        return Unreadable("balance_infos holds no amount")
    # Several purses: the one with money, of several with money the preferred currency's.
    ranked = sorted(amounts, key=lambda pair: (pair[1] <= 0, pair[0] != preferred))
    text = ", ".join(f"total_balance {amount:f} {code}".strip() for code, amount in amounts)
    available = payload.get("is_available") is not False
    return Balance(
        ranked[0][1], ranked[0][0], None, _short(text if available else f"{text}, is_available false"), available
    )


def _moonshot(data: Payload, host: str) -> Balance | Unreadable:
    amount = _number(data["available_balance"])
    if amount is None:
        return Unreadable("available_balance is no amount")
    currency = next((code for end, code in (("moonshot.cn", "CNY"), ("moonshot.ai", "USD")) if host.endswith(end)), "")
    return Balance(amount, currency, None, _told(data, "available_balance", "voucher_balance", "cash_balance"))


def _credits(data: Payload) -> Balance | Unreadable:
    bought, used = _number(data["total_credits"]), _number(data.get("total_usage"))
    if bought is None or used is None:
        return Unreadable("total_credits or total_usage is no amount")
    return Balance(bought - used, "USD", bought, _told(data, "total_credits", "total_usage"))


def _key_limit(data: Payload) -> Balance | Unreadable:
    if data["limit_remaining"] is None:
        return Unreadable("the key has no limit of its own, and its account's credit is not told to it")
    amount = _number(data["limit_remaining"])
    if amount is None:
        return Unreadable("limit_remaining is no amount")
    return Balance(amount, "USD", _number(data.get("limit")), _told(data, "limit_remaining", "limit"))


def _subscription(payload: Payload, more: Mapping[str, Payload]) -> Balance | Unreadable:
    limit = _number(payload["hard_limit_usd"])
    if limit is None:
        return Unreadable("hard_limit_usd is no amount")
    if limit >= UNLIMITED:
        return Unreadable("the key has no limit of its own at the relay")
    used = _number(more.get(USAGE, {}).get("total_usage"))
    if used is None:
        return Unreadable("the relay tells a limit but not what was used of it")
    told = f"hard_limit_usd {limit:f}, total_usage {used:f}"
    return Balance(_rounded(limit - used / 100), _shown_in(more), limit, told)


def _units(data: Payload, left: str, whole: str, more: Mapping[str, Payload]) -> Balance | Unreadable:
    if data.get("unlimited_quota") is True:
        return Unreadable("the key has no limit of its own at the relay")
    amount, total = _number(data[left]), _number(data.get(whole))
    if amount is None:
        return Unreadable(f"{left} is no amount")
    text = _told(data, left, *([whole] if whole else []))
    site = _data(more.get(SITE, {}))
    per_unit = _number(site.get("quota_per_unit"))
    if per_unit is None or per_unit < 1:
        return Balance(amount, "", total, text)
    return Balance(_rounded(amount / per_unit), "USD", None if total is None else _rounded(total / per_unit), text)


def _plain(data: Payload, name: str) -> Balance | Unreadable:
    amount = _number(data[name])
    if amount is None:
        return Unreadable(f"{name} is no amount")
    return Balance(amount, _code(data.get("currency")), None, _told(data, name, "currency"))


def _shown_in(more: Mapping[str, Payload]) -> str:
    """Return the currency that a relay shows amounts in: dollars, as the field is named, unless it says otherwise."""
    site = _data(more.get(SITE, {}))
    kind = str(site.get("quota_display_type") or "USD").upper()
    if kind == "TOKENS" or site.get("display_in_currency") is False:
        return ""
    return kind if kind in ("USD", "CNY") else ""


def _complaint(payload: Payload) -> Unreadable | None:
    """Find an error that came with a good status."""
    error = payload.get("error")
    if error:
        text = error.get("message") if isinstance(error, Mapping) else error
        return Unreadable(f"the answer is an error: {_short(str(text))}")
    if payload.get("success") is False:
        return Unreadable(f"the relay refuses: {_short(str(payload.get('message') or 'no reason given'))}")
    return None


def _data(payload: Payload) -> Payload:
    """Return the part that holds the fields: `data` where there is one."""
    data = payload.get("data")
    return data if isinstance(data, Mapping) else payload


def _number(value: Any) -> Decimal | None:
    """Read an amount: a number, or a text with one, signs and separators of thousands aside."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = value.strip().lstrip("$¥￥").replace(",", "").strip() if isinstance(value, str) else repr(value)
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    return _rounded(amount) if amount.is_finite() and abs(amount) < AMOUNT_MAX else None


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_PLACES).normalize() + 0


def _code(value: Any) -> str:
    code = value.strip().upper() if isinstance(value, str) else ""
    code = "CNY" if code == "RMB" else code
    return code if len(code) == _CODE and code.isascii() and code.isalpha() else ""


def _told(data: Payload, *names: str) -> str:
    return _short(", ".join(f"{name} {data[name]}" for name in names if name in data))


def _fields(data: Payload) -> str:
    return _short("its fields: " + ", ".join(sorted(str(name) for name in data)) if data else "it is empty")


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
