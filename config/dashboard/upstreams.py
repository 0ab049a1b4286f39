"""Upstreams: how many of their keys stand well, and each key's calls per hour with its failures and failovers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.dashboard import KeyFigures, keys_by_hour
from config.dashboard.attention import Keys
from config.dashboard.links import attempts_url
from config.dashboard.plots import Cell as Text
from config.dashboard.scope import View
from config.dashboard.tiles import percent
from keys.core.state import Status
from tenants.adminchips import chip

HOURS = 24
KEYS_MAX = 24
FACTOR = 3
CALLS_MIN = 5  # fewer tell nothing
LEVELS = (0.0, 0.02, 0.05, 0.15, 0.4)  # a cell's level is how many of these its rate exceeds


@dataclass(frozen=True, slots=True)
class Count:
    """Exchanges with a key; `moved_on` of the failed ones were followed by one with another key."""

    calls: int = 0
    failed: int = 0
    moved_on: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.calls + other.calls, self.failed + other.failed, self.moved_on + other.moved_on)

    def __sub__(self, other: "Count") -> "Count":
        return Count(self.calls - other.calls, self.failed - other.failed, self.moved_on - other.moved_on)


NONE = Count()


@dataclass(frozen=True, slots=True)
class Cell:
    """`level` 0–5, -1 = no calls. `fails`, `takes`: FACTOR times the others' rate, or calls, in that hour."""

    hour: str
    level: int
    text: str
    url: str
    fails: bool
    takes: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """A key's day. The totals lead to its exchanges."""

    name: str
    url: str
    cells: Sequence[Cell]
    totals: Sequence[Text]  # calls, failed, followed by another key


@dataclass(frozen=True, slots=True)
class Health:
    """An upstream: chips of how its keys stand, totals of all, and strips of the busiest."""

    name: str
    url: str
    chips: Sequence[SafeString]
    strips: Sequence[Strip]
    totals: Sequence[Text]
    calls: int


def hours_of(view: View) -> list[datetime]:
    """Return the hours shown, oldest first."""
    last = view.now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [last - timedelta(hours=n) for n in range(HOURS - 1, -1, -1)]


def healths(view: View, keys: Keys) -> list[Health]:
    """Return the upstreams with their keys, the busiest first; of many keys those with most calls."""
    if not view.pool_tenants:
        return []
    hours = hours_of(view)
    figures = sorted(keys_by_hour(view.pool_ids, since=hours[0], now=view.now), key=attrgetter("hour"))
    counts: dict[int, dict[datetime, Count]] = {}
    newest: dict[int, KeyFigures] = {}
    teams: dict[tuple[int, datetime], Count] = {}
    for row in figures:
        per_hour = counts.setdefault(row.upstream_key_id, {})
        per_hour[row.hour] = per_hour.get(row.hour, NONE) + Count(row.attempts, row.failed, row.moved_on)
        newest[row.upstream_key_id] = row
        team = (row.tenant_id, row.hour)
        teams[team] = teams.get(team, NONE) + Count(row.attempts, row.failed, row.moved_on)
    shown = sorted(counts, key=lambda key: -sum(one.calls for one in counts[key].values()))[:KEYS_MAX]
    chips = _chips(view, keys)
    places = list(dict.fromkeys([*((newest[key].tenant_id, newest[key].upstream) for key in shown), *chips]))
    found = []
    for place in places:
        owned = [key for key, row in newest.items() if (row.tenant_id, row.upstream) == place]
        strips = [
            _strip(view, newest[key], hours, counts, Peers(teams, [peer for peer in owned if peer != key]))
            for key in shown if key in owned
        ]  # fmt: skip
        total = sum((one for key in owned for one in counts[key].values()), NONE)
        found.append(
            Health(
                name=_name(view, place),
                url=_pool_url(view, place[0]),
                chips=chips.get(place, ()),
                strips=strips,
                totals=_totals(owned, total, hours[0]),
                calls=total.calls,
            )
        )
    return sorted(found, key=lambda one: (-one.calls, one.name))


def _totals(keys: Sequence[int], total: Count, first: datetime) -> list[Text]:
    """Say calls, failures and failovers of the hours shown, each with its way to the exchanges."""
    said = (
        (total.calls, "tried", f"{total.calls:,}"),
        (total.failed, "failed", percent(total.failed, total.calls)),
        (total.moved_on, "moved_on", percent(total.moved_on, total.calls)),
    )
    return [Text(text, attempts_url(keys, kind, first, HOURS) if number else "") for number, kind, text in said]


@dataclass(frozen=True, slots=True)
class Peers:
    """Whom a key is compared with: in failures with its whole team by hour, in calls with the keys of its upstream."""

    teams: Mapping[tuple[int, datetime], Count]
    upstream: Sequence[int]


def _chips(view: View, keys: Keys) -> dict[tuple[int, str], list[SafeString]]:
    """Count how the keys of each upstream stand; slow ones a second time."""
    counted: dict[tuple[int, str], dict[str, int]] = {}
    for key, sheet in keys.sheets():
        stand = counted.setdefault((key.upstream.tenant_id, key.upstream.name), {})
        stand[sheet.status] = stand.get(sheet.status, 0) + 1
        stand["slow"] = stand.get("slow", 0) + (key.pk in keys.slow)
    words = (
        (Status.HEALTHY, "good", _("%(n)s healthy")),
        (Status.COOLING, "wait", _("%(n)s cooling")),
        (Status.DEAD, "bad", _("%(n)s dead")),
        ("slow", "slow", _("%(n)s slow")),
    )
    return {
        place: [chip(tone, text % {"n": stand[name]}) for name, tone, text in words if stand.get(name)]
        for place, stand in counted.items()
    }


def _strip(
    view: View, row: KeyFigures, hours: Sequence[datetime], counts: Mapping[int, Mapping[datetime, Count]], peers: Peers
) -> Strip:
    key, cells = row.upstream_key_id, []
    for hour in hours:
        own = counts[key].get(hour, NONE)
        team = peers.teams.get((row.tenant_id, hour), NONE) - own
        beside = [counts[peer].get(hour, NONE) for peer in peers.upstream] if own.calls else []
        cells.append(_cell(view, key, hour, own, Others(team, beside)))
    return Strip(
        name=row.upstream_key,
        url=reverse("admin:keys_upstreamkey_change", args=[key]),
        cells=cells,
        totals=_totals([key], sum(counts[key].values(), NONE), hours[0]),
    )


@dataclass(frozen=True, slots=True)
class Others:
    """What the peers did in the same hour: those of the team together, those of the upstream key by key."""

    team: Count
    upstream: Sequence[Count]


def _cell(view: View, key: int, hour: datetime, own: Count, others: Others) -> Cell:
    local = f"{hour.astimezone(view.zone):%H:00}"
    if not own.calls:
        return Cell(local, -1, _("%(hour)s: no calls") % {"hour": local}, "", fails=False, takes=False)
    fails, takes = is_failing(own, others.team), is_taking(own, others.upstream)
    text = ngettext("%(hour)s: %(calls)s call", "%(hour)s: %(calls)s calls", own.calls)
    if own.failed:
        text += ", " + _("%(failed)s failed (%(rate)s), after %(moved)s another key was tried")
    if fails:
        text += " · " + _("fails three times as often as the others")
    if takes:
        text += " · " + _("takes three times as many calls as the others")
    words = {
        "hour": local, "calls": f"{own.calls:,}", "failed": f"{own.failed:,}", "moved": f"{own.moved_on:,}",
        "rate": percent(own.failed, own.calls),
    }  # fmt: skip
    level = sum(own.failed / own.calls > limit for limit in LEVELS)
    return Cell(local, level, text % words, attempts_url([key], "tried", hour), fails=fails, takes=takes)


def is_failing(own: Count, others: Count) -> bool:
    """Tell whether a key fails at least FACTOR times as often as the others together."""
    if own.calls < CALLS_MIN or others.calls < CALLS_MIN or not own.failed:
        return False
    return own.failed * others.calls >= FACTOR * others.failed * own.calls


def is_taking(own: Count, others: Sequence[Count]) -> bool:
    """Tell whether a key takes at least FACTOR times the calls that the others take on average."""
    return (
        own.calls >= CALLS_MIN and bool(others) and own.calls * len(others) >= FACTOR * sum(one.calls for one in others)
    )


def _name(view: View, place: tuple[int, str]) -> str:
    team = next((tenant.slug for tenant in view.tenants if tenant.pk == place[0]), "")
    return f"{team} · {place[1]}" if len(view.tenants) > 1 else place[1]


def _pool_url(view: View, tenant: int) -> str:
    return reverse("admin:pool") + (f"?team={tenant}" if len(view.offered) > 1 else "")
