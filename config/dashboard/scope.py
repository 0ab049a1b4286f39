"""What the home page is about: whose rows, which days, which line.

Chosen by the query string and remembered in the session: who comes back to the page finds what was chosen last. Cut
to the reach of the person whatever was chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import HttpRequest

from billing.dashboard import Asked
from tenants.models import BusinessLine, Tenant
from tenants.scoping import EVERYONE, OPERATIONS, Reach, reach_of, scoped

PERIODS = (7, 30, 90)
LINES_OFFERED = 200
_NAMES = ("team", "line", "days")
_KEPT = "home"


@dataclass(frozen=True, slots=True)
class View:
    """`tenants` are those shown; `pool_tenants` those of them whose keys the person may see."""

    reach: Reach
    now: datetime
    offered: Sequence[Tenant]
    tenants: Sequence[Tenant]
    pool_tenants: Sequence[Tenant]
    lines: Sequence[BusinessLine]
    line: BusinessLine | None
    days: int

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the one tenant shown, else UTC."""
        return ZoneInfo(self.tenants[0].timezone if len(self.tenants) == 1 else "UTC")

    @property
    def today(self) -> date:
        return self.now.astimezone(self.zone).date()

    @property
    def first(self) -> date:
        """The first day of the period."""
        return self.today - timedelta(days=self.days - 1)

    @property
    def month(self) -> date:
        return self.today.replace(day=1)

    @property
    def pool_ids(self) -> list[int] | None:
        """The tenants whose keys are shown; None = every tenant there is."""
        return self._ids(self.pool_tenants)

    @property
    def ids(self) -> list[int] | None:
        """The tenants shown; None = every tenant there is."""
        return self._ids(self.tenants)

    @property
    def asked(self) -> Asked:
        """Whose figures of which days: the month's for the budget, the period's for the rest."""
        line = self.line.pk if self.line is not None else None
        return Asked(self.ids, line, min(self.first, self.month), self.first, self.today)

    def query(self, **changed: object) -> str:
        """Return the query string of this view with something else chosen; what is empty is chosen as such."""
        chosen: dict[str, object] = {
            "team": self.tenants[0].pk if len(self.tenants) == 1 and len(self.offered) > 1 else "",
            "line": self.line.pk if self.line is not None else "",
            "days": self.days,
        }
        return urlencode({**chosen, **changed})

    def _ids(self, tenants: Sequence[Tenant]) -> list[int] | None:
        everyone = self.reach.operator and len(tenants) == len(self.offered)
        return None if everyone else [tenant.pk for tenant in tenants]


def view_of(request: HttpRequest, now: datetime) -> View:
    """Read what was chosen; what is not within reach counts as not chosen."""
    chosen = _chosen(request)
    reach = reach_of(request.user)
    offered = list(scoped(Tenant.objects.order_by("slug"), reach, EVERYONE))
    tenants = [tenant for tenant in offered if str(tenant.pk) == chosen.get("team")] or offered
    may = reach.tenants(OPERATIONS)
    pool = [tenant for tenant in tenants if reach.operator or tenant.pk in may]
    days = chosen.get("days", "")
    shown = View(reach, now, offered, tenants, pool, (), None, int(days) if days in map(str, PERIODS) else PERIODS[0])
    lines = list(BusinessLine.objects.for_tenants(tenants).select_related("tenant")[:LINES_OFFERED])
    line = next((line for line in lines if str(line.pk) == chosen.get("line")), None)
    return replace(shown, lines=lines, line=line)


def _chosen(request: HttpRequest) -> Mapping[str, str]:
    """Return what the query string chooses, else what was chosen last."""
    if not any(name in request.GET for name in _NAMES):
        return request.session.get(_KEPT) or {}
    chosen = {name: request.GET[name] for name in _NAMES if request.GET.get(name)}
    if request.session.get(_KEPT) != chosen:
        request.session[_KEPT] = chosen
    return chosen
