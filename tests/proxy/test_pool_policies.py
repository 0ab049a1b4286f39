"""Presets and policy fields: whether they do what they say."""

import time

import pytest

from keys.core.state import Status
from tests.factories import UpstreamFactory, UpstreamKeyFactory
from tests.fake_upstream import Ending, answer, silent, status
from tests.gateway import chat, outcomes
from tests.proxy.pool import ask, asking, clock_of, sheets


@pytest.fixture
def clock(gateway):
    with clock_of(gateway) as made:
        yield made


def group(**policy):
    return {"policy": policy}


class TestKeypool:
    """429 → 60 s fixed; 3 × 5xx → 300 s; 402 → dead; timeouts count but never cool; 2 attempts."""

    POLICY = group(preset="keypool")

    @pytest.mark.parametrize("stated", [None, "5", "900"])
    def test_a_rate_limit_rests_60_seconds_whatever_is_stated(self, gateway, up, clock, stated):
        world = gateway.serving(up, "k-1", group=self.POLICY)
        for _ in range(3):
            up.script("k-1", status(429, retry_after=stated))
            ask(gateway, world)
            assert round(sheets(gateway, world)[0].cooling_left_s) == 60
            clock.advance(61)

    def test_three_server_errors_rest_300_seconds_each_time(self, gateway, up, clock):
        up.default(status(500))
        world = gateway.serving(up, "k-1", group=self.POLICY)
        for _ in range(3):
            ask(gateway, world)
        lengths = []
        for _ in range(3):
            lengths.append(round(sheets(gateway, world)[0].cooling_left_s))
            clock.advance(301)
            ask(gateway, world)
        assert lengths == [300, 300, 300]

    def test_an_empty_balance_is_a_death(self, gateway, up, clock):
        world = gateway.serving(up, "k-1", "k-2", group=self.POLICY)
        up.script("k-1", status(402))
        ask(gateway, world)
        clock.advance(86400)
        assert sheets(gateway, world)[0].status == Status.DEAD
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "skipped: dead"), ("k2", "served")]

    def test_timeouts_count_and_never_cool(self, gateway, up):
        up.default(silent(), key="k-1")
        world = gateway.serving(up, "k-1", "k-2", group=group(preset="keypool", silence_s=0.1))
        for number in range(4):
            got = ask(gateway, world, asking(str(number)))
            assert outcomes(gateway.record(got)) == [("k1", "timeout"), ("k2", "served")]
        first = sheets(gateway, world)[0]
        assert (first.status, first.strikes, first.failures) == ("healthy", 0, 4)

    def test_two_attempts(self, gateway, up):
        up.default(status(500))
        ask(gateway, gateway.serving(up, "k-1", "k-2", "k-3", group=self.POLICY))
        assert up.keys() == ["k-1", "k-2"]


class TestRelay:
    def test_the_third_strike_rests_60_seconds(self, gateway, up):
        up.default(status(503))
        world = gateway.serving(up, "k-1", group=group(preset="relay"))
        for _ in range(3):
            ask(gateway, world)
        assert round(sheets(gateway, world)[0].cooling_left_s) == 60

    def test_everything_is_bounded_by_15_seconds(self, gateway, up):
        """Each bound is the preset's; a smaller one beside it counts."""
        up.default(silent())
        world = gateway.serving(up, "k-1", "k-2", group=group(preset="relay"))
        policy = gateway.runtime.keeper.table.groups[world.group.pk].policy
        assert (policy.silence_s, policy.slot_wait_s, policy.hold_s) == (15, 15, 15)
        assert [policy.deadline_s(stream=stream) for stream in (False, True)] == [15, 15]
        assert policy.connect_s <= 15


class TestStrict:
    """401, 403 and 400 never switch; the key stays as it is."""

    POLICY = group(preset="strict", strikes=1)

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("code", [401, 403])
    def test_refused_credentials_end_the_request(self, gateway, up, code, stream):
        up.default(status(code, "no"))
        world = gateway.serving(up, "k-1", "k-2", group=self.POLICY)
        got = ask(gateway, world, chat(stream=stream))
        assert (got.status_code, got.json()["error"]["code"]) == (502, "upstream_credentials")
        assert got.headers["x-should-retry"] == "false"
        assert up.keys() == ["k-1"]
        first = sheets(gateway, world)[0]
        assert (first.status, first.strikes, dict(first.models), first.failures) == ("healthy", 0, {}, 1)

    def test_a_bad_request_ends_it_as_always(self, gateway, up):
        up.default(status(400))
        got = ask(gateway, gateway.serving(up, "k-1", "k-2", group=self.POLICY))
        assert (got.status_code, up.keys()) == (400, ["k-1"])

    def test_other_failures_still_switch(self, gateway, up):
        up.script("k-1", status(500))
        assert ask(gateway, gateway.serving(up, "k-1", "k-2", group=self.POLICY)).status_code == 200


class TestFields:
    def test_on_auth_strike(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", group=group(on_auth="strike", strikes=2))
        up.default(status(401), key="k-1")
        ask(gateway, world, asking("one"))
        assert (sheets(gateway, world)[0].status, sheets(gateway, world)[0].strikes) == ("healthy", 1)
        ask(gateway, world, asking("two"))
        assert sheets(gateway, world)[0].status == "cooling"

    def test_on_auth_stop_of_one_key_alone(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2")
        world.keys[1].policy = {"on_auth": "stop"}
        world.keys[1].save()
        gateway.refresh()
        up.default(status(401))
        got = ask(gateway, world)
        assert (got.status_code, up.keys()) == (502, ["k-1", "k-2"])
        assert [sheet.status for sheet in sheets(gateway, world)] == ["dead", "healthy"]

    def test_on_permission_dead(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", group=group(on_permission="dead"))
        up.script("k-1", status(403, "not for you"))
        ask(gateway, world)
        assert sheets(gateway, world)[0].status == Status.DEAD

    def test_what_upstreams_ask_for_may_be_ignored(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", group=group(obey_retry_after=False, cool_429_s=20))
        up.script("k-1", status(429, retry_after=500))
        ask(gateway, world)
        assert round(sheets(gateway, world)[0].cooling_left_s) == 20

    def test_a_keys_own_policy_goes_over_its_groups(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", group=group(cool_429_s=20))
        world.keys[0].policy = {"cool_429_s": 7}
        world.keys[0].save()
        gateway.refresh()
        up.default(status(429))
        ask(gateway, world)
        assert [round(sheet.cooling_left_s) for sheet in sheets(gateway, world)] == [7, 20]

    def test_a_keys_preset_replaces_its_groups_numbers(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", group=group(preset="keypool"))
        world.keys[0].policy = {"preset": "standard"}
        world.keys[0].save()
        gateway.refresh()
        up.default(status(429, retry_after=9))
        ask(gateway, world)
        assert [round(sheet.cooling_left_s) for sheet in sheets(gateway, world)] == [9, 60]

    def test_a_fifth_attempt_is_kept_for_the_last_resort(self, gateway, up):
        world = gateway.serving(up, *(f"k-{n}" for n in range(1, 8)))
        last = UpstreamFactory(tenant=world.tenant, name="last", base_url=up.base_url)
        UpstreamKeyFactory(upstream=last, name="k9", secret="k-9")
        world.group.last_resort = last
        world.group.save()
        gateway.refresh()
        up.default(status(500))
        up.default(answer("the last"), key="k-9")
        got = ask(gateway, world)
        assert (got.status_code, up.keys()) == (200, ["k-1", "k-2", "k-3", "k-4", "k-9"])
        up.requests.clear()
        up.default(answer("fine"))
        ask(gateway, world, asking("other"))
        assert up.keys() == ["k-1"]

    def test_no_pause_follows_the_last_attempt(self, gateway, up, monkeypatch):
        monkeypatch.setattr("proxy.failover._JITTER_S", (1.0, 1.0))
        up.default(status(500))
        world = gateway.serving(up, "k-1", "k-2", "k-3", one_upstream=True, group=group(max_attempts=1))
        began = time.monotonic()
        assert ask(gateway, world).status_code == 502
        assert time.monotonic() - began < 0.9

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("hold", ["first_content", "full"])
    def test_one_silence_covers_head_and_content(self, gateway, up, stream, hold):
        """Also where the whole answer is held back: its 120 s are for what comes behind the first content."""
        slow = answer("late", head_delay_s=0.45, first_delay_s=0.45)
        up.script("k-1", slow)
        world = gateway.serving(up, "k-1", "k-2", group={"policy": {"silence_s": 0.6}, "stream_hold": hold})
        got = ask(gateway, world, chat(stream=stream))
        assert outcomes(gateway.record(got)) == [("k1", "timeout"), ("k2", "served")]

    def test_silence_in_the_middle_of_a_held_answer_moves_on(self, gateway, up):
        up.script("k-1", answer("one two three", stop_events=3, ending=Ending.STALL))
        world = gateway.serving(up, "k-1", "k-2", group={"policy": {"silence_s": 0.4}, "stream_hold": "full"})
        began = time.monotonic()
        got = ask(gateway, world, chat(stream=True))
        assert time.monotonic() - began < 5
        assert outcomes(gateway.record(got)) == [("k1", "timeout"), ("k2", "served")]
        assert b"one" not in got.content
