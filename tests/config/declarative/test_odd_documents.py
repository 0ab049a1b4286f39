"""Whatever a file holds, it is applied or refused in words; it never ends in a traceback."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.declarative import ConfigError
from tests.config.declarative.samples import FULL, applied, parsed

pytestmark = pytest.mark.django_db

ODD: list[Any] = [
    None, True, False, 0, -1, 2**70, 1.5, float("nan"), float("inf"), "", " ", "x", "*", "env:X", "env:RELAY_A_1",
    "!redacted", "\x00", "\ud800", "9" * 400, "relay-a", [], [None], [[]], ["x"], [{}], {}, {"x": None}, {1: 2},
    {"name": "x"}, {None: []}, "2026-01-01", "0001-01-01", "9999-12-31T23:59:59-23:59", "https://[", "http://a:b", "-0",
    "USD", b"x",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from places(inner, (*path, name))


DOCUMENT = parsed(FULL)[0]
PLACES = list(places(DOCUMENT))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(where=st.lists(st.sampled_from(PLACES), min_size=1, max_size=3), odd=st.lists(st.sampled_from(ODD), min_size=3))
def test_an_odd_value_anywhere_is_applied_or_refused(where: list[tuple[Any, ...]], odd: list[Any]) -> None:
    document = copy.deepcopy(DOCUMENT)
    for path, value in zip(where, odd, strict=False):
        place: Any = document
        for name in path[:-1]:
            place = place[name] if isinstance(place, dict | list) and _has(place, name) else None
        if isinstance(place, dict | list) and _has(place, path[-1]):
            place[path[-1]] = copy.deepcopy(value)
    with transaction.atomic():
        errors = errors_or_none(document)
        if errors is None:
            assert applied(document).changes == ()
        else:
            assert errors
            assert all(line and "\n" not in line for line in errors)
        transaction.set_rollback(True)


def errors_or_none(document: Any) -> tuple[str, ...] | None:
    """Return why a document is refused, None when it was applied."""
    try:
        applied(document)
    except ConfigError as exc:
        return exc.errors
    return None


def _has(place: Any, name: Any) -> bool:
    return name in place if isinstance(place, dict) else isinstance(name, int) and name < len(place)
