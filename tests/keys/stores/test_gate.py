"""Slots and windows in memory, over any history."""

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


@given(steps, st.integers(1, 3), st.integers(1, 5))
def test_slots_held_are_requests_in_flight_and_never_more_than_allowed(
    history: list[tuple[bool, int, int, float]], slots: int, rpm: int
) -> None:
    gate, now = Gate(), NOW
    caps = Caps(concurrency=slots, rpm=rpm)
    line = Caller("line:1", Caps(concurrency=4))
    flying: list[tuple[Hold, ...]] = []
    sent: list[tuple[int, float]] = []
    for number, (arrives, key_id, which, gap) in enumerate(history):
        now += timedelta(seconds=gap)
        if arrives:
            request = AdmitRequest(f"t{number}", "gpt", (KeyOption(key_id, caps=caps),), (line,))
            answer = gate.admit(request, [Eligible(key) for key in request.keys], (), now)
            if answer.granted:
                flying.append(answer.holds)
                sent.append((key_id, now.timestamp()))
            else:
                for hold in answer.holds:
                    assert gate.release(hold)
        elif flying:
            for hold in flying.pop(which % len(flying)):
                assert gate.release(hold)
                assert not gate.release(hold)
        held = {scope: len(tickets) for scope, tickets in gate.slots.items()}
        expected: dict[str, int] = {}
        for holds in flying:
            for hold in holds:
                expected[hold.scope] = expected.get(hold.scope, 0) + 1
        assert held == expected
        assert all(count <= (4 if scope == "line:1" else slots) for scope, count in held.items())
        for key in range(3):
            assert sum(1 for k, at in sent if k == key and at > now.timestamp() - 60) <= rpm
