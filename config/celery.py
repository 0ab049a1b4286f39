"""The task queue: `celery -A config.celery worker` and `… beat`, started by config/supervise.py.

A task is a nudge: it reads from the database what is due, so a lost or doubled message does no harm.
"""

import os
from typing import TypedDict

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

TRANSPORT_ALIASES["filesystem"] = "config.file_queue:Transport"

app = Celery("pointsman")
app.set_default()  # threads of the web process publish too, not only this one
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class Periodic(TypedDict):
    """`schedule` in seconds. `options.expires` in seconds: a nudge that waited longer has a newer one behind it."""

    task: str
    schedule: float
    options: dict[str, float]


def _every(seconds: float, task: str) -> Periodic:
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


PERIODIC: dict[str, Periodic] = {
    "probe-keys": _every(60, "keys.tasks.probe_keys"),
    "watch-keys": _every(30, "routing.tasks.watch_keys"),
    "read-balances": _every(60, "keys.tasks.read_balances"),
    "erase-old-secrets": _every(600, "keys.tasks.erase_old_secrets"),
    "deliver-alerts": _every(10, "config.tasks.deliver_alerts"),
    "sweep-budgets": _every(30, "billing.tasks.sweep_budgets"),
    "roll-up": _every(120, "billing.tasks.roll_up"),
    "measure-outputs": _every(3600, "billing.tasks.measure_outputs"),
    "forecast": _every(1800, "billing.tasks.forecast"),
    "watch-money": _every(60, "billing.tasks.watch_money"),
    "watch-failures": _every(30, "billing.tasks.watch_failures"),
    "drop-answers": _every(3600, "billing.tasks.drop_answers"),
    "close-months": _every(24 * 3600, "billing.tasks.close_months"),
}
app.conf.beat_schedule = PERIODIC
