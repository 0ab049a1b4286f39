"""Login throttling across processes: each try is counted before the password is looked at, and given back when right.

Counted first, so that a hundred guesses sent at once are a hundred failures and not one.

Why not django-axes: one limit for address and pair alike (an office behind one address would be locked out together),
it counts after the check, keeps what was typed into the form, and needs the request in every `authenticate()`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from tenants.core.credentials import digest_of
from tenants.core.throttle import ADDRESS, CODE, PAIR, Count, Limit, counted, left, neighbourhood
from tenants.login_models import LoginThrottle
from tenants.services import installation_secret

THROTTLE_HASH = "login-throttle-hash"
NO_WAIT = timedelta(0)
Place = tuple[str, str]  # digests of account and address, as LoginThrottle has them


@dataclass(frozen=True, slots=True)
class Gate:
    """An answer to a try. `wait` > 0: come back later. `closed`: if this try fails, a wait begins (or grows)."""

    wait: timedelta = NO_WAIT
    closed: bool = False
    taken: Sequence[tuple[Place, datetime | None]] = field(default=(), repr=False)


def enter_login(*, username: str, address: str, now: datetime) -> Gate:
    """Ask to try a password. Whoever finds it right says so with `forgive`."""
    where = _digest(neighbourhood(address))
    return _enter([((account_digest(username), where), PAIR), (("", where), ADDRESS)], now)


def enter_code(*, user_id: int, now: datetime) -> Gate:
    """Ask to try the code of a second factor."""
    return _enter([((_digest(f"code of {user_id}"), ""), CODE)], now)


def forgive(gate: Gate) -> None:
    """Take back the try: it was no failure. The pair begins anew; the address keeps what others did there."""
    for (account, address), until in gate.taken:
        rows = LoginThrottle.objects.filter(account=account, address=address)
        if account:
            rows.update(failures=0, until=None)
        else:
            rows.update(failures=Greatest(F("failures") - 1, 0), until=until)


def unlock(*, username: str = "", user_id: int | None = None, address: str = "") -> int:
    """Forget the failures of an account (whatever the address) or of an address. Returns how many rows there were."""
    places = [{"account": account_digest(username)}] if username else []
    places += [{"account": _digest(f"code of {user_id}")}] if user_id is not None else []
    places += [{"address": _digest(neighbourhood(address))}] if address else []
    return sum(LoginThrottle.objects.filter(**place).delete()[0] for place in places)


def account_digest(username: str) -> str:
    """Return the hash under which tries for an account are counted, whatever its capitals."""
    return _digest(f"account {username.strip().casefold()}")


def _digest(text: str) -> str:
    return digest_of(text, installation_secret(THROTTLE_HASH))


def _enter(places: Sequence[tuple[Place, Limit]], now: datetime) -> Gate:
    LoginThrottle.objects.filter(last__lt=now - max(limit.memory for _place, limit in places)).delete()
    with transaction.atomic():
        return _count_in(places, now)


def _count_in(places: Sequence[tuple[Place, Limit]], now: datetime) -> Gate:
    rows = [_locked(place, now) for place, _limit in sorted(places, key=lambda item: item[0])]
    known = {(row.account, row.address): row for row in rows}
    wait = max(left(_count(row), now) for row in rows)
    if wait > NO_WAIT:
        return Gate(wait=wait)
    closed = False
    for place, limit in places:
        row = known[place]
        after = counted(_count(row), limit, now)
        LoginThrottle.objects.filter(pk=row.pk).update(failures=after.failures, last=now, until=after.until)
        closed = closed or after.until is not None
    return Gate(closed=closed, taken=[(place, known[place].until) for place, _limit in places])


def _locked(place: Place, now: datetime) -> LoginThrottle:
    rows = LoginThrottle.objects.select_for_update()
    row, _made = rows.get_or_create(account=place[0], address=place[1], defaults={"last": now})
    return row


def _count(row: LoginThrottle) -> Count:
    return Count(row.failures, row.last if row.failures else None, row.until)
