"""Statements: months per line, exports, closing with its consequences, budgets; each for the own team and role."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.admin import budgets
from billing.core.budget import Held
from billing.models import Budget, Forecast, Statement
from billing.reserved import save
from billing.rollups import roll_up
from billing.spent import info_of
from config.pages import statements
from config.pages.downloads import csv_file
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_world import UPSTREAM_SECRET, member, person, team

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
SEPTEMBER = date(2026, 9, 1)


@pytest.fixture(autouse=True)
def _frozen(monkeypatch):
    monkeypatch.setattr(statements, "now", lambda: NOW)


@pytest.fixture
def alpha():
    """Its October is closed, its September is over, its November runs."""
    made = team("alpha")
    call(made.line, "7.25", datetime(2026, 9, 10, tzinfo=UTC))
    call(made.line, None, datetime(2026, 9, 11, tzinfo=UTC), priced=False, model_served="mystery")
    return made


def call(line, charge, created=NOW, **fields):
    value = None if charge is None else Decimal(charge)
    record = factories.RecordFactory(line=line, created=created, charge=value, cost=value, **fields)
    if value is not None:
        factories.LedgerEntryFactory(record=record)
    return record


def page(client, query=""):
    return client.get(reverse("admin:statements") + query)


def months(answer):
    return {month.label: month for month in answer.context["months"]}


def csv(client, made, month="2026-09", **query):
    return client.get(reverse("admin:statements_csv"), {"team": made.tenant.pk, "month": month, **query})


def closing(made, month="2026-09"):
    return reverse("admin:statements_close") + f"?team={made.tenant.pk}&month={month}"


def text_of(answer):
    return b"".join(answer.streaming_content).decode()


def test_months_stand_with_their_lines_and_state(client, alpha):
    client.force_login(member(alpha.tenant, "viewer"))
    answer = page(client)
    found = months(answer)
    assert list(found) == ["2026-11", "2026-10", "2026-09"]
    assert [(month.over, month.statement is not None) for month in found.values()] == [
        (False, False), (True, True), (True, False),
    ]  # fmt: skip
    (line,) = found["2026-09"].lines
    assert (line.name, line.figures.calls, line.figures.charge, line.figures.unpriced) == (
        "alpha line", 2, Decimal("7.25"), 1,
    )  # fmt: skip
    text = answer.content.decode()
    assert "1 unpriced" in text
    assert "Close this month" not in text  # a viewer closes nothing
    assert UPSTREAM_SECRET.format("alpha") not in text


def test_a_line_leads_to_the_requests_that_make_it_up(client, alpha):
    client.force_login(member(alpha.tenant, "viewer"))
    (line,) = months(page(client))["2026-09"].lines
    listed = client.get(line.requests_url).context["cl"].result_list
    assert len(listed) == 2
    assert sum(row.charge or 0 for row in listed) == line.figures.charge


def test_earlier_months_are_asked_for(client, alpha):
    client.force_login(member(alpha.tenant, "finance"))
    assert list(months(page(client, "?until=2026-09"))) == ["2026-09"]
    for odd in ("2031-01", "0001-01", "9999-12", "x", "2026-13"):
        assert page(client, f"?until={odd}").status_code == 200
    assert page(client, f"?team={alpha.tenant.pk}&until=2026-03").context["earlier"].endswith("until=2025-09")


def test_the_bill_is_handed_out(client, alpha):
    client.force_login(member(alpha.tenant, "finance"))
    answer = csv(client, alpha)
    assert answer["content-disposition"] == 'attachment; filename="alpha-2026-09.csv"'
    text = text_of(answer)
    assert text.startswith("date,tenant,line,")
    assert text.splitlines()[-1].startswith("TOTAL,")
    assert text_of(csv(client, alpha, bom="1")).startswith("\ufeff")
    one = csv(client, alpha, line="alpha-line")
    assert "alpha-2026-09-alpha-line.csv" in one["content-disposition"]
    assert text_of(csv(client, alpha, kind="requests")).count("\r\n") == 3
    assert text_of(csv(client, alpha, "2026-10", kind="credits")) == "created,line,amount,currency,note\r\n"
    assert text_of(csv(client, alpha, "2026-10")) == "alpha"  # the closed bytes


@pytest.mark.parametrize(
    "query",
    [{"month": "x"}, {"month": "9999-12"}, {"month": ""}, {"kind": "audit"}, {"team": "x"}, {"team": ""}],
)
def test_bad_questions_are_not_found(client, alpha, query):
    client.force_login(person("root", is_superuser=True))
    assert csv(client, alpha, **query).status_code == 404


def test_a_name_from_outside_gets_into_no_header(client, alpha):
    client.force_login(member(alpha.tenant, "finance"))
    answer = csv(client, alpha, line='x"; a="\r\nb')
    assert answer["content-disposition"] == 'attachment; filename="alpha-2026-09.csv"'


def test_nothing_of_another_team(client, alpha):
    bravo = team("bravo")
    for role in ("admin", "finance", "viewer"):
        client.force_login(member(alpha.tenant, role))
        assert "bravo" not in page(client, f"?team={bravo.tenant.pk}").content.decode()
        assert csv(client, bravo).status_code == 404
        assert client.get(closing(bravo)).status_code == 404
        assert client.post(closing(bravo)).status_code == 404
    assert Statement.objects.filter(tenant=bravo.tenant).count() == 1


def test_the_consequences_are_named_before_the_button(client, alpha):
    client.force_login(member(alpha.tenant, "finance"))
    answer = client.get(closing(alpha))
    text = " ".join(answer.content.decode().split())
    assert "mystery: 1 call" in text
    assert "Frozen as they are: calls 2, failed 0, lines" in text
    assert answer.context["payable"] == Decimal("7.25")
    assert "the same bytes for ever" in text
    assert Statement.objects.filter(tenant=alpha.tenant, month=SEPTEMBER).count() == 0


@pytest.mark.parametrize("role", ["finance", "admin"])
def test_a_month_is_closed_once_and_noted(client, alpha, role):
    client.force_login(member(alpha.tenant, role))
    before = AuditEntry.objects.count()
    answer = client.post(closing(alpha), follow=True)
    assert "2026-09 is closed: 7.25 USD are payable." in answer.content.decode()
    row = Statement.objects.get(tenant=alpha.tenant, month=SEPTEMBER)
    assert (row.closed_by, row.total_charge) == (f"alpha-{role}", Decimal("7.25"))
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.tenant, entry.fields) == ("close_month", alpha.tenant, {"digest": row.digest})
    assert "was closed already" in client.post(closing(alpha), follow=True).content.decode()
    assert AuditEntry.objects.count() == before + 1
    gone = client.get(closing(alpha))
    assert gone["location"] == reverse("admin:billing_statement_change", args=[row.pk])


def test_a_running_month_is_not_closed(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    assert "This month is not over" in client.get(closing(alpha, "2026-11")).content.decode()
    answer = client.post(closing(alpha, "2026-11"), follow=True)
    assert "is not over yet" in answer.content.decode()
    assert Statement.objects.filter(month=date(2026, 11, 1)).count() == 0


def test_a_viewer_closes_nothing(client, alpha):
    client.force_login(member(alpha.tenant, "viewer"))
    assert client.get(closing(alpha)).status_code == 403
    assert client.post(closing(alpha)).status_code == 403
    assert Statement.objects.filter(month=SEPTEMBER).count() == 0


def test_budgets_say_what_is_left_and_what_binds_first(client, alpha):
    Budget.objects.all().delete()
    line = factories.BudgetFactory(tenant=alpha.tenant, line=alpha.line, amount=50, period="month", hard=True)
    whole = factories.BudgetFactory(tenant=alpha.tenant, amount=40, period="month")
    factories.BudgetFactory(tenant=alpha.tenant, line=alpha.line, amount=0, period="total")
    call(alpha.line, "32")
    Forecast.objects.create(
        tenant=alpha.tenant, subject=f"tenant:{alpha.tenant.pk}:month", period="month", made=NOW, currency="USD",
        spent=32, amount=40, burn_per_day=4, expected=60, exhausted_at=NOW + timedelta(days=2),
    )  # fmt: skip
    client.force_login(member(alpha.tenant, "finance"))
    answer = page(client)
    bars = {bar.budget.pk: bar for bar in answer.context["bars"]}
    assert (bars[line.pk].spent, bars[line.pk].shown_share, bars[line.pk].tone) == (
        Decimal("32.000450000000"), "64.0 %", "good",
    )  # fmt: skip
    assert (bars[whole.pk].tone, bars[whole.pk].mark, bars[whole.pk].expected) == ("wait", 100, 60)
    assert "used up on 2026-11-17" in answer.content.decode()
    (first,) = answer.context["bindings"]
    assert (first.line, first.bar.shown_share) == ("alpha line", "–")  # a budget of zero is spent at once
    Budget.objects.filter(amount=0).delete()
    (first,) = page(client).context["bindings"]
    assert first.bar.budget == whole


def test_budgets_show_what_calls_in_flight_reserve(client, alpha, monkeypatch):
    Budget.objects.all().delete()
    row = factories.BudgetFactory(tenant=alpha.tenant, line=alpha.line, amount=50, period="month", hard=True)
    info = info_of(Budget.objects.select_related("tenant", "account").get(pk=row.pk))
    save({info.scope(NOW): (row.pk, Held(Decimal("12.5"), 3))}, NOW)
    client.force_login(member(alpha.tenant, "viewer"))
    answer = page(client)
    (bar,) = answer.context["bars"]
    assert (bar.reserved, bar.left, bar.share, bar.held) == (Decimal("12.5"), Decimal("37.49955"), 0, 25)
    text = " ".join(answer.content.decode().split())
    assert '<span class="held" data-left="0.00" data-width="25.00">' in text
    assert "reserved by calls in flight:" in text
    monkeypatch.setattr(budgets, "now", lambda: NOW)
    change = client.get(reverse("admin:billing_budget_change", args=[row.pk])).content.decode()
    assert 'title="12.5' in change
    assert 'title="37.49955' in change


def test_empty_pages_teach(client):
    client.force_login(person("root", is_superuser=True))
    assert "No team yet" in page(client).content.decode()
    factories.TenantFactory()
    text = page(client).content.decode()
    assert "No calls in this month." in text
    assert "Add a budget" in text


def test_it_costs_the_same_for_few_and_many(client, alpha):
    client.force_login(member(alpha.tenant, "finance"))
    roll_up(now=NOW)

    def cost():
        with CaptureQueriesContext(connection) as asked:
            assert page(client).status_code == 200
        return len(asked)

    cost()
    few = cost()
    for line in factories.LineFactory.create_batch(8, tenant=alpha.tenant):
        call(line, "1")
        call(line, "1", NOW - timedelta(days=70))
        factories.BudgetFactory(tenant=alpha.tenant, line=line)
    cost()
    assert cost() == few <= 20


async def test_under_asgi_a_file_is_made_piece_by_piece(rf, async_rf, monkeypatch):
    monkeypatch.setattr("config.pages.downloads.PIECE", 4)
    made = []

    def parts():
        for part in ("ab", "cd", "e"):
            made.append(part)
            yield part

    answer = csv_file(async_rf.get("/"), parts(), "x.csv")
    assert answer.is_async
    assert made == []
    assert [piece async for piece in answer] == [b"abcd", b"e"]
    assert list(csv_file(rf.get("/"), parts(), "x.csv")) == [b"abcd", b"e"]
