"""Balance answers as providers and relays give them, and the odd ones. No database."""

from decimal import Decimal

import orjson
import pytest

from keys.core.balance import (
    SITE,
    USAGE,
    Balance,
    Unreadable,
    follow_ups,
    known_addresses,
    parsed,
    read_balance,
)


def money(amount, currency, total=None, *, available=True):
    return (Decimal(amount), currency, None if total is None else Decimal(total), available)


def read(payload, more=None, **options):
    payload = parsed(orjson.dumps(payload))
    assert not isinstance(payload, Unreadable)
    found = read_balance(payload, more, **options)
    if isinstance(found, Unreadable):
        return found.reason
    return (found.amount, found.currency, found.total, found.available)


def purse(currency, total):
    return {"currency": currency, "total_balance": total, "granted_balance": "0.00", "topped_up_balance": total}


DEEPSEEK = {"is_available": True, "balance_infos": [purse("CNY", "110.00")]}
MOONSHOT = {
    "code": 0,
    "data": {"available_balance": 49.58894, "voucher_balance": 46.58893, "cash_balance": 3.00001},
    "scode": "0x0",
    "status": True,
}
SUBSCRIPTION = {
    "object": "billing_subscription",
    "has_payment_method": True,
    "soft_limit_usd": 20,
    "hard_limit_usd": 20,
    "system_hard_limit_usd": 20,
    "access_until": 0,
}
TOKEN = {
    "code": True,
    "message": "ok",
    "data": {
        "object": "token_usage",
        "name": "prod",
        "total_granted": 1_500_000,
        "total_used": 1_000_000,
        "total_available": 500_000,
        "unlimited_quota": False,
        "expires_at": 0,
    },
}
NO_LIMIT = "the key has no limit of its own at the relay"
SITE_USD = {"success": True, "data": {"quota_per_unit": 500_000, "quota_display_type": "USD", "usd_exchange_rate": 7.3}}


@pytest.mark.parametrize(
    ("case", "payload", "options", "expected"),
    [
        ("openrouter", {"data": {"total_credits": 100.5, "total_usage": 25.75}}, {}, money("74.75", "USD", "100.5")),
        ("spent more than bought", {"data": {"total_credits": 5, "total_usage": 5.125}}, {}, money("-0.125", "USD", 5)),
        (
            "openrouter key",
            {"data": {"label": "sk-or-v1-au7...890", "limit": 100, "limit_remaining": 74.5, "usage": 25.5}},
            {},
            money("74.5", "USD", 100),
        ),
        ("deepseek", DEEPSEEK, {}, money(110, "CNY")),
        (
            "not enough to call",
            {"is_available": False, "balance_infos": [purse("CNY", "0.05")]},
            {},
            money("0.05", "CNY", available=False),
        ),
        (
            "several purses, money in one",
            {"is_available": True, "balance_infos": [purse("CNY", "0.00"), purse("USD", "3.20")]},
            {"currency": "CNY"},
            money("3.2", "USD"),
        ),
        (
            "money in both, one preferred",
            {"is_available": True, "balance_infos": [purse("CNY", "7.00"), purse("USD", "3.20")]},
            {"currency": "USD"},
            money("3.2", "USD"),
        ),
        (
            "money in both, none preferred",
            {"is_available": True, "balance_infos": [purse("CNY", "7.00"), purse("USD", "3.20")]},
            {},
            money("7", "CNY"),
        ),
        ("a negative text", {"balance_infos": [purse("CNY", "-1.50")]}, {}, money("-1.5", "CNY")),
        ("moonshot cn", MOONSHOT, {"host": "api.moonshot.cn"}, money("49.58894", "CNY")),
        ("moonshot ai", MOONSHOT, {"host": "api.moonshot.ai"}, money("49.58894", "USD")),
        ("moonshot behind a relay", MOONSHOT, {"host": "relay.example"}, money("49.58894", "")),
        (
            "subscription",
            SUBSCRIPTION,
            {"more": {USAGE: {"object": "list", "total_usage": 1234.5}}},
            money("7.655", "USD", 20),
        ),
        (
            "subscription shown in CNY",
            SUBSCRIPTION,
            {"more": {USAGE: {"total_usage": 0}, SITE: {"data": {"quota_display_type": "CNY"}}}},
            money(20, "CNY", 20),
        ),
        (
            "subscription shown in tokens",
            SUBSCRIPTION,
            {"more": {USAGE: {"total_usage": 0}, SITE: {"data": {"display_in_currency": False}}}},
            money(20, "", 20),
        ),
        ("token usage", TOKEN, {"more": {SITE: SITE_USD}}, money(1, "USD", 3)),
        ("token usage of a site that is silent", TOKEN, {}, money(500_000, "", 1_500_000)),
        (
            "a site with a senseless unit",
            TOKEN,
            {"more": {SITE: {"data": {"quota_per_unit": 0}}}},
            money(500_000, "", 1_500_000),
        ),
        (
            "user/self",
            {"success": True, "data": {"id": 1, "quota": 250_000, "used_quota": 9}},
            {"more": {SITE: SITE_USD}},
            money("0.5", "USD"),
        ),
        ("credit summary", {"object": "credit_summary", "total_granted": 9, "total_available": 4}, {}, money(4, "", 9)),
        ("a page of one's own", {"balance": "$1,234.50", "currency": "usd"}, {}, money("1234.5", "USD")),
        ("yuan", {"data": {"balance": "0.88", "totalBalance": "88.00", "currency": "RMB"}}, {}, money(88, "CNY")),
        ("many places", {"balance": 0.1}, {}, money("0.1", "")),
    ],
)  # fmt: skip
def test_a_balance(case, payload, options, expected):
    assert read(payload, **options) == expected


@pytest.mark.parametrize(
    ("case", "payload", "more", "reason"),
    [
        ("nothing known", {"hello": 1}, {}, "the answer has no balance that is known here (its fields: hello)"),
        ("nothing at all", {}, {}, "the answer has no balance that is known here (it is empty)"),
        (
            "a key without a limit",
            {"data": {"limit": None, "limit_remaining": None}},
            {},
            "the key has no limit of its own, and its account's credit is not told to it",
        ),
        ("a limit that is none", {"data": {"limit_remaining": True}}, {}, "limit_remaining is no amount"),
        (
            "credits that are none",
            {"data": {"total_credits": 1, "total_usage": None}},
            {},
            "total_credits or total_usage is no amount",
        ),
        ("no purse", {"is_available": True, "balance_infos": []}, {}, "balance_infos holds no amount"),
        ("purses of nothing", {"balance_infos": [None, {"total_balance": "x"}]}, {}, "balance_infos holds no amount"),
        ("purses that are none", {"balance_infos": "x"}, {}, "balance_infos holds no amount"),
        ("null", {"data": {"available_balance": None}}, {}, "available_balance is no amount"),
        ("not a number", {"balance": "NaN"}, {}, "balance is no amount"),
        ("beyond reason", {"balance": "1e99"}, {}, "balance is no amount"),
        ("infinite", {"balance": "-Infinity"}, {}, "balance is no amount"),
        ("a list", {"balance": [1]}, {}, "balance is no amount"),
        ("unlimited token", {"data": {"total_available": -5, "unlimited_quota": True}}, {}, NO_LIMIT),
        ("units that are none", {"data": {"total_available": "x"}}, {}, "total_available is no amount"),
        ("unlimited subscription", {"hard_limit_usd": 100_000_000}, {USAGE: {"total_usage": 1}}, NO_LIMIT),
        ("a limit that is none", {"hard_limit_usd": None}, {}, "hard_limit_usd is no amount"),
        ("usage that did not come", {"hard_limit_usd": 20}, {}, "the relay tells a limit but not what was used of it"),
        ("an error with 200", {"error": {"message": "no such token"}}, {}, "the answer is an error: no such token"),
        ("an error in a word", {"error": "gone", "balance": 1}, {}, "the answer is an error: gone"),
        ("a refusal", {"success": False, "message": "无权进行此操作"}, {}, "the relay refuses: 无权进行此操作"),
        ("a dumb refusal", {"success": False}, {}, "the relay refuses: no reason given"),
    ],
)  # fmt: skip
def test_no_balance(case, payload, more, reason):
    assert read(payload, more) == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<!doctype html><title>Log in</title>", "a web page came instead of a balance"),
        (b"  <html>", "a web page came instead of a balance"),
        (b"", "the answer is not JSON"),
        (b'{"balance": NaN}', "the answer is not JSON"),
        (b"[" * 100_000, "the answer is not JSON"),
        (b"\xff", "the answer is not JSON"),
        (b"[1]", "the answer is no JSON object"),
        (b"null", "the answer is no JSON object"),
    ],
)
def test_no_json_object(body, reason):
    assert parsed(body) == Unreadable(reason)


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https://openrouter.ai/api/v1", ("https://openrouter.ai/api/v1/credits", "https://openrouter.ai/api/v1/key")),
        ("https://api.deepseek.com/anthropic", ("https://api.deepseek.com/user/balance",)),
        ("http://API.MOONSHOT.cn:8080/v1", ("http://API.MOONSHOT.cn:8080/v1/users/me/balance",)),
        ("https://api.moonshot.ai", ("https://api.moonshot.ai/v1/users/me/balance",)),
        ("https://evil-deepseek.com/", ()),
        ("https://deepseek.com.evil.example/", ()),
        ("https://relay.example/v1", ()),
        ("", ()),
    ],
)
def test_known_providers(base, expected):
    assert known_addresses(base) == expected


@pytest.mark.parametrize(
    ("url", "payload", "expected"),
    [
        (
            "https://r.example/v1/dashboard/billing/subscription?a=1",
            SUBSCRIPTION,
            {USAGE: "https://r.example/v1/dashboard/billing/usage?a=1", SITE: "https://r.example/api/status"},
        ),
        ("https://r.example/api/usage/token/", TOKEN, {SITE: "https://r.example/api/status"}),
        ("https://r.example/api/user/self", {"data": {"quota": 1, "used_quota": 2}}, {SITE: "https://r.example/api/status"}),
        ("https://api.deepseek.com/user/balance", DEEPSEEK, {}),
        ("https://r.example/x", {"data": 3}, {}),
    ],
)  # fmt: skip
def test_what_else_is_asked(url, payload, expected):
    assert follow_ups(url, payload) == expected


def test_money_is_what_can_be_spent():
    assert Balance(Decimal("0.01"), "USD").has_money
    assert not Balance(Decimal(0), "USD").has_money
    assert not Balance(Decimal(-1), "USD").has_money
    assert not Balance(Decimal(5), "CNY", available=False).has_money


def test_what_was_read_is_told_and_bounded():
    found = read_balance({"data": {"available_balance": 1, "voucher_balance": "x" * 500}})
    assert isinstance(found, Balance)
    assert found.text.startswith("available_balance 1, voucher_balance xxx")
    assert len(found.text) == 200
