from datetime import UTC, datetime, timedelta

import pytest

from tenants.core.throttle import ADDRESS, PAIR, Count, counted, left, neighbourhood

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (4, 0), (5, 30), (6, 60), (7, 120), (8, 240), (9, 480), (10, 900), (11, 900), (5000, 900)],
)
def test_the_wait_doubles_after_the_free_ones(failures, seconds):
    assert PAIR.wait(failures) == timedelta(seconds=seconds)


def test_an_address_has_more_free_tries_than_a_pair():
    assert (ADDRESS.wait(49), ADDRESS.wait(50)) == (timedelta(0), timedelta(seconds=30))


def test_a_failure_is_counted_and_starts_the_wait():
    assert counted(Count(), PAIR, NOW) == Count(1, NOW, None)
    before = Count(4, NOW - timedelta(minutes=1))
    assert counted(before, PAIR, NOW) == Count(5, NOW, NOW + timedelta(seconds=30))


def test_failures_are_forgotten_after_a_while():
    old = Count(40, NOW - PAIR.memory - timedelta(seconds=1))
    assert counted(old, PAIR, NOW) == Count(1, NOW, None)
    assert counted(Count(40, NOW - PAIR.memory), PAIR, NOW).failures == 41


@pytest.mark.parametrize(("until", "seconds"), [(None, 0), (-1, 0), (0, 0), (7, 7)])
def test_left(until, seconds):
    count = Count(9, NOW, None if until is None else NOW + timedelta(seconds=until))
    assert left(count, NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("", ""),
        ("unix:", "unix:"),
    ],
)
def test_neighbourhood(address, counted_as):
    assert neighbourhood(address) == counted_as
