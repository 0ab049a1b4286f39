"""Periodic work on upstream keys. Each task may run twice or late without harm."""

from celery import shared_task
from django.db import OperationalError
from django.utils.timezone import now

from keys import balances, probing, services


@shared_task(ignore_result=True)
def probe_keys() -> None:
    """Send the probes that are due, each as its own task."""
    for key_id in probing.due_keys(now=now()):
        probe_key.delay(key_id)


@shared_task(autoretry_for=(OperationalError,), retry_backoff=True, max_retries=3, ignore_result=True)
def probe_key(key_id: int) -> None:
    """Probe one key and pass on what was learnt."""
    probing.probe_key(key_id=key_id, now=now())


@shared_task(ignore_result=True)
def read_balances() -> None:
    """Send the balance reads that are due, each as its own task."""
    for watch_id in balances.due_watches(now=now()):
        read_balance.delay(watch_id)


@shared_task(autoretry_for=(OperationalError,), retry_backoff=True, max_retries=3, ignore_result=True)
def read_balance(watch_id: int) -> None:
    """Read one balance and pass on what was learnt."""
    balances.read_due(watch_id=watch_id, now=now())


@shared_task(ignore_result=True)
def erase_old_secrets() -> None:
    """Erase the secrets that were kept after a rotation, once their time is over."""
    services.erase_old_secrets(now=now())
