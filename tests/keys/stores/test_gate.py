"""Slots and windows in memory, over any history."""

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from keys.core.admission import AdmitRequest, Caller, Hold, KeyOption
from keys.core.windows import Caps
from keys.stores.gate import Eligible, Gate
from tests.keys.stores.conftest import NOW

steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 9), st.floats(0, 20)), min_size=1, max_size=80
)


LINE_SLOTS = 4


class World:
    """A gate and the requests that went through it."""

    def __init__(self, slots: int, rpm: int) -> None:
        self.gate, self.now = Gate(), NOW
        self.caps = Caps(concurrency=slots, rpm=rpm)
        self.flying: list[tuple[Hold, ...]] = []
        self.sent: list[tuple[int, float]] = []

    def arrive(self, ticket: str, key_id: int) -> None:
        line = Caller("line:1", Caps(concurrency=LINE_SLOTS))
        request = AdmitRequest(ticket, "gpt", (KeyOption(key_id, caps=self.caps),), (line,))
        answer = self.gate.admit(request, [Eligible(key) for key in request.keys], (), self.now)
        if answer.granted:
            self.flying.append(answer.holds)
            self.sent.append((key_id, self.now.timestamp()))
        else:
            assert all(self.gate.release(hold) for hold in answer.holds)

    def leave(self, which: int) -> None:
        holds = self.flying.pop(which)
        assert [self.gate.release(hold) for hold in holds] == [True, True]
        assert [self.gate.release(hold) for hold in holds] == [False, False]


@given(steps, st.integers(1, 3), st.integers(1, 5))
def test_slots_held_are_requests_in_flight_and_never_more_than_allowed(
    history: list[tuple[bool, int, int, float]], slots: int, rpm: int
) -> None:
    world = World(slots, rpm)
    for number, (arrives, key_id, which, gap) in enumerate(history):
        world.now += timedelta(seconds=gap)
        if arrives:
            world.arrive(f"t{number}", key_id)
        elif world.flying:
            world.leave(which % len(world.flying))
        in_flight = Counter(hold.scope for holds in world.flying for hold in holds)
        held = {scope: len(tickets) for scope, tickets in world.gate.slots.items()}
        assert held == in_flight
        assert all(count <= (LINE_SLOTS if scope == "line:1" else slots) for scope, count in held.items())
        recent = Counter(key for key, at in world.sent if at > world.now.timestamp() - 60)
        assert all(count <= rpm for count in recent.values())
