"""Make the rows that a measured gateway needs, in the database of POINTSMAN_DATA; prints the gateway key.

`python -m bench.prepare UPSTREAM_BASE_URL`, on a migrated database.
"""

import sys
from decimal import Decimal

import django
from django.db import transaction

django.setup()

# Models exist only behind django.setup().
from billing.models import Price  # noqa: E402
from keys.models import Upstream, UpstreamKey  # noqa: E402
from keys.services import save_key  # noqa: E402
from routing.models import GroupMember, Route, RoutingRule, StrategyGroup  # noqa: E402
from tenants.models import BusinessLine, Tenant  # noqa: E402
from tenants.services import issue_gateway_key  # noqa: E402

UPSTREAMS = 2  # a priority group as people have it: one that serves, one in reserve


@transaction.atomic
def prepare(base_url: str) -> str:
    tenant = Tenant.objects.create(slug="bench", name="Bench")
    Price.objects.create(tenant=tenant, model="fake*", currency="USD", input=Decimal("2.5"), output=Decimal(10))
    group = StrategyGroup.objects.create(tenant=tenant, name="main")
    for position in range(UPSTREAMS):
        upstream = Upstream.objects.create(tenant=tenant, name=f"fake-{position}", base_url=base_url)
        save_key(key=UpstreamKey(upstream=upstream, name="k1"), secret=f"sk-fake-{position}-00000001")
        GroupMember.objects.create(group=group, upstream=upstream, position=position)
    route = Route.objects.create(tenant=tenant, name="default", is_default=True)
    RoutingRule.objects.create(route=route, name="everything", group=group)
    line = BusinessLine.objects.create(tenant=tenant, slug="load", name="Load")
    return issue_gateway_key(line=line, name="load").secret


if __name__ == "__main__":
    print(prepare(sys.argv[1]))
