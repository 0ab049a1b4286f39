"""The web process: `python -m config.serve [--fd N]`, N being a listening socket that the supervisor opened.

uvicorn on its own answers SIGTERM by dying of the signal once it has waited, so the `finally:` of a stream that
outlived the wait never runs. Here the loop outlives the signal: accept no more, finish streams (at most DRAIN_S),
cancel and *await* what is left, run the lifespan's end, exit 0.
"""

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn
import uvloop
from django.conf import settings

from config import listener, start_lock

DRAIN_S = 30  # streams under way at SIGTERM; DESIGN 11
KEEP_ALIVE_S = 75  # longer than the usual client's pool, so that it is the client who closes


class Server(uvicorn.Server):
    """uvicorn's server without its signal handling, and with the start-up garbage set aside."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What exists now lives for ever: the collector need not look at it again (about 7 % of a request's time).
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 50, 50)


def make_server() -> Server:
    return Server(
        uvicorn.Config(
            "config.asgi:application",
            lifespan="on",
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=True,
            forwarded_allow_ips=settings.POINTSMAN_TRUSTED_PROXIES,
            backlog=listener.BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
        )
    )


async def serve(server: uvicorn.Server, sock: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then stop gracefully. A second SIGINT leaves streams where they are."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    await server.serve(sockets=[sock])


def main(arguments: list[str]) -> int:
    """Run the web process; return its exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    parser = argparse.ArgumentParser(prog="serve")
    parser.add_argument("--fd", type=int, help="descriptor of a listening socket; else POINTSMAN_HOST and _PORT")
    fd: int | None = parser.parse_args(arguments).fd
    try:
        if settings.POINTSMAN_EMBEDDED:
            start_lock.acquire(settings.POINTSMAN_DATA)
        sock = socket.socket(fileno=fd) if fd is not None else _own_socket()
    except (start_lock.Taken, listener.PortInUse) as exc:
        print(exc, file=sys.stderr)  # noqa: T201  # a command line's answer
        return 1
    if settings.POINTSMAN_WORKERS > 1:
        # Read when the metrics' module is first imported, with the application below.
        folder = settings.POINTSMAN_DATA / "metrics"
        folder.mkdir(mode=0o700, exist_ok=True)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(make_server(), sock))
    return 0


def _own_socket() -> socket.socket:
    sock = listener.bound(settings.POINTSMAN_HOST, settings.POINTSMAN_PORT)
    listener.listen(sock)
    return sock


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
