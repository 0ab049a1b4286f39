"""Every error names its path, all are collected, and none is a traceback."""

from collections.abc import Callable
from typing import Any

import pytest

from config.declarative import ConfigError, apply_document
from config.declarative.resolving import no_lookup
from tests.config.declarative.samples import ENVIRON, applied, errors_of, refusal_of, small, tenant_of

pytestmark = pytest.mark.django_db

Change = Callable[[dict[str, Any]], Any]


def at(path: str, value: Any) -> Change:
    """Return what sets the value at a path such as `upstreams.0.keys.0.secret` of the tenant."""

    def change(tenant: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        place: Any = tenant
        for name in parents:
            place = place[int(name)] if name.isdigit() else place.setdefault(name, {})
        if last == "+":
            place.append(value)
        else:
            place[int(last) if last.isdigit() else last] = value

    return change


BUDGET = {"amount": "1", "currency": "USD"}
PRICE = {"model": "m", "currency": "USD", "input": "1", "output": "2"}

CASES: list[tuple[Change, str]] = [
    # unknown fields, with the closest known one
    (at("upstream", []), "upstream: unknown field; did you mean upstreams?"),
    (at("upstreams.0.base_ur", "x"), "upstreams[0].base_ur: unknown field; did you mean base_url?"),
    (at("upstreams.0.keys.0.colour", 1), "upstreams[0].keys[0].colour: unknown field; known: name, secret, account, "
     "weight, concurrency, rpm, tpm, per_hour, per_day, policy, enabled"),
    (at("lines.0.limits.rmp", 1), "lines[0].limits.rmp: unknown field; did you mean rpm?"),
    (at("alerts.mails", []), "alerts.mails: unknown field; did you mean emails?"),
    (at("groups.0.policy", {"strike": 2}), "groups[0].policy.strike: unknown policy field; did you mean strikes?"),
    (at("upstreams.0.timeouts", {"conect_s": 2}),
     "upstreams[0].timeouts.conect_s: unknown field; did you mean connect_s?"),
    (at("accounts.0.credit", {"amount": "1", "currency": "USD", "each": "month"}),
     "accounts[0].credit.each: unknown field; known: amount, currency, period"),
    (at("routes.0.rules.0.then", {"gruop": "main"}),
     "routes[0].rules[0].then.gruop: unknown field; did you mean group?"),
    # what is missing
    (at("groups.+", {"strategy": "random"}), "groups[1].name: is required"),
    (at("upstreams.+", {"name": "new"}), "upstreams[2].base_url: is required"),
    (at("upstreams.0.keys.+", {"name": "new"}), "upstreams[0].keys[1].secret: is required"),
    (at("budgets", [{"amount": "1"}]), "budgets[0].currency: is required"),
    (at("routes.0.rules.0.then", None), "routes[0].rules[0].then: must not be empty"),
    (at("name", None), "name: must not be empty"),
    (at("name", " "), "name: must not be empty"),
    # names
    (at("slug", "Not a slug"), 'slug: "Not a slug": Use lower-case letters, digits, dots, dashes and underscores; '
     "start and end with a letter or digit."),
    (at("slug", 12), 'slug: must be text; put it in quotes: "12"'),
    (at("name", "x" * 201), "name: is longer than 200 characters"),
    (at("name", "a\x00b"), "name: contains a control character"),
    (at("upstreams.+", {"name": "up", "base_url": "https://c.example"}),
     'upstreams[2].name: "up" stands twice; first at tenants[0].upstreams[0]'),
    (at("groups.0.members.+", {"upstream": "up"}),
     'groups[0].members[2].upstream: "up" stands twice; first at tenants[0].groups[0].members[0]'),
    (at("budgets", [BUDGET, BUDGET]), 'budgets[1].period: "month" stands twice; first at tenants[0].budgets[0]'),
    (at("prices", [PRICE, {**PRICE, "model": "M"}]),
     'prices[1].model: "M 1970-01-01" stands twice; first at tenants[0].prices[0]'),
    # references
    (at("groups.0.members.1.upstream", "x"), 'groups[0].members[1].upstream: unknown upstream "x"; known: spare, up'),
    (at("groups.0.last_resort", "x"), 'groups[0].last_resort: unknown upstream "x"; known: spare, up'),
    (at("upstreams.0.keys.0.account", "x"), 'upstreams[0].keys[0].account: unknown account "x"; known: pot'),
    (at("lines.0.route", "x"), 'lines[0].route: unknown route "x"; known: default, quiet'),
    (at("routes.0.rules.0.then.group", "x"), 'routes[0].rules[0].then.group: unknown group "x"; known: main'),
    (at("routes.0.rules.0.then", {"upstream": "x"}),
     'routes[0].rules[0].then.upstream: unknown upstream "x"; known: spare, up'),
    (at("routes.0.rules.0", {"name": "all", "when": {"upstream": "x"}, "then": {"deny": "no"}}),
     'routes[0].rules[0].when.upstream: unknown upstream "x"; known: spare, up'),
    # numbers
    (at("upstreams.0.cost_multiplier", 0.8),
     'upstreams[0].cost_multiplier: must be a decimal string; put it in quotes: '
     '"0.8"'),
    (at("budgets", [{**BUDGET, "amount": 1000}]),
     'budgets[0].amount: must be a decimal string; put it in quotes: "1000"'),
    (at("budgets", [{**BUDGET, "amount": "1,000"}]),
     'budgets[0].amount: is not a decimal number such as "12.50": "1,000"'),
    (at("budgets", [{**BUDGET, "amount": "NaN"}]), 'budgets[0].amount: is not a decimal number such as "12.50": "NaN"'),
    (at("budgets", [{**BUDGET, "amount": "1e3"}]), 'budgets[0].amount: is not a decimal number such as "12.50": "1e3"'),
    (at("budgets", [{**BUDGET, "amount": "-1"}]), "budgets[0].amount: must not be negative"),
    (at("budgets", [{**BUDGET, "amount": "0.0000000000001"}]), "budgets[0].amount: has more than 12 decimal places"),
    (at("budgets", [{**BUDGET, "amount": "1" + "0" * 18}]),
     "budgets[0].amount: has more than 18 digits before the point"),
    (at("lines.0.charge_multiplier", "-0.5"), "lines[0].charge_multiplier: must not be negative"),
    (at("upstreams.0.keys.0.weight", 0), "upstreams[0].keys[0].weight: must be at least 1"),
    (at("upstreams.0.keys.0.rpm", -5), "upstreams[0].keys[0].rpm: must be at least 0"),
    (at("upstreams.0.keys.0.rpm", 2**31), "upstreams[0].keys[0].rpm: must be at most 2147483647"),
    (at("upstreams.0.keys.0.rpm", "60"), 'upstreams[0].keys[0].rpm: must be a whole number, not "60"'),
    (at("upstreams.0.keys.0.rpm", True), 'upstreams[0].keys[0].rpm: must be a whole number, not "True"'),
    (at("upstreams.0.keys.0.rpm", 1.5), 'upstreams[0].keys[0].rpm: must be a whole number, not "1.5"'),
    (at("budgets", [{**BUDGET, "alert_at": [80, 80]}]), 'budgets[0].alert_at[1]: "80" stands twice'),
    (at("budgets", [{**BUDGET, "alert_at": [0]}]), "budgets[0].alert_at[0]: must be at least 1"),
    # words
    (at("upstreams.0.dialect", "opnai"), 'upstreams[0].dialect: unknown value "opnai"; did you mean openai?'),
    (at("groups.0.strategy", "best"),
     'groups[0].strategy: unknown value "best"; known: priority, round_robin, weighted, '
     "least_used, random, fastest, cheapest, headroom"),
    (at("timezone", "Mars/Base"),
     'timezone: "Mars/Base": Mars/Base is not a time zone; write one like Asia/Shanghai or '
     "UTC."),
    (at("timezone", "../etc"), 'timezone: "../etc": ../etc is not a time zone; write one like Asia/Shanghai or UTC.'),
    (at("currency", "usd"), 'currency: "usd": usd is not a currency code; write three capital letters such as USD.'),
    (at("lines.0.enabled", "maybe"), 'lines[0].enabled: must be true or false, not "maybe"'),
    (at("lines.0.keys.0.expires", "soon"), "lines[0].keys[0].expires: must be a day or time such as 2026-12-31 or "
     '2026-12-31T18:00:00+08:00, not "soon"'),
    (at("prices", [{**PRICE, "from": "2026-02-30"}]), "prices[0].from: there is no day 2026-02-30"),
    (at("prices", [{**PRICE, "from": "1.2.2026"}]), 'prices[0].from: must be a day such as 2026-01-31, not "1.2.2026"'),
    (at("alerts.emails", ["x"]), 'alerts.emails[0]: "x": Enter a valid email address.'),
    # shapes
    (at("upstreams.+", None), "upstreams[2]: is empty"),
    (at("upstreams.+", "up"), 'upstreams[2]: must be a mapping, not "up"'),
    (at("lines", {"name": "up"}), "lines: must be a list, not \"{'name': 'up'}\""),
    (at("lines.0.models", ["gpt-*", None]), "lines[0].models[1]: is empty"),
    (at("lines.0.models", "gpt-*"), 'lines[0].models: must be a list, not "gpt-*"'),
    (at("lines.0.limits", 5), 'lines[0].limits: must be a mapping, not "5"'),
    (at("upstreams.0.models", "all"), 'upstreams[0].models: must be auto or a list of names, not "all"'),
    (at("upstreams.0.aliases", {"a": None}), "upstreams[0].aliases.a: is empty"),
    (at("upstreams.0.aliases", ["a"]), "upstreams[0].aliases: must be a mapping, not \"['a']\""),
    (at("accounts.0.credit", {"amount": "1"}), "accounts[0].credit.currency: is required"),
    # headers
    (at("upstreams.0.headers", {"Host": "x"}), "upstreams[0].headers.Host: is set by the gateway itself"),
    (at("upstreams.0.headers", {"a b": "x"}), "upstreams[0].headers.a b: is no header name"),
    (at("upstreams.0.headers", {"X-A": "x\r\ny"}),
     "upstreams[0].headers.X-A: contains a character that headers cannot carry"),
    (at("upstreams.0.headers", {"X-A": "!redacted"}),
     "upstreams[0].headers.X-A: is redacted and there is no stored value to keep"),
    # policies
    (at("groups.0.policy", {"preset": "lax"}),
     "groups[0].policy.preset: unknown preset 'lax'; known: standard, keypool, relay, strict"),
    (at("groups.0.policy", "lax"),
     "groups[0].policy.preset: unknown preset 'lax'; known: standard, keypool, relay, strict"),
    (at("groups.0.policy", {"strikes": "3"}), "groups[0].policy.strikes: must be a number"),
    (at("groups.0.policy", {"strikes": 0}), "groups[0].policy.strikes: must be from 1 to 1000"),
    (at("groups.0.policy", {"low_water": 20}), "groups[0].policy.low_water: must be from 0 to 1"),
    (at("groups.0.policy", {"cool_strike_s": 60, "cool_strike_max_s": 5}),
     "groups[0].policy.cool_strike_max_s: is below cool_strike_s"),
    (at("upstreams.0.keys.0.policy", {"on_auth": "ignore"}),
     "upstreams[0].keys[0].policy.on_auth: must be one of dead, strike, stop"),
    (at("upstreams.0.timeouts", {"silence_s": 4000}),
     "upstreams[0].timeouts.silence_s: must be a number of seconds above 0 and up to 3600"),
    # rules
    (at("routes.0.rules.0", {"name": "all", "when": {"modle": "x"}, "then": {"group": "main"}}),
     "routes[0].rules[0].when.modle: unknown condition; known: model, line, key, upstream, dialect, stream, tools, "
     "image, thinking, input_tokens, max_tokens, tool_count, hours"),
    (at("routes.0.rules.0", {"name": "all", "when": {"hours": "25:00-26:00"}, "then": {"group": "main"}}),
     "routes[0].rules[0].when.hours: '25:00-26:00' is no time window such as '22:00-07:00' or 'mon-fri 09:00-18:00'"),
    (at("routes.0.rules.0.then", {"group": "main", "deny": "no"}),
     "routes[0].rules[0].then: group and deny exclude each "
     "other"),
    (at("routes.0.rules.0.then", {}), "routes[0].rules[0].then: has no effect; give group, upstream, deny or set"),
    (at("routes.0.rules.+", {"name": "late", "when": {"stream": True}, "then": {"deny": "no"}}),
     "routes[0].rules[1]: can never match: all, which stands before it, decides every request that it matches"),
    (at("routes.0.rules.0.then.set", {"top_p": float("inf")}), "routes[0].rules[0].then.set: inf is not a number"),
    (at("routes.0.rules.0.then.set", {"stop": ["\x00"]}),
     "routes[0].rules[0].then.set: contains a character that cannot be stored"),
    (at("routes.0.rules.0.then.set", {"stop": {"a": "\ud800"}}),
     "routes[0].rules[0].then.set: contains a character that cannot be stored"),
    (at("routes.0.rules.0.when", {"input_tokens": float("inf")}), "routes[0].rules[0].when: inf is not a number"),
    (at("routes.0.rules.0.when", {"input_tokens": "> " + "9" * 400}),
     "routes[0].rules[0].when.input_tokens: '> " + "9" * 400 + "' is no comparison such as '>= 32k', '< 1M' or '== 8'"),
    (at("routes.0.rules.0.when", {"input_tokens": ["> 5", "< 3"]}),
     "routes[0].rules[0].when: these conditions exclude each other; the rule can never match"),
    (at("routes.1.default", True), "routes[1].default: default is the default already"),
    # prices
    (at("prices", [{**PRICE, "call": "1"}]), "prices[0].call: needs unit: per_call"),
    (at("prices", [{"model": "m", "currency": "USD", "unit": "per_call"}]),
     "prices[0].call: is required for a price per call"),
    (at("prices", [{"model": "m", "currency": "USD", "unit": "per_call", "call": "1", "input": "1"}]),
     "prices[0].input: does not belong to a price per call"),
    # secrets
    (at("upstreams.0.keys.0.secret", "sk a"), "upstreams[0].keys[0].secret: contains a space or line break"),
    (at("upstreams.0.keys.0.secret", "sk\x7fa"), "upstreams[0].keys[0].secret: contains a control character"),
    (at("upstreams.0.keys.0.secret", ""), "upstreams[0].keys[0].secret: is empty"),
    (at("upstreams.0.keys.0.secret", 123456789), "upstreams[0].keys[0].secret: must be text; put it in quotes"),
    (at("upstreams.0.keys.0.secret", None), "upstreams[0].keys[0].secret: must not be empty"),
    (at("upstreams.0.keys.0.secret", "!redacted"), "upstreams[0].keys[0].secret: is redacted and there is no stored "
     "secret to keep; write the secret or env:NAME"),
    (at("lines.0.keys.0.secret", "!redacted"), "lines[0].keys[0].secret: is redacted and there is no stored secret to "
     "keep; write the secret or env:NAME"),
    (at("upstreams.0.keys.+", {"name": "k2", "secret": "sk-up-000000001"}),
     "upstreams[0].keys[1].secret: is the same secret as that of key k (at tenants[0].upstreams[0].keys[0])"),
    (at("lines.0.keys.+", {"name": "k2", "secret": "sk-gateway-0000000001"}),
     "lines[0].keys[1].secret: is the same secret "
     "as that of bot/prod (at tenants[0].lines[0].keys[0])"),
    (at("upstreams.0.keys.0.secret", "env:NOT_THERE"),
     "upstreams[0].keys[0].secret: the environment variable NOT_THERE is not set"),
    (at("upstreams.0.keys.0.secret", "env:"),
     "upstreams[0].keys[0].secret: env: must be followed by the name of an environment variable"),
    (at("upstreams.0.keys_from", "sk-1,sk-2"),
     "upstreams[0].keys_from: must be env:NAME, the variable that holds the comma-separated keys"),
    # addresses
    (at("upstreams.0.base_url", "ftp://a.example"), "upstreams[0].base_url: must begin with http:// or https://"),
    (at("upstreams.0.base_url", "https://u:p@a.example"),
     "upstreams[0].base_url: must not contain a user name or password"),
    (at("upstreams.0.base_url", "http://0x7f.1/v1"), "upstreams[0].base_url: 0x7f.1 (127.0.0.1) is a loopback address; "
     "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS can allow it"),
    (at("alerts.webhook", "http://169.254.169.254/x"), "alerts.webhook: 169.254.169.254 is a link-local or metadata "
     "address; POINTSMAN_ALLOW_PRIVATE_UPSTREAMS can allow it"),
    (at("accounts.0.balance_url", "http://db.internal/"),
     "accounts[0].balance_url: db.internal is a name inside a machine "
     "or a private network; POINTSMAN_ALLOW_PRIVATE_UPSTREAMS can allow it"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), CASES, ids=[expected[:60] for _, expected in CASES])
def test_an_error_names_its_path(change: Change, expected: str) -> None:
    document = small()
    change(tenant_of(document))
    assert errors_of(document) == (f"tenants[0].{expected}",)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], "the document must be a mapping with version, prices, exchange_rates and tenants"),
        ("tenants: {}", 'tenants: must be a list, not "{}"'),
        ({"tenant": []}, "tenant: unknown field; did you mean tenants?"),
        ({"version": 2}, 'version: must be 1, not "2"'),
        ({"tenants": [{"name": "x"}]}, "tenants[0].slug: is required"),
        (
            {"exchange_rates": [{"from": "USD", "to": "USD", "rate": "1", "on": "2026-01-01"}]},
            "exchange_rates[0]: from and to are the same currency",
        ),
        (
            {"exchange_rates": [{"from": "USD", "to": "CNY", "rate": "0", "on": "2026-01-01"}]},
            "exchange_rates[0].rate: must be more than 0",
        ),
        ({"exchange_rates": [{"from": "USD", "to": "CNY", "rate": "7"}]}, "exchange_rates[0].on: is required"),
        ({"prices": [{"model": "m", "currency": "USD", "input": 2.5}]}, "prices[0].input: must be a decimal string; "
         'put it in quotes: "2.5"'),
        ("a: [", "line 1, column 5: expected the node content, but found '<stream end>'"),
    ],
)  # fmt: skip
def test_an_error_at_the_top(document: Any, expected: str) -> None:
    assert errors_of(document) == (expected,)


def test_all_errors_are_collected() -> None:
    document = small()
    tenant = tenant_of(document)
    tenant["currency"] = "x"
    tenant["groups"][0]["members"][0]["upstream"] = "nowhere"
    tenant["lines"][0]["keys"][0]["secret"] = "a b"
    document["typo"] = 1
    assert errors_of(document) == (
        "typo: unknown field; known: version, prices, exchange_rates, tenants",
        'tenants[0].currency: "x": x is not a currency code; write three capital letters such as USD.',
        "tenants[0].lines[0].keys[0].secret: contains a space or line break",
        'tenants[0].groups[0].members[0].upstream: unknown upstream "nowhere"; known: spare, up',
    )


def test_what_refers_to_a_badly_named_row_is_not_reported_as_well() -> None:
    document = small()
    tenant_of(document)["upstreams"][0]["name"] = "UP"
    tenant_of(document)["groups"][0]["members"][0]["upstream"] = "UP"
    assert [error.partition(":")[0] for error in errors_of(document)] == ["tenants[0].upstreams[0].name"]


@pytest.mark.parametrize(
    "name",
    [
        "SECRET_KEY", "DATABASE_URL", "REDIS_URL", "EMAIL_URL", "CELERY_BROKER_URL", "POINTSMAN_ENCRYPTION_KEYS",
        "POINTSMAN_PASSWORD", "DJANGO_SETTINGS_MODULE", "DEFAULT_FROM_EMAIL", "OPS_EMAILS", "PGPASSWORD", "secret_key",
    ],
)  # fmt: skip
def test_the_products_own_variables_are_never_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRON, name, "sk-0000000000000")
    document = small()
    tenant_of(document)["upstreams"][0]["keys"][0]["secret"] = f"env:{name}"
    assert errors_of(document) == (
        f"tenants[0].upstreams[0].keys[0].secret: {name} belongs to the product itself and is never read from here",
    )


def test_env_is_refused_where_no_command_line_asks() -> None:
    document = small()
    tenant_of(document)["upstreams"][0]["keys"][0]["secret"] = "env:RELAY_A_1"
    with pytest.raises(ConfigError, match=r"env: is resolved by the command line only"):
        apply_document(document, resolve=no_lookup)


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("sk-000001,,sk-000002", ["item 2 is empty"]),
        ("sk-000001, sk-000001", ["item 2 is the same key as item 1"]),
        ("sk-000001,sk 2", ["item 2 contains a space or line break"]),
        ("  ", ["the environment variable MANY is empty"]),
        ("sk-000001,", ["item 2 is empty"]),
    ],
)
def test_keys_from_a_list(value: str, errors: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRON, "MANY", value)
    document = small()
    tenant_of(document)["upstreams"][0] |= {"keys": [], "keys_from": "env:MANY"}
    found = errors_of(document)
    assert found == tuple(f"tenants[0].upstreams[0].keys_from: {error}" for error in errors)
    assert "sk-0" not in str(found)


def test_no_error_shows_a_secret() -> None:
    document = small()
    tenant = tenant_of(document)
    tenant["upstreams"][0]["keys"] = [{"name": "a", "secret": "hush hush"}, {"name": "a", "secret": "hush\x01hush"}]
    tenant["upstreams"][0]["headers"] = {"X-Key": "hush\nhush"}
    tenant["lines"][0]["keys"] = [{"name": "x", "secret": ["hush"]}]
    refused = refusal_of(document)
    assert "hush" not in str(refused) + repr(refused)


def test_warnings_do_not_stop_anything() -> None:
    document = small()
    tenant = tenant_of(document)
    tenant["upstreams"][1]["keys"][0] |= {"secret": "sk-up-000000001", "account": "pot"}
    tenant["upstreams"][0]["keys"][0]["account"] = "pot"
    tenant["upstreams"][0]["base_url"] = "https://up.example/v1/chat/completions"
    tenant["groups"].append({"name": "bare", "basis": "speed"})
    tenant["groups"][0]["policy"] = {"silence_s": 5}
    tenant["routes"][0]["rules"].insert(0, {"name": "n", "when": {"line": "nobody"}, "then": {"deny": "no"}})
    tenant["budgets"] = [{"amount": "1", "currency": "EUR"}]
    tenant["prices"] = [{"model": "m", "currency": "USD", "input": "1"}, {"model": "n", "currency": "USD"}]
    tenant["lines"][0]["limits"] = {"rpm": 0}
    tenant["lines"][0]["keys"][0]["secret"] = "sk-short"
    assert set(applied(document).warnings) == {
        "tenants[0].upstreams[0].base_url: ends like an endpoint; write the part before it (what the SDK calls "
        "base_url)",
        "tenants[0].upstreams[1].keys[0].secret: is the same secret as that of up/k: they share every limit",
        "tenants[0].groups[0]: all its 2 keys share the account pot: when that is empty, nothing is left",
        "tenants[0].groups[0].policy.silence_s: below 30 s, models that think before they answer look dead",
        "tenants[0].groups[1]: has no members: requests that come here find no upstream",
        'tenants[0].routes[0].rules[0].when.line: unknown line "nobody"; known: bot',
        "tenants[0].budgets[0].currency: there is no exchange rate between EUR and USD, the currency of acme",
        "tenants[0].lines[0].limits.rpm: 0 refuses every call; write null for no limit",
        "tenants[0].prices[1]: states no price: calls of this model stay unpriced",
        "tenants[0].prices[0]: has no output price: calls with such tokens stay unpriced",
        "tenants[0].lines[0].keys[0].secret: is shorter than 16 characters and can be guessed",
    }


def test_spares_that_share_an_account_are_named() -> None:
    document = small()
    tenant = tenant_of(document)
    tenant["upstreams"].append(
        {"name": "third", "base_url": "https://c.example", "keys": [{"name": "k", "secret": "sk-c-0001"}]}
    )
    tenant["groups"][0]["members"].append({"upstream": "third"})
    for upstream in tenant["upstreams"][1:]:
        upstream["keys"][0]["account"] = "pot"
    assert applied(document).warnings == (
        "tenants[0].groups[0]: spare and third share the account pot: when that is empty, all of them fail",
    )


def test_a_line_without_any_route_is_warned_of() -> None:
    assert applied({"tenants": [{"slug": "a", "lines": [{"slug": "bot"}]}]}).warnings == (
        "tenants[0].lines[0]: has no route and the tenant has no default route: its calls are refused",
    )


def test_a_field_that_nothing_acts_upon_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.declarative.reading.NOT_ENFORCED", frozenset({"lines.history"}))
    document = small()
    tenant_of(document)["lines"][0]["history"] = True
    assert applied(document).warnings == ("tenants[0].lines[0].history: is stored but has no effect yet",)
    tenant_of(document)["lines"][0]["history"] = False
    assert applied(document).warnings == ()
