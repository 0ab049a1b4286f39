"""Pages of rows that a person only reads."""

import re
from decimal import Decimal

import pytest
from django.urls import reverse

from tenants.models import Role
from tests.config.admin_world import member
from tests.factories import PriceFactory, TenantFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("2.5", "2.5"),
        ("100", "100"),
        ("0", "0"),
        ("0.000000000123", "0.000000000123"),
        ("123456789012.123456789012", "123456789012.123456789012"),
    ],
)
def test_a_decimal_has_no_zeros_behind_its_last_digit(client, stored, shown):
    tenant = TenantFactory()
    price = PriceFactory(tenant=tenant, model="m", input=Decimal(stored), cached_input=None)
    client.force_login(member(tenant, Role.VIEWER))
    html = client.get(reverse("admin:billing_price_change", args=[price.pk])).content.decode()
    found = dict(re.findall(r'field-(input|cached_input)\b.*?class="readonly">(.*?)</div>', html, re.DOTALL))
    assert found["input"].replace(",", "") == shown
    assert found["cached_input"] == "–"
