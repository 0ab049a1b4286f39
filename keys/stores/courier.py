"""Carries scripts and commands to Redis: many calls in one pipeline, each bounded, none retried behind the back.

While `run()` runs, calls that arrive during a round trip share the next one. Without it (management commands, tests)
each call makes its own. A call that fails says StoreDown; the link is then down until `probe()` finds it well, and
further calls fail at once instead of waiting.

Redis may refuse scripts (an ACL, a proxy). That is `Health.NO_SCRIPTS`: logged as an error, reported by readiness, and
the store falls back to what plain commands can do (see `keys.stores.redis`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha1
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from keys.stores.upkeep import goes_on

CALL_TIMEOUT_S = 0.8
BACKLOG_MAX = 10_000  # calls without an answer that wait for Redis to come back

logger = logging.getLogger(__name__)

_LUA = Path(__file__).with_name("lua")
SCRIPTS = {
    name: (_LUA / "shared.lua").read_text() + (_LUA / f"{name}.lua").read_text()
    for name in ("admit", "settle", "lease", "claim")
}


def sha_of(script: str) -> str:
    """Return Redis's name for a script; no protection."""
    return sha1(script.encode(), usedforsecurity=False).hexdigest()


class Health(StrEnum):
    UP = "up"
    DOWN = "down"
    NO_SCRIPTS = "no_scripts"


class StoreDown(Exception):
    """Redis did not answer, or not usefully."""


@dataclass(slots=True)
class _Job:
    command: tuple[Any, ...]
    script: str = ""
    answer: asyncio.Future[Any] | None = None
    orphan: Callable[[Any], None] | None = None


@dataclass(slots=True)
class _Queue:
    jobs: list[_Job] = field(default_factory=list)
    filled: asyncio.Event = field(default_factory=asyncio.Event)


class Courier:
    """One Redis as one event loop sees it. `prefix` starts every key; `scripts` are what can be run, by name."""

    def __init__(self, client: Redis, prefix: str, scripts: Mapping[str, str] = SCRIPTS) -> None:
        self.client = client
        self.prefix = prefix
        self._scripts = scripts
        self._shas = {name: sha_of(text) for name, text in scripts.items()}
        self.health = Health.UP
        self._queue = _Queue()
        self._running = False

    async def script(self, name: str, request: Mapping[str, Any], orphan: Callable[[Any], None] | None = None) -> Any:
        """Run a script; its JSON answer. `orphan` gets the answer when the caller was cancelled meanwhile.

        Raises StoreDown.
        """
        job = self._script_job(name, request)
        job.orphan = orphan
        return await self._call(job)

    async def command(self, *command: Any) -> Any:
        """Run a plain command. Raises StoreDown."""
        return await self._call(_Job(command))

    async def commands(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run plain commands; they join the next round trip together. Raises StoreDown."""
        return await self._call_all([_Job(command) for command in commands])

    def post(self, name: str, request: Mapping[str, Any]) -> None:
        """Run a script soon, without an answer; when Redis is down, once it is back."""
        if len(self._queue.jobs) < BACKLOG_MAX:
            self._queue.jobs.append(self._script_job(name, request))
            self._queue.filled.set()

    def post_command(self, *command: Any) -> None:
        """Run a plain command soon, without an answer; not at all when Redis is down."""
        if self.health is not Health.DOWN and len(self._queue.jobs) < BACKLOG_MAX:
            self._queue.jobs.append(_Job(command))
            self._queue.filled.set()

    async def run(self) -> None:
        """Serve calls until cancelled."""
        self._running = True
        try:
            while goes_on():
                await self._queue.filled.wait()
                self._queue.filled.clear()
                if self.health is not Health.DOWN:
                    await self.flush()
        finally:
            self._running = False
            self._fail(self._queue.jobs, "shutting down")

    async def flush(self) -> None:
        """Send what is queued now."""
        jobs, self._queue.jobs = self._queue.jobs, []
        if jobs:
            await self._send(jobs)

    async def probe(self) -> Health:
        """Look whether Redis answers and takes scripts; never raises."""
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                if self.health is Health.DOWN:  # answers to calls that nobody waits for any more may be under way
                    await self.client.connection_pool.disconnect()
                await self.client.ping()
                await self.client.eval("return 1", 0)
        except (NoPermissionError, ResponseError) as exc:
            self._down(Health.NO_SCRIPTS if _is_refusal(exc) else Health.DOWN, exc)
        except (RedisError, OSError, TimeoutError) as exc:
            self._down(Health.DOWN, exc)
        else:
            return Health.UP
        return self.health

    def up(self) -> None:
        """Take calls again."""
        if self.health is not Health.UP:
            logger.warning("Redis is back")
        self.health = Health.UP
        self._queue.filled.set()

    def _script_job(self, name: str, request: Mapping[str, Any]) -> _Job:
        return _Job(("EVALSHA", self._shas[name], 1, self.prefix, orjson.dumps(request)), script=name)

    async def _call(self, job: _Job) -> Any:
        return (await self._call_all([job]))[0]

    async def _call_all(self, jobs: Sequence[_Job]) -> list[Any]:
        if self.health is Health.DOWN or (self.health is not Health.UP and any(job.script for job in jobs)):
            raise StoreDown(self.health.value)
        loop = asyncio.get_running_loop()
        answers = []
        for job in jobs:
            job.answer = loop.create_future()
            answers.append(job.answer)
            self._queue.jobs.append(job)
        if self._running:
            self._queue.filled.set()
        else:
            await self.flush()
        try:
            return await asyncio.gather(*answers) if len(answers) > 1 else [await answers[0]]
        except asyncio.CancelledError:
            for job in jobs:
                _hand_on(job)
            raise

    async def _send(self, jobs: Sequence[_Job]) -> None:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                replies = await self._asked(jobs)
        except (RedisError, OSError, TimeoutError) as exc:
            self._down(Health.DOWN, exc)
            self._fail(jobs, f"{type(exc).__name__}: {exc}")
            return
        except asyncio.CancelledError:
            self._fail(jobs, "cancelled")
            raise
        for job, reply in zip(jobs, replies, strict=True):
            self._answer(job, reply)

    async def _asked(self, jobs: Sequence[_Job]) -> list[Any]:
        """Replies in order; scripts that Redis does not know (any more) are sent whole."""
        replies = await self._pipelined([job.command for job in jobs])
        unknown = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            again = await self._pipelined([self._with_text(jobs[i]) for i in unknown])
            for i, reply in zip(unknown, again, strict=True):
                replies[i] = reply
        return replies

    async def _pipelined(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return list(await pipe.execute(raise_on_error=False))

    def _with_text(self, job: _Job) -> tuple[Any, ...]:
        return ("EVAL", self._scripts[job.script], *job.command[2:])

    def _answer(self, job: _Job, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._down(Health.NO_SCRIPTS if _is_refusal(reply) and job.script else Health.DOWN, reply)
            self._fail([job], f"{type(reply).__name__}: {reply}")
            return
        value = orjson.loads(reply) if job.script and isinstance(reply, str | bytes) else reply
        if job.answer is None:
            return
        if job.answer.done():
            if job.orphan is not None:
                job.orphan(value)
            return
        job.answer.set_result(value)

    def _fail(self, jobs: Sequence[_Job], why: str) -> None:
        for job in jobs:
            if job.answer is not None and not job.answer.done():
                job.answer.set_exception(StoreDown(why))

    def _down(self, health: Health, why: Exception) -> None:
        if self.health is not health:
            if health is Health.NO_SCRIPTS:
                logger.error("Redis refuses Lua scripts (%s): slots and rate limits count per process now", why)
            else:
                logger.error("Redis is down (%s: %s): going on from memory", type(why).__name__, why)
        self.health = health
        waiting, self._queue.jobs = self._queue.jobs, [job for job in self._queue.jobs if job.answer is None]
        self._fail(waiting, health.value)


def _hand_on(job: _Job) -> None:
    """The answer came in the moment of the caller's cancellation: nobody has seen it."""
    answer = job.answer
    came = answer is not None and answer.done() and not answer.cancelled() and answer.exception() is None
    if answer is not None and came and job.orphan is not None:
        job.orphan(answer.result())


def _is_refusal(exc: Exception) -> bool:
    text = str(exc).lower()
    return isinstance(exc, NoPermissionError) or "unknown command" in text or "unknown redis command" in text
