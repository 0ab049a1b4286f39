"""`./bin/run`: everything one machine needs, in the foreground."""

import http.client
import os
import secrets
import shutil
import socket
import sys
import urllib.parse
from argparse import ArgumentParser
from contextlib import closing
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import checks
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError, connection, connections

from config import listener, start_lock
from config.demo import Demo, prepare
from config.supervise import Command as Child
from config.supervise import Supervisor

MIGRATION_LOCK = 0x706F696E74  # PostgreSQL advisory lock: machines of a cluster may start at once
WEB_GRACE_S = 45.0  # 30 s for streams (config/serve.py), then background work


class Command(BaseCommand):
    help = "Migrate, then run web, worker and beat until Ctrl-C."
    requires_system_checks: list[str] = []  # run below, one line each

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="with two simulated upstreams and a ready gateway key")

    def handle(self, *args: Any, demo: bool, **options: Any) -> None:
        refuse_impossible()
        try:
            if settings.POINTSMAN_EMBEDDED:
                os.close(start_lock.acquire(settings.POINTSMAN_DATA))  # the web child takes it for good
            sock = listener.bound(settings.POINTSMAN_HOST, settings.POINTSMAN_PORT)
        except (listener.PortInUse, start_lock.Taken) as exc:
            raise CommandError(str(exc)) from exc
        migrate()
        if demo:
            allow_loopback()
        call_command("check_config")
        # Figures of processes that are gone: counters begin anew with the service.
        shutil.rmtree(settings.POINTSMAN_DATA / "metrics", ignore_errors=True)
        prepared = prepare(listener.url(sock)) if demo else None
        password = create_first_admin()
        connections.close_all()
        sys.exit(self._supervise(sock, prepared, password))

    def _supervise(self, sock: socket.socket, demo: Demo | None, password: str | None) -> int:
        url = listener.url(sock)
        lines = [f"Gateway: {url}", f"Admin: {url}/admin/"]
        lines += [f"Login: admin {password}"] if password else []
        lines += demo.lines if demo else []
        supervisor = Supervisor(
            groups=children(sock, demo), stop_order=(1, 2, 0), folder=settings.BASE_DIR, before_stop=sock.close
        )
        try:
            listener.listen(sock)
        except listener.PortInUse as exc:
            raise CommandError(str(exc)) from exc
        supervisor.start()

        def announce() -> None:
            if lines and is_answering(url):
                self.stdout.write("\n".join(lines))
                self.stdout.flush()
                lines.clear()

        return supervisor.run(on_tick=announce)


def refuse_impossible() -> None:
    """Raise CommandError with one line for each error of the settings; print warnings."""
    found = checks.run_checks()
    for message in found:
        if not message.is_serious():
            print(f"Warning: {message.msg}", file=sys.stderr)  # noqa: T201  # for whoever starts it
    errors = [str(message.msg) for message in found if message.is_serious()]
    if errors:
        raise CommandError("\n".join(errors))


def migrate() -> None:
    """Bring the tables up to date; one machine of a cluster at a time."""
    if connection.vendor != "postgresql":
        call_command("migrate", interactive=False, verbosity=0)
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            call_command("migrate", interactive=False, verbosity=0)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def create_first_admin() -> str | None:
    """Create the superuser `admin` when there is no superuser at all; return its password, else None."""
    users = get_user_model()._default_manager
    if users.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    try:
        users.create_superuser("admin", "", password)
    except IntegrityError:
        # Another machine was quicker, or somebody without the rights has that name.
        return None
    return password


def allow_loopback() -> None:
    """Allow the demo's upstreams for this run; its own rows of an earlier start are nothing to warn about."""
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS.with_network("127.0.0.1")


def children(sock: socket.socket, demo: Demo | None) -> list[list[Child]]:
    """Return what to start, in order: the demo's programs, the web processes, worker and beat."""
    env = {
        **os.environ,
        **(demo.env if demo else {}),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "POINTSMAN_ALLOW_PRIVATE_UPSTREAMS": str(settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS),
        "POINTSMAN_PORT": str(sock.getsockname()[1]),  # the true one where 0 was asked for
    }
    python = sys.executable
    # A container's only user is root; no task is pickled, which is what the warning is about.
    celery = [python, "-W", "ignore:You're running the worker", "-m", "celery", "-A", "config.celery", "--quiet"]
    web = [
        Child(
            name=f"web {number}",
            argv=[python, "-m", "config.serve", "--fd", str(sock.fileno())],
            env=env,
            grace_s=WEB_GRACE_S,
            vital=True,
            fds=[sock.fileno()],
        )
        for number in range(1, settings.POINTSMAN_WORKERS + 1)
    ]
    worker = [*celery, "worker", "--pool", "threads", "--concurrency", "4", "--without-gossip", "--without-mingle"]
    beat = [*celery, "beat", "--pidfile="]
    return [
        [Child(name=name, argv=argv, env=env) for name, argv in (demo.children if demo else {}).items()],
        web,
        [
            Child(name="worker", argv=[*worker, "--loglevel", "WARNING"], env=env, grace_s=20.0),
            Child(name="beat", argv=[*beat, "--loglevel", "WARNING"], env=env),
        ],
    ]


def is_answering(url: str) -> bool:
    """Tell whether the gateway's health check answers 200 at once."""
    address = urllib.parse.urlsplit(url)
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=0.5)) as client:
        try:
            client.request("GET", "/healthz")
            return client.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
