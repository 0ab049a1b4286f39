"""What a process does to stay in step with Redis: listen, check, recover, renew its slots."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

LISTEN_S = 1.0
RETRY_S = 0.2

logger = logging.getLogger(__name__)


def goes_on() -> bool:
    """False once the running task was cancelled, also when a library swallowed the cancellation.

    redis-py does so now and then while it drops a broken connection; a loop that ran on would never end.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() == 0


async def listen(
    client: Redis, channel: str, hear: Callable[[str], None], joined: Callable[[], Awaitable[None]]
) -> None:
    """Pass on every message of a channel until cancelled; `joined` runs after each (re)subscription."""
    while goes_on():
        try:
            await _subscribed(client, channel, hear, joined)
        except (RedisError, OSError, TimeoutError) as exc:
            logger.info("Not listening to Redis: %s", exc)
            await asyncio.sleep(RETRY_S)


async def _subscribed(
    client: Redis, channel: str, hear: Callable[[str], None], joined: Callable[[], Awaitable[None]]
) -> None:
    async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        await pubsub.subscribe(channel)
        await joined()
        while goes_on():
            message = await pubsub.get_message(timeout=LISTEN_S)
            if message is not None:
                hear(message["data"])
