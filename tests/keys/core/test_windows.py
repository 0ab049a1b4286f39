"""Rate windows: never more than the limit in any interval of the window's length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.windows import SPANS, Caps, Span, Window

RPM, TPM, HOUR, DAY, TOKENS_DAY = SPANS
T = 1_772_366_400.0


def test_spans_have_their_lengths() -> None:
    assert {span.name: span.length_s for span in SPANS} == {
        "rpm": 60,
        "tpm": 60,
        "per_hour": 3600,
        "per_day": 86400,
        "tokens_per_day": 86400,
    }
    assert [span.name for span in SPANS if span.of_tokens] == ["tpm", "tokens_per_day"]


def test_caps_name_their_windows() -> None:
    assert [(span.name, n) for span, n in Caps(rpm=9, tokens_per_day=0, concurrency=4).windows()] == [
        ("rpm", 9),
        ("tokens_per_day", 0),
    ]


@given(
    st.sampled_from([Span("small", 1, 5), Span("wide", 7, 3)]),
    st.integers(1, 6),
    st.lists(st.floats(0, 6), min_size=1, max_size=60),
)
def test_no_interval_ever_holds_more_than_the_limit(span: Span, limit: int, gaps: list[float]) -> None:
    window, at, admitted = Window(span), T, list[float]()
    for gap in gaps:
        at += gap
        if window.fits(1, limit, at):
            window.add(1, at)
            admitted.append(at)
        else:
            assert window.frees_in(1, limit, at) > 0
        assert sum(1 for moment in admitted if moment > at - span.length_s) <= limit


@given(st.integers(1, 5), st.lists(st.floats(0, 3), min_size=1, max_size=40))
def test_what_is_said_to_free_is_free_then(limit: int, gaps: list[float]) -> None:
    span = Span("small", 1, 5)
    window, at = Window(span), T
    for gap in gaps:
        at += gap
        left = window.frees_in(1, limit, at)
        if left > 0:
            assert not window.fits(1, limit, at + left - 0.001)
            at += left
        assert window.fits(1, limit, at)
        window.add(1, at)


def test_a_correction_lands_where_the_estimate_was() -> None:
    window = Window(TPM)
    window.add(60, T)
    window.correct(-20, T, T + 30)
    assert window.sum_at(T + 30) == 40
    window.correct(-100, T, T + 30)  # never below zero
    assert window.sum_at(T + 30) == 0
    window.correct(5, T - 1, T + 30)  # nothing was added there
    assert window.sum_at(T + 30) == 0


@pytest.mark.parametrize(("back_s", "expected"), [(30, 1), (59, 1), (61, 0), (86400, 0)])
def test_a_clock_that_steps_back(back_s: float, expected: int) -> None:
    window = Window(RPM)
    window.add(1, T)
    assert window.sum_at(T - back_s) == expected


def test_a_limit_of_zero_frees_nothing() -> None:
    assert not Window(RPM).fits(1, 0, T)
    assert Window(RPM).frees_in(1, 0, T) == 60


def test_counts_below_zero_cannot_free_for_ever() -> None:
    window = Window(RPM, counts={int(T): 1}, total=3, head=int(T))  # damaged
    assert window.frees_in(1, 1, T) == 60
