"""What holds for every table and every situation."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from keys.core.outcome import Cause
from keys.core.report import Skip, Standing
from routing.core.decide import decide
from routing.core.decision import Decision
from routing.core.table import RoutingTable
from routing.core.views import KeyView, Pin, Situation, charged
from tests.routing.core.build import GROUP, NOW, capped, facts, rule, situation, table, upstream

STRATEGIES = ("priority", "round_robin", "weighted", "least_used", "random", "fastest", "cheapest", "headroom")
ROTATIONS = ("round_robin", "weighted", "least_used", "random")
BASES = ("share", "speed", "stability", "speed_and_stability")
UPSTREAMS = 3
KEYS = 2


@st.composite
def views(draw: st.DrawFn) -> KeyView:
    skip = draw(st.sampled_from((None, None, None, *Skip)))
    left_s = None if skip is Skip.DEAD else draw(st.floats(0, 4000))
    struck = skip is Skip.COOLING and draw(st.booleans())
    standing = Standing(skip, left_s, cause=Cause.SERVER_ERROR if struck else Cause.RATE_LIMITED, by_strikes=struck)
    return KeyView(
        standing=standing,
        cap=draw(st.sampled_from(("", "", "rpm"))),
        cap_left_s=draw(st.floats(0, 100)),
        in_flight=draw(st.integers(0, 3)),
        calls_24h=draw(st.integers(0, 50)),
        median_ms=draw(st.none() | st.floats(1, 5000)),
        sample_age_s=draw(st.none() | st.floats(0, 4000)),
        ok=draw(st.integers(0, 5)),
        results=5,
        mean_ms=draw(st.none() | st.floats(1, 5000)),
        baseline_ms=draw(st.none() | st.floats(1, 5000)),
        water=draw(st.none() | st.floats(0, 1)),
        remaining=draw(st.none() | st.integers(0, 9)),
    )


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    members = []
    for number in range(1, UPSTREAMS + 1):
        keys = [capped(number * 10 + place, number, 2) for place in range(1, draw(st.integers(0, KEYS)) + 1)]
        keys = [replace(each, enabled=draw(st.booleans()), account_id=draw(st.none() | st.just(7))) for each in keys]
        made = upstream(number, rotation=draw(st.sampled_from(ROTATIONS)), enabled=draw(st.booleans()))
        members.append(replace(made, keys=tuple(keys), max_context_tokens=draw(st.sampled_from((None, 10, 1000)))))
    rules = [rule(1, {"upstream": "up3"}, deny="no"), rule(2, group_id=GROUP)] if draw(st.booleans()) else None
    return table(
        members,
        rules=rules,
        strategy=draw(st.sampled_from(STRATEGIES)),
        basis=draw(st.sampled_from(BASES)),
        last_resort_id=draw(st.sampled_from((None, 2, UPSTREAMS))),
    )


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    ids = [number * 10 + place for number in range(1, UPSTREAMS + 1) for place in range(1, KEYS + 1)]
    pin = draw(st.none() | st.sampled_from(ids).map(lambda found: Pin(found, found // 10, 1, GROUP, NOW, 5000)))
    return situation(
        {number: draw(views()) for number in ids},
        draw=draw(st.floats(0, 1, exclude_max=True)),
        pin=pin,
        rotation={f"group:{GROUP}:round_robin": {"1": draw(st.integers(-9000, 9000))}},
    )


def everything_tried(decision: Decision) -> list[int]:
    lists = [decision.candidates]
    if decision.fallback is not None:
        lists += [decision.fallback.struck, decision.fallback.awaited, decision.fallback.last_resort]
    return [candidate.key_id for each in lists for candidate in each]


@settings(max_examples=80, deadline=None)
@given(tables(), situations(), st.booleans(), st.integers(0, 2000))
def test_every_decision(routing: RoutingTable, now: Situation, turn: bool, window_tokens: int) -> None:
    asked = facts(turn=turn, window_tokens=window_tokens)
    decision = decide(asked, routing, now)
    tried = everything_tried(decision)
    assert len(tried) == len(set(tried)), "a key stands twice"
    keys = {each.id: each for up in routing.upstreams.values() for each in up.keys}
    for number in tried:
        standing = now.keys[number].standing
        assert keys[number].enabled
        assert routing.upstreams[number // 10].enabled
        assert standing.skip is not Skip.DEAD
    for candidate in decision.candidates:
        standing = now.keys[candidate.key_id].standing
        sole = standing.by_strikes and len(decision.candidates) == 1
        assert standing.skip is None or sole or candidate.wait_for
        assert not candidate.wait_for or candidate is decision.candidates[0]
    told = {skipped.key_id for skipped in decision.skipped}
    last = {c.key_id for c in decision.fallback.last_resort} if decision.fallback else set()
    chosen = {candidate.key_id for candidate in decision.candidates}
    if decision.refusal is None:
        assert told | chosen | last == set(keys), "a key vanished without a reason"
        assert not told & chosen
    assert (decision.fallback is None) == (decision.refusal is not None)
    assert decision.member_attempts >= 1


@settings(max_examples=20, deadline=None)
@given(tables(), situations())
def test_the_same_question_has_the_same_answer(routing: RoutingTable, now: Situation) -> None:
    assert decide(facts(), routing, now) == decide(facts(), routing, now)


def lead_of(decision: Decision, rotation: dict[str, dict[str, int]]) -> int:
    for due in decision.charges:
        rotation[due.scope] = charged(rotation.get(due.scope, {}), due)
    return decision.candidates[0].upstream_id


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_weights_come_true_through_the_whole_decision(weights: list[int]) -> None:
    members = [upstream(number, keys=2) for number in range(1, len(weights) + 1)]
    routing = table(members, strategy="weighted", weights=dict(enumerate(weights, start=1)))
    rotation: dict[str, dict[str, int]] = {}
    rounds = 3
    leads = Counter(
        lead_of(decide(facts(), routing, situation(rotation=rotation)), rotation) for _ in range(rounds * sum(weights))
    )
    assert leads == Counter({number: rounds * weight for number, weight in enumerate(weights, start=1)})


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(("round_robin", "least_used")),
    st.lists(st.sampled_from(((), (1,), (2,), (1, 2))), min_size=120, max_size=120),
)
def test_no_member_starves_when_others_come_and_go(strategy: str, away: list[tuple[int, ...]]) -> None:
    """Member 3 is always there: it leads at least every 12th time, whatever 1 and 2 do."""
    routing = table([upstream(1), upstream(2), upstream(3)], strategy=strategy)
    rotation: dict[str, dict[str, int]] = {}
    calls: Counter[int] = Counter()
    since = 0
    for gone in away:
        dead = Standing(Skip.COOLING, 30.0, cause=Cause.RATE_LIMITED)
        keys: dict[int, Any] = {
            number * 10 + 1: KeyView(Standing() if number not in gone else dead, calls_24h=calls[number])
            for number in (1, 2, 3)
        }
        lead = lead_of(decide(facts(), routing, situation(keys, rotation=rotation)), rotation)
        calls[lead] += 1
        since = 0 if lead == 3 else since + 1
        assert since <= 12 or strategy == "least_used"
    assert calls[3] >= len(away) // 3 - 3
