"""Periodic work on money. Each task may run twice or late without harm."""

import socket
from datetime import timedelta

from celery import shared_task
from django.utils.timezone import now

from billing import answers, forecasting, rollups, statements, thresholds, watching

CLOSE_AFTER = timedelta(days=3)


@shared_task(ignore_result=True)
def watch_money() -> None:
    """Tell of calls without a price and of requests that wait for the database."""
    watching.watch_unpriced(now=now())
    watching.watch_spool(now=now(), machine=socket.gethostname())
    watching.watch_refused(now=now(), machine=socket.gethostname())


@shared_task(ignore_result=True)
def watch_failures() -> None:
    """Tell of teams many of whose calls are not served."""
    watching.watch_failures(now=now())


@shared_task(ignore_result=True)
def sweep_budgets() -> None:
    """Find the thresholds that no gateway process noticed."""
    thresholds.check(now=now())


@shared_task(ignore_result=True)
def roll_up() -> None:
    """Bring the hourly sums up to date."""
    rollups.roll_up(now=now())


@shared_task(ignore_result=True)
def measure_outputs() -> None:
    """Learn how long answers are, for reservations."""
    rollups.measure_outputs(now=now())


@shared_task(ignore_result=True)
def forecast() -> None:
    """Look ahead for every line and account, and tell of money that runs out."""
    forecasting.forecast_all(now=now())


@shared_task(ignore_result=True)
def drop_answers() -> None:
    """Delete answers that were kept for idempotency keys a day ago."""
    answers.drop_old(now=now())


@shared_task(ignore_result=True)
def close_months() -> None:
    """Close last month where all calls have a price and late ones have had time to come in."""
    for tenant, first in statements.due_to_close(now=now(), grace=CLOSE_AFTER):
        statements.close_month(tenant=tenant, first=first, by="", now=now())
