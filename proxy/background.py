"""Work that outlives its request: kept referenced until done, awaited at shutdown."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger("pointsman.background")

_loop: asyncio.AbstractEventLoop | None = None
_tasks: set[asyncio.Task[Any]] = set()


def bind(loop: asyncio.AbstractEventLoop) -> None:
    """Remember the loop that serves; `start` may then be called from any thread."""
    global _loop  # noqa: PLW0603  # one serving loop per process
    _loop = loop


def start(work: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine to its end, whatever becomes of the caller. May be called from any thread."""
    loop = _loop
    if loop is None or loop.is_closed():
        work.close()
        return
    try:
        inside = asyncio.get_running_loop() is loop
    except RuntimeError:
        inside = False
    if inside:
        spawn(work)
    else:
        loop.call_soon_threadsafe(spawn, work)


def spawn(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Start a task on the running loop and keep it referenced; its failure is logged, never silent."""
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_finished)
    return task


async def drain(timeout_s: float) -> int:
    """Wait for what is under way; return how many were still running at the end and have been cancelled."""
    pending = set(_tasks)
    if not pending:
        return 0
    _done, late = await asyncio.wait(pending, timeout=timeout_s)
    for task in late:
        task.cancel()
    return len(late)


def _finished(task: "asyncio.Task[Any]") -> None:
    _tasks.discard(task)
    if not task.cancelled() and (problem := task.exception()) is not None:
        logger.error("background work failed: %s", type(problem).__name__, exc_info=problem)
