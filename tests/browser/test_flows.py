"""The work of three people on the real server: operator, team admin and finance, from forms to the file.

The team admin's calls go through the official SDK to a scripted upstream; what the pages show is what was served.
"""

import csv
import io
from datetime import timedelta
from decimal import Decimal

import openai
import pytest
from django.urls import reverse
from django.utils import timezone

from billing.models import LedgerEntry, Price, Statement
from keys.models import UpstreamKey
from tenants.models import AuditEntry, Tenant
from tests import factories
from tests.browser.test_admin_flow import PASSWORD
from tests.config.admin_world import member, person
from tests.fake_upstream import answer, status
from tests.gateway import CHARGE, HELLO, MESSAGES, PRICE, committed_database, gateway, up

__all__ = ["committed_database", "gateway", "up"]

pytestmark = pytest.mark.browser


@pytest.fixture
def site(gateway):
    gateway.start_over()
    return gateway


def enter(page, site, user):
    user.set_password(PASSWORD)
    user.save()
    page.goto(site.url + reverse("admin:login") + f"?next={reverse('admin:index')}")
    page.fill("#id_username", user.username)
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")
    page.wait_for_url(site.url + reverse("admin:index"))


def choose(page, field, text):
    """Choose a related row: from a list, or from a list that is searched as one types."""
    if page.locator(f"select#id_{field}.admin-autocomplete").count():
        page.click(f".field-{field.split('-')[-1]} .select2-selection")
        page.click(f".select2-results__option:has-text('{text}')")
    else:
        page.select_option(f"#id_{field}", label=text)


def save(page):
    page.click("input[name=_save]")
    assert page.locator(".errornote").count() == 0, page.locator(".errornote, .errorlist").all_inner_texts()


def test_an_operator_makes_a_team_and_a_price(site, open_page, shoot):
    page = open_page()
    enter(page, site, person("root", is_superuser=True))
    page.goto(site.url + reverse("admin:tenants_tenant_add"))
    page.fill("#id_name", "Search team")
    page.fill("#id_slug", "search")
    page.fill("#id_timezone", "Asia/Shanghai")
    page.fill("#id_currency", "CNY")
    shoot(page, "flow-operator-team")
    save(page)
    team = Tenant.objects.get()
    assert (team.slug, team.timezone, team.currency) == ("search", "Asia/Shanghai", "CNY")

    page.goto(site.url + reverse("admin:billing_price_add"))
    page.fill("#id_model", "gpt-*")
    page.fill("#id_input", "-2.50")
    page.fill("#id_output", "10")
    page.click("input[name=_save]")
    assert "greater than or equal to 0" in page.locator(".field-input .errorlist").inner_text()
    page.fill("#id_input", "2.50")
    page.fill("#id_currency", "USD")
    shoot(page, "flow-operator-price")
    save(page)
    price = Price.objects.get()
    assert (price.tenant, price.model, price.input, price.output) == (None, "gpt-*", Decimal("2.5"), Decimal(10))
    assert set(AuditEntry.objects.values_list("object_name", flat=True)) >= {str(team), str(price)}


def paste_keys(page, site, shoot):
    page.goto(site.url + reverse("admin:pool"))
    page.click("summary:has-text('Paste many keys')")
    assert page.locator("#id_upstream option:checked").inner_text() == "acme · relay-a"  # there is no other
    page.fill("textarea", "sk-first-00000000001\nsk-second-0000000002\nsk-first-00000000001\nhas a space")
    page.wait_for_selector("#paste-report:has-text('is the same as an earlier one')")
    shoot(page, "flow-admin-paste")
    page.click("input[value='Store them']")
    refused = page.locator(".callout-bad").inner_text()
    assert "line 3" in refused
    assert "line 4" in refused
    shoot(page, "flow-admin-pasted")
    first, second = UpstreamKey.objects.order_by("pk")
    assert (first.secret, second.secret) == ("sk-first-00000000001", "sk-second-0000000002")


def make_route(page, site, shoot):
    page.goto(site.url + reverse("admin:routing_strategygroup_add"))
    page.fill("#id_name", "main")
    if not page.locator("#id_members-0-upstream").count():
        page.click("#members-group .add-row a")
    choose(page, "members-0-upstream", "relay-a")
    save(page)
    page.goto(site.url + reverse("admin:routing_route_add"))
    page.fill("#id_name", "default")
    page.check("#id_is_default")
    save(page)
    page.goto(site.url + reverse("admin:routing_routingrule_add"))
    choose(page, "route", "default")
    page.fill("#id_name", "everything")
    choose(page, "group", "main")
    shoot(page, "flow-admin-rule")
    save(page)


def make_line_and_key(page, site):
    """Return the secret that the page shows once."""
    page.goto(site.url + reverse("admin:tenants_businessline_add"))
    page.fill("#id_name", "Support bot")
    page.fill("#id_slug", "support")
    save(page)
    page.goto(site.url + reverse("admin:tenants_gatewaykey_add"))
    choose(page, "line", "support")
    page.fill("#id_name", "prod")
    save(page)
    return page.locator("#secret").inner_text()


def test_a_team_admin_sees_a_failover_and_fetches_the_bill(site, up, open_page, shoot):
    team = factories.TenantFactory(slug="acme", name="Acme", currency="USD")
    factories.PriceFactory(tenant=team, **PRICE)
    page = open_page()
    enter(page, site, member(team, "admin"))
    page.goto(site.url + reverse("admin:keys_upstream_add"))
    page.fill("#id_name", "relay-a")
    page.fill("#id_base_url", up.base_url)
    save(page)
    paste_keys(page, site, shoot)
    make_route(page, site, shoot)
    secret = make_line_and_key(page, site)

    site.refresh()
    up.script("sk-first-00000000001", status(429, retry_after=40))
    up.default(answer(HELLO), key="sk-second-0000000002")
    with openai.OpenAI(base_url=f"{site.url}/v1", api_key=secret, max_retries=0) as client:
        said = client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert said.choices[0].message.content == HELLO

    page.goto(site.url + reverse("admin:billing_requestrecord_changelist"))
    page.click("#result_list tbody th a")
    tries = page.locator(".try")
    assert tries.count() == 2
    assert "rate limited" in tries.nth(0).inner_text()
    assert "served" in tries.nth(1).inner_text()
    shoot(page, "flow-admin-failover")

    page.goto(site.url + reverse("admin:statements"))
    with page.expect_download() as download:
        page.click(".month-tools a:has-text('Bill as CSV')")
    shoot(page, "flow-admin-statements")
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    assert [(row["line"], row["calls"], Decimal(row["charge"])) for row in rows] == [
        ("support", "1", CHARGE),
        ("", "1", CHARGE),
    ]


def test_finance_closes_a_month(site, open_page, shoot):
    team = factories.TenantFactory(slug="acme", name="Acme", currency="USD")
    line = factories.LineFactory(tenant=team, slug="support", name="Support bot")
    last = timezone.now().replace(day=1) - timedelta(days=3)
    record = factories.RecordFactory(line=line, created=last, charge=Decimal("12.5"), cost=Decimal(10))
    factories.LedgerEntryFactory(record=record, amount=Decimal("12.5"))
    page = open_page()
    enter(page, site, member(team, "finance"))
    page.goto(site.url + reverse("admin:statements"))
    page.click("a:has-text('Close this month')")
    assert "12.5" in page.locator("#content").inner_text()
    shoot(page, "flow-finance-close")
    page.click("#content input[type=submit], #content button[type=submit]")
    statement = Statement.objects.get()
    assert statement.closed_by == "acme-finance"
    page.click(f"details.month:not([open]):has(a[href*='month={last:%Y-%m}']) summary")
    with page.expect_download() as download:
        page.click(f".month-tools a[href$='month={last:%Y-%m}']:has-text('Bill as CSV')")
    assert download.value.path().read_bytes() == bytes(statement.csv)
    assert LedgerEntry.objects.count() == 1
    shoot(page, "flow-finance-closed")
