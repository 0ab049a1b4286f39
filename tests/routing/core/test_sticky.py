"""When a conversation stays, waits, moves, or is refused."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from billing.core.tokens import Usage, UsageSource
from keys.core.dialect import Dialect
from keys.core.report import Skip, Standing
from routing.core.decide import decide
from routing.core.decision import RefusalKind
from routing.core.identity import HardPin
from routing.core.sticky import (
    Hold,
    SessionMark,
    balance_of,
    cached_tokens,
    hold_of,
    is_warm,
    owner_of,
    pin_from,
    pin_values,
    provider_of,
    session_mark,
)
from routing.core.views import KeyView, Owner, Pin, charged
from tests.routing.core.build import (
    BROKE,
    COOLING,
    DEAD,
    GROUP,
    LEASED,
    NOW,
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

WARM = Pin(21, 2, 1, GROUP, NOW - timedelta(seconds=299), 1024)
COLD = replace(WARM, cached_tokens=0)
PAIR = table([upstream(1), upstream(2)])


@pytest.mark.parametrize(
    ("age_s", "tokens", "warm"), [(0, 1024, True), (299, 1024, True), (300, 1024, False), (0, 1023, False)]
)
def test_warm_is_under_5_minutes_and_at_least_1024_tokens(age_s: int, tokens: int, warm: bool) -> None:
    assert is_warm(Pin(1, 1, 1, None, NOW - timedelta(seconds=age_s), tokens), NOW) is warm


def test_a_turn_holds_whatever_the_time() -> None:
    old = replace(COLD, answered_at=NOW - timedelta(hours=23))
    assert hold_of(old, facts(turn=True), NOW) is Hold.TURN
    assert hold_of(old, facts(), NOW) is None
    assert hold_of(WARM, facts(), NOW) is Hold.CACHE
    assert hold_of(None, facts(turn=True), NOW) is None


@pytest.mark.parametrize(
    ("read", "written", "given", "dialect", "expected"),
    [
        (1000, 24, 5000, Dialect.ANTHROPIC, 1024),
        (0, 0, 5000, Dialect.ANTHROPIC, 0),
        (None, None, 5000, Dialect.ANTHROPIC, 0),
        (0, 0, 1024, Dialect.OPENAI, 1024),
        (512, None, 1023, Dialect.OPENAI, 512),
        (None, None, None, Dialect.GEMINI, 0),
        (4096, None, 6000, Dialect.RESPONSES, 6000),
    ],
)
def test_cached_tokens(
    read: int | None, written: int | None, given: int | None, dialect: Dialect, expected: int
) -> None:
    usage = Usage(given, read, written, None, 1, None, UsageSource.UPSTREAM)
    assert cached_tokens(usage, dialect) == expected
    assert cached_tokens(None, dialect) == 0


def test_the_marks() -> None:
    assert session_mark(None, None, 1, identified=False) is SessionMark.NONE
    assert session_mark(None, None, 1, identified=True) is SessionMark.NEW
    assert session_mark(None, 1, 1, identified=True) is SessionMark.NEW
    assert session_mark(Hold.TURN, 1, 1, identified=True) is SessionMark.TURN
    assert session_mark(Hold.CACHE, 1, 1, identified=True) is SessionMark.CACHE
    assert session_mark(Hold.CACHE, 1, 2, identified=True) is SessionMark.REPINNED


def test_a_pin_survives_being_stored() -> None:
    assert pin_from(pin_values(WARM)) == WARM
    assert pin_from(pin_values(replace(WARM, group_id=None))) == replace(WARM, group_id=None)
    assert pin_from({}) is None
    assert pin_from(pin_values(WARM) | {"at": 1e300}) is None
    assert pin_from(pin_values(WARM) | {"key": None}) is None


@pytest.mark.parametrize(("pin", "asked"), [(WARM, facts()), (COLD, facts(turn=True))])
def test_a_held_conversation_leads_with_its_key(pin: Pin, asked: Any) -> None:
    decision = decided(PAIR, asked=asked, pin=pin)
    assert order(decision) == [21, 11]
    assert decision.candidates[0].wait_s == 0
    assert decision.pinned_key_id == 21


def test_a_cold_conversation_is_placed_anew() -> None:
    decision = decided(PAIR, pin=COLD)
    assert order(decision) == [11, 21]
    assert decision.hold is None


@pytest.mark.parametrize("view", [COOLING, STRUCK, DEAD, BROKE, KeyView(cap="rpm", cap_left_s=4)])
def test_an_unavailable_key_is_left(view: KeyView) -> None:
    decision = decided(PAIR, {21: view}, pin=WARM)
    assert order(decision) == [11]
    assert decision.hold is Hold.CACHE
    assert 21 in bars(decision)


@pytest.mark.parametrize(
    ("view", "wait_s", "wait_for"),
    [
        (KeyView(in_flight=2), 3.0, "slot"),
        (LEASED, 1.0, "state"),
        (KeyView(Standing(Skip.COOLING, 3.0)), 3.0, "state"),
        (KeyView(cap="rpm", cap_left_s=2.5), 2.5, "slot"),
    ],
)
def test_a_held_conversation_waits_a_little_for_its_key(view: KeyView, wait_s: float, wait_for: str) -> None:
    routing = table([upstream(1), replace(upstream(2), keys=(capped(21, 2, 2),))])
    decision = decided(routing, {21: view}, pin=WARM)
    assert order(decision) == [21, 11]
    assert (decision.candidates[0].wait_s, decision.candidates[0].wait_for) == (wait_s, wait_for)
    assert bars(decision) == {}
    assert order(decided(routing, {21: view})) == [11]


def test_a_key_that_left_the_group_holds_nobody() -> None:
    decision = decided(table([upstream(1), upstream(3)]), pin=WARM)
    assert order(decision) == [11, 31]
    disabled = table([upstream(1), replace(upstream(2), keys=(key(21, 2, enabled=False),))])
    assert order(decided(disabled, pin=WARM)) == [11]


def test_low_water_and_slowness_do_not_move_a_held_conversation() -> None:
    views = {21: KeyView(water=0.01, mean_ms=901, baseline_ms=300)}
    assert order(decided(PAIR, views, pin=WARM)) == [21, 11]
    assert order(decided(PAIR, views, pin=COLD)) == [11, 21]


def test_low_water_does_not_order_the_others_of_a_held_conversation() -> None:
    routing = table([upstream(1), upstream(2), upstream(3)])
    assert order(decided(routing, {11: KeyView(water=0.01)}, pin=WARM)) == [21, 11, 31]
    assert order(decided(routing, {11: KeyView(water=0.01)}, pin=COLD)) == [21, 31, 11]


def test_a_key_waited_for_in_vain_may_be_waited_for_again() -> None:
    routing = table([replace(upstream(2), keys=(capped(21, 2, 1), key(22, 2)))])
    decision = decided(routing, {21: KeyView(in_flight=1), 22: DEAD}, pin=WARM)
    assert order(decision) == [21]
    assert decision.fallback is not None
    assert [candidate.key_id for candidate in decision.fallback.waiting] == [21]
    leased = decided(routing, {21: LEASED, 22: DEAD}, pin=WARM)
    assert leased.fallback is not None
    assert leased.fallback.awaited == ()


def test_a_sticky_lead_is_charged_to_group_and_keys() -> None:
    routing = table([upstream(1), upstream(2, keys=2)], strategy="round_robin")
    decision = decided(routing, pin=WARM)
    assert {charge.scope: dict(charge.add) for charge in decision.charges} == {
        "group:30:round_robin": {"1": 1000, "2": -1000},
        "upstream:2:round_robin": {"21": -1000, "22": 1000},
    }


def test_a_waiting_lead_is_charged_though_it_is_full() -> None:
    routing = table([upstream(1), replace(upstream(2), keys=(capped(21, 2, 1), key(22, 2)))], strategy="round_robin")
    decision = decided(routing, {21: KeyView(in_flight=1)}, pin=WARM)
    assert {charge.scope: dict(charge.add) for charge in decision.charges} == {
        "group:30:round_robin": {"1": 1000, "2": -1000},
        "upstream:2:round_robin": {"22": 1000, "21": -1000},
    }
    alone = table([upstream(1), replace(upstream(2), keys=(capped(21, 2, 1),))], strategy="round_robin")
    (charge,) = decided(alone, {21: KeyView(in_flight=1)}, pin=WARM).charges
    assert charge.add == {"1": 1000, "2": -1000}


def test_new_conversations_make_up_for_sticky_ones() -> None:
    routing = table([upstream(1), upstream(2)], strategy="round_robin")
    rotation: dict[str, dict[str, int]] = {}
    leads = []
    for pin in (WARM, None, WARM, None, None, None):
        decision = decided(routing, pin=pin, rotation=rotation)
        leads.append(order(decision)[0])
        for due in decision.charges:
            rotation[due.scope] = charged(rotation.get(due.scope, {}), due)
    assert leads == [21, 11, 21, 11, 11, 21]


def test_a_turn_begun_by_the_last_resort_ends_there() -> None:
    routing = table([upstream(1), upstream(9)], last_resort_id=9)
    pin = Pin(91, 9, 1, GROUP, NOW, 5000)
    inside = decided(routing, asked=facts(turn=True), pin=pin)
    assert order(inside) == [91, 11]
    assert inside.fallback is not None
    assert inside.fallback.last_resort == ()
    assert inside.charges == ()
    assert order(decided(routing, pin=pin)) == [11]


OWNED = table(
    [
        replace(upstream(1), keys=(key(11, 1, account_id=7), key(12, 1))),
        replace(upstream(2), keys=(key(21, 2, account_id=7),)),
    ]
)
ASKED = facts(pins=(HardPin("previous_response_id", "a"),))


def test_a_hard_pin_narrows_to_the_keys_of_its_account() -> None:
    decision = decided(OWNED, asked=ASKED, owners={"a": Owner(7, "up1.example")})
    assert order(decision) == [11, 21]
    assert bars(decision) == {12: "elsewhere"}
    assert not decision.unknown_pin
    assert order(decided(OWNED, asked=ASKED, owners={"a": Owner(-12, "up1.example")})) == [12]


def test_an_unknown_id_goes_to_the_first_candidate_and_says_so() -> None:
    decision = decided(OWNED, asked=ASKED)
    assert order(decision) == [11, 12, 21]
    assert decision.unknown_pin
    assert not decided(OWNED).unknown_pin


def test_a_hard_pin_comes_before_a_held_key() -> None:
    pin = Pin(12, 1, 1, GROUP, NOW, 5000)
    assert order(decided(OWNED, asked=ASKED, pin=pin, owners={"a": Owner(7, "")})) == [11, 21]


@pytest.mark.parametrize(
    ("views", "owner", "text"),
    [
        ({}, Owner(99, ""), "that this route does not reach"),
        ({12: DEAD}, Owner(-12, ""), "whose keys no longer work"),
    ],
)
def test_a_pinned_request_that_cannot_move_is_refused_clearly(
    views: dict[int, KeyView], owner: Owner, text: str
) -> None:
    decision = decided(OWNED, views, ASKED, owners={"a": owner})
    assert decision.refusal is not None
    assert (decision.refusal.kind, decision.refusal.status) == (RefusalKind.PINNED, 409)
    assert decision.refusal.text.startswith("This request cannot be moved: previous_response_id belongs to")
    assert text in decision.refusal.text
    assert decision.candidates == ()
    assert decision.charges == ()


def test_a_pinned_request_waits_for_a_cooling_key_rather_than_move() -> None:
    decision = decided(OWNED, {12: STRUCK}, ASKED, owners={"a": Owner(-12, "")})
    assert order(decision) == [12]  # the sole candidate ignores strike cooling
    limited = decided(OWNED, {12: COOLING}, ASKED, owners={"a": Owner(-12, "")})
    assert order(limited) == []
    assert limited.refusal is None
    assert limited.fallback is not None
    assert (limited.fallback.refusal.status, limited.fallback.refusal.retry_after_s) == (429, 30)


def test_ids_of_two_accounts_cannot_be_used_together() -> None:
    asked = facts(pins=(HardPin("file_id", "a"), HardPin("container", "b")))
    refusal = decided(OWNED, asked=asked, owners={"a": Owner(7, ""), "b": Owner(-12, "")}).refusal
    assert refusal is not None
    assert "file_id, container live on different upstream accounts" in refusal.text


def test_a_signature_binds_to_its_provider_not_to_an_account() -> None:
    asked = facts(signatures=("old", "unknown", "new"))
    owners = {"old": Owner(-21, "up2.example"), "new": Owner(7, "up1.example")}
    assert order(decided(OWNED, asked=asked, owners=owners)) == [11, 12]
    assert order(decided(OWNED, asked=asked)) == [11, 12, 21]
    gone = decided(OWNED, asked=asked, owners={"new": Owner(7, "elsewhere.example")}).refusal
    assert gone is not None
    assert "the signed thinking in the history" in gone.text


def test_a_pinned_request_finds_its_account_behind_another_rule() -> None:
    rules = [rule(1, {"input_tokens": "> 100"}, upstream_id=1), rule(2, {"model": "gpt-*"}, upstream_id=2)]
    routing = replace(OWNED, routes={20: replace(OWNED.routes[20], rules=tuple(rules))})
    owners = {"a": Owner(-12, "")}
    assert order(decided(routing, asked=replace(ASKED, model=""), owners=owners)) == [12]
    assert order(decided(routing, asked=ASKED, owners=owners)) == [12]
    assert decide(ASKED, routing, situation(owners=owners)).rule_name == "rule1"


def test_a_hard_pin_comes_before_the_rule_of_a_turn() -> None:
    rules = [rule(1, {"input_tokens": "> 100"}, upstream_id=1), rule(2, upstream_id=2)]
    routing = replace(OWNED, routes={20: replace(OWNED.routes[20], rules=tuple(rules))})
    asked = replace(ASKED, turn=True)
    pin = Pin(21, 2, 2, None, NOW)
    assert order(decided(routing, asked=asked, pin=pin, owners={"a": Owner(-12, "")})) == [12]


def test_balance_and_provider() -> None:
    assert (balance_of(key(5, 1)), balance_of(key(5, 1, account_id=9))) == (-5, 9)
    made = upstream(1, base_url="https://User:pw@API.Example:8443/v1")
    assert provider_of(made) == "api.example:8443"
    assert owner_of(made, key(5, 1)) == Owner(-5, "api.example:8443")
