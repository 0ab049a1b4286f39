"""What serving processes tell of their keys, there and back. No database."""

from datetime import UTC, datetime, timedelta

import pytest

from keys.core.samples import Figures
from keys.core.sight import FLYING_S, capped, figures_of, sight_of
from keys.core.windows import SPANS, Caps, Window

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
AT = NOW.timestamp()
FULL = Figures(in_flight=3, median_ms=400.0, sample_age_s=7.0, ok=4, results=5, mean_ms=410.0, baseline_ms=380.0)


def window(name, amount, ago_s=0.0):
    made = Window(next(span for span in SPANS if span.name == name))
    made.add(amount, AT - ago_s)
    return made


def seen(row, caps=None, account_row=None, calls=10, later_s=0.0):
    return figures_of(
        row, row if account_row is None else account_row, caps or Caps(), calls, NOW + timedelta(seconds=later_s)
    )


def test_there_and_back():
    row = sight_of(FULL, {"rpm": window("rpm", 2)}, {"credit": (0.3, AT + 60)}, AT)
    assert seen(row, Caps(rpm=5)) == Figures(
        in_flight=3, calls_24h=13, median_ms=400.0, sample_age_s=7.0, ok=4, results=5, mean_ms=410.0,
        baseline_ms=380.0, water=0.3, remaining=3,
    )  # fmt: skip


def test_what_is_empty_takes_no_room():
    assert sight_of(Figures(), {"rpm": Window(SPANS[0])}, {}, AT) == {"at": AT, "pace": [None, None]}
    assert seen({}) == Figures(calls_24h=10)


@pytest.mark.parametrize(
    ("later_s", "flying", "results", "mean_ms"),
    [(0, 3, 5, 410.0), (FLYING_S + 1, 0, 5, 410.0), (301, 0, 5, None), (1801, 0, 0, None)],
)
def test_news_grow_old(later_s, flying, results, mean_ms):
    got = seen(sight_of(FULL, {}, {}, AT), later_s=later_s)
    assert (got.in_flight, got.calls_24h, got.results, got.mean_ms) == (flying, 10 + flying, results, mean_ms)
    assert (got.median_ms, got.sample_age_s) == (400.0, 7.0 + later_s)


def test_windows_roll_on_with_the_reader():
    row = sight_of(Figures(), {"rpm": window("rpm", 2)}, {}, AT)
    full, over = seen(row, Caps(rpm=2)), seen(row, Caps(rpm=2), later_s=61)
    assert (full.cap, full.remaining) == ("rpm", 0)
    assert 59 <= full.cap_left_s <= 61
    assert (over.cap, over.cap_left_s, over.remaining) == ("", 0.0, 2)


def test_the_smallest_share_that_still_counts_is_the_water():
    facts = {"water": (0.1, AT - 1), "credit": (0.5, AT + 1)}
    assert seen(sight_of(Figures(), {}, facts, AT)).water == 0.5
    assert seen(sight_of(Figures(), {}, {**facts, "water": (0.1, AT + 1)}, AT)).water == 0.1
    assert seen({}, account_row=sight_of(Figures(), {}, facts, AT)).water == 0.5


@pytest.mark.parametrize(
    "row",
    [
        {"at": None},
        {"flying": "x", "at": AT},
        {"windows": {"rpm": [["a", 1]]}},
        {"results": 3},
        {"facts": {"water": 1}},
    ],
)
def test_damage_costs_the_figures_alone(row):
    assert seen(row) == Figures(calls_24h=10)


def test_the_longest_cap_is_named_and_the_tightest_counted():
    windows = {"rpm": window("rpm", 1), "tpm": window("tpm", 90), "per_hour": window("per_hour", 9, ago_s=120)}
    assert capped(windows, Caps(), AT) == ("", 0.0, None)
    assert capped({}, Caps(rpm=7, tpm=5), AT) == ("", 0.0, 7)
    cap, left_s, remaining = capped(windows, Caps(rpm=1, tpm=90, per_hour=9, per_day=50), AT)
    assert (cap, remaining) == ("per_hour", 0)
    assert 3400 < left_s <= 3600
