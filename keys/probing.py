"""Which keys to probe, and what a probe's answer changes.

A probe never strikes: a rate-limited or broke key also lists models, and a host that is down is told by traffic.
"""

import random
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from keys.core.outcome import Cause
from keys.core.report import Report
from keys.events import payload_of
from keys.models import StateInbox, Upstream, UpstreamKey
from keys.prober import ProbeResult, probe
from tenants.services import touch_config

EVERY = timedelta(minutes=5)
JITTER = timedelta(minutes=2)
LEASE = timedelta(minutes=1)


def due_keys(*, now: datetime, limit: int = 200) -> list[int]:
    """Claim the keys whose probe is due and return their ids; idle spares and last resorts included.

    The next time is drawn here, so that keys of one host spread out and two beats do not send twice.
    """
    due = UpstreamKey.objects.filter(enabled=True, upstream__enabled=True).filter(
        Q(probe_due=None) | Q(probe_due__lte=now)
    )
    claimed = []
    for pk, probe_due in due.order_by("probe_due").values_list("pk", "probe_due")[:limit]:
        following = now + EVERY + JITTER * random.random()  # noqa: S311  # spreads load, no secret
        if UpstreamKey.objects.filter(pk=pk, probe_due=probe_due).update(probe_due=following):
            claimed.append(pk)
    return claimed


def probe_key(*, key_id: int, now: datetime) -> ProbeResult | None:
    """Probe a key and hand the result to the state store; None when the key is gone."""
    key = UpstreamKey.objects.select_related("upstream").filter(pk=key_id).first()
    if key is None:
        return None
    result = probe(key, now)
    note(key=key, result=result, now=now)
    return result


@transaction.atomic
def note(*, key: UpstreamKey, result: ProbeResult, now: datetime) -> None:
    """Success lets a strike cooling half open early; refused credentials kill the key; the rest teaches nothing."""
    if result.alive:
        StateInbox.objects.create(command="probe_succeeded", payload={"key_id": key.pk})
        UpstreamKey.objects.filter(pk=key.pk).update(probed=now)
        _keep_models(key.upstream, result)
    elif result.outcome is not None and result.outcome.cause is Cause.AUTH_INVALID:
        report = Report(
            key_id=key.pk,
            account_id=key.account_id,
            model="",
            outcome=result.outcome,
            began=now,
            epoch=key.epoch,
            probe=True,
        )
        StateInbox.objects.create(command="report", payload=payload_of(report, key.policy))


def _keep_models(upstream: Upstream, result: ProbeResult) -> None:
    if upstream.model_list != "auto" or not result.models or list(result.models) == upstream.read_models:
        return
    Upstream.objects.filter(pk=upstream.pk).update(read_models=list(result.models))
    touch_config()
