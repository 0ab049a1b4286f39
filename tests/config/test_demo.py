"""What `./bin/run --demo` prepares, and that a second start leaves it as it is."""

import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command

from config import demo
from config.management.commands import up
from config.private_upstreams import parse
from keys.models import Upstream, UpstreamKey
from routing.snapshot import read_table
from tenants.models import BusinessLine, GatewayKey, Tenant
from tenants.services import gateway_digest

URL = "http://127.0.0.1:8000"

pytestmark = pytest.mark.django_db


def key_line(prepared: demo.Demo) -> str:
    (line,) = [line for line in prepared.lines if line.startswith("Gateway key: ")]
    return line.removeprefix("Gateway key: ")


def ports() -> dict[str, int | None]:
    return {row.name: urlsplit(row.base_url).port for row in Upstream.objects.all()}


def test_the_first_start_makes_a_tenant_whose_first_member_refuses() -> None:
    prepared = demo.prepare(URL)
    table = read_table()
    (group,) = table.groups.values()
    assert [table.upstreams[member.upstream_id].name for member in group.members] == ["demo-limited", "demo-good"]
    gateway_key = table.gateway_keys[gateway_digest(key_line(prepared))]
    assert table.lines[gateway_key.line_id].slug == "demo-bot"
    tenant = Tenant.objects.get()
    assert list(table.default_routes) == [tenant.pk]
    assert table.prices.find(tenant.pk, ["demo-chat"], tenant.created) is not None


def test_the_programs_listen_where_the_rows_point() -> None:
    prepared = demo.prepare(URL)
    told = {argv[-1]: int(argv[-3]) for argv in prepared.children.values()}
    assert ports() == {"demo-limited": told["limited"], "demo-good": told["good"]}
    assert told["limited"] != told["good"]


def test_a_second_start_changes_nothing() -> None:
    first = demo.prepare(URL)
    BusinessLine.objects.update(name="renamed by a person")
    before = (ports(), read_table())
    second = demo.prepare(URL)
    assert (ports(), read_table()) == before
    assert second == first
    counts = [model.objects.count() for model in (Tenant, Upstream, UpstreamKey, GatewayKey)]  # type: ignore[attr-defined]
    assert counts == [1, 2, 2, 1]


def test_a_port_taken_meanwhile_is_replaced() -> None:
    demo.prepare(URL)
    before = ports()
    version = read_table().version
    with closing(socket.create_server(("127.0.0.1", before["demo-good"] or 0))):
        demo.prepare(URL)
    assert ports()["demo-limited"] == before["demo-limited"]
    assert ports()["demo-good"] != before["demo-good"]
    assert read_table().version == version + 1


def test_the_snippets_name_the_gateway_and_its_key() -> None:
    prepared = demo.prepare("http://127.0.0.1:4711")
    text = "\n".join(prepared.lines)
    assert "curl -i http://127.0.0.1:4711/v1/chat/completions" in text
    assert f'OpenAI(base_url="http://127.0.0.1:4711/v1", api_key="{key_line(prepared)}")' in text


def test_a_later_start_does_not_warn_of_its_own_addresses(settings, capsys: pytest.CaptureFixture[str]) -> None:
    demo.prepare(URL)
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = parse("off")
    call_command("check_config")
    assert capsys.readouterr().err.count("loopback address") == 2
    up.allow_loopback()
    call_command("check_config")
    assert capsys.readouterr().err == ""
