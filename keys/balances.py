"""Reading what accounts have left at their providers, and what a reading changes.

Money again ends a cooling for lack of it. Nothing else does anything to a key: a reading of zero is shown and sends the
account to the end of the order (low water), a failed reading is only shown. A death is left to a person.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import Q

from keys.core.balance import (
    SITE,
    Balance,
    Payload,
    Unreadable,
    follow_ups,
    known_addresses,
    parsed,
    read_balance,
)
from keys.core.outcome import Cause
from keys.core.redact import redact
from keys.core.report import account_target, key_target
from keys.core.state import KeyState, Status
from keys.core.stored import loaded
from keys.models import Account, BalanceReading, BalanceWatch, StateInbox, StoredState, UpstreamKey
from keys.outbound import fetch

EVERY = timedelta(minutes=10)
JITTER = timedelta(minutes=3)
KEPT = timedelta(days=90)
DOUBTED = timedelta(hours=6)  # how often money that has not risen may end a cooling
TOP_UP = Decimal("0.1")
KEYS_TRIED = 3
TIMEOUT_S = 10.0
_REFUSED = frozenset({401, 403})
_ERROR_MAX = 300
_WRITTEN = ("amount", "currency", "total", "high", "available", "text", "read", "error", "tried", "ended")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a balance is told, with which key. `headers` hold the credential and stay out of repr."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


class _Silent(Unreadable):
    """No answer came, or none that is HTTP."""


def due_watches(*, now: datetime, limit: int = 200) -> list[int]:
    """Claim the balances whose reading is due and return their ids; two beats do not read twice."""
    _begin_watching()
    due = BalanceWatch.objects.filter(Q(due=None) | Q(due__lte=now)).order_by("due", "pk")
    claimed = []
    for pk, moment in due.values_list("pk", "due")[:limit]:
        following = now + EVERY + JITTER * random.random()  # noqa: S311  # spreads load, no secret
        if BalanceWatch.objects.filter(pk=pk, due=moment).update(due=following):
            claimed.append(pk)
    return claimed


def read_due(*, watch_id: int, now: datetime) -> Balance | Unreadable | None:
    """Read a balance and note it; None when nothing is to be read there any more, and what was known is dropped."""
    watch = BalanceWatch.objects.select_related("account").filter(pk=watch_id).first()
    if watch is None:
        return None
    places = list(_places(watch))
    if not places:
        watch.delete()
        return None
    result = _asked(places, watch)
    note(watch_id=watch.pk, result=result, now=now)
    return result


@transaction.atomic
def note(*, watch_id: int, result: Balance | Unreadable, now: datetime) -> None:
    """Keep a reading, or why there was none, and end the cooling of who has money again."""
    watch = BalanceWatch.objects.select_for_update().filter(pk=watch_id).first()
    if watch is None or (watch.tried is not None and watch.tried > now):  # a later reading was faster
        return
    watch.tried = now
    if isinstance(result, Unreadable):
        watch.error = result.reason[:_ERROR_MAX]
        watch.save(update_fields=["tried", "error"])
        return
    known = watch.amount if watch.currency == result.currency else None
    if result.amount != known:
        watch.readings.create(at=now, amount=result.amount, currency=result.currency)
        BalanceReading.objects.filter(watch=watch, at__lt=now - KEPT).delete()
    watch.high = _high(watch.high if known is not None else None, known, result.amount)
    watch.amount, watch.currency, watch.total = result.amount, result.currency, result.total
    watch.available, watch.text = result.available, result.text
    watch.read, watch.error = now, ""
    if result.has_money:
        _end_cooling(watch, now, rose=known is not None and result.amount > known)
    watch.save(update_fields=_WRITTEN)


def _high(high: Decimal | None, known: Decimal | None, amount: Decimal) -> Decimal:
    """Return what was there after the last top-up. A rise of less than a tenth of it is a refund or a rounding."""
    if high is None or known is None or amount > high or amount - known >= high * TOP_UP:
        return amount
    return high


def _end_cooling(watch: BalanceWatch, now: datetime, *, rose: bool) -> None:
    """Tell the state store, where the target cools for lack of money.

    An upstream may refuse although it shows money (a limit of another kind, a debt). It is believed once in a while;
    a rise is believed at once.
    """
    target = key_target(watch.upstream_key_id) if watch.account_id is None else account_target(watch.account_id)  # type: ignore[arg-type]
    row = StoredState.objects.filter(target=target).values_list("data", flat=True).first()
    state = loaded(row.get("state")).state if isinstance(row, dict) else KeyState()
    if state.status is Status.DEAD or state.cause is not Cause.INSUFFICIENT_BALANCE or state.until is None:
        return
    if rose or watch.ended is None or now - watch.ended >= DOUBTED:
        watch.ended = now
        StateInbox.objects.create(command="balance_seen", payload={"target": target})


def _begin_watching() -> None:
    """Make a row for each account and lone key whose balance can be read and has none."""
    keys = UpstreamKey.objects.filter(enabled=True, upstream__enabled=True).select_related("upstream", "account")
    unwatched = keys.filter(
        Q(account__isnull=False, account__balance=None) | Q(account=None, balance=None)
    ).defer("secret", "old_secret")  # fmt: skip
    for key in unwatched.order_by("pk"):
        account = key.account
        if not ((account is not None and account.balance_url) or known_addresses(key.upstream.base_url)):
            continue
        tenant = key.upstream.tenant_id
        if account is None:
            BalanceWatch.objects.get_or_create(upstream_key=key, defaults={"tenant_id": tenant})
        else:
            BalanceWatch.objects.get_or_create(account=account, defaults={"tenant_id": tenant})


def _places(watch: BalanceWatch) -> Iterator[_Place]:
    """Yield where to ask, in order: the stated address with each of a few keys, else what the provider is known for."""
    mine = Q(account=watch.account_id) if watch.account_id is not None else Q(pk=watch.upstream_key_id, account=None)
    rows = UpstreamKey.objects.filter(mine, enabled=True, upstream__enabled=True).select_related("upstream")
    keys = list(rows.order_by("pk"))
    dead = _dead(keys)
    stated = watch.account.balance_url if watch.account is not None else ""
    host = urlsplit(stated).hostname

    def rank(key: UpstreamKey) -> tuple[bool, bool]:
        return (key.pk in dead, bool(stated) and urlsplit(key.upstream.base_url).hostname != host)

    for key in sorted(keys, key=rank)[:KEYS_TRIED]:
        headers = {"accept": "application/json", "authorization": f"Bearer {key.secret}", **key.upstream.headers}
        for url in (stated,) if stated else known_addresses(key.upstream.base_url):
            yield _Place(url, headers, key.secret)


def _dead(keys: list[UpstreamKey]) -> set[int]:
    by_target = {key_target(key.pk): key.pk for key in keys}
    rows = StoredState.objects.filter(target__in=by_target).values_list("target", "data")
    states = ((target, loaded(row.get("state")).state) for target, row in rows if isinstance(row, dict))
    return {by_target[target] for target, state in states if state.status is Status.DEAD}


def _asked(places: list[_Place], watch: BalanceWatch) -> Balance | Unreadable:
    """Ask until one answers with a balance; all reasons are told when none does. Who is silent is not asked again."""
    preferred = watch.account.credit_currency if watch.account is not None else ""
    reasons: list[str] = []
    silent: set[str] = set()
    for place in places:
        if place.host in silent:
            continue
        found = _ask(place, preferred)
        if isinstance(found, Balance):
            return found
        if isinstance(found, _Silent):
            silent.add(place.host)
            reasons.append(found.reason)
        else:
            reasons.append(redact(found.reason, (place.secret,)))
    return Unreadable("; ".join(dict.fromkeys(reasons)))


def _ask(place: _Place, preferred: str) -> Balance | Unreadable:
    payload = _payload(place.url, place.headers)
    if isinstance(payload, Unreadable):
        return payload
    more: dict[str, Payload] = {}
    for what, url in follow_ups(place.url, payload).items():
        headers = {"accept": "application/json"} if what == SITE else place.headers
        answer = _payload(url, headers)
        if not isinstance(answer, Unreadable):
            more[what] = answer
    return read_balance(payload, more, host=place.host, currency=preferred)


def _payload(url: str, headers: Mapping[str, str]) -> Payload | Unreadable:
    answer = fetch("GET", url, headers, timeout_s=TIMEOUT_S)
    if answer.fault:
        return _Silent(answer.why)
    if answer.status in _REFUSED:
        return Unreadable(f"answered {answer.status}: the key may not read its balance there")
    return parsed(answer.body) if answer.ok else Unreadable(f"answered {answer.status}")


def read_soon(account: Account) -> None:
    """Forget what was read elsewhere and have the next sweep read anew: the address has changed."""
    BalanceWatch.objects.filter(account=account).delete()
