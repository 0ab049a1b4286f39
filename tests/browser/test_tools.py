"""The work pages as people use them: dry run, classifier, live traffic, statements; wide, narrow and dark."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from keys.models import WordingRule
from tests import factories
from tests.browser.test_admin_flow import PASSWORD, PHONE, log_in, sideways
from tests.config.admin_world import member, team
from tests.config.test_admin_live import flight

__all__ = ["flight"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def alpha():
    made = team("alpha")
    boss = member(made.tenant, "admin")
    boss.is_superuser = True
    boss.set_password(PASSWORD)
    boss.save()
    type(made.rows["routing.RoutingRule"]).objects.update(position=5)
    route, group = made.rows["routing.Route"], made.rows["routing.StrategyGroup"]
    factories.RuleFactory(
        route=route, name="nightly", when={"line": "nightly-*", "stream": False}, group=group, position=0
    )
    relay = factories.UpstreamFactory(tenant=made.tenant, name="relay-b", model_list=["alpha-model"])
    factories.MemberFactory(group=group, upstream=relay)
    factories.UpstreamKeyFactory(upstream=relay, name="b1")
    factories.UpstreamKeyFactory(upstream=relay, name="b2", enabled=False)
    return made


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "light"), (1280, "dark")])
def test_a_request_is_explained(open_page, live_server, alpha, shoot, width, scheme):
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:dry_run"))
    shoot(page, f"tools-{scheme}-{width}-dry-run-empty")
    page.select_option("#id_line", label="alpha · alpha line")
    page.fill("#id_model", "alpha-model")
    page.check("#id_stream")
    page.click("button:has-text('Explain')")
    rules = page.locator(".steps").nth(0)
    assert "✕" in rules.locator("li").nth(0).inner_text()
    assert "decides" in rules.locator("li").nth(1).inner_text()
    assert page.locator(".steps").nth(1).locator("li").count() == 2
    assert "switched off" in page.locator(".steps").nth(2).inner_text()
    shoot(page, f"tools-{scheme}-{width}-dry-run")
    assert sideways(page) <= 0


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "light"), (1280, "dark")])
def test_an_error_becomes_a_rule(open_page, live_server, alpha, shoot, width, scheme):
    record = alpha.rows["billing.RequestRecord"]
    for n in range(2, 5):
        factories.AttemptFactory(
            record=record, n=n, outcome="overloaded", status=503, evidence="status:503",
            message=f"the hamster {n} is asleep, come back after its nap",
        )  # fmt: skip
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:classifier"))
    shoot(page, f"tools-{scheme}-{width}-classifier-list")
    assert sideways(page) <= 0
    page.click("a:has-text('Take it')")
    page.click("button:has-text('Classify')")
    assert "HTTP status alone" in page.locator(".callout").inner_text()
    shoot(page, f"tools-{scheme}-{width}-classifier-unknown")
    page.select_option("#id_rule-cause", "rate_limited")
    page.click("button:has-text('Add this rule')")
    assert "your own wording rule" in page.locator(".callout").inner_text()
    assert "hamster 4 is asleep" in page.locator(".pasted mark").inner_text()
    shoot(page, f"tools-{scheme}-{width}-classifier-rule")
    assert sideways(page) <= 0
    assert WordingRule.objects.get().cause == "rate_limited"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "light"), (1280, "dark")])
def test_a_request_in_flight_is_aborted(open_page, live_server, alpha, shoot, flight, width, scheme):
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:live"))
    assert "Nothing in flight" in page.locator(".empty").inner_text()
    shoot(page, f"tools-{scheme}-{width}-live-empty")
    flight.add(alpha, "req_0001aaaabbbbcccc", ago_s=412, sent_ago_s=260, attempts=2)
    flight.add(alpha, "req_0002aaaabbbbcccc", ago_s=95, phase="streaming", first_content_ms=1830)
    flight.add(alpha, "req_0003aaaabbbbcccc", ago_s=4, sent_ago_s=4, stream=False)
    flight.add(alpha, "req_0004aaaabbbbcccc", ago_s=1, phase="queued", upstream="", sent=None)
    page.wait_for_selector("td .gauge", timeout=8000)  # the fragment came by itself
    shoot(page, f"tools-{scheme}-{width}-live")
    assert sideways(page) <= 0
    page.locator("button:has-text('Abort')").first.click()
    assert "is being aborted" in page.locator(".messagelist").inner_text()
    page.wait_for_load_state("networkidle")
    assert flight.orders == ["req_0001aaaabbbbcccc"]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "light"), (1280, "dark")])
def test_a_month_is_closed(open_page, live_server, alpha, shoot, width, scheme):
    present = timezone.now()
    last = present - timedelta(days=70)
    for line in (alpha.line, factories.LineFactory(tenant=alpha.tenant, slug="nightly", name="Nightly batch")):
        for created, charge in ((present, "3.5"), (last, "812.25"), (last, "0.000001")):
            record = factories.RecordFactory(line=line, created=created, charge=Decimal(charge), cost=Decimal(charge))
            factories.LedgerEntryFactory(record=record)
        factories.BudgetFactory(tenant=alpha.tenant, line=line, amount=4, period="day", hard=True)
    factories.RecordFactory(line=alpha.line, created=last, charge=None, priced=False, model_served="mystery-1")
    factories.BudgetFactory(tenant=alpha.tenant, amount=60, period="week")
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:statements"))
    shoot(page, f"tools-{scheme}-{width}-statements")
    assert sideways(page) <= 0
    bill = page.locator(".month[open] >> a:has-text('Bill as CSV')").first.get_attribute("href")
    assert page.request.get(live_server.url + bill).text().startswith("date,tenant,line")
    page.locator("a:has-text('Close this month')").first.click()
    assert "mystery-1: 1 call" in page.locator(".callout-bad").inner_text()
    shoot(page, f"tools-{scheme}-{width}-close")
    assert sideways(page) <= 0
    page.click("input[type=submit][value^=Close]")
    assert "are payable" in page.locator(".messagelist").inner_text()
    page.wait_for_load_state("networkidle")
