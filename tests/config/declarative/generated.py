"""Any sound configuration, for hypothesis."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from hypothesis import strategies as st

Entry = dict[str, Any]

names = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,6}[a-z0-9])?", fullmatch=True)
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=12
)
money = st.decimals(min_value=0, max_value=10**6, places=6).map(lambda value: format(value, "f"))
multipliers = st.decimals(min_value=0, max_value=99, places=4).map(lambda value: format(value, "f"))
currencies = st.sampled_from(["USD", "CNY", "EUR"])
days = st.dates(min_value=date(1971, 1, 1)).map(str)
counts = st.none() | st.integers(1, 2**31 - 1)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Entry]:
    return st.fixed_dictionaries({}, optional=fields)


def listed(entry: st.SearchStrategy[Entry], *unique: str) -> st.SearchStrategy[list[Entry]]:
    def identity(item: Entry) -> Any:
        return tuple(str(item.get(name)).casefold() for name in unique)

    return st.lists(entry, max_size=3, unique_by=identity)


def one_of(rows: Sequence[Entry], name: str = "name") -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, *(row[name] for row in rows)])


limits = optional(rpm=counts, tpm=counts, per_day=counts, tokens_per_day=counts, concurrency=counts)
policies = optional(
    preset=st.sampled_from(["standard", "relay"]), strikes=st.integers(1, 9), obey_retry_after=st.booleans()
)
budgets = listed(
    st.fixed_dictionaries(
        {"amount": money, "currency": currencies, "period": st.sampled_from(["day", "week", "month", "total"])},
        optional={"hard": st.booleans(), "alert_at": st.lists(st.integers(1, 100), unique=True, max_size=3)},
    ),
    "period",
)
prices = listed(
    st.fixed_dictionaries(
        {"model": texts, "currency": currencies, "input": money, "output": money}, optional={"from": days}
    ),
    "model",
    "from",
)
accounts = listed(st.fixed_dictionaries({"name": names}, optional={"budgets": budgets}), "name")


def upstreams(pots: Sequence[Entry]) -> st.SearchStrategy[list[Entry]]:
    keys = st.fixed_dictionaries(
        {"name": names, "account": one_of(pots)}, optional={"weight": st.integers(1, 9), "policy": policies}
    )
    return listed(
        st.fixed_dictionaries(
            {"name": names, "base_url": st.just("https://a.example")},
            optional={
                "dialect": st.sampled_from(["openai", "gemini"]),
                "models": st.just("auto") | st.lists(texts, unique=True, max_size=3) | st.none(),
                "aliases": st.dictionaries(texts, texts, max_size=2),
                "cost_multiplier": multipliers,
                "headers": st.dictionaries(st.sampled_from(["X-A", "X-Key"]), st.just("v"), max_size=2),
                "keys": listed(keys, "name"),
                "enabled": st.booleans(),
            },
        ),
        "name",
    )


def groups(places: Sequence[Entry]) -> st.SearchStrategy[list[Entry]]:
    chosen = st.sampled_from([place["name"] for place in places]) if places else st.nothing()
    members = listed(st.fixed_dictionaries({"upstream": chosen}), "upstream") if places else st.just([])
    return listed(
        st.fixed_dictionaries(
            {"name": names, "members": members, "last_resort": one_of(places)},
            optional={"strategy": st.sampled_from(["weighted", "random"]), "policy": policies},
        ),
        "name",
    )


@st.composite
def routes(draw: st.DrawFn, targets: Sequence[Entry]) -> list[Entry]:
    thens = [
        {"deny": "no"},
        {"set": {"temperature": 0.5, "stop": ["a"]}},
        *({"group": each["name"]} for each in targets),
    ]
    rules = listed(
        st.fixed_dictionaries(
            {"name": names, "when": texts.map(lambda text: {"model": f"{text}-1"}), "then": st.sampled_from(thens)}
        ),
        "name",
    )
    found = draw(listed(st.fixed_dictionaries({"name": names, "rules": rules}), "name"))
    for number, route in enumerate(found):
        route["default"] = number == 0
        models = [rule["when"]["model"].casefold() for rule in route["rules"]]
        route["rules"] = [  # a wildcard or the same model above could leave a rule nothing
            rule
            for place, rule in enumerate(route["rules"])
            if not {*"*?"} & {*models[place]} and models[place] not in models[:place]
        ]
    return found


def lines(ways: Sequence[Entry]) -> st.SearchStrategy[list[Entry]]:
    keys = st.fixed_dictionaries({"name": texts}, optional={"expires": days, "limits": limits})
    return listed(
        st.fixed_dictionaries(
            {"slug": names, "route": one_of(ways)},
            optional={
                "name": texts,
                "models": st.lists(texts, unique=True, max_size=2),
                "limits": limits,
                "budgets": budgets,
                "charge_multiplier": multipliers,
                "history": st.booleans(),
                "keys": listed(keys, "name"),
            },
        ),
        "slug",
    )


@st.composite
def tenants(draw: st.DrawFn, slug: str) -> Entry:
    pots = draw(accounts)
    places = draw(upstreams(pots))
    secrets = iter(f"sk-{slug}-{n:012d}" for n in range(1000))
    for place in places:
        for key in place.get("keys", []):
            key["secret"] = next(secrets)
    targets = draw(groups(places))
    ways = draw(routes(targets))
    return {
        "slug": slug,
        "currency": draw(currencies),
        "timezone": draw(st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York"])),
        "accounts": pots,
        "upstreams": places,
        "groups": targets,
        "routes": ways,
        "lines": draw(lines(ways)),
        "budgets": draw(budgets),
        "prices": draw(prices),
    }
