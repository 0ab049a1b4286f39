"""What people, clients and upstreams wrote is shown as text on every page of the admin, whatever it looks like."""

import re

import pytest
from django.db.models import CharField, TextField
from django.utils import timezone

from billing.rollups import roll_up
from keys.models import Upstream
from routing.models import RoutingRule
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_addresses import asks, keep_old_secrets
from tests.config.admin_world import person, shared_rows, team

pytestmark = pytest.mark.django_db

WRITTEN = {
    "name", "slug", "note", "message", "text", "subject", "error", "model", "model_requested", "model_served",
    "line_slug", "line_name", "key_name", "upstream", "upstream_key", "object_name", "username", "reason", "evidence",
    "target", "closed_by", "error_code", "rule", "route", "group", "session", "refusal_limit", "pattern", "model_sent",
    "upstream_request_id", "action",
}  # fmt: skip


def rewrite(made):
    """Put something like a tag wherever somebody may write."""
    for row in made.rows.values():
        columns = [column for column in row._meta.concrete_fields if type(column) in {CharField, TextField}]
        words = {
            column.name: f"<b-{column.name}>"[: column.max_length or 99]
            for column in columns
            if column.name in WRITTEN and not column.choices
        }
        type(row)._default_manager.filter(pk=row.pk).update(**words)
    AuditEntry.objects.filter(pk=made.rows["tenants.AuditEntry"].pk).update(fields={"<b-field>": "<b-value>"})
    Upstream.objects.filter(pk=made.rows["keys.Upstream"].pk).update(
        headers={"<b-header>": "x"}, model_list=["<b-listed>"], read_models=["<b-read>"], aliases={"<b-a>": "<b-b>"}
    )
    rule = RoutingRule.objects.filter(pk=made.rows["routing.RoutingRule"].pk)
    rule.update(when={"model": "<b-when>", "line": "<b-line>"}, set={"model": "<b-set>"})


def test_no_page_takes_what_was_written_for_its_own(client):
    made = team("alpha")
    made.rows.update(shared_rows())
    made.rows["auth.User"] = made.rows["tenants.Membership"].user
    keep_old_secrets(made)
    factories.RecordFactory(line=made.line, created=timezone.now(), model_requested="<b-asked>", model_served="<b-got>")
    rewrite(made)
    roll_up(now=timezone.now())
    client.force_login(person("root", is_superuser=True))
    shown = 0
    for name, pages in asks(made).items():
        for page in pages:
            answer = client.get(page.url)
            if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
                text = answer.content.decode()
                shown += text.count("&lt;b-")
                assert re.findall(r".{40}<b-.{0,20}", text) == [], (name, page)
    assert shown > 100
