"""Periodic work on upstream keys. Each task may run twice or late without harm."""

from celery import shared_task
from django.db import OperationalError
from django.utils.timezone import now

from keys import probing


@shared_task(ignore_result=True)
def probe_keys() -> None:
    """Send the probes that are due, each as its own task."""
    for key_id in probing.due_keys(now=now()):
        probe_key.delay(key_id)


@shared_task(autoretry_for=(OperationalError,), retry_backoff=True, max_retries=3, ignore_result=True)
def probe_key(key_id: int) -> None:
    """Probe one key and pass on what was learnt."""
    probing.probe_key(key_id=key_id, now=now())
