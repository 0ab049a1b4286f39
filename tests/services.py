"""Throw-away PostgreSQL and Redis on free loopback ports, for a whole run or for one test that breaks them."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis as redis_client

from config.supervise import die_with_parent

READY_S = 30.0
PACKAGES = {"postgresql": "initdb", "redis-server": "redis-server", "chromium": "chromium"}


@dataclass(slots=True)
class Service:
    """A server process. `stop_signal` must end it quickly and cleanly; start() works again after stop() or kill()."""

    name: str
    url: str
    argv: Sequence[str]
    folder: Path
    stop_signal: signal.Signals
    is_ready: Callable[[], bool]
    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it answers. Raises RuntimeError with the end of its log."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                cwd=self.folder,
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C is for pytest
                preexec_fn=die_with_parent(signal.SIGQUIT),  # noqa: PLW1509  # before any thread
            )
        (self.folder / "pid").write_text(str(self.process.pid))
        deadline = time.monotonic() + READY_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._end(self.stop_signal)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=READY_S)
            self.process = None


@contextmanager
def postgres(folder: Path) -> Iterator[Service]:
    """Run a fresh cluster under `folder`, which its user must be able to enter; url names a database to be made."""
    home = folder / "postgres"
    home.mkdir()
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    password, port = secrets.token_hex(16), free_port()
    password_file = home / "password"
    password_file.write_text(password)
    if user:
        for path in (home, password_file):
            shutil.chown(path, user)
    bin_dir = postgres_bin()
    assert bin_dir is not None
    options = ["-A", "scram-sha-256", "-U", "pointsman", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(
        [bin_dir / "initdb", "-D", home / "cluster", f"--pwfile={password_file}", *options],
        cwd=home, user=user, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    server = f"postgres://pointsman:{password}@127.0.0.1:{port}"
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}
    service = Service(
        name="PostgreSQL",
        url=f"{server}/pointsman",
        argv=[
            str(bin_dir / "postgres"), "-D", str(home / "cluster"), "-k", str(home), "-h", "127.0.0.1", "-p", str(port),
            *(f"--{name}={value}" for name, value in settings.items()),
        ],
        folder=home,
        stop_signal=signal.SIGINT,
        is_ready=lambda: _answers_sql(f"{server}/postgres"),
        user=user,
    )  # fmt: skip
    yield from _running(service)


@contextmanager
def redis(folder: Path) -> Iterator[Service]:
    """Run a Redis that saves nothing."""
    home = folder / "redis"
    home.mkdir()
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    service = Service(
        name="Redis",
        url=url,
        argv=["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"],
        folder=home,
        stop_signal=signal.SIGTERM,
        is_ready=lambda: _answers_ping(url),
    )
    yield from _running(service)


def _running(service: Service) -> Iterator[Service]:
    service.start()
    try:
        yield service
    finally:
        service.stop()


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def postgres_bin() -> Path | None:
    """Return the folder of the newest installed server's programs; Debian keeps them off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def install_missing() -> str:
    """Install Debian's packages where one is missing and root may; return what a person has to do, else nothing."""
    missing = _missing()
    if not missing:
        return ""
    by_hand = f"apt-get install --no-install-recommends {' '.join(missing)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"The tests need {', '.join(missing)}; as root: {by_hand}"
    env = {**os.environ, "RUNLEVEL": "1", "DEBIAN_FRONTEND": "noninteractive"}  # 1: no system service is started
    apt = ["apt-get", "-qq", "-y"]
    subprocess.run([*apt, "update"], env=env, check=False)
    subprocess.run([*apt, "install", "--no-install-recommends", *missing], env=env, check=False)
    still = _missing()
    return f"Could not install {', '.join(still)}; try: {by_hand}" if still else ""


def _missing() -> list[str]:
    def is_there(program: str) -> bool:
        return bool(postgres_bin() if program == "initdb" else shutil.which(program))

    return [package for package, program in PACKAGES.items() if not is_there(program)]


def _answers_sql(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def _answers_ping(url: str) -> bool:
    client = redis_client.Redis.from_url(url, socket_timeout=2)
    try:
        return bool(client.ping())
    except redis_client.RedisError:
        return False
    finally:
        client.close()
