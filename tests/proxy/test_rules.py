"""The rules engine through the real gateway: where a request goes, what is set in it, who is refused."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.factories import GroupFactory, MemberFactory, RuleFactory, UpstreamFactory, UpstreamKeyFactory
from tests.fake_upstream import answer, status
from tests.gateway import attempts, chat, outcomes
from tests.proxy.pool import ask, sheets

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PICTURE: list[dict[str, Any]] = [
    {"role": "user", "content": [
        {"type": "text", "text": "hi"},
        {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}},
    ]},
]  # fmt: skip


class Ruled:
    """A world with a second group, special (k-s), and rules above the one that takes everything to main (k-1, k-2)."""

    def __init__(self, gateway, up, **options):
        self.gateway, self.up = gateway, up
        self.world = gateway.serving(up, "k-1", "k-2", **options)
        self.special = GroupFactory(tenant=self.world.tenant, name="special")
        upstream = UpstreamFactory(tenant=self.world.tenant, name="us", base_url=up.base_url)
        UpstreamKeyFactory(upstream=upstream, name="ks", secret="k-s")
        MemberFactory(group=self.special, upstream=upstream)
        self.route = self.world.tenant.routes.get()
        self.route.rules.update(position=99)
        self.count = 0

    def rule(self, when=None, **then):
        self.count += 1
        if then.pop("to_special", False):
            then["group"] = self.special
        made = RuleFactory(route=self.route, name=f"r{self.count}", position=self.count, when=when or {}, **then)
        self.gateway.refresh()
        return made

    def ask(self, body=None, **options):
        self.up.requests.clear()
        return ask(self.gateway, self.world, body, **options)

    def served_by(self, body=None, **options):
        assert self.ask(body, **options).status_code == 200
        return self.up.keys()[-1]


@pytest.fixture
def ruled(gateway, up):
    return Ruled(gateway, up)


HOLDS = {
    "model": ({"model": "GPT-4*"}, chat(), chat(model="o3")),
    "one of several models": ({"model": ["claude-*", "gpt-4o"]}, chat(), chat(model="gpt-5")),
    "stream": ({"stream": True}, chat(stream=True), chat()),
    "no stream": ({"stream": False}, chat(), chat(stream=True)),
    "tools": ({"tools": True}, chat(tools=[TOOL]), chat()),
    "tool_count": ({"tool_count": ">= 2"}, chat(tools=[TOOL, TOOL]), chat(tools=[TOOL])),
    "image": ({"image": True}, chat(messages=PICTURE), chat()),
    "thinking": ({"thinking": True}, chat(reasoning_effort="high"), chat(reasoning_effort="none")),
    "max_tokens": ({"max_tokens": "<= 1k"}, chat(max_tokens=1000), chat(max_tokens=1001)),
    "absent max_tokens": ({"max_tokens": "< 1M"}, chat(max_tokens=1), chat()),
    "input_tokens": ({"input_tokens": ">= 1k"}, chat(user="x" * 4000), chat()),
    "several are all needed": (
        {"stream": True, "max_tokens": "< 100"}, chat(stream=True, max_tokens=9), chat(stream=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("when", "met", "unmet"), HOLDS.values(), ids=HOLDS.keys())
def test_a_condition_decides_where_it_goes(ruled, when, met, unmet):
    ruled.rule(when, to_special=True)
    assert ruled.served_by(met) == "k-s"
    assert ruled.served_by(unmet) == "k-1"


def test_line_and_key_are_conditions(ruled):
    ruled.rule({"line": "nobody-*"}, to_special=True)
    assert ruled.served_by() == "k-1"
    ruled.rule({"line": f"{ruled.world.line.slug[:5]}*", "key": "PROD"}, to_special=True)
    assert ruled.served_by() == "k-s"


def test_the_dialect_is_a_condition(ruled):
    ruled.rule({"dialect": "anthropic"}, to_special=True)
    body = {"model": "gpt-4o", "max_tokens": 9, "messages": chat()["messages"]}
    assert ruled.served_by(body, path="/v1/messages") == "k-s"
    assert ruled.served_by() == "k-1"


def test_hours_are_the_tenants_and_a_night_belongs_to_its_start_day(ruled):
    ruled.world.tenant.timezone = "Asia/Shanghai"
    ruled.world.tenant.save()
    ruled.rule({"hours": "mon 22:00-07:00"}, to_special=True)
    served = {}
    for text in ("2026-11-30 21:59", "2026-11-30 22:00", "2026-12-01 06:59", "2026-12-01 07:00", "2026-12-01 22:30"):
        moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Asia/Shanghai"))
        ruled.gateway.runtime.now = lambda moment=moment: moment
        try:
            served[text[5:]] = ruled.served_by()
        finally:
            ruled.gateway.runtime.now = type(ruled.gateway.runtime).__dataclass_fields__["now"].default
    assert served == {
        "11-30 21:59": "k-1", "11-30 22:00": "k-s", "12-01 06:59": "k-s", "12-01 07:00": "k-1", "12-01 22:30": "k-1",
    }  # fmt: skip


def test_the_first_match_decides_and_later_ones_do_not(ruled):
    ruled.rule({"model": "gpt-*"}, to_special=True)
    ruled.rule({"model": "gpt-4o"}, deny="never reached")
    assert ruled.served_by() == "k-s"


def test_a_rule_may_name_an_upstream(ruled):
    ruled.rule(upstream=ruled.world.upstreams[1])
    assert ruled.served_by() == "k-2"


def test_values_gather_and_the_later_wins(ruled):
    ruled.rule(set={"temperature": 0.1, "max_tokens": 10})
    ruled.rule({"stream": False}, set={"max_tokens": 20, "top_p": 0.5}, to_special=True)
    got = ruled.ask(chat(temperature=1))
    assert got.status_code == 200
    sent = ruled.up.last.json
    assert (sent["temperature"], sent["max_tokens"], sent["top_p"]) == (0.1, 20, 0.5)


def test_continue_lets_the_rules_below_add_values_but_not_decide(ruled):
    ruled.rule(to_special=True, proceed=True, set={"seed": 1})
    ruled.rule(upstream=ruled.world.upstreams[0], set={"seed": 2})
    assert ruled.served_by() == "k-s"
    assert ruled.up.last.json["seed"] == 2


def test_a_model_that_a_rule_sets_is_sent_priced_and_hidden(ruled):
    ruled.rule({"model": "cheap"}, set={"model": "gpt-4o-mini"}, to_special=True)
    got = ruled.ask(chat(model="cheap"))
    assert ruled.up.last.json["model"] == "gpt-4o-mini"
    assert got.json()["model"] == "cheap"
    record = ruled.gateway.record(got)
    assert (record.model_requested, record.model_served) == ("cheap", "gpt-4o-mini")


class TestSecondPhase:
    """Rules with an `upstream` condition: judged again for each hop, failover included."""

    def test_they_set_values_of_that_hop_alone(self, ruled):
        ruled.rule({"upstream": "u2"}, set={"model": "gpt-4o-2024-11-20", "temperature": 0.2})
        ruled.up.script("k-1", status(500))
        got = ruled.ask(chat(temperature=1))
        sent = [(seen.key, seen.json["model"], seen.json["temperature"]) for seen in ruled.up.requests]
        assert sent == [("k-1", "gpt-4o", 1), ("k-2", "gpt-4o-2024-11-20", 0.2)]
        assert [a.model_sent for a in attempts(ruled.gateway.record(got))] == ["gpt-4o", "gpt-4o-2024-11-20"]

    def test_a_deny_skips_that_hop(self, ruled):
        ruled.rule({"upstream": "u1", "image": True}, deny="No pictures there.")
        assert ruled.served_by(chat(messages=PICTURE)) == "k-2"
        assert ruled.served_by() == "k-1"

    def test_it_is_a_403_when_no_hop_is_left(self, ruled):
        ruled.rule({"upstream": "u*"}, deny="Closed on Sundays.")
        got = ruled.ask()
        assert (got.status_code, got.json()["error"]["code"]) == (403, "denied_by_rule")
        assert "Closed on Sundays." in got.json()["error"]["message"]
        assert ruled.up.requests == []

    def test_a_rest_counts_for_the_name_that_the_hop_is_sent(self, ruled):
        ruled.rule({"upstream": "u1"}, set={"model": "other-name"})
        ruled.up.script("k-1", status(404, "no such model", error_code="model_not_found"))
        ruled.ask()
        assert list(sheets(ruled.gateway, ruled.world)[0].models) == ["other-name"]
        assert outcomes(ruled.gateway.record(ruled.ask())) == [("k1", "skipped: model"), ("k2", "served")]


def test_a_turn_stays_on_the_rule_that_answered(ruled):
    """Even when the rules would now send it elsewhere."""
    ruled.up.default(answer("Hello."))
    said = [{"role": "user", "content": "hi"}]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = [*said, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "42"}]
    rule = ruled.rule({"tools": True}, to_special=True)
    assert ruled.served_by(chat(messages=said, tools=[TOOL]), headers={"x-session-id": "s"}) == "k-s"
    rule.when = {"tool_count": ">= 7"}
    rule.save()
    ruled.gateway.refresh()
    got = ruled.ask(chat(messages=turn, tools=[TOOL]), headers={"x-session-id": "s"})
    assert (ruled.up.keys(), got.headers["x-pointsman-session"]) == (["k-s"], "turn")
    assert ruled.gateway.record(got).group == "special"
    assert ruled.served_by(chat(messages=said, tools=[TOOL])) == "k-1"


@pytest.mark.parametrize(
    ("dialect", "path", "body", "place"),
    [
        ("openai", "/v1/chat/completions", chat(max_completion_tokens=900), ("max_completion_tokens",)),
        ("openai-responses", "/v1/responses", {"model": "gpt-4o", "input": "hi"}, ("max_output_tokens",)),
        (
            "gemini",
            "/v1beta/models/gpt-4o:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
            ("generationConfig", "maxOutputTokens"),
        ),
    ],
)
def test_a_count_that_a_rule_sets_arrives_in_the_words_of_the_dialect(gateway, up, dialect, path, body, place):
    ruled = Ruled(gateway, up, upstream={"dialect": dialect})
    ruled.rule(set={"max_tokens": 64})
    assert ruled.served_by(body, path=path) == "k-1"
    sent = ruled.up.last.json
    for name in place:
        sent = sent[name]
    assert sent == 64
    assert ruled.up.last.json.get("max_tokens") is None
