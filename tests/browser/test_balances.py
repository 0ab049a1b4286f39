"""Balances in the browser: at the account and in the pool, read and not read, wide and on a phone."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from keys.models import BalanceWatch
from tests import factories
from tests.browser.test_admin_flow import PASSWORD, PHONE, log_in, sideways
from tests.config.admin_world import member, team

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def account():
    made = team("alpha")
    boss = member(made.tenant, "admin")
    boss.set_password(PASSWORD)
    boss.save()
    account = factories.AccountFactory(tenant=made.tenant, balance_url="https://relay.example/api/usage/token/")
    for _ in range(2):
        factories.UpstreamKeyFactory(upstream=made.rows["keys.Upstream"], account=account)
    moment = timezone.now()
    watch = BalanceWatch.objects.create(
        tenant=made.tenant, account=account, amount=Decimal("3.1875"), currency="USD", high=Decimal(50),
        text="total_available 1593750, total_granted 25000000", read=moment - timedelta(minutes=14), tried=moment,
        error="answered 401: the key may not read its balance there",
    )  # fmt: skip
    for minutes, amount in ((14, "3.1875"), (25, "3.4"), (37, "50")):
        watch.readings.create(at=moment - timedelta(minutes=minutes), amount=Decimal(amount), currency="USD")
    return account


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "dark")])
def test_what_is_left_stands_at_the_account_and_in_the_pool(open_page, live_server, account, shoot, width, scheme):
    page = open_page(width=width, scheme=scheme)
    page.set_default_timeout(60_000)  # milliseconds
    log_in(page, live_server)
    for name, address in (
        ("account", reverse("admin:keys_account_change", args=[account.pk])),
        ("accounts", reverse("admin:keys_account_changelist")),
        ("balances-pool", reverse("admin:pool")),
    ):
        page.goto(live_server.url + address)
        assert page.get_by_text("3.19 USD left").first.is_visible()
        assert sideways(page) == 0
        shoot(page, f"{name}-{width}-{scheme}")
