"""Balances in words, and on the pages of accounts."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.timezone import now

from keys.balancewords import amount_words, balance_cell, balance_story, error_words, notes_of, watch_of
from keys.models import BalanceWatch, UpstreamKey
from tests.factories import AccountFactory, UpstreamFactory, UpstreamKeyFactory

pytestmark = pytest.mark.django_db


def watch(account, amount="12.5", currency="USD", **fields):
    amount = None if amount is None else Decimal(amount)
    fields = {"read": now() - timedelta(minutes=3), "tried": now(), **fields}
    return BalanceWatch.objects.create(
        tenant=account.tenant, account=account, amount=amount, currency=currency, **fields
    )


@pytest.mark.parametrize(
    ("amount", "currency", "words"),
    [
        ("12.5", "USD", "12.50 USD left"),
        ("-3", "CNY", "-3.00 CNY left"),
        ("1500000", "", "1,500,000 of its own units left"),
        (None, "", ""),
    ],
)
def test_amounts(amount, currency, words):
    assert amount_words(watch(AccountFactory(), amount, currency)) == words


def test_a_keys_balance_is_its_accounts():
    account = AccountFactory()
    key = UpstreamKeyFactory(upstream=UpstreamFactory(tenant=account.tenant), account=account)
    assert list(notes_of(key)) == []
    row = watch(account, error="answered 401: the key may not read its balance there; answered 500")
    key = UpstreamKey.objects.select_related("account__balance", "balance").get(pk=key.pk)
    assert watch_of(key) == watch_of(account) == row
    assert list(notes_of(key)) == [
        "Balance: 12.50 USD left",
        "Balance not read: answered 401: the key may not read its balance there; answered 500",
    ]


def test_a_key_without_an_account_has_its_own():
    key = UpstreamKeyFactory(account=None)
    BalanceWatch.objects.create(tenant=key.upstream.tenant, upstream_key=key, amount=1, currency="CNY")
    assert list(notes_of(UpstreamKey.objects.get(pk=key.pk))) == ["Balance: 1.00 CNY left"]


def test_what_others_wrote_is_escaped():
    row = watch(AccountFactory(), text="<b>1</b>", error="the relay refuses: <script>")
    for html in (balance_cell(row), balance_story(row)):
        assert "<b>1" not in html
        assert "<script>" not in html
    assert error_words(row) == "the relay refuses: <script>"


@pytest.mark.parametrize(("amount", "available", "marked"), [("5", True, 0), ("0", True, 1), ("0.05", False, 1)])
def test_nothing_left_is_marked(amount, available, marked):
    assert balance_cell(watch(AccountFactory(), amount, available=available)).count("nothing left") == marked


class TestPages:
    @pytest.fixture
    def operator(self, client):
        client.force_login(User.objects.create_superuser("root"))
        return client

    def test_the_account_tells_its_balance_and_its_error(self, operator):
        account = AccountFactory(balance_url="https://relay.example/balance")
        row = watch(account, text="balance 12.50, currency USD", error="answered 500")
        for amount in (14, 13, Decimal("12.5")):
            row.readings.create(at=now(), amount=amount, currency="USD")
        listed = operator.get(reverse("admin:keys_account_changelist")).content.decode()
        assert "12.50 USD left" in listed
        assert "not read" in listed
        page = operator.get(reverse("admin:keys_account_change", args=[account.pk])).content.decode()
        assert "12.50 USD left" in page
        assert "As read: balance 12.50, currency USD" in page
        assert "answered 500" in page
        assert "14.00 USD" in page
        assert "Where a key of this account is told what is left" in page

    def test_who_is_not_read_is_told_why(self, operator):
        page = operator.get(reverse("admin:keys_account_change", args=[AccountFactory().pk])).content.decode()
        assert "Not read: no address is stated" in page
        assert operator.get(reverse("admin:keys_account_add")).status_code == 200

    def test_another_address_is_read_anew(self, operator):
        account = AccountFactory()
        watch(account)
        form = {"tenant": account.tenant_id, "name": account.name, "quota_timezone": "UTC", "credit_period": ""}
        url = reverse("admin:keys_account_change", args=[account.pk])
        inline = {f"{rows}-{part}_FORMS": 0 for rows in ("keys", "budgets") for part in ("TOTAL", "INITIAL")}
        assert operator.post(url, {**form, **inline, "quota_timezone": "Asia/Shanghai"}).status_code == 302
        assert BalanceWatch.objects.count() == 1
        assert operator.post(url, {**form, **inline, "balance_url": "https://93.184.216.34/b"}).status_code == 302
        assert BalanceWatch.objects.count() == 0

    def test_the_pool_tells_it_at_each_key(self, operator, django_assert_max_num_queries):
        account = AccountFactory()
        upstream = UpstreamFactory(tenant=account.tenant)
        for _ in range(2):
            UpstreamKeyFactory(upstream=upstream, account=account)
        lone = UpstreamKeyFactory(upstream=upstream)
        watch(account, error="answered 500")
        BalanceWatch.objects.create(tenant=account.tenant, upstream_key=lone, amount=3, currency="CNY")
        with django_assert_max_num_queries(12):
            page = operator.get(reverse("admin:pool")).content.decode()
        assert page.count("Balance: 12.50 USD left") == 2
        assert page.count("Balance not read: answered 500") == 2
        assert page.count("Balance: 3.00 CNY left") == 1
