"""The gateway as clients meet it: the real ASGI app behind uvicorn on a free loopback port.

    def test_…(gateway, up):
        up.script("k-1", status(429))
        world = gateway.serving(up, "k-1", "k-2")
        answered = gateway.post(world, {"model": "m", "messages": […]})
        assert gateway.record(answered).status == "finished"

`gateway` serves from a thread of this process on the test database, one server per test module; each test makes a
tenant of its own. Its rows are really committed and are gone when the module ends. `spawned` is a gateway process of
its own on the same database, to be signalled and killed.
"""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import httpx
import openai
import pytest
import redis
import uvicorn
import uvloop
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import setup_databases, teardown_databases
from google import genai
from google.genai import types as genai_types

from billing.models import Attempt, LedgerEntry, RequestRecord
from config import private_upstreams
from proxy import runtime
from tenants.models import ConfigVersion
from tenants.services import touch_config
from tests.environment import ROOT, variables
from tests.factories import PriceFactory, World, serving
from tests.fake_upstream import FakeUpstream
from tests.sessions import hang_up

HOST = "127.0.0.1"
READY_S = 30.0
CONFIGURED_DATABASE = str(settings.DATABASES["default"]["NAME"])  # at import; the test database replaces it later
MESSAGES: Any = [{"role": "user", "content": "hi"}]
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading them takes half a second a client
CHAT = "/v1/chat/completions"
HELLO = "Hello from the fake upstream."  # what it answers by default, for 25 and 7 tokens
PRICE: Mapping[str, Any] = {"currency": "USD", "input": "2.50", "cached_input": "1.25", "output": "10"}
CHARGE = Decimal("0.0001325")  # of the default answer at that price: (25 × 2.50 + 7 × 10) / 1,000,000


class Door:
    """A gateway's address, and clients that call it with a world's gateway key."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}"

    def openai(self, world: World, **options: Any) -> openai.OpenAI:
        options = {"api_key": world.secret, "max_retries": 0, **options}
        http = openai.DefaultHttpxClient(verify=NO_CERTIFICATES, trust_env=False)
        return openai.OpenAI(base_url=f"{self.url}/v1", http_client=http, **options)

    def anthropic(self, world: World, **options: Any) -> anthropic.Anthropic:
        options = {"api_key": world.secret, "max_retries": 0, **options}
        http = anthropic.DefaultHttpxClient(verify=NO_CERTIFICATES, trust_env=False)
        return anthropic.Anthropic(base_url=self.url, http_client=http, **options)

    def gemini(self, world: World) -> genai.Client:
        options = genai_types.HttpOptions(base_url=self.url, api_version="v1beta")
        return genai.Client(api_key=world.secret, http_options=options)

    def client(self, world: World | None = None, **options: Any) -> httpx.Client:
        """An HTTP client with the world's key; without a world it sends no credential."""
        headers = {**(world.headers if world else {}), **options.pop("headers", {})}
        options = {"verify": NO_CERTIFICATES, "trust_env": False, "timeout": 20, **options}
        return httpx.Client(base_url=self.url, headers=headers, **options)

    def get(self, world: World | None, path: str, **options: Any) -> httpx.Response:
        with self.client(world) as client:
            return client.get(path, **options)

    def post(
        self, world: World | None, body: Mapping[str, Any] | bytes | None = None, *, path: str = CHAT, **options: Any
    ) -> httpx.Response:
        """Send a body (bytes go out as they are) and read the whole answer. None = a plain chat request."""
        with self.client(world) as client:
            return client.post(path, content=encoded(body), **options)

    @contextmanager
    def streaming(self, world: World, body: Mapping[str, Any] | None = None, path: str = CHAT) -> Iterator[Any]:
        """Send a streamed chat request; what is yielded is open while the block lasts, and hung up after it."""
        content = encoded(chat(stream=True, **(body or {})))
        with self.client(world) as client, client.stream("POST", path, content=content) as got:
            yield got


class Gateway(Door):
    """The server thread. Call everything from the test's thread."""

    def __init__(self) -> None:
        self._open()

    def _open(self, port: int = 0) -> None:
        sock = socket.create_server((HOST, port))
        super().__init__(sock.getsockname()[1])
        self._server = Quiet(server_config())
        self._thread = threading.Thread(target=self._serve, args=(sock,), name="gateway")
        self._thread.start()
        wait_until(lambda: self._server.started or not self._thread.is_alive(), READY_S)
        assert self._server.started, "the gateway did not start; see its log"

    def _serve(self, sock: socket.socket) -> None:
        with sock, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._server.serve(sockets=[sock]))

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(READY_S)
        assert not self._thread.is_alive()

    def restart(self) -> None:
        """Stop gracefully and start anew on the same port: what is not stored is forgotten."""
        self.close()
        self._open(self.port)

    def start_over(self) -> None:
        """Restart on a database emptied in between: with a running gateway's reading that could deadlock."""
        self.close()
        wipe()
        self._open(self.port)

    @property
    def runtime(self) -> runtime.Runtime:
        return runtime.current()

    def refresh(self) -> None:
        """Let the gateway see the rows that the test has written, at once."""
        touch_config()
        self.runtime.keeper.refresh()

    def serving(
        self, up: FakeUpstream | str, *secrets: str, price: Mapping[str, Any] | None = PRICE, **options: Any
    ) -> World:
        """Make a tenant that serves from this upstream with these keys (see tests.factories.serving).

        All models have the one price, or none.
        """
        world = serving(up if isinstance(up, str) else up.base_url, *secrets, **options)
        if price is not None:
            PriceFactory(tenant=world.tenant, **price)
        self.refresh()
        return world

    def record(self, answered: Any) -> RequestRecord:
        """The record of an answer (or of a request id); it must be there already."""
        return RequestRecord.objects.get(request_id=request_id_of(answered))

    def only_record(self, world: World, *, timeout_s: float = 5.0) -> RequestRecord:
        """The one record of this tenant, once it is there."""
        wait_until(lambda: RequestRecord.objects.filter(tenant=world.tenant).exists(), timeout_s)
        return RequestRecord.objects.get(tenant=world.tenant)

    def is_idle(self) -> bool:
        """Whether no call is in flight and no slot is held."""
        return not self.runtime.calls


class Quiet(uvicorn.Server):
    """Leaves the signals to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_config() -> uvicorn.Config:
    return uvicorn.Config(
        "config.asgi:application", lifespan="on", http="httptools", ws="none", log_config=None, access_log=False,
        server_header=False, timeout_graceful_shutdown=2,
    )  # fmt: skip


@pytest.fixture(scope="session")
def committed_database(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A test database without a transaction around the test. pytest-django makes one only for tests with its mark."""
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False) if is_configured_database() else None
    yield
    if made is not None:
        with django_db_blocker.unblock():
            hang_up()
            teardown_databases(made, verbosity=0)


@pytest.fixture(scope="module")
def gateway(committed_database: None, django_db_blocker: Any) -> Iterator[Gateway]:
    """See the module."""
    allowed = private_upstreams.parse("127.0.0.1")
    with django_db_blocker.unblock(), override_settings(POINTSMAN_ALLOW_PRIVATE_UPSTREAMS=allowed):
        served = Gateway()
        try:
            yield served
        finally:
            served.close()
            wipe()


@pytest.fixture(scope="module")
def clean_database(committed_database: None, django_db_blocker: Any) -> Iterator[None]:
    """For tests whose gateways are processes of their own: rows are committed, and gone when the module ends."""
    with django_db_blocker.unblock():
        yield
        wipe()


@pytest.fixture
def up() -> Iterator[FakeUpstream]:
    """A scripted upstream of the test's own."""
    with FakeUpstream() as server:
        yield server


def is_configured_database() -> bool:
    """Whether no test database stands in place of the configured one yet."""
    return str(connection.settings_dict["NAME"]) == CONFIGURED_DATABASE


def wipe() -> None:
    """Empty every table of the test database, and the shared state of keys whose ids will be given out anew.

    No gateway may run meanwhile: it waits for whole tables, in another order than the gateway's reading does.
    """
    call_command("flush", verbosity=0, interactive=False)
    if settings.REDIS_URL:
        with redis.Redis.from_url(settings.REDIS_URL) as client:
            client.flushdb()
    ConfigVersion.objects.get_or_create(pk=1)
    connections.close_all()


def chat(**fields: Any) -> dict[str, Any]:
    """A chat request."""
    return {"model": "gpt-4o", "messages": MESSAGES, **fields}


def encoded(body: Mapping[str, Any] | bytes | None) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()


def request_id_of(answered: Any) -> str:
    if isinstance(answered, str):
        return answered
    headers = getattr(answered, "headers", None) or answered.response.headers  # an SDK's exception has a response
    return str(headers["x-request-id"])


def attempts(record: RequestRecord) -> list[Attempt]:
    return list(record.attempts.order_by("n"))


def outcomes(record: RequestRecord) -> list[tuple[str, str]]:
    """(key, outcome or why it was skipped) of each attempt, in order."""
    return [(a.upstream_key.split(" ")[0], a.outcome or f"skipped: {a.skipped}") for a in attempts(record)]


def ledger(record: RequestRecord) -> list[tuple[str, Any]]:
    """(kind, amount) of each booking."""
    return list(LedgerEntry.objects.filter(record=record).order_by("kind", "pk").values_list("kind", "amount"))


def wait_until(holds: Callable[[], Any], timeout_s: float = 5.0, what: str = "") -> Any:
    """Poll until something true is returned, and return it; AssertionError when it is not in time."""
    deadline = time.monotonic() + timeout_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what or holds}"
        time.sleep(0.01)
    return found


# A process of its own.


class Spawned(Door):
    """`python -m config.serve` on the test database. `process` may be signalled and killed."""

    def __init__(self, folder: Path, **env: str) -> None:
        with socket.create_server((HOST, 0), backlog=512) as sock:
            super().__init__(sock.getsockname()[1])
            self.log = folder / "log"
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "config.serve", "--fd", str(sock.fileno())],
                    cwd=ROOT, env=spawn_environment(folder, **env), pass_fds=[sock.fileno()], stdout=log, stderr=log,
                )  # fmt: skip
        wait_until(self._answers, READY_S, "the gateway answers")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.get(None, "/readyz").text == "ok\n"
        except httpx.TransportError:
            return False

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(READY_S)


@contextmanager
def spawned(folder: Path, **env: str) -> Iterator[Spawned]:
    """Run a gateway process with this data folder while the block lasts."""
    served = Spawned(folder, **env)
    try:
        yield served
    finally:
        served.end()


def spawn_environment(folder: Path, **env: str) -> dict[str, str]:
    ours = {
        "DATABASE_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        "SECRET_KEY": settings.SECRET_KEY,
        "POINTSMAN_ENCRYPTION_KEYS": ",".join(settings.POINTSMAN_ENCRYPTION_KEYS),
        "POINTSMAN_DATA": str(folder),
        "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS": HOST,
        **env,
    }
    return {**os.environ, **dict.fromkeys(variables(), ""), **ours}


def database_url() -> str:
    """The test database as a DATABASE_URL."""
    found = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{found['NAME']}"
    login = f"{quote(found['USER'])}:{quote(found['PASSWORD'])}"
    return f"postgres://{login}@{found['HOST']}:{found['PORT']}/{found['NAME']}"
