"""What people, restarts and changed configuration do to keys and to what is under way with them."""

import pytest

from keys import services
from keys.core.state import Status
from keys.models import UpstreamKey
from tests.factories import AccountFactory
from tests.fake_upstream import Gate, answer, status
from tests.gateway import outcomes, wait_until
from tests.proxy.pool import OTHER, Calls, ask, asking, clock_of, settled, sheets


@pytest.fixture
def clock(gateway):
    with clock_of(gateway) as made:
        yield made


class TestPeopleAndTime:
    def dead(self, gateway, up, *secrets, **options):
        world = gateway.serving(up, *secrets, **options)
        up.script(secrets[0], status(401))
        ask(gateway, world)
        assert sheets(gateway, world)[0].status == Status.DEAD
        return world

    def test_a_late_success_or_limit_does_not_revive(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2")
        served, limited = Gate(), Gate()
        up.script("k-1", answer("late", holds=((-1, served),)))
        up.script("k-1", status(429, holds=((-1, limited),)))
        up.script("k-1", status(401))
        calls = Calls(gateway)
        calls.start(world, asking("one"))
        up.wait_for_requests(1)
        calls.start(world, asking("two"))
        up.wait_for_requests(2)
        gateway.post(world, asking("three"))
        wait_until(lambda: sheets(gateway, world)[0].status == Status.DEAD)
        served.open()
        limited.open()
        assert [got.status_code for got in calls.finish()] == [200, 200]
        settled(gateway)
        assert (sheets(gateway, world)[0].status, sheets(gateway, world)[0].calls) == (Status.DEAD, 3)

    def test_a_revival_during_flight_is_not_undone_by_what_was_under_way(self, gateway, up):
        world = self.dead(gateway, up, "k-1", "k-2")
        services.revive(key=UpstreamKey.objects.get(pk=world.keys[0].pk))
        gateway.refresh()
        wait_until(lambda: sheets(gateway, world)[0].status == Status.HEALTHY)
        gate = Gate()
        up.script("k-1", status(401, holds=((-1, gate),)))
        calls = Calls(gateway)
        calls.start(world)
        up.wait_for_requests(3)
        services.revive(key=UpstreamKey.objects.get(pk=world.keys[0].pk))
        wait_until(lambda: sheets(gateway, world)[0].epoch == UpstreamKey.objects.get(pk=world.keys[0].pk).epoch)
        gate.open()
        calls.finish()
        settled(gateway)
        assert sheets(gateway, world)[0].status == Status.HEALTHY

    def test_an_edited_secret_is_fresh_at_once(self, gateway, up):
        world = self.dead(gateway, up, "k-1", "k-2")
        row = UpstreamKey.objects.get(pk=world.keys[0].pk)
        services.save_key(key=row, secret="k-new")
        gateway.refresh()
        assert outcomes(gateway.record(ask(gateway, world, OTHER))) == [("k1", "served")]
        assert up.keys()[-1] == "k-new"
        wait_until(lambda: sheets(gateway, world)[0].epoch == row.epoch)
        assert sheets(gateway, world)[0].status == Status.HEALTHY

    def test_an_edited_secret_shows_as_fresh_before_any_call(self, gateway, up):
        world = self.dead(gateway, up, "k-1", "k-2")
        services.save_key(key=UpstreamKey.objects.get(pk=world.keys[0].pk), secret="k-new2")
        wait_until(lambda: sheets(gateway, world)[0].status == Status.HEALTHY)

    def test_reviving_a_key_brings_its_account_back(self, gateway, up):
        world = gateway.serving(up, "k-1", group={"policy": {"preset": "keypool"}})
        account = AccountFactory(tenant=world.tenant, name="one")
        UpstreamKey.objects.filter(pk=world.keys[0].pk).update(account=account)
        world.keys[0].account_id = account.pk
        gateway.refresh()
        up.script("k-1", status(402))
        ask(gateway, world)
        assert sheets(gateway, world)[0].status == Status.DEAD
        services.revive(key=UpstreamKey.objects.get(pk=world.keys[0].pk))
        wait_until(lambda: sheets(gateway, world)[0].status == Status.HEALTHY)
        gateway.refresh()
        assert ask(gateway, world).status_code == 200

    def test_states_survive_a_restart(self, gateway, up):
        world = gateway.serving(up, "k-1", "k-2", "k-3", group={"policy": {"strikes": 1}})
        up.script("k-1", status(401))
        up.script("k-2", status(500))
        ask(gateway, world)
        before = sheets(gateway, world)
        gateway.restart()
        after = sheets(gateway, world)
        assert [sheet.status for sheet in after] == ["dead", "cooling", "healthy"]
        assert 0 <= before[1].cooling_left_s - after[1].cooling_left_s < 20
        assert [(sheet.trips, sheet.strikes) for sheet in after] == [(sheet.trips, sheet.strikes) for sheet in before]
        assert outcomes(gateway.record(ask(gateway, world)))[-1] == ("k3", "served")

    def test_a_clock_that_steps_moves_a_cooling_by_the_step_and_no_more(self, gateway, up, clock):
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", status(429, retry_after=600))
        ask(gateway, world)
        clock.advance(-3600)
        assert 4190 < sheets(gateway, world)[0].cooling_left_s <= 4200
        clock.advance(3600 + 599)
        assert outcomes(gateway.record(ask(gateway, world)))[0] == ("k1", "skipped: cooling")
        clock.advance(2)
        assert outcomes(gateway.record(ask(gateway, world))) == [("k1", "served")]


class TestConfigurationChangesDuringAStream:
    @pytest.mark.parametrize("change", ["key deleted", "upstream switched off", "member removed", "secret edited"])
    def test_the_stream_goes_on_and_is_recorded(self, gateway, up, change):
        gate = Gate()
        up.default(answer("one two three four", holds=((3, gate),)))
        world = gateway.serving(up, "k-1")
        with gateway.streaming(world) as got:
            parts = got.iter_raw()
            first = next(parts)
            self.do(change, world)
            gateway.refresh()
            gate.open()
            rest = b"".join(parts)
        assert (first + rest).endswith(b"data: [DONE]\n\n")
        settled(gateway)
        record = gateway.only_record(world)
        assert (record.status, outcomes(record)) == ("finished", [("k1", "served")])
        assert record.charge > 0
        later = gateway.post(world, OTHER)
        assert later.status_code == (200 if change == "secret edited" else 503)

    def do(self, change, world):
        row = UpstreamKey.objects.get(pk=world.keys[0].pk)
        match change:
            case "key deleted":
                row.delete()
            case "upstream switched off":
                world.upstreams[0].enabled = False
                world.upstreams[0].save()
            case "member removed":
                world.group.members.all().delete()
            case "secret edited":
                services.save_key(key=row, secret="k-other")
