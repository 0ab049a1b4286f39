"""Every factory makes a row that its model accepts, inside one tenant."""

import pytest
from django.db import models

from routing.snapshot import read_table
from tenants.models import Tenant
from tenants.services import gateway_digest
from tests import factories

pytestmark = pytest.mark.django_db

FACTORIES = [
    factories.TenantFactory,
    factories.LineFactory,
    factories.GatewayKeyFactory,
    factories.AccountFactory,
    factories.UpstreamFactory,
    factories.UpstreamKeyFactory,
    factories.GroupFactory,
    factories.MemberFactory,
    factories.RouteFactory,
    factories.RuleFactory,
    factories.LineRouteFactory,
    factories.PriceFactory,
    factories.ExchangeRateFactory,
    factories.BudgetFactory,
    factories.RecordFactory,
    factories.AttemptFactory,
    factories.LedgerEntryFactory,
]


@pytest.mark.parametrize("made_by", FACTORIES, ids=lambda one: one.__name__)
def test_a_row_is_valid_and_brings_at_most_one_tenant(made_by: type) -> None:
    row: models.Model = made_by()
    row.refresh_from_db()
    row.clean_fields(exclude=[field.name for field in row._meta.fields if field.blank or field.null])
    row.validate_constraints()
    assert Tenant.objects.count() <= 1


def test_a_serving_tenant_reads_as_a_routing_table() -> None:
    world = factories.serving("http://127.0.0.1:1/v1", "key-1", "key-2", group={"policy": {"preset": "relay"}})
    table = read_table()
    (group,) = table.groups.values()
    names = [table.upstreams[member.upstream_id].name for member in group.members]
    assert names == ["u1", "u2"]
    assert table.gateway_keys[gateway_digest(world.secret)].line_id == world.line.pk
    assert [key.secret for key in world.keys] == ["key-1", "key-2"]


def test_keys_can_share_an_upstream() -> None:
    world = factories.serving("http://127.0.0.1:1/v1", "key-1", "key-2", one_upstream=True)
    assert [key.upstream for key in world.keys] == [world.upstreams[0]] * 2
