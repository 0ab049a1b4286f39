"""Conformance, part three: rotations, records and figures. Every test runs on both stores."""

from dataclasses import replace
from datetime import timedelta

from keys.core.admission import SettleRequest
from keys.core.outcome import Cause
from keys.core.samples import Figures
from keys.core.windows import Caps
from keys.stores.wheels import Spin
from tests.keys.stores.conftest import NOW, Store, eventually
from tests.keys.stores.test_admission import ask, key
from tests.keys.stores.test_states import POLICY, SECOND, report, tell


async def test_a_rotation_turns_for_every_process(store: Store, peer: Store) -> None:
    assert store.notes.rotation("group:1") == {}
    store.notes.spin(Spin("group:1", add={"1": -3, "2": 3}, put={"seen": 9}))
    assert store.notes.rotation("group:1") == {"1": -3, "2": 3, "seen": 9}
    peer.notes.spin(Spin("group:1", add={"1": 1}))
    expected = {"1": -2, "2": 3, "seen": 9}
    await eventually(lambda: store.notes.rotation("group:1") == peer.notes.rotation("group:1") == expected)
    peer.notes.spin(Spin("group:1", put={"1": 5}, drop=("seen",)))
    await eventually(lambda: store.notes.rotation("group:1") == {"1": 5, "2": 3})
    assert store.notes.rotation("group:2") == {}


async def test_records_are_kept_for_their_time(store: Store, peer: Store) -> None:
    await store.notes.remember({"t1:session:a": {"key": 1}, "t1:session:b": [2]}, 60, NOW)
    wanted = ["t1:session:a", "t1:session:b", "t2:session:a"]
    assert await peer.notes.recall(wanted, NOW + 59 * SECOND) == {"t1:session:a": {"key": 1}, "t1:session:b": [2]}
    assert await peer.notes.recall(wanted, NOW + 60 * SECOND) == {}
    assert await peer.notes.recall([], NOW) == {}


async def test_records_are_replaced_and_forgotten(store: Store, peer: Store) -> None:
    await store.notes.remember({"a": 1, "b": 2}, 60, NOW)
    await peer.notes.remember({"a": 3}, 60, NOW)
    await store.notes.forget(["b", "c"])
    await store.notes.forget([])
    assert await store.notes.recall(["a", "b"], NOW) == {"a": 3}


async def test_figures_of_a_key_nobody_called(store: Store) -> None:
    assert store.figures.of(1, 7, Caps(), NOW) == Figures()
    assert store.figures.of(1, 7, Caps(rpm=5, per_day=3, tpm=9), NOW) == Figures(remaining=3)


async def test_speed_and_reliability_come_from_reports(store: Store, peer: Store) -> None:
    for at, (cause, first_ms) in enumerate(
        [(Cause.SERVED, 100.0), (Cause.SERVED, 300.0), (Cause.TIMEOUT, 900.0), (Cause.BAD_REQUEST, 1.0)]
    ):
        await store.report(replace(report(cause), first_ms=first_ms), POLICY, NOW + at * SECOND)
    await eventually(lambda: peer.figures.of(1, None, Caps(), NOW).results == 3)
    figures = peer.figures.of(1, None, Caps(), NOW + 5 * SECOND)
    assert (figures.median_ms, figures.sample_age_s, figures.ok, figures.results) == (300, 3, 2, 3)
    assert (figures.mean_ms, figures.baseline_ms, figures.calls_24h) == (1300 / 3, None, 4)
    assert peer.figures.served_since(1, NOW + SECOND)
    assert not peer.figures.served_since(1, NOW + 2 * SECOND)
    assert not peer.figures.served_since(2, NOW)
    assert peer.figures.of(1, None, Caps(), NOW + timedelta(hours=25)).calls_24h == 0


async def test_load_is_known_to_every_process(store: Store, peer: Store) -> None:
    caps = Caps(rpm=3, concurrency=5)
    peer.figures.of(1, None, caps, NOW)
    first = await store.admit(ask(key(1, rpm=3, concurrency=5)), NOW)
    await store.admit(ask(key(1, rpm=3, concurrency=5)), NOW)
    await store.admit(ask(key(2)), NOW)
    await eventually(lambda: peer.figures.of(1, None, caps, NOW).in_flight == 2)
    assert store.figures.of(1, None, caps, NOW).remaining == peer.figures.of(1, None, caps, NOW).remaining == 1
    await store.settle(SettleRequest(holds=first.holds), NOW)
    await eventually(lambda: peer.figures.of(1, None, caps, NOW).in_flight == 1)
    await store.admit(ask(key(1, rpm=3, concurrency=5)), NOW)
    full = store.figures.of(1, None, caps, NOW)
    assert (full.cap, full.cap_left_s, full.remaining) == ("rpm", 61, 0)


async def test_low_water_and_poison_end_by_themselves(store: Store, peer: Store) -> None:
    store.figures.saw_water("account:7", 0.15, NOW + 60 * SECOND)
    store.figures.poison("fingerprint", NOW + 600 * SECOND)
    await eventually(lambda: peer.figures.of(1, 7, Caps(), NOW).water == 0.15)
    assert peer.figures.of(1, 8, Caps(), NOW).water is None
    assert peer.figures.of(1, 7, Caps(), NOW + 60 * SECOND).water is None
    assert peer.figures.is_poisoned("fingerprint", NOW + 599 * SECOND)
    assert not peer.figures.is_poisoned("fingerprint", NOW + 600 * SECOND)
    assert not peer.figures.is_poisoned("other", NOW)
    peer.figures.forget_elapsed(NOW + 61 * SECOND)
    assert not peer.figures.is_poisoned("other", NOW)
    assert peer.figures.water("account:7", NOW) is None


async def test_calls_of_a_day_survive_the_process(store: Store, peer: Store) -> None:
    for _ in range(3):
        await tell(store, Cause.SERVED, 1)
    await eventually(lambda: peer.figures.of(1, None, Caps(), NOW).calls_24h == 3)


async def test_a_board_shows_what_everyone_pinned_for_its_time(store: Store, peer: Store) -> None:
    await store.notes.pin_up("calls", "one", [{"id": 1}], 4, NOW)
    await peer.notes.pin_up("calls", "two", [], 9, NOW)
    await store.notes.pin_up("other", "one", True, 9, NOW)
    assert await peer.notes.pinned("calls", NOW + 3 * SECOND) == {"one": [{"id": 1}], "two": []}
    await store.notes.pin_up("calls", "one", 2, 9, NOW)
    assert await store.notes.pinned("calls", NOW + 5 * SECOND) == {"one": 2, "two": []}
    assert await store.notes.pinned("calls", NOW + 9 * SECOND) == {}
    assert await store.notes.pinned("nobody's", NOW) == {}
