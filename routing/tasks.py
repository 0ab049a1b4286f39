"""Periodic work on what requests depend on. Each task may run twice or late without harm."""

from celery import shared_task
from django.utils.timezone import now

from keys.watching import watch_upstreams, watched
from routing.watching import watch_pool


@shared_task(ignore_result=True)
def watch_keys() -> None:
    """Tell of groups and upstreams with few usable keys, and of upstreams at which much fails."""
    moment = now()
    seen = watched(moment)
    watch_pool(seen, now=moment)
    watch_upstreams(seen, now=moment)
