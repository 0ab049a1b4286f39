"""Times are shown and read in the zone of the person's teams; each page says which zone that is."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils.timezone import now

from tenants.models import GatewayKey, Membership
from tests import factories
from tests.config.admin_forms import change
from tests.config.admin_world import member, person

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def shanghai():
    return factories.TenantFactory(slug="east", timezone="Asia/Shanghai")


def page_of(client, tenant):
    line = factories.LineFactory(tenant=tenant)
    key = factories.GatewayKeyFactory(line=line, name="k", expires=NOON)
    return key, client.get(reverse("admin:tenants_gatewaykey_change", args=[key.pk])).content.decode()


def test_a_team_sees_its_own_zone(client, shanghai):
    factories.TenantFactory(slug="west", timezone="America/New_York")
    client.force_login(member(shanghai, "admin"))
    _key, text = page_of(client, shanghai)
    assert 'value="20:00:00"' in text
    assert text.count("Times are in Asia/Shanghai") == 1


def test_what_is_typed_is_read_in_it(client, shanghai):
    client.force_login(member(shanghai, "admin"))
    key, _text = page_of(client, shanghai)
    day = (now() + timedelta(days=30)).date()
    change(client, "tenants_gatewaykey", key, line=key.line_id, name="k", enabled="on", expires_0=f"{day}",
           expires_1="08:30:00")  # fmt: skip
    expires = GatewayKey.objects.get(pk=key.pk).expires
    assert (expires.date(), expires.hour, expires.minute) == (day, 0, 30)


def test_an_operator_of_several_zones_is_told_utc(client, shanghai):
    factories.TenantFactory(slug="west", timezone="America/New_York")
    client.force_login(person("root", is_superuser=True))
    _key, text = page_of(client, shanghai)
    assert 'value="12:00:00"' in text
    assert "Times are in UTC" in text


def test_where_all_teams_agree_the_operator_sees_their_zone(client, shanghai):
    client.force_login(person("root", is_superuser=True))
    assert "Times are in Asia/Shanghai" in client.get(reverse("admin:pool")).content.decode()


def test_somebody_in_teams_of_two_zones_is_told_utc(client, shanghai):
    user = member(shanghai, "viewer")
    west = factories.TenantFactory(slug="west", timezone="America/New_York")
    Membership.objects.create(user=user, tenant=west, role="viewer")
    client.force_login(user)
    assert "Times are in UTC" in client.get(reverse("admin:pool")).content.decode()


def test_a_time_ago_has_the_exact_one_on_hover(client, shanghai):
    client.force_login(member(shanghai, "admin"))
    line = factories.LineFactory(tenant=shanghai)
    made = now() - timedelta(minutes=5)
    factories.GatewayKeyFactory(line=line, created=made)
    text = client.get(reverse("admin:tenants_gatewaykey_changelist")).content.decode()
    local = made + timedelta(hours=8)
    assert f'title="{local:%Y-%m-%d %H:%M:%S} CST">5 min ago</time>' in text
