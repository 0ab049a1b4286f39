"""How long the admin's pages take on a full database: `python -m bench.pages`, on what bench/fill.py made.

Each page is asked for in this process through Django's test client, middleware and templates included, a few times;
wall time, this process's own CPU time and the number of queries are printed as rows for bench/report.md. Exits with 1
when a median is over its limit.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import django
from django.db import connection

django.setup()

# Models exist only behind django.setup().
from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.urls import reverse  # noqa: E402

from billing import thresholds  # noqa: E402
from billing.models import RequestRecord  # noqa: E402
from config.dashboard import page as home  # noqa: E402
from keys.models import UpstreamKey  # noqa: E402
from tenants.models import BusinessLine, GatewayKey, Membership, Role, Tenant  # noqa: E402

REPEATS = 5
HOME_MS, PAGE_MS = 300, 2000


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    url: str
    limit_ms: int = PAGE_MS


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds: median and worst of the wall clock, median of this process's CPU."""

    page: Page
    median_ms: float
    worst_ms: float
    cpu_ms: float
    queries: int


def pages(tenant: Tenant) -> Iterator[Page]:
    """Yield the pages that read records, then every list."""
    line = BusinessLine.objects.filter(tenant=tenant).order_by("pk")[0]
    newest = RequestRecord.objects.filter(tenant=tenant).latest("pk")
    yield Page("home", reverse("admin:index") + "?days=7", HOME_MS)
    yield Page("home, 30 days", reverse("admin:index") + "?days=30", HOME_MS)
    yield Page("home, one line", reverse("admin:index") + f"?days=7&line={line.pk}", HOME_MS)
    yield from _requests(line, newest)
    yield from _attempts(line, newest)
    yield Page("statements", reverse("admin:statements"))
    yield Page("pool", reverse("admin:pool"))
    for kind in sorted(admin.site._registry, key=lambda each: each._meta.label):
        name = f"admin:{kind._meta.app_label}_{kind._meta.model_name}_changelist"
        yield Page(f"list of {kind._meta.verbose_name_plural}", reverse(name))


def _requests(line: BusinessLine, newest: RequestRecord) -> Iterator[Page]:
    middle, model = newest.day - timedelta(days=15), newest.model_requested
    key, gateway_key = _key(line), GatewayKey.objects.filter(line=line)[0]
    requests = reverse("admin:billing_requestrecord_changelist")
    yield Page("requests", requests)
    yield Page("requests, page 50", f"{requests}?p=50")
    yield Page("requests, all time", f"{requests}?period=all")
    yield Page("requests of a line", f"{requests}?line_id={line.pk}")
    yield Page("requests of a line, all time", f"{requests}?period=all&line_id={line.pk}")
    yield Page("requests of a gateway key", f"{requests}?gateway_key_id={gateway_key.pk}")
    yield Page("requests of an upstream key", f"{requests}?upstream_key_id={key.pk}")
    yield Page("requests of a model", f"{requests}?model={model}")
    yield Page("requests of a model, all time", f"{requests}?period=all&model={model}")
    yield Page("requests of an unknown model", f"{requests}?period=all&model=nobody")
    yield Page("requests, failed", f"{requests}?status=failed")
    yield Page("requests, cancelled", f"{requests}?status=cancelled")
    yield Page("requests, refused by a limit", f"{requests}?kind=refused")
    yield Page("requests, rescued, all time", f"{requests}?period=all&kind=rescued")
    yield Page("requests, unpriced", f"{requests}?kind=unpriced")
    yield Page("requests of a day", f"{requests}?period=all&day={middle}")
    yield Page("a bar's rows", f"{requests}?period=all&kind=billed&currency=USD&day={middle}&line_id={line.pk}")
    yield Page("a tile's rows", f"{requests}?period=all&kind=billed&day__gte={middle}&day__lte={newest.day}")
    yield Page("request found by id", f"{requests}?q={newest.request_id}")
    yield Page("requests found by a line's name", f"{requests}?q={line.slug}")
    yield Page("request", reverse("admin:billing_requestrecord_change", args=[newest.pk]))


def _attempts(line: BusinessLine, newest: RequestRecord) -> Iterator[Page]:
    key, hour = _key(line), newest.created.replace(minute=0, second=0, microsecond=0)
    attempts = reverse("admin:billing_attempt_changelist")
    yield Page(
        "attempts of a key in an hour",
        f"{attempts}?kind=tried&upstream_key_id={key.pk}&"
        f"record__created__gte={hour:%Y-%m-%dT%H:00Z}&record__created__lt={hour + timedelta(hours=1):%Y-%m-%dT%H:00Z}",
    )
    yield Page(
        "attempts of a key in a day",
        f"{attempts}?kind=moved_on&upstream_key_id={key.pk}&"
        f"record__created__gte={hour - timedelta(hours=23):%Y-%m-%dT%H:00Z}&record__created__lt={hour:%Y-%m-%dT%H:00Z}",
    )
    yield Page(
        "ledger of a line's month",
        reverse("admin:billing_ledgerentry_changelist")
        + f"?period=all&line_id={line.pk}&kind__in=charge,credit&day__gte={newest.day.replace(day=1)}",
    )


def _key(line: BusinessLine) -> UpstreamKey:
    return UpstreamKey.objects.filter(upstream__tenant=line.tenant_id).order_by("pk")[0]


def timed(client: Client, page: Page) -> Timed | None:
    """Ask for a page a few times; None when the person may not see it."""
    walls, cpus, queries = [], [], 0
    for turn in range(REPEATS + 1):
        cache.clear()
        with CaptureQueriesContext(connection) as asked:
            wall, cpu = time.perf_counter(), time.process_time()
            answer = client.get(page.url)
            answer.content  # noqa: B018  # rendered
        if answer.status_code == 403:
            return None
        if answer.status_code != 200:
            raise SystemExit(f"{page.url} answered {answer.status_code}")
        if turn:  # the first warms up templates and the database's pages
            walls.append((time.perf_counter() - wall) * 1000)
            cpus.append((time.process_time() - cpu) * 1000)
        queries = len(asked)
    return Timed(page, statistics.median(walls), max(walls), statistics.median(cpus), queries)


def people(tenant: Tenant) -> Iterator[tuple[str, User]]:
    operator, _made = User.objects.get_or_create(
        username="bench-operator", defaults={"is_superuser": True, "is_staff": True}
    )
    yield "operator", operator
    boss, _made = User.objects.get_or_create(username="bench-admin", defaults={"is_staff": True})
    Membership.objects.get_or_create(user=boss, tenant=tenant, defaults={"role": Role.ADMIN})
    yield "team admin", boss


def main(said: Callable[[str], None]) -> int:
    """Print the table; returns 1 when something took too long."""
    tenant, slow = Tenant.objects.order_by("pk")[0], 0
    newest = RequestRecord.objects.latest("pk")
    home.present = lambda: newest.created  # the moment that the database was filled for
    thresholds.check(now=newest.created)
    said("| page | operator: median, worst, CPU ms (queries) | team admin: median, worst, CPU ms (queries) |")
    said("|---|--:|--:|")
    clients = []
    for _role, user in people(tenant):
        client = Client()
        client.force_login(user)
        clients.append(client)
    for page in pages(tenant):
        cells = []
        for client in clients:
            found = timed(client, page)
            late = found is not None and found.median_ms > page.limit_ms
            slow += late
            cells.append(_cell(found, late=late))
        said(f"| {page.name} | {' | '.join(cells)} |")
    return int(slow > 0)


def _cell(found: Timed | None, *, late: bool) -> str:
    if found is None:
        return "–"
    text = f"{found.median_ms:,.0f}, {found.worst_ms:,.0f}, {found.cpu_ms:,.0f} ({found.queries})"
    return f"**{text}**" if late else text


if __name__ == "__main__":
    sys.exit(main(lambda text: print(text, flush=True)))
