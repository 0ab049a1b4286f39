"""Work that outlives its request: kept referenced until done, awaited at shutdown."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")

logger = logging.getLogger("proxy.background")


class _State:
    loop: asyncio.AbstractEventLoop | None = None
    upkeep: set["asyncio.Task[Any]"] = set()  # runs for ever
    requests: set["asyncio.Task[Any]"] = set()  # ends by itself


def bind(loop: asyncio.AbstractEventLoop) -> None:
    """Remember the loop that serves; `start` may then be called from any thread."""
    _State.loop = loop


def start(work: Coroutine[Any, Any, Any], *, upkeep: bool = False) -> None:
    """Run a coroutine to its end, whatever becomes of the caller. May be called from any thread."""
    loop = _State.loop
    if loop is None or loop.is_closed():
        work.close()
        return
    try:
        inside = asyncio.get_running_loop() is loop
    except RuntimeError:
        inside = False
    if inside:
        spawn(work, upkeep=upkeep)
    else:
        loop.call_soon_threadsafe(spawn, work)


def ask(work: "Coroutine[Any, Any, Value]", timeout_s: float) -> Value:
    """Run a coroutine on the loop that serves and wait for its value; from other threads only.

    Raises RuntimeError where no loop serves, TimeoutError when it takes too long.
    """
    loop = _State.loop
    if loop is None or not loop.is_running():
        work.close()
        raise RuntimeError("the gateway is not running in this process")
    return asyncio.run_coroutine_threadsafe(work, loop).result(timeout_s)


def spawn(work: Coroutine[Any, Any, Any], *, upkeep: bool = False) -> "asyncio.Task[Any]":
    """Start a task on the running loop and keep it referenced; its failure is logged, never silent."""
    task = asyncio.get_running_loop().create_task(work)
    kept = _State.upkeep if upkeep else _State.requests
    kept.add(task)
    task.add_done_callback(_finished)
    return task


async def settle_requests(timeout_s: float) -> int:
    """Wait for what requests left under way; return how many were still running at the end and have been cancelled."""
    pending = set(_State.requests)
    if not pending:
        return 0
    _done, late = await asyncio.wait(pending, timeout=timeout_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=1)
    return len(late)


async def cancel_upkeep() -> None:
    """End what runs for ever."""
    pending = set(_State.upkeep)
    for task in pending:
        task.cancel()
    if pending:
        await asyncio.wait(pending, timeout=5)


def _finished(task: "asyncio.Task[Any]") -> None:
    _State.upkeep.discard(task)
    _State.requests.discard(task)
    if not task.cancelled() and (problem := task.exception()) is not None:
        logger.error("background work failed: %s", type(problem).__name__, exc_info=problem)
