"""Setting up a second factor and logging in with it, as people do; the QR code is drawn under the content policy."""

import pyotp
import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from tests.browser.test_admin_flow import PASSWORD, PHONE, sideways

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def log_in(page, server):
    page.goto(server.url + reverse("admin:login") + f"?next={reverse('admin:index')}")
    page.fill("#id_username", "root")
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "dark")])
def test_a_second_factor_from_the_qr_code_to_the_next_login(open_page, live_server, shoot, width, scheme):
    User.objects.create_superuser("root", password=PASSWORD)
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    page.click("a:has-text('My account')")
    page.click("button[value=begin]")
    assert page.locator(".qr svg").bounding_box()["width"] > 150
    secret = page.locator("#secret").inner_text()
    shoot(page, f"security-{width}-begun")
    assert sideways(page) <= 0
    page.fill("#id_code", pyotp.TOTP(secret).now())
    page.fill("#id_password", PASSWORD)
    page.click("button:has-text('Switch it on')")
    codes = page.locator("#codes").inner_text().split()
    assert len(codes) == 10
    shoot(page, f"security-{width}-codes")
    assert sideways(page) <= 0

    page.click("#logout-form button")
    log_in(page, live_server)
    page.wait_for_url(live_server.url + reverse("admin:login_code"))
    shoot(page, f"security-{width}-login")
    page.fill("#id_code", codes[0])
    page.click("input[type=submit]")
    page.wait_for_url(live_server.url + reverse("admin:index"))
    page.goto(live_server.url + reverse("admin:security"))
    assert "9 recovery codes are left" in page.locator(".callout-good").inner_text()
    assert sideways(page) <= 0
