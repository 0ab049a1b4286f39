"""A team admin's first minutes: log in, see what needs them, read a request, issue a key; wide, narrow and dark."""

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from tenants.models import GatewayKey
from tenants.services import gateway_digest
from tests import factories
from tests.config.admin_world import member, team

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PASSWORD = "correct horse battery"
PHONE = 390


@pytest.fixture
def alpha():
    made = team("alpha")
    boss = member(made.tenant, "admin")
    boss.set_password(PASSWORD)
    boss.save()
    record = factories.RecordFactory(
        line=made.line,
        created=timezone.now(),
        attempt_count=2,
        request_id="req_shown",
        route="default",
        rule="everything",
    )
    factories.AttemptFactory(
        record=record, n=1, outcome="rate_limited", status=429, upstream="relay-a", upstream_key="a1 (…f3k9aa)", ms=300,
        message="Slow down: 40 s", evidence="text-rate",
    )  # fmt: skip
    factories.AttemptFactory(record=record, n=2, upstream="relay-b", started_ms=300, ms=900, first_content_ms=100)
    return made


def log_in(page, server):
    page.goto(server.url + reverse("admin:login") + f"?next={reverse('admin:index')}")
    page.fill("#id_username", "alpha-admin")
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")
    page.wait_for_url(server.url + reverse("admin:index"))


def sideways(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_from_the_login_to_a_new_key(open_page, live_server, alpha, shoot):
    page = open_page()
    log_in(page, live_server)
    assert page.locator(".attention").is_visible()
    assert page.locator(".tile").count() == 6
    shoot(page, "flow-home")

    page.click("summary:has-text('Traffic')")
    page.click(".menu a:has-text('Requests')")
    page.click("#result_list a:has-text('req_shown')")
    chain = page.locator(".try")
    assert chain.count() == 2
    assert "rate limited" in chain.nth(0).inner_text()
    assert "HTTP 429 · Slow down: 40 s" in chain.nth(0).inner_text()
    assert "served" in chain.nth(1).inner_text()
    assert chain.nth(1).locator(".tick").count() == 1
    shoot(page, "flow-request")

    page.click("summary:has-text('Clients')")
    page.click(".menu a:has-text('Gateway keys')")
    page.click(".object-tools a:has-text('Add')")
    page.click(".select2-selection")
    page.click(".select2-results__option:has-text('alpha-line')")
    page.fill("#id_name", "from the browser")
    page.click("input[name=_save]")
    secret = page.locator("#secret").inner_text()
    assert re.fullmatch(r"sk-pm-[\w-]{40}", secret)
    assert GatewayKey.objects.get(name="from the browser").digest == gateway_digest(secret)
    page.click("button[data-copy=secret]")
    page.wait_for_selector("button[data-copy=secret]:has-text('Copied')")
    shoot(page, "flow-issued")

    page.click("a.button:has-text('Done')")
    assert secret not in page.content()
    page.click(".object-tools a:has-text('Revoke')")
    assert "stops working within 2 seconds" in page.locator(".callout").inner_text()
    page.click("input[value=Revoke]")
    assert GatewayKey.objects.get(name="from the browser").revoked is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_scrolls_sideways_on_a_phone(open_page, live_server, alpha, shoot, scheme):
    page = open_page(width=PHONE, scheme=scheme)
    log_in(page, live_server)
    record = alpha.rows["billing.RequestRecord"]
    pages = {
        "home": reverse("admin:index"),
        "pool": reverse("admin:pool"),
        "requests": reverse("admin:billing_requestrecord_changelist"),
        "request": reverse("admin:billing_requestrecord_change", args=[record.pk]),
        "keys": reverse("admin:keys_upstreamkey_changelist"),
        "rule": reverse("admin:routing_routingrule_add"),
        "line": reverse("admin:tenants_businessline_change", args=[alpha.line.pk]),
        "upstream": reverse("admin:keys_upstream_add"),
    }
    for name, address in pages.items():
        page.goto(live_server.url + address)
        shoot(page, f"phone-{scheme}-{name}")
        assert sideways(page) <= 0, name


def test_the_menu_unfolds_on_a_phone(open_page, live_server, alpha):
    page = open_page(width=PHONE)
    log_in(page, live_server)
    assert not page.locator(".menu a:has-text('Overview')").is_visible()
    page.click(".menu-all > summary")
    page.click(".menu summary:has-text('Keys')")
    page.click(".menu a:has-text('Pool')")
    assert page.locator("h1").inner_text() == "Pool"


def test_a_row_of_a_list_unfolds_on_a_phone(open_page, live_server, alpha):
    page = open_page(width=PHONE)
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:billing_requestrecord_changelist"))
    row = page.locator("#result_list tbody tr").first
    assert not row.locator(".field-charged").is_visible()
    row.locator(".more").click()
    assert row.locator(".field-charged").is_visible()
