"""Probes and balance reads as they really run: queued by their names, done by a worker, obeyed by the web process."""

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import Celery
from django.conf import settings

from config.celery import PERIODIC
from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import loaded
from tests.config.test_up import environment, running
from tests.environment import ROOT
from tests.fake_upstream import FakeUpstream, raw, status
from tests.gateway import NO_CERTIFICATES, wait_until

LINE_KEY = "sk-pm-" + "w" * 40
SOON_S = 60.0
ALLOW = {"POINTSMAN_ALLOW_PRIVATE_UPSTREAMS": "127.0.0.1"}

FILE = """
version: 1
tenants:
  - slug: acme
    name: Acme
    accounts:
      - {{name: prepaid, balance_url: "{url}/balance"}}
    upstreams:
      - {{name: struck, base_url: "{url}/v1", keys: [{{name: k, secret: k-struck-1, policy: {policy}}}]}}
      - {{name: broke, base_url: "{url}/v1", keys: [{{name: k, secret: k-broke-1, account: prepaid}}]}}
      - {{name: gone, base_url: "{url}/v1", keys: [{{name: k, secret: k-gone-1}}]}}
    groups:
      - name: main
        members: [{{upstream: struck}}, {{upstream: broke}}, {{upstream: gone}}]
    routes:
      - {{name: default, default: true, rules: [{{name: all, then: {{group: main}}}}]}}
    lines:
      - {{slug: bot, name: Bot, keys: [{{name: prod, secret: {key}}}]}}
"""


KEY_OF = """
select k.id, k.account_id from keys_upstreamkey k join keys_upstream u on u.id = k.upstream_id where u.name = ?
"""


class Installation:
    """What stands beside a running `manage.py up`: its queue, and the key states that it has stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.queue = Celery("beside", broker="filesystem://localhost//")
        self.queue.conf.task_default_queue = settings.CELERY_TASK_DEFAULT_QUEUE
        self.queue.conf.broker_transport_options = {
            "data_folder_in": str(folder / "queue" / "messages"),
            "data_folder_out": str(folder / "queue" / "messages"),
            "control_folder": str(folder / "queue" / "control"),
        }

    def apply(self, text: str) -> None:
        (self.folder / "acme.yaml").write_text(text)
        subprocess.run(
            [sys.executable, "manage.py", "apply", str(self.folder / "acme.yaml")],
            cwd=ROOT, env=environment(self.folder, **ALLOW), check=True, capture_output=True,
        )  # fmt: skip

    def nudge(self, name: str, due: str) -> None:
        """Queue a periodic task by its name, as beat does, with all its rows due."""
        self.sql(due)
        self.queue.send_task(PERIODIC[name]["task"])

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "pointsman.sqlite3", timeout=20)) as database, database:
            return database.execute(statement, values).fetchall()

    def state(self, upstream: str) -> KeyState:
        """Read how the upstream's only key stands, or its account."""
        ((key, account),) = self.sql(KEY_OF, upstream)
        target = f"key:{key}" if account is None else f"account:{account}"
        stored = self.sql("select data from keys_storedstate where target = ?", target)
        return loaded(json.loads(stored[0][0])["state"]).state if stored else KeyState()

    def becomes(self, upstream: str, **wanted: object) -> KeyState:
        """Wait until a key's state has these values."""
        ends = time.monotonic() + SOON_S
        while True:
            state = self.state(upstream)
            if all(getattr(state, name) == value for name, value in wanted.items()):
                return state
            assert time.monotonic() < ends, state
            time.sleep(0.2)


@pytest.fixture
def fake():
    with FakeUpstream() as up:
        up.default(status(500), key="k-struck-1")
        up.default(status(402), key="k-broke-1")
        up.default(raw({"balance": "0.00", "currency": "USD"}), path="/balance")
        yield up


@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_beats_tasks_reach_the_key_states_through_worker_and_web(tmp_path, fake):
    with running(tmp_path, **ALLOW) as up:
        url = up.lines_until("Gateway: ")[-1].removeprefix("Gateway: ")
        here = Installation(tmp_path)
        here.apply(FILE.format(url=fake.url, key=LINE_KEY, policy="{strikes: 1, cool_strike_s: 600}"))
        served = wait_until(lambda: None if (got := ask(url)).status_code == 401 else got, SOON_S, "the key is known")
        assert (served.status_code, served.headers["x-pointsman-attempts"]) == (200, "3")
        struck, broke = (here.becomes(name, status=Status.COOLING) for name in ("struck", "broke"))
        assert (struck.by_strikes, broke.cause) == (True, Cause.INSUFFICIENT_BALANCE)

        fake.default(status(401), path="*/models", key="k-gone-1")
        asked = len(fake.requests)
        here.nudge("probe-keys", "update keys_upstreamkey set probe_due = null")
        early = here.becomes("struck", status=Status.HEALTHY)
        assert struck.until - early.until > timedelta(minutes=5)  # half open, long before its time
        here.becomes("gone", status=Status.DEAD, cause=Cause.AUTH_INVALID)
        assert here.state("broke") == broke  # a broke key lists its models, too
        listed = {seen.key for seen in fake.requests[asked:] if seen.path.endswith("/models")}
        assert listed == {"k-struck-1", "k-broke-1", "k-gone-1"}

        fake.default(raw({"balance": "25.00", "currency": "USD"}), path="/balance")
        here.nudge("read-balances", "update keys_balancewatch set due = null")
        assert here.becomes("broke", status=Status.HEALTHY).until is None
        assert {seen.key for seen in fake.requests if seen.path == "/balance"} == {"k-broke-1"}
        closed = "select closed is not null from tenants_alert where kind = 'no_balance'"
        wait_until(lambda: here.sql(closed) == [(1,)], SOON_S, "one alert, which is over")

        fake.default(raw(ANSWER), key="k-struck-1")
        assert ask(url).headers["x-pointsman-attempts"] == "1"
        assert here.becomes("struck", until=None).trips == 0  # the call that held the lease closed it


ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def ask(url: str) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with httpx.Client(verify=NO_CERTIFICATES, trust_env=False, timeout=30) as client:
        return client.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {LINE_KEY}"})
