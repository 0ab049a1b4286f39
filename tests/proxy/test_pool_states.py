"""What the answers of upstreams do to their keys, through the real gateway: strikes, limits, blast radius."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from keys.models import KeyEvent
from tenants.models import Alert
from tests.factories import AccountFactory
from tests.fake_upstream import Gate, answer, raw, silent, status
from tests.gateway import chat, outcomes, wait_until
from tests.proxy.pool import OTHER, Calls, ask, asking, clock_of, settled, sheets


@pytest.fixture
def clock(gateway):
    with clock_of(gateway) as made:
        yield made


def group(**policy):
    return {"policy": policy}


def only(gateway, world):
    (sheet,) = sheets(gateway, world)
    return sheet


class TestStrikes:
    def test_the_third_trips_and_trips_double_to_ten_minutes(self, gateway, up, clock):
        """Trips 60 120 240 480 600 600; the success at the end forgets them."""
        up.default(status(500))
        world = gateway.serving(up, "k-1")
        for number in (1, 2):
            ask(gateway, world)
            assert (only(gateway, world).status, only(gateway, world).strikes) == ("healthy", number)
        lengths = []
        for _ in range(6):
            ask(gateway, world)
            lengths.append(round(only(gateway, world).cooling_left_s))
            clock.advance(only(gateway, world).cooling_left_s + 1)
        assert lengths == [60, 120, 240, 480, 600, 600]
        assert (only(gateway, world).strikes, only(gateway, world).trips, only(gateway, world).half_open) == (
            0,
            6,
            True,
        )
        up.default(answer("fine"))
        assert ask(gateway, world).status_code == 200
        assert (only(gateway, world).trips, only(gateway, world).half_open) == (0, False)

    def test_a_success_between_forgets_strikes(self, gateway, up):
        world = gateway.serving(up, "k-1")
        for behaviour in (status(500), status(503), answer("fine"), status(500), status(500)):
            up.script("k-1", behaviour)
            ask(gateway, world)
        assert (only(gateway, world).status, only(gateway, world).strikes) == ("healthy", 2)

    def test_answers_about_the_request_neither_strike_nor_help(self, gateway, up):
        world = gateway.serving(up, "k-1")
        long = status(400, "maximum context length is 10 tokens", error_code="context_length_exceeded")
        for behaviour in (status(500), status(500), status(400), long, status(422)):
            up.script("k-1", behaviour)
            ask(gateway, world)
        assert only(gateway, world).strikes == 2
        up.script("k-1", status(500))
        ask(gateway, world)
        assert only(gateway, world).status == "cooling"

    def test_parallel_failures_are_one_trip(self, gateway, up):
        gate = Gate()
        up.default(status(500, holds=((-1, gate),)))
        world = gateway.serving(up, "k-1")
        calls = Calls(gateway)
        for number in range(12):
            calls.start(world, asking(str(number)))
        up.wait_for_requests(12)
        gate.open()
        assert {got.status_code for got in calls.finish()} == {502}
        settled(gateway)
        assert (only(gateway, world).status, only(gateway, world).trips) == ("cooling", 1)
        assert only(gateway, world).cooling_left_s <= 60

    def test_a_sole_candidate_ignores_its_strike_cooling_and_is_not_lengthened(self, gateway, up):
        up.default(status(500))
        world = gateway.serving(up, "k-1", group=group(strikes=1))
        ask(gateway, world)
        before = only(gateway, world)
        assert before.status == "cooling"
        ask(gateway, world)
        after = only(gateway, world)
        assert (len(up.requests), after.trips) == (2, 1)
        assert after.cooling_left_s <= before.cooling_left_s
        up.default(answer("fine"))
        assert ask(gateway, world).status_code == 200
        assert only(gateway, world).status == "healthy"

    def test_at_most_two_struck_keys_are_tried_when_all_cool(self, gateway, up, clock):
        up.default(status(500))
        world = gateway.serving(up, "k-1", "k-2", "k-3", group=group(strikes=1))
        ask(gateway, world)
        clock.advance(1)
        count = len(up.requests)
        ends = [sheet.cooling_left_s for sheet in sheets(gateway, world)]
        ask(gateway, world)
        assert (count, len(up.requests)) == (3, 5)
        assert [sheet.cooling_left_s for sheet in sheets(gateway, world)] <= ends


class TestHalfOpen:
    def cooled(self, gateway, up, clock, *secrets, **options):
        world = gateway.serving(up, *secrets, **options)
        up.script(secrets[0], status(429, retry_after=5))
        ask(gateway, world)
        clock.advance(6)
        return world

    def test_one_goes_first_and_all_follow_its_success(self, gateway, up, clock):
        world = self.cooled(gateway, up, clock, "k-1")
        gate = Gate()
        up.script("k-1", answer("back", holds=((-1, gate),)))
        calls = Calls(gateway)
        for number in range(10):
            calls.start(world, asking(str(number)))
        up.wait_for_requests(2)
        wait_until(lambda: sum(call.idle for call in gateway.runtime.calls.values()) == 9)
        assert len(up.requests) == 2
        gate.open()
        assert [got.status_code for got in calls.finish()] == [200] * 10

    def test_one_goes_first_and_the_others_go_elsewhere(self, gateway, up, clock):
        world = self.cooled(gateway, up, clock, "k-1", "k-2")
        gate = Gate()
        up.script("k-1", answer("back", holds=((-1, gate),)))
        calls = Calls(gateway)
        calls.start(world)
        up.wait_for_requests(3)
        for number in range(3):
            other = gateway.post(world, asking(str(number)))
            assert outcomes(gateway.record(other)) == [("k1", "skipped: busy"), ("k2", "served")]
        gate.open()
        calls.finish()
        settled(gateway)
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "served")]

    def test_its_failure_opens_it_again_for_all(self, gateway, up, clock):
        up.default(status(500), key="k-1")
        world = gateway.serving(up, "k-1", "k-2", group=group(strikes=1))
        ask(gateway, world)
        clock.advance(61)
        ask(gateway, world)
        left = sheets(gateway, world)[0].cooling_left_s
        assert 118 < left <= 120
        assert len(up.requests_of("k-1")) == 2

    def test_the_lease_ends_with_the_first_content_of_a_stream(self, gateway, up, clock):
        world = self.cooled(gateway, up, clock, "k-1", "k-2")
        gate = Gate()
        up.script("k-1", answer("one two three four", holds=((3, gate),)))
        with gateway.streaming(world, OTHER) as got:
            parts = got.iter_raw()
            next(parts)
            again = gateway.post(world, asking("again"))
            assert outcomes(gateway.record(again)) == [("k1", "served")]
            gate.open()
            list(parts)

    def test_a_client_that_leaves_gives_the_lease_back(self, gateway, up, clock):
        world = self.cooled(gateway, up, clock, "k-1", group=group(drain_s=0.1))
        up.script("k-1", silent())
        with gateway.client(world) as client, pytest.raises(httpx.ReadTimeout):
            client.post("/v1/chat/completions", json=chat(), timeout=0.3)
        settled(gateway)
        assert not gateway.runtime.store.board.leased(gateway.runtime.now())
        assert ask(gateway, world).status_code == 200


RATES = {
    "nothing": (None, 60),
    "seconds": ("7", 7),
    "zero": ("0", 1),
    "negative": ("-5", 60),
    "a fraction": ("0.2", 1),
    "a year": ("31536000", 3600),
    "beyond numbers": ("9" * 400, 60),
    "text": ("soon", 60),
    "not a number": ("nan", 60),
    "infinite": ("inf", 60),
    "a past date": ("Wed, 21 Oct 2015 07:28:00 GMT", 1),
    "no date": ("Wed, 99 Oct 2015 07:28:00 GMT", 60),
    "several": ("30, 40", 30),
}


class TestWaitsThatUpstreamsState:
    @pytest.mark.parametrize(("stated", "expected"), RATES.values(), ids=RATES.keys())
    def test_are_clamped_or_ignored(self, gateway, up, stated, expected):
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", status(429, retry_after=stated))
        assert ask(gateway, world).status_code == 200
        cooled = sheets(gateway, world)[0]
        assert cooled.status == "cooling"
        assert expected - 3 < cooled.cooling_left_s <= expected

    def test_a_date_counts_from_the_upstreams_own_clock(self, gateway, up):
        then = datetime(2031, 1, 1, tzinfo=UTC)
        headers = (
            ("date", format_datetime(then, usegmt=True)),
            ("retry-after", format_datetime(then + timedelta(seconds=90), usegmt=True)),
        )
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", status(429, headers=headers))
        ask(gateway, world)
        assert 87 < sheets(gateway, world)[0].cooling_left_s <= 90

    def test_the_client_is_told_seconds_that_it_obeys(self, gateway, up):
        up.default(status(429, retry_after=31536000))
        got = ask(gateway, gateway.serving(up, "k-1"))
        assert (got.status_code, got.headers["retry-after"], got.headers["x-should-retry"]) == (429, "60", "false")
        assert "3600 s" in got.json()["error"]["message"]

    def test_waits_nobody_stated_double_until_a_success(self, gateway, up, clock):
        up.default(status(429))
        world = gateway.serving(up, "k-1")
        lengths = []
        for _ in range(5):
            ask(gateway, world)
            lengths.append(round(only(gateway, world).cooling_left_s))
            clock.advance(lengths[-1] + 1)
        assert lengths == [60, 120, 240, 480, 600]


class TestEchoes:
    """An upstream that repeats the prompt must not be able to poison a key."""

    ECHO = "insufficient_quota: you have no balance left, invalid api key, model_not_found"

    @pytest.mark.parametrize(
        ("behaviour", "expected"),
        [
            (
                raw(
                    f"<html><body>Bad gateway while serving: {ECHO}</body></html>", status=502, content_type="text/html"
                ),
                "server_error",
            ),
            (status(500, f'Internal error while handling "{ECHO}"'), "server_error"),
            (
                raw(
                    {
                        "error": {"message": "Internal server error", "type": "server_error"},
                        "request": {"prompt": ECHO},
                    },
                    status=500,
                ),
                "server_error",
            ),
        ],
    )
    def test_count_as_what_they_are(self, gateway, up, behaviour, expected):
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", behaviour)
        got = ask(gateway, world, asking(self.ECHO))
        assert outcomes(gateway.record(got)) == [("k1", expected), ("k2", "served")]
        assert (sheets(gateway, world)[0].status, sheets(gateway, world)[0].strikes) == ("healthy", 1)

    def test_a_served_echo_is_served(self, gateway, up):
        up.default(answer(self.ECHO))
        world = gateway.serving(up, "k-1")
        assert ask(gateway, world, asking(self.ECHO)).status_code == 200
        assert only(gateway, world).failures == 0


class TestBlastRadius:
    def accounts(self, gateway, up, *secrets, shared=2, **options):
        """A world whose first keys share an account."""
        world = gateway.serving(up, *secrets, **options)
        account = AccountFactory(tenant=world.tenant, name="shared")
        for key in world.keys[:shared]:
            key.account = account
            key.save()
        gateway.refresh()
        return world, account

    def test_an_empty_account_stops_all_its_keys_and_no_other(self, gateway, up):
        world, account = self.accounts(gateway, up, "k-1", "k-2", "k-3")
        up.default(status(402, "no credits"), key="k-1")
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "insufficient_balance"), ("k3", "served")]
        assert [sheet.reason for sheet in sheets(gateway, world)] == [
            "insufficient_balance",
            "insufficient_balance",
            "",
        ]
        assert 1790 < sheets(gateway, world)[1].cooling_left_s <= 1800
        for number in range(3):
            ask(gateway, world, asking(str(number)))
        assert up.keys() == ["k-1", "k-3", "k-3", "k-3", "k-3"]
        wait_until(lambda: Alert.objects.filter(tenant=world.tenant).count() == 1)
        assert KeyEvent.objects.filter(account=account).count() == 1

    def test_one_leased_call_per_half_hour_and_one_alert(self, gateway, up, clock):
        """reports.md 31."""
        world, _account = self.accounts(gateway, up, "k-1", "k-2", shared=1)
        up.default(status(402), key="k-1")
        for number in range(4):
            ask(gateway, world, asking(f"a{number}"))
            ask(gateway, world, asking(f"b{number}"))
            clock.advance(1801)
        assert len(up.requests_of("k-1")) == 4
        wait_until(lambda: Alert.objects.filter(tenant=world.tenant).exists())
        assert Alert.objects.filter(tenant=world.tenant).count() == 1

    def test_a_rate_is_the_keys_own(self, gateway, up):
        """reports.md 28."""
        world, _account = self.accounts(gateway, up, "k-1", "k-2", "k-3", shared=3)
        up.script("k-1", status(429, retry_after=30))
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "rate_limited"), ("k2", "served")]
        assert [sheet.status for sheet in sheets(gateway, world)] == ["cooling", "healthy", "healthy"]

    def test_a_model_that_a_key_lacks_rests_that_pair_alone(self, gateway, up, clock):
        """reports.md 30, the 404 half."""
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", status(404, "The model `gpt-4o` does not exist", error_code="model_not_found"))
        ask(gateway, world)
        assert sheets(gateway, world)[0].status == "healthy"
        assert 597 < sheets(gateway, world)[0].models["gpt-4o"]["left_s"] <= 600
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "skipped: model"), ("k2", "served")]
        assert outcomes(gateway.record(ask(gateway, world, chat(model="other")))) == [("k1", "served")]
        clock.advance(601)
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "served")]

    def test_a_refused_permission_rests_the_pair_and_strikes_once(self, gateway, up):
        """reports.md 30, the 403 half."""
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", status(403, "You may not use this model"))
        ask(gateway, world)
        first = sheets(gateway, world)[0]
        assert (first.status, first.strikes, list(first.models)) == ("healthy", 1, ["gpt-4o"])
        assert outcomes(gateway.record(ask(gateway, world, chat(model="other")))) == [("k1", "served")]

    def test_a_quota_is_parked_long_and_told_once(self, gateway, up):
        """reports.md 17."""
        quota = status(
            429, "You exceeded your current quota", error_code="insufficient_quota", error_type="insufficient_quota"
        )
        up.default(quota, key="k-1")
        world = gateway.serving(up, "k-1", "k-2")
        for number in range(20):
            assert gateway.post(world, asking(str(number))).status_code == 200
        settled(gateway)
        assert up.keys().count("k-1") == 1
        assert sheets(gateway, world)[0].cooling_left_s > 3500
        wait_until(lambda: Alert.objects.filter(tenant=world.tenant).count() == 1)
