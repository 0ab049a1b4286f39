"""How keys stand at the moment, for pages: the persisted states of just these keys, and the chip for each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from keys.core.counts import LAST_ERROR_MAX, Counts
from keys.core.outcome import Cause
from keys.core.pool import Pool, Sheet, pool_of_rows
from keys.core.report import account_target, key_target
from keys.core.state import Status
from keys.models import StoredState, UpstreamKey
from tenants.adminchips import chip, duration

STALE = timedelta(hours=24)  # probes come every few minutes: a day without any means that they do not work here
_BATCH = 400


def pool_of(keys: Iterable[UpstreamKey], now: datetime) -> Pool:
    """Read the persisted states of these keys and of their accounts."""
    listed = list(keys)
    targets = {key_target(key.pk) for key in listed}
    targets |= {account_target(key.account_id) for key in listed if key.account_id is not None}
    return pool_of_rows(_rows(sorted(targets)), now)


def _rows(targets: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for start in range(0, len(targets), _BATCH):
        part = targets[start : start + _BATCH]
        found |= dict(StoredState.objects.filter(target__in=part).values_list("target", "data"))
    return found


def cause_words(cause: str) -> str:
    """Return a class of answers in plain words; an unknown one as it is."""
    words = {
        Cause.SERVED: _("served"),
        Cause.INSUFFICIENT_BALANCE: _("no balance"),
        Cause.QUOTA_EXHAUSTED: _("quota used up"),
        Cause.RATE_LIMITED: _("rate limited"),
        Cause.AUTH_INVALID: _("credentials refused"),
        Cause.PERMISSION_DENIED: _("not permitted"),
        Cause.MODEL_UNAVAILABLE: _("no such model there"),
        Cause.OVERLOADED: _("overloaded"),
        Cause.SERVER_ERROR: _("server error"),
        Cause.CONNECTION: _("connection failed"),
        Cause.TIMEOUT: _("timed out"),
        Cause.CONTEXT_TOO_LONG: _("context too long"),
        Cause.BAD_REQUEST: _("bad request"),
        Cause.CONTENT_FILTERED: _("content filtered"),
        Cause.ABORTED: _("broken off"),
    }
    head, _sep, rest = cause.partition(" ")
    known = words.get(Cause(head)) if head in list(Cause) else None
    return f"{known} {rest}".strip() if known is not None else cause


def status_words(status: str) -> str:
    """Return a key's state in plain words; an unknown one as it is."""
    words = {Status.HEALTHY: _("healthy"), Status.COOLING: _("cooling"), Status.DEAD: _("dead")}
    return words[Status(status)] if status in list(Status) else status


def state_chip(key: UpstreamKey, sheet: Sheet, now: datetime) -> SafeString:
    """Return the chip of a key: off beats every state."""
    if not key.enabled:
        return chip("off", _("off"))
    why = cause_words(sheet.reason)
    match sheet.status:
        case Status.DEAD:
            return chip("bad", _("dead"), title=why)
        case Status.COOLING:
            return chip("wait", _("cooling"), title=why, until=now + timedelta(seconds=sheet.cooling_left_s))
        case Status.HEALTHY if sheet.models:
            n = len(sheet.models)
            word = ngettext("healthy but for %(n)s model", "healthy but for %(n)s models", n) % {"n": n}
            return chip("good", word, title="; ".join(f"{rest.model}: {rest.why}" for rest in rests_of(sheet, now)))
        case Status.HEALTHY:
            return chip("good", _("healthy"), title=_("next call decides") if sheet.half_open else "")


@dataclass(frozen=True, slots=True)
class Rest:
    """A model that a key does not serve until then; `left` is the time till then in words."""

    model: str
    why: str
    until: datetime
    left: str


def rests_of(sheet: Sheet, now: datetime) -> list[Rest]:
    """Return the models that rest, the longest rest last."""
    found = []
    for name, rest in sheet.models.items():
        left_s = float(rest["left_s"])
        until = now + timedelta(seconds=left_s)
        found.append(Rest(name, cause_words(str(rest["reason"])), until, duration(left_s)))
    return sorted(found, key=lambda rest: rest.until)


def rest_words(rest: Rest) -> SafeString:
    """Say which model rests, why, and how long still (counting down)."""
    return format_html(
        '{} <span class="countdown" data-until="{}" aria-live="off">{}</span>',
        _("%(model)s rests (%(why)s):") % {"model": rest.model, "why": rest.why},
        rest.until.isoformat(),
        rest.left,
    )


def stale_since(key: UpstreamKey, counts: Counts, now: datetime) -> datetime | None:
    """Return the last sign of life of a spare that nobody has used or tested for STALE; None for any other key.

    A key without any sign counts from its creation. One that fails is no spare, and one that is off is not asked.
    """
    if not key.enabled or counts.calls_24h(now):
        return None
    signs = (key.created, key.probed, counts.last_served)
    last = max(sign for sign in signs if sign is not None)
    return last if now - last > STALE else None


def why_words(sheet: Sheet) -> str:
    """Return why a key does not stand healthy, with the upstream's wording; "" when it does."""
    if sheet.status is Status.HEALTHY:
        return ""
    said = sheet.message if len(sheet.message) <= LAST_ERROR_MAX else sheet.message[: LAST_ERROR_MAX - 1] + "…"
    return ": ".join(part for part in (cause_words(sheet.reason), said) if part)


def error_words(sheet: Sheet) -> str:
    """Return the last error in plain words (it is kept as `class: the upstream's wording`); "" for none yet."""
    cause, mark, text = sheet.last_error.partition(": ")
    return f"{cause_words(cause)}{mark}{text}"
