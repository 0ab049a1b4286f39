"""Speed, reliability and the slow mark."""

from datetime import UTC, datetime, timedelta

import pytest

from keys.core.samples import Figures, Sample, Track

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sample(at_s: float, first_ms: float | None = 100, ok: bool = True) -> Sample:
    return Sample(1, NOW + timedelta(seconds=at_s), ok, first_ms)


def tracked(*samples: Sample) -> Track:
    track = Track()
    for one in samples:
        track.add(one)
    return track


def at(seconds: float) -> float:
    return (NOW + timedelta(seconds=seconds)).timestamp()


def test_the_median_needs_three_and_looks_at_32() -> None:
    assert tracked(sample(0), sample(1)).median_ms() is None
    assert tracked(sample(0, 100), sample(1, 900), sample(2, 300)).median_ms() == 300
    old_fast = [sample(n, 1) for n in range(40)] + [sample(40 + n, 500) for n in range(32)]
    assert tracked(*old_fast).median_ms() == 500


def test_the_age_is_that_of_the_newest_measured() -> None:
    track = tracked(sample(0), sample(5, None, ok=False))
    assert track.sample_age_s(at(7)) == 7
    assert track.sample_age_s(at(-3)) == 0
    assert Track().sample_age_s(at(0)) is None


def test_reliability_forgets_after_half_an_hour_and_fifty() -> None:
    track = tracked(sample(0, ok=False), sample(10), sample(20, None, ok=False))
    assert track.reliability(at(1800)) == (1, 3)
    assert track.reliability(at(1801)) == (1, 2)
    assert tracked(*(sample(n, ok=n >= 50) for n in range(100))).reliability(at(100)) == (50, 50)


def test_the_mean_is_of_five_minutes_and_three_samples() -> None:
    track = tracked(sample(0, 100), sample(100, 200), sample(200, 600))
    assert track.mean_ms(at(300)) == 300
    assert track.mean_ms(at(309)) == 300
    assert track.mean_ms(at(310)) is None


def test_the_usual_pace_leaves_the_present_out() -> None:
    track = tracked(*(sample(n, 300) for n in range(20)), *(sample(400 + n, 901) for n in range(5)))
    assert (track.mean_ms(at(405)), track.baseline_ms(at(405))) == (901, 300)
    assert tracked(*(sample(n, 300) for n in range(19)), sample(400, 300)).baseline_ms(at(405)) is None


def test_a_key_that_stays_slow_does_not_come_to_look_normal() -> None:
    track = tracked(*(sample(n, 300) for n in range(20)), *(sample(400 + 10 * n, 2000) for n in range(500)))
    assert track.baseline_ms(at(5500)) == 300
    assert track.mean_ms(at(5390)) == 2000


@pytest.mark.parametrize(("age_s", "expected"), [(86000, 300), (2 * 86400, None)])
def test_the_usual_pace_is_that_of_a_day(age_s: float, expected: float | None) -> None:
    assert tracked(*(sample(n, 300) for n in range(20))).baseline_ms(at(age_s)) == expected


def test_figures_follow_samples_and_seconds() -> None:
    track = tracked(sample(0), sample(0), sample(0, 400, ok=False))
    assert track.figures(at(0.5)) == Figures(
        median_ms=100, sample_age_s=0.5, ok=2, results=3, mean_ms=200, baseline_ms=None
    )
    assert track.figures(at(0.9)).sample_age_s == 0.5
    assert track.figures(at(1)).sample_age_s == 1
    track.add(sample(1))
    assert track.figures(at(1)).results == 4


def test_memory_is_bounded() -> None:
    track = tracked(*(sample(300 * n, 300) for n in range(400)))
    assert (len(track.usual), len(track.firsts), len(track.results)) == (287, 32, 50)
    crowd = tracked(*(sample(n / 100, 300) for n in range(10_000)))
    assert len(crowd.pace) == 10
