"""What a process knows of the shared states while it reads them anew."""

from datetime import timedelta

import orjson

from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.stores.mirror import Mirror
from tests.keys.stores.conftest import NOW

DEAD = KeyState(Status.DEAD, since=NOW, cause=Cause.AUTH_INVALID)
COOLING = KeyState(Status.COOLING, until=NOW + timedelta(seconds=60), since=NOW, cause=Cause.RATE_LIMITED)


def row(version: int, state: KeyState) -> str:
    return f"{version}|{orjson.dumps(dumped(state)).decode()}"


def test_what_redis_forgot_stays_known_while_it_is_told_again() -> None:
    mirror = Mirror()
    mirror.take_row("key:1", row(3, DEAD))
    assert mirror.load({}, {}, 0) == {"key:1": DEAD}
    assert mirror.board.state("key:1") == DEAD
    assert (mirror.versions, mirror.unshared) == ({}, {"key:1"})


def test_what_was_learnt_alone_is_joined_at_once() -> None:
    mirror = Mirror()
    mirror.board.states["key:1"] = DEAD
    mirror.unshared.add("key:1")
    assert mirror.load({"key:1": row(5, COOLING), "key:2": row(1, COOLING)}, {}, 7) == {"key:1": DEAD}
    assert (mirror.board.state("key:1").status, mirror.board.state("key:2")) == (Status.DEAD, COOLING)
    assert (mirror.versions, mirror.gen) == ({"key:1": 5, "key:2": 1}, 7)


def test_what_is_stored_is_believed_otherwise() -> None:
    mirror = Mirror()
    mirror.take_row("key:1", row(3, COOLING))
    assert mirror.load({"key:1": row(4, DEAD)}, {}, 9) == {}
    assert mirror.board.state("key:1") == DEAD
