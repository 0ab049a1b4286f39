"""What is tried, in which order, and why the rest is not."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from billing.core.pricing import PriceBook, PriceRow, RateRow
from keys.core.dialect import Dialect
from keys.core.policy import Policy
from keys.core.report import Skip, Standing
from routing.core.choose import choose
from routing.core.decide import decide
from routing.core.decision import Bar, RefusalKind
from routing.core.table import MemberInfo
from routing.core.views import KeyView, charged
from tests.routing.core.build import (
    BROKE,
    COOLING,
    DEAD,
    GROUP,
    LEASED,
    NOW,
    RESTING,
    STRUCK,
    bars,
    capped,
    decided,
    facts,
    key,
    order,
    rule,
    situation,
    table,
    upstream,
)


def test_priority_tries_members_as_listed_and_all_their_keys() -> None:
    decision = decided(table([upstream(2, keys=2), upstream(1, keys=1)]))
    assert order(decision) == [21, 22, 11]
    assert decision.rule_name == "rule1"
    assert decision.group_name == "main"
    assert decision.refusal is None
    assert decision.skipped == ()


def test_keys_of_the_leading_upstream_take_turns() -> None:
    routing = table([upstream(1, keys=3), upstream(2, keys=2)])
    rotation: dict[str, dict[str, int]] = {}
    leads = []
    for _ in range(6):
        decision = decided(routing, rotation=rotation)
        leads.append(order(decision)[0])
        for due in decision.charges:
            rotation[due.scope] = charged(rotation.get(due.scope, {}), due)
    assert leads == [11, 12, 13, 11, 12, 13]
    assert list(rotation) == ["upstream:1:round_robin"]


@pytest.mark.parametrize(
    ("view", "bar", "left_s"),
    [
        (COOLING, "cooling", 30.0),
        (STRUCK, "cooling", 60.0),
        (DEAD, "dead", None),
        (BROKE, "cooling", 1800.0),
        (LEASED, "busy", 1.0),
        (RESTING, "model", 600.0),
        (KeyView(Standing(Skip.QUOTA, 3600.0)), "quota", 3600.0),
        (KeyView(cap="rpm", cap_left_s=12.0), "quota", 12.0),
    ],
)
def test_an_unusable_key_is_skipped_with_its_reason(view: KeyView, bar: str, left_s: float | None) -> None:
    decision = decided(table([upstream(1, keys=2)]), {11: view})
    assert order(decision) == [12]
    assert bars(decision) == {11: bar}
    assert decision.skipped[0].left_s == left_s
    assert decision.skipped[0].why


def test_a_full_key_is_skipped_as_busy_and_one_below_its_limit_is_not() -> None:
    members = [replace(upstream(1), keys=(capped(11, 1, 2), capped(12, 1, 3))), upstream(2)]
    decision = decided(table(members), {11: KeyView(in_flight=2), 12: KeyView(in_flight=2)})
    assert order(decision) == [12, 21]
    assert bars(decision) == {11: "busy"}


def test_switched_off_keys_and_upstreams_are_never_tried() -> None:
    off = replace(upstream(1), keys=(key(11, 1, enabled=False), key(12, 1)))
    decision = decided(table([off, upstream(2, enabled=False)]))
    assert order(decision) == [12]
    assert bars(decision) == {11: "disabled", 21: "disabled"}
    assert decision.skipped[0].bar.recorded is None


@pytest.mark.parametrize(
    ("changes", "model", "expected"),
    [
        ({"models": None}, "gpt-4o", [11]),
        ({"models": ("gpt-4o",)}, "gpt-4o", [11]),
        ({"models": ("gpt-4o-mini",)}, "gpt-4o", []),
        ({"models": ("gpt-4*",)}, "gpt-4o", [11]),
        ({"models": ("openai/gpt-4o",), "aliases": {"gpt-4o": "openai/gpt-4o"}}, "gpt-4o", [11]),
        ({"models": ("other",), "aliases": {"gpt-4o": "openai/gpt-4o"}}, "gpt-4o", [11]),
        ({"models": ()}, "gpt-4o", []),
        ({"models": ("gpt-4o-mini",)}, "", [11]),
    ],
)
def test_an_upstream_without_the_model_is_skipped(changes: dict[str, Any], model: str, expected: list[int]) -> None:
    decision = decided(table([upstream(1, **changes)]), asked=facts(model=model))
    assert order(decision) == expected
    if not expected:
        assert decision.refusal is not None
        assert decision.refusal.kind is RefusalKind.MODEL_UNKNOWN
        assert decision.refusal.status == 404


def test_the_alias_is_applied_after_what_rules_set() -> None:
    rules = [rule(1, set={"model": "gpt-5", "temperature": 0}, group_id=GROUP)]
    first, second = upstream(1, aliases={"gpt-5": "vendor/gpt-5", "gpt-4o": "no"}), upstream(2)
    decision = decided(table([first, second], rules=rules))
    assert [(c.model, c.model_sent) for c in decision.candidates] == [("gpt-5", "vendor/gpt-5"), ("gpt-5", "gpt-5")]
    assert decision.candidates[0].values == {"temperature": 0}


def test_the_allow_list_refuses_the_asked_model() -> None:
    refusal = decided(table([upstream(1)], models=("claude-*",))).refusal
    assert refusal is not None
    assert (refusal.kind, refusal.status) == (RefusalKind.NOT_ALLOWED, 403)


def test_the_allow_list_holds_on_every_hop() -> None:
    rules = [rule(1, {"upstream": "up1"}, set={"model": "o3"}), rule(2, group_id=GROUP)]
    decision = decided(table([upstream(1), upstream(2)], rules=rules, models=("gpt-*",)))
    assert order(decision) == [21]
    assert bars(decision) == {11: "forbidden"}
    assert decision.skipped[0].bar.recorded is Skip.MODEL
    alone = decided(table([upstream(1)], rules=rules, models=("gpt-*",))).refusal
    assert alone is not None
    assert (alone.kind, alone.status) == (RefusalKind.NOT_ALLOWED, 403)


def test_a_denied_hop_is_skipped_and_is_a_403_when_none_is_left() -> None:
    rules = [rule(1, {"upstream": "up1"}, deny="not abroad"), rule(2, group_id=GROUP)]
    decision = decided(table([upstream(1), upstream(2)], rules=rules))
    assert order(decision) == [21]
    assert bars(decision) == {11: "rule"}
    alone = decided(table([upstream(1)], rules=rules)).refusal
    assert alone is not None
    assert (alone.status, alone.text) == (403, "not abroad")


def test_a_small_window_is_skipped_unless_no_larger_one_is_there() -> None:
    small, large = upstream(1, max_context_tokens=1000), upstream(2, max_context_tokens=5000)
    asked = facts(window_tokens=2000)
    decision = decided(table([small, large]), asked=asked)
    assert order(decision) == [21]
    assert bars(decision) == {11: "context"}
    assert order(decided(table([small, large]), asked=facts(window_tokens=9000))) == [21]
    assert order(decided(table([small, upstream(3)]), asked=asked)) == [31]


def test_an_operation_goes_only_to_dialects_that_serve_it() -> None:
    asked = facts(operation="embeddings", serves=frozenset({Dialect.OPENAI}))
    foreign = upstream(1, dialect=Dialect.ANTHROPIC)
    assert order(decided(table([foreign, upstream(2)]), asked=asked)) == [21]
    refusal = decided(table([foreign]), asked=asked).refusal
    assert refusal is not None
    assert refusal.kind is RefusalKind.MODEL_UNKNOWN
    assert "embeddings" in refusal.text


def test_a_rule_may_name_an_upstream() -> None:
    routing = table([upstream(1), upstream(2)], rules=[rule(1, upstream_id=2)])
    decision = decided(routing)
    assert order(decision) == [21]
    assert decision.group_name == ""
    assert decision.policy == Policy()
    assert decision.stream_hold == "first_content"


def test_without_route_or_matching_rule_nothing_is_tried() -> None:
    routing = table([upstream(1)], rules=[rule(1, {"line": "other"}, group_id=GROUP)])
    unmatched = decided(routing).refusal
    assert unmatched is not None
    assert (unmatched.kind, unmatched.status) == (RefusalKind.NO_RULE, 404)
    homeless = decided(replace(routing, default_routes={})).refusal
    assert homeless is not None
    assert homeless.kind is RefusalKind.NO_ROUTE
    assert decided(routing, asked=facts(line_id=99)).refusal == homeless


def test_slow_keys_go_last_and_draining_ones_before_them() -> None:
    slow = KeyView(mean_ms=901, baseline_ms=300)
    low = KeyView(water=0.1)
    both = KeyView(mean_ms=901, baseline_ms=300, water=0.1)
    routing = table([upstream(number) for number in (1, 2, 3, 4)])
    decision = decided(routing, {11: both, 21: slow, 31: low})
    assert order(decision) == [41, 31, 21, 11]


def test_a_draining_key_goes_behind_the_other_members_not_only_behind_its_sisters() -> None:
    routing = table([upstream(1, keys=2), upstream(2)])
    assert order(decided(routing, {11: KeyView(water=0.1)})) == [12, 21, 11]


def test_batch_lines_leave_a_draining_account_first() -> None:
    routing = table([upstream(1), upstream(2)])
    keys = {11: KeyView(water=0.3)}
    assert order(decided(routing, keys)) == [11, 21]
    assert order(decided(routing, keys, facts(batch=True))) == [21, 11]


def test_a_key_may_have_its_own_low_water() -> None:
    strict = replace(upstream(1), keys=(key(11, 1, policy={"low_water": 0.5}),))
    assert order(decided(table([strict, upstream(2)]), {11: KeyView(water=0.4)})) == [21, 11]


def test_cheapest_counts_multiplier_and_currency_and_puts_unpriced_last() -> None:
    def row(number: int, model: str, currency: str, price: str) -> PriceRow:
        rate = Decimal(price)
        return PriceRow(number, None, model, "per_million_tokens", currency, rate, None, None, None, rate, None, NOW)

    book = PriceBook(
        prices=(row(1, "a", "CNY", "10"), row(2, "b", "USD", "2"), row(3, "c", "CNY", "12"), row(4, "d", "EUR", "1")),
        rates=(RateRow("USD", "CNY", Decimal(7), NOW),),
    )
    members = [upstream(n, aliases={"gpt-4o": name}) for n, name in ((1, "d"), (2, "b"), (3, "a"), (4, "c"))]
    members[3] = replace(members[3], cost_multiplier=Decimal("0.8"))
    decision = decided(table(members, strategy="cheapest", prices=book), asked=facts(input_tokens=1000))
    assert order(decision) == [41, 31, 21, 11]
    assert decision.candidates[3].scores == {"cost": None}
    unlisted = [upstream(5), members[2]]
    assert order(decided(table(unlisted, strategy="cheapest", prices=book))) == [31, 51]
    assert decision.candidates[1].scores == {"cost": "0.020240000000"}


def test_headroom_sums_the_keys_of_a_member_and_puts_uncapped_last() -> None:
    members = [upstream(1, keys=2), upstream(2, keys=2), upstream(3)]
    views = {11: KeyView(remaining=5), 12: KeyView(), 21: KeyView(remaining=3), 22: KeyView(remaining=4)}
    decision = decided(table(members, strategy="headroom"), views | {31: KeyView(remaining=6)})
    assert order(decision) == [21, 22, 31, 11, 12]


def test_random_reaches_every_key_of_every_member() -> None:
    members = [upstream(n, keys=2, rotation="random") for n in (1, 2)]
    routing = table(members, strategy="random")
    leads = {order(decided(routing, draw=step / 200))[0] for step in range(200)}
    assert leads == {11, 12, 21, 22}


def test_attempts_are_counted_with_one_kept_for_the_last_resort() -> None:
    members = [upstream(1), upstream(9)]
    decision = decided(table(members, last_resort_id=9))
    assert (decision.max_attempts, decision.member_attempts) == (5, 4)
    assert decision.fallback is not None
    assert [c.key_id for c in decision.fallback.last_resort] == [91]
    assert order(decision) == [11]
    gone = decided(table(members, last_resort_id=9), {91: DEAD})
    assert (gone.max_attempts, gone.member_attempts) == (5, 5)
    tight = decided(table(members, last_resort_id=9, policy=Policy(max_attempts=2)))
    assert (tight.max_attempts, tight.member_attempts) == (2, 1)


def test_a_caught_request_gets_one_attempt() -> None:
    decision = decided(table([upstream(1), upstream(9)], last_resort_id=9), one_attempt=True)
    assert (decision.max_attempts, decision.member_attempts) == (1, 1)


def test_a_member_listed_as_last_resort_too_is_tried_once() -> None:
    routing = table([upstream(1), upstream(2)])
    group = replace(routing.groups[GROUP], last_resort_id=2, members=(MemberInfo(1), MemberInfo(2), MemberInfo(1)))
    decision = decided(replace(routing, groups={GROUP: group}))
    assert order(decision) == [11, 21]
    assert decision.fallback is not None
    assert decision.fallback.last_resort == ()


def test_a_target_chosen_before_gives_the_same_decision() -> None:
    routing = table([upstream(1, keys=2), upstream(2), upstream(9)], last_resort_id=9, strategy="weighted")
    asked, now = facts(), situation({11: COOLING})
    target = choose(asked, routing, NOW)
    assert decide(asked, routing, now, target) == decide(asked, routing, now)
    assert target.pairs == ((11, "gpt-4o"), (12, "gpt-4o"), (21, "gpt-4o"), (91, "gpt-4o"))
    assert target.scopes == (
        "group:30:weighted",
        "upstream:1:round_robin",
        "upstream:2:round_robin",
        "upstream:9:round_robin",
    )


def test_a_candidate_carries_what_the_attempt_needs() -> None:
    member = replace(upstream(1, max_context_tokens=99), keys=(key(11, 1, account_id=7),))
    rules = [rule(1, {"upstream": "up*"}, set={"top_p": 1}), rule(2, group_id=GROUP)]
    view = KeyView(Standing(epoch=4, half_open=True))
    (candidate,) = decided(table([member], rules=rules), {11: view}).candidates
    assert (candidate.upstream, candidate.key, candidate.epoch, candidate.half_open) == ("up1", "k11", 4, True)
    assert (candidate.account_id, candidate.balance, candidate.window) == (7, 7, 99)
    assert (candidate.rules, candidate.values) == (("rule1",), {"top_p": 1})
    assert replace(candidate, account_id=None).balance == -11


def test_every_bar_of_the_contract_keeps_its_name_in_the_record() -> None:
    assert {Bar(skip.value).recorded for skip in Skip} == set(Skip)
