"""From an empty database to "It works": the first steps as an operator takes them, on the real server."""

import httpx
import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from billing.models import RequestRecord
from tenants.models import Tenant
from tests.browser.test_admin_flow import PASSWORD, PHONE, sideways
from tests.factories import PriceFactory
from tests.gateway import PRICE, chat, committed_database, gateway, up

__all__ = ["committed_database", "gateway", "up"]

pytestmark = pytest.mark.browser


@pytest.fixture
def empty(gateway):
    gateway.start_over()
    User.objects.create_superuser("root", password=PASSWORD)
    return gateway


def log_in(page, url):
    page.goto(url + reverse("admin:login") + f"?next={reverse('admin:index')}")
    page.fill("#id_username", "root")
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")
    page.wait_for_url(url + reverse("admin:index"))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "dark")])
def test_from_nothing_to_it_works(empty, up, open_page, shoot, width, scheme):
    page = open_page(width=width, scheme=scheme)
    log_in(page, empty.url)
    shoot(page, f"start-{width}-home")
    page.click(f".empty a[href='{reverse('admin:start')}']")

    page.fill("#id_name", "Search team")
    page.fill("#id_currency", "USD")
    shoot(page, f"start-{width}-1-team")
    assert sideways(page) <= 0
    page.click(".submit-row .default")

    page.check("input[name=preset][value=other]")
    page.fill("#id_base_url", up.base_url)
    page.fill("#id_name", "relay-a")
    page.fill("#id_secret", "sk-browser-000000000001")
    shoot(page, f"start-{width}-2-upstream")
    assert sideways(page) <= 0
    page.click(".submit-row .default")
    assert "accepted: 1 model in" in page.locator(".messagelist").inner_text()
    shoot(page, f"start-{width}-3-group")

    page.click(".submit-row .default")
    page.fill("#id_name", "Support bot")
    page.click(".submit-row .default")
    secret = page.locator("#secret").inner_text()
    page.click("button[data-copy=secret]")
    page.wait_for_selector("button[data-copy=secret]:has-text('Copied')")
    assert secret in page.locator("#snippet-1").inner_text()
    shoot(page, f"start-{width}-4-waiting")
    assert sideways(page) <= 0

    PriceFactory(tenant=Tenant.objects.get(), **PRICE)
    empty.refresh()
    page.mouse.move(0, 0)
    body = chat(model="fake-model")
    answered = httpx.post(
        f"{empty.url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {secret}"}, trust_env=False
    )
    assert answered.status_code == 200
    page.wait_for_selector(".it-works", timeout=8000)  # without a reload: the fragment came by itself
    works = page.locator(".it-works")
    assert "Support bot asked for fake-model, relay-a answered." in works.inner_text()
    assert "0.0001" in works.inner_text()
    assert secret in page.content()
    shoot(page, f"start-{width}-5-works")
    works.locator("a.button").first.click()
    assert RequestRecord.objects.get().request_id in page.content()
