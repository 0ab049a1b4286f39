"""What the home page is about: whose rows, which days, which line. Chosen by the query string, cut to the reach."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import HttpRequest

from tenants.models import BusinessLine, Tenant
from tenants.scoping import EVERYONE, OPERATIONS, Reach, reach_of, scoped

PERIODS = (7, 30)
LINES_OFFERED = 200


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

    def query(self, **changed: object) -> str:
        """Return the query string of this view with something else chosen."""
        chosen: dict[str, object] = {
            "team": self.tenants[0].pk if len(self.tenants) == 1 and len(self.offered) > 1 else "",
            "line": self.line.pk if self.line is not None else "",
            "days": self.days if self.days != PERIODS[0] else "",
        }
        return urlencode({name: value for name, value in {**chosen, **changed}.items() if value})


def view_of(request: HttpRequest, now: datetime) -> View:
    """Read what was chosen; what is not within reach counts as not chosen."""
    reach = reach_of(request.user)
    offered = list(scoped(Tenant.objects.order_by("slug"), reach, EVERYONE))
    tenants = [tenant for tenant in offered if str(tenant.pk) == request.GET.get("team")] or offered
    may = reach.tenants(OPERATIONS)
    pool = [tenant for tenant in tenants if reach.operator or tenant.pk in may]
    days = request.GET.get("days", "")
    shown = View(reach, now, offered, tenants, pool, (), None, int(days) if days in map(str, PERIODS) else PERIODS[0])
    lines = list(BusinessLine.objects.for_tenants(tenants).select_related("tenant")[:LINES_OFFERED])
    chosen = next((line for line in lines if str(line.pk) == request.GET.get("line")), None)
    return replace(shown, lines=lines, line=chosen)
