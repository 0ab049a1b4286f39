"""The gateway as a process: health, SIGTERM, kill -9 under load, a database that goes away."""

import random
import signal
import threading
import time

import httpx
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from billing.models import LedgerEntry, RequestRecord
from keys.overview import overview
from tenants.services import touch_config
from tests.factories import PriceFactory, serving
from tests.fake_upstream import Gate, answer, status, stream
from tests.gateway import CHARGE, CHAT, PRICE, Spawned, chat, outcomes, request_id_of, spawned, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def world(up):
    made = serving(up.base_url, "k-1", "k-2")
    PriceFactory(tenant=made.tenant, **PRICE)
    return made


class TestSigterm:
    def test_a_running_stream_is_finished(self, tmp_path, up, world):
        gate = Gate()
        up.script("k-1", answer(), stream(["a", "b", "c"]).but(holds=((2, gate),)))
        with spawned(tmp_path) as gateway:
            assert [gateway.get(None, path).text for path in ("/healthz", "/readyz")] == ["ok\n", "ok\n"]
            with gateway.client() as client:
                assert client.head("/api/hello").status_code == 200
            assert gateway.post(world).status_code == 200
            with gateway.streaming(world) as got:
                parts = got.iter_raw()
                seen = next(parts)
                gateway.process.send_signal(signal.SIGTERM)
                wait_until(lambda: refuses(gateway), 5, "no new connection is accepted")
                gate.open()
                seen += b"".join(parts)
            assert seen.endswith(b"data: [DONE]\n\n")
            assert gateway.process.wait(10) == 0
        assert RequestRecord.objects.get(request_id=request_id_of(got)).status == "finished"

    def test_what_clients_left_behind_is_still_recorded(self, tmp_path, up, world):
        gate = Gate()
        up.script("k-1", stream(["a", "b", "c"]).but(holds=((2, gate),)))
        with spawned(tmp_path) as gateway:
            with gateway.streaming(world) as got:
                next(got.iter_raw())
            time.sleep(0.2)
            gateway.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            gate.open()
            assert gateway.process.wait(10) == 0
        record = RequestRecord.objects.get(request_id=request_id_of(got))
        assert (record.status, record.usage_source, record.charge) == ("cancelled", "upstream", CHARGE)

    def test_an_idle_process_ends_at_once(self, tmp_path, world):
        with spawned(tmp_path) as gateway, gateway.client(world) as client:
            client.post(CHAT, json=chat())  # the connection stays open
            if not settings.REDIS_URL:  # embedded: one process alone
                with pytest.raises(AssertionError, match="Another web process uses"):
                    Spawned(tmp_path)
            began = time.monotonic()
            gateway.process.send_signal(signal.SIGTERM)
            assert gateway.process.wait(10) == 0
            assert time.monotonic() - began < 5


def refuses(gateway):
    try:
        gateway.get(None, "/healthz")
    except httpx.TransportError:
        return True
    return False


class Load:
    """Clients that call as fast as they can until told to stop; `whole` are the ids of answers read to the end."""

    def __init__(self, gateway: Spawned, world, clients: int) -> None:
        self.whole: list[str] = []
        self.over = threading.Event()
        self.gateway, self.world = gateway, world
        self.threads = [threading.Thread(target=self.call, args=(n,)) for n in range(clients)]
        for thread in self.threads:
            thread.start()

    def call(self, number: int) -> None:
        body = chat(stream=number % 2 == 0)
        end = b"data: [DONE]\n\n" if body["stream"] else b"}"
        with self.gateway.client(self.world) as client:
            while not self.over.is_set():
                try:
                    got = client.post(CHAT, json=body)
                except httpx.TransportError:
                    return
                if got.status_code == 200 and got.content.endswith(end):
                    self.whole.append(request_id_of(got))

    def stop(self) -> list[str]:
        self.over.set()
        for thread in self.threads:
            thread.join()
        return self.whole


def killed_under_load(folder, world, after_s):
    with spawned(folder) as gateway:
        load = Load(gateway, world, clients=6)
        wait_until(lambda: len(load.whole) >= 6, 10)
        time.sleep(after_s)
        gateway.process.kill()
        gateway.process.wait(10)
        return load.stop()


def assert_each_has_one_record(world, whole):
    records = RequestRecord.objects.filter(tenant=world.tenant)
    ids = list(records.values_list("request_id", flat=True))
    assert len(ids) == len(set(ids))
    assert [one for one in whole if one not in set(ids)] == []
    charged = list(LedgerEntry.objects.filter(record__in=records, kind="charge").values_list("record_id", flat=True))
    assert len(charged) == len(set(charged)) == records.filter(charge__gt=0).count()


def test_no_whole_answer_is_without_its_record_after_a_kill(tmp_path, up, world):
    up.default(answer().but(first_delay_s=0.005))
    whole = killed_under_load(tmp_path, world, 0.3)
    assert len(whole) > 20
    assert_each_has_one_record(world, whole)


@pytest.mark.scale
def test_nor_after_many_kills_at_random_moments(tmp_path, up, world):
    up.default(answer().but(first_delay_s=0.005))
    chance = random.Random(4)
    whole = [one for _ in range(8) for one in killed_under_load(tmp_path, world, chance.random())]
    assert_each_has_one_record(world, whole)


def test_what_a_killed_process_knew(tmp_path, up, world):
    """Key states are there at once; what it spooled while the database took no records is written by the next one."""
    table = RequestRecord._meta.db_table
    up.script("k-1", status(401))
    with spawned(tmp_path) as gateway:
        assert gateway.post(world).status_code == 200
        wait_until(lambda: is_dead(world, "k1"), 1, "the death is stored")
        rename(table, "away")
        try:
            answers = [gateway.post(world) for _ in range(3)]
        finally:
            gateway.process.kill()
            gateway.process.wait(10)
            rename("away", table)
    assert [got.status_code for got in answers] == [200] * 3
    assert RequestRecord.objects.filter(tenant=world.tenant).count() == 1
    with spawned(tmp_path) as gateway:
        answers.append(gateway.post(world))
        wait_until(lambda: RequestRecord.objects.filter(tenant=world.tenant).count() == 5, 5)
    assert_each_has_one_record(world, [request_id_of(got) for got in answers])
    for got in answers:
        record = RequestRecord.objects.get(request_id=request_id_of(got))
        assert outcomes(record) == [("k1", "skipped: dead"), ("k2", "served")]
    assert up.keys() == ["k-1", *["k-2"] * 5]


def is_dead(world, key):
    rows = {row["key"]: row["status"] for row in overview(now=timezone.now(), tenants=[world.tenant])}
    return rows[key] == "dead"


def rename(old, new):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")


@pytest.mark.skipif(not settings.REDIS_URL, reason="needs a shared state store")
def test_two_processes_share_one_truth(tmp_path, up, world):
    """A death at one is known to the other; a revoked key is refused by both within two seconds (report 55)."""
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    up.script("k-1", status(401))
    with spawned(folders[0]) as first, spawned(folders[1]) as second:
        assert first.post(world).status_code == 200
        wait_until(lambda: skipped_dead(second, world), 2, "the other process knows")
        assert up.keys().count("k-1") <= 2
        world.gateway_key.delete()
        touch_config()
        wait_until(lambda: [g.post(world).status_code for g in (first, second)] == [401, 401], 2)


def skipped_dead(gateway, world):
    record = RequestRecord.objects.get(request_id=request_id_of(gateway.post(world)))
    return outcomes(record)[0] == ("k1", "skipped: dead")
