"""What `./bin/run --demo` adds: two simulated upstreams and a tenant whose first call visibly fails over.

Made once; a later start finds it and leaves it as people have changed it, except for the two ports.
"""

import base64
import errno
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from billing.models import Price
from config.demo_upstream import MODELS
from keys.models import Upstream, UpstreamKey
from keys.services import save_key
from routing.models import GroupMember, Route, RoutingRule, StrategyGroup
from tenants.core.credentials import PREFIX
from tenants.models import BusinessLine, Tenant
from tenants.services import installation_secret, issue_gateway_key, touch_config

HOST = "127.0.0.1"
TENANT = "demo"
MODES = ("limited", "good")  # in the group's order: the first one always refuses
KEY_BYTES = 30  # 40 characters


@dataclass(frozen=True, slots=True)
class Demo:
    """For `manage.py up`: programs to run beside the gateway, their environment, and what to print."""

    children: Mapping[str, Sequence[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = ()


def prepare(gateway_url: str) -> Demo:
    """Write the demo's rows where they are missing and give each simulated upstream a free port."""
    secret = demo_secret()
    with transaction.atomic():
        tenant = Tenant.objects.filter(slug=TENANT).first() or create_tenant(secret)
        ports = assign_ports(tenant)
    return Demo(
        children={f"demo upstream ({mode})": command(mode, port) for mode, port in ports.items()},
        lines=snippets(gateway_url, secret),
    )


def demo_secret() -> str:
    """Return the demo's gateway key, the same at every start without being stored: it follows from a random key."""
    raw = installation_secret("demo-gateway-key")[:KEY_BYTES]
    return PREFIX + base64.urlsafe_b64encode(raw).decode()


def create_tenant(secret: str) -> Tenant:
    tenant = Tenant.objects.create(slug=TENANT, name="Demo team", currency="USD")
    Price.objects.create(
        tenant=tenant, model="demo-*", currency="USD",
        input=Decimal("2.50"), cached_input=Decimal("1.25"), output=Decimal(10),
    )  # fmt: skip
    group = StrategyGroup.objects.create(tenant=tenant, name="main")
    for position, mode in enumerate(MODES):
        upstream = Upstream.objects.create(
            tenant=tenant, name=f"demo-{mode}", base_url=base_url(0), model_list=list(MODELS)
        )
        save_key(key=UpstreamKey(upstream=upstream, name=f"{mode}-1"), secret=f"sk-demo-{mode}-000001")
        GroupMember.objects.create(group=group, upstream=upstream, position=position)
    route = Route.objects.create(tenant=tenant, name="default", is_default=True)
    RoutingRule.objects.create(route=route, name="everything", group=group)
    line = BusinessLine.objects.create(tenant=tenant, slug="demo-bot", name="Demo bot")
    issue_gateway_key(line=line, name="demo", secret=secret)
    return tenant


def assign_ports(tenant: Tenant) -> dict[str, int]:
    """Return the port of each simulated upstream: last time's where it is free, else a new one."""
    rows = {row.name: row for row in Upstream.objects.for_tenant(tenant)}
    ports: dict[str, int] = {}
    with ExitStack() as held:  # both at once, so that they differ
        for mode in MODES:
            row = rows.get(f"demo-{mode}")
            trial = held.enter_context(bound(urlsplit(row.base_url).port or 0 if row else 0))
            ports[mode] = trial.getsockname()[1]
            if row and row.base_url != base_url(ports[mode]):
                row.base_url = base_url(ports[mode])
                row.save(update_fields=["base_url"])
                touch_config()
    return ports


def base_url(port: int) -> str:
    return f"http://{HOST}:{port}/v1"


def bound(wanted: int) -> socket.socket:
    """Return a socket bound to `wanted`, or to any free port when that one is taken."""
    trial = socket.socket()
    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        trial.bind((HOST, wanted))
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        trial.bind((HOST, 0))
    return trial


def command(mode: str, port: int) -> list[str]:
    return [sys.executable, "-m", "config.demo_upstream", "--port", str(port), "--mode", mode]


def snippets(gateway_url: str, secret: str) -> list[str]:
    """Return what to print: the key, and two ways to make the first call."""
    body: dict[str, Any] = {"model": MODELS[0], "messages": [{"role": "user", "content": "Hello!"}]}
    return f"""Gateway key: {secret}

Try it (the first key answers 429, the next one serves):

curl -i {gateway_url}/v1/chat/completions \\
  -H 'Authorization: Bearer {secret}' \\
  -H 'Content-Type: application/json' \\
  -d '{json.dumps(body)}'

Or with OpenAI's SDK (pip install openai):

from openai import OpenAI
client = OpenAI(base_url="{gateway_url}/v1", api_key="{secret}")
for chunk in client.chat.completions.create(
    model="{MODELS[0]}", messages=[{{"role": "user", "content": "Hello!"}}], stream=True
):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)

Then look at the attempt chain and the cost in the admin, tenant "{TENANT}".""".split("\n")
