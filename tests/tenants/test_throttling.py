"""Waits after failed logins: what is counted where, what a right password gives back, and many tries at once."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils.timezone import now

from tenants.login_models import LoginThrottle
from tenants.throttling import enter_code, enter_login, forgive, unlock
from tests.gateway import clean_database, committed_database

__all__ = ["clean_database", "committed_database"]

HERE, THERE = "192.0.2.1", "198.51.100.9"
NOTHING = timedelta(0)


def fail(times, moment, username="ann", address=HERE):
    gates = [enter_login(username=username, address=address, now=moment) for _ in range(times)]
    return gates[-1]


@pytest.mark.django_db
class TestOneProcess:
    def test_the_fifth_failure_starts_a_wait_that_the_sixth_try_meets(self):
        moment = now()
        assert not fail(4, moment).closed
        assert fail(1, moment).closed
        assert enter_login(username="ann", address=HERE, now=moment).wait == timedelta(seconds=30)
        later = moment + timedelta(seconds=30)
        assert enter_login(username="ann", address=HERE, now=later).wait == NOTHING
        assert enter_login(username="ann", address=HERE, now=later).wait == timedelta(seconds=60)

    def test_waiting_counts_no_further_failure(self):
        moment = now()
        fail(5, moment)
        fail(50, moment)
        assert enter_login(username="ann", address=HERE, now=moment + timedelta(seconds=30)).wait == NOTHING

    def test_a_stranger_elsewhere_does_not_keep_the_owner_out(self):
        moment = now()
        fail(5, moment, address=THERE)
        assert enter_login(username="ann", address=HERE, now=moment).wait == NOTHING

    def test_others_at_the_same_address_are_let_through_until_it_has_failed_fifty_times(self):
        moment = now()
        for n in range(49):
            assert enter_login(username=f"guess-{n}", address=HERE, now=moment).wait == NOTHING
        assert not enter_login(username="other", address=THERE, now=moment).closed
        assert enter_login(username="guess-50", address=HERE, now=moment).closed
        assert enter_login(username="bob", address=HERE, now=moment).wait == timedelta(seconds=30)
        assert enter_login(username="bob", address=THERE, now=moment).wait == NOTHING

    def test_capitals_and_blanks_make_no_other_account(self):
        moment = now()
        fail(5, moment)
        assert enter_login(username=" ANN ", address=HERE, now=moment).wait > NOTHING

    def test_a_right_password_ends_the_failures_of_the_pair(self):
        moment = now()
        fail(4, moment)
        forgive(enter_login(username="ann", address=HERE, now=moment))
        assert not fail(4, moment).closed

    def test_a_right_password_gives_its_own_try_back_to_the_address_and_no_more(self):
        moment = now()
        for n in range(48):
            enter_login(username=f"guess-{n}", address=HERE, now=moment)
        for _ in range(5):
            forgive(enter_login(username="mallory", address=HERE, now=moment))
        assert not enter_login(username="x", address=HERE, now=moment).closed
        assert enter_login(username="y", address=HERE, now=moment).closed
        assert enter_login(username="mallory", address=HERE, now=moment).wait > NOTHING

    def test_codes_are_counted_by_account(self):
        moment = now()
        for _ in range(5):
            gate = enter_code(user_id=7, now=moment)
        assert gate.closed
        assert enter_code(user_id=7, now=moment).wait == timedelta(seconds=30)
        assert enter_code(user_id=8, now=moment).wait == NOTHING

    def test_unlock(self):
        moment = now()
        fail(5, moment)
        fail(5, moment, address=THERE)
        assert unlock(username="Ann") == 2
        assert enter_login(username="ann", address=HERE, now=moment).wait == NOTHING
        for n in range(60):
            enter_login(username=f"guess-{n}", address=HERE, now=moment)
        assert enter_login(username="bob", address=HERE, now=moment).wait > NOTHING
        assert unlock(address=HERE) > 0
        assert enter_login(username="bob", address=HERE, now=moment).wait == NOTHING

    def test_neither_name_nor_address_is_stored(self):
        fail(1, now(), username="hunter2-typed-in-the-wrong-field")
        stored = str(list(LoginThrottle.objects.values()))
        assert "hunter2" not in stored
        assert HERE not in stored

    def test_old_rows_go(self):
        moment = now()
        fail(1, moment - timedelta(days=1))
        fail(1, moment, username="bob", address=THERE)
        assert LoginThrottle.objects.count() == 2


def test_a_hundred_tries_at_once_are_a_hundred_tries(clean_database):
    moment = now()
    let_through = []
    start = threading.Barrier(10)

    def guess():
        start.wait(10)
        for _ in range(10):
            if enter_login(username="ann", address=HERE, now=moment).wait == NOTHING:
                let_through.append(1)
        connection.close()

    threads = [threading.Thread(target=guess) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(let_through) == 5
