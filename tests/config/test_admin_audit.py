"""The audit log: every way to write leaves a row without secrets; it is searched, filtered, and exported in scope."""

import csv
import io
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.http import StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone

from billing.models import Statement
from tenants.models import AuditEntry
from tests.config.admin_forms import add, change
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db

LIST = "admin:tenants_auditentry_changelist"
PASTED = "sk-pasted-never-shown-0000001"
PASSPHRASE = "a-long-passphrase-7"


@pytest.fixture
def alpha():
    made = team("alpha")
    AuditEntry.objects.all().delete()
    return made


@pytest.fixture
def root(client, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    user = person("root", is_superuser=True)
    user.set_password("correct horse battery")
    user.save()
    client.force_login(user)
    return client


def act(client, what, action, *rows):
    return client.post(
        reverse(f"admin:{what}_changelist"), {"action": action, "_selected_action": [row.pk for row in rows]}
    )


def delete(client, what, row):
    return client.post(reverse(f"admin:{what}_delete", args=[row.pk]), {"post": "yes"})


def key_now(client, key, action):
    return client.post(reverse("admin:keys_upstreamkey_now", args=[key.pk, action]))


def paste(client, alpha):
    data = {"upstream": alpha.rows["keys.Upstream"].pk, "account": "", "name_prefix": "p", "secrets": PASTED}
    return client.post(reverse("admin:pool_paste"), data)


def close(client, alpha):
    Statement.objects.all().delete()
    return client.post(reverse("admin:statements_close") + f"?team={alpha.tenant.pk}&month=2026-01")


def new_password(client, _alpha):
    data = {"old_password": "correct horse battery", "new_password1": PASSPHRASE, "new_password2": PASSPHRASE}
    return client.post(reverse("admin:password_change"), data)


def applied(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("version: 1\ntenants: [{slug: beta, name: Beta, lines: [{slug: bot, name: Bot}]}]\n")
    call_command("apply", str(file), stdout=StringIO())


def credit(alpha):
    month = f"{alpha.rows['billing.Statement'].month:%Y-%m}"
    given = ["--tenant", "alpha", "--month", month, "--line", "alpha-line", "--amount=1", "--note", "x"]
    call_command("credit", *given, stdout=StringIO())


WRITES = {
    "add": (lambda c, a, _t: add(c, "billing_exchangerate", source="USD", target="EUR", rate="2", starts="2026-11-01"),
            ("added", "billing.ExchangeRate")),
    "change": (lambda c, a, _t: change(c, "tenants_membership", a.rows["tenants.Membership"], role="finance"),
               ("changed", "tenants.Membership")),
    "delete": (lambda c, a, _t: delete(c, "billing_price", a.rows["billing.Price"]), ("removed", "billing.Price")),
    "delete several": (lambda c, a, _t: c.post(
        reverse("admin:billing_price_changelist"),
        {"action": "delete_selected", "_selected_action": [a.rows["billing.Price"].pk], "post": "yes"},
    ), ("removed", "billing.Price")),
    "a person": (lambda c, a, _t: add(c, "tenants_membership", tenant=a.tenant.pk, username="new",
                                      password=PASSPHRASE, role="viewer"), ("added", "auth.User")),
    "revive": (lambda c, a, _t: key_now(c, a.rows["keys.UpstreamKey"], "revive"), ("revived", "keys.UpstreamKey")),
    "switch off": (lambda c, a, _t: key_now(c, a.rows["keys.UpstreamKey"], "disable"),
                   ("changed", "keys.UpstreamKey")),
    "switch several off": (lambda c, a, _t: act(c, "keys_upstreamkey", "disable_selected", a.rows["keys.UpstreamKey"]),
                           ("changed", "keys.UpstreamKey")),
    "revoke": (lambda c, a, _t: c.post(reverse("admin:tenants_gatewaykey_revoke") + f"?ids={a.gateway_key.pk}"),
               ("revoked", "tenants.GatewayKey")),
    "paste": (lambda c, a, _t: paste(c, a), ("added", "keys.UpstreamKey")),
    "close a month": (lambda c, a, _t: close(c, a), ("close_month", "billing.Statement")),
    "own password": (lambda c, a, _t: new_password(c, a), ("changed", "auth.User")),
    "apply": (lambda _c, _a, tmp_path: applied(tmp_path), ("added", "tenants.BusinessLine")),
    "add_member": (lambda _c, _a, _t: call_command("add_member", "root", "--tenant", "alpha", "--role", "viewer",
                                                   stdout=StringIO()), ("added", "tenants.Membership")),
    "rotate_secrets": (lambda _c, _a, _t: call_command("rotate_secrets", stdout=StringIO()),
                       ("changed", "tenants.InstallationSecret")),
    "import_prices": (lambda _c, _a, _t: call_command("import_prices", "--model", "gpt-4o", stdout=StringIO()),
                      ("changed", "billing.Price")),
    "credit": (lambda _c, a, _t: credit(a), ("credit", "billing.LedgerEntry")),
    "unlock_login": (lambda _c, _a, _t: call_command("unlock_login", "root", stdout=StringIO()),
                     ("login_unlocked", "auth.User")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_every_way_to_write_is_noted(root, alpha, tmp_path, name):
    write, expected = WRITES[name]
    write(root, alpha, tmp_path)
    entries = AuditEntry.objects.exclude(username="")  # by somebody: a person or a command
    assert expected in list(entries.values_list("action", "model"))
    noted = str(list(AuditEntry.objects.values()))
    assert not [secret for secret in (*alpha.secrets, PASTED, PASSPHRASE) if secret in noted]


def test_a_write_says_who_when_and_which_fields(client, alpha):
    boss = member(alpha.tenant, "admin")
    client.force_login(boss)
    change(client, "tenants_membership", alpha.rows["tenants.Membership"], role="finance")
    row = AuditEntry.objects.get()
    assert (row.user, row.username, row.tenant, row.fields) == (boss, "alpha-admin", alpha.tenant, {"role": "finance"})
    assert abs(row.at - timezone.now()) < timedelta(minutes=1)


def note(tenant, **fields):
    given = {"action": "changed", "model": "tenants.BusinessLine", "username": "ann", "object_name": "bot", **fields}
    return AuditEntry.objects.create(tenant=tenant, **given)


def listed(client, **query):
    return [row.pk for row in client.get(reverse(LIST), query).context["cl"].result_list]


def test_it_is_searched_by_object_person_and_field(root, alpha):
    one = note(alpha.tenant, object_name="support-bot", fields={"rpm": 60})
    two = note(alpha.tenant, username="bob", model="keys.Upstream", fields={"base_url": "changed"})
    assert listed(root, q="support") == [one.pk]
    assert listed(root, q="bob") == [two.pk]
    assert listed(root, q="base_url") == [two.pk]
    assert listed(root, q="nothing-like-it") == []


def test_it_is_filtered_by_kind_person_and_time(root, alpha):
    old = note(alpha.tenant, at=timezone.now() - timedelta(days=40))
    new = note(alpha.tenant, username="", model="keys.Upstream")
    assert listed(root, model="keys.Upstream") == [new.pk]
    assert listed(root, person="ann") == [old.pk]
    assert listed(root, person="-") == [new.pk]
    since = (timezone.now() - timedelta(days=7)).isoformat()
    assert listed(root, at__gte=since) == [new.pk]
    text = root.get(reverse(LIST)).content.decode()
    assert "business line" in text
    assert "the gateway itself" in text


def read(answer):
    return list(csv.reader(io.StringIO(b"".join(answer.streaming_content).decode())))


def test_what_is_shown_is_exported(root, alpha):
    note(alpha.tenant, object_name="=1+1", fields={"name": "x"})
    note(alpha.tenant, object_name="other", username="bob")
    answer = root.get(reverse("admin:audit_csv"), {"person": "ann"})
    assert isinstance(answer, StreamingHttpResponse)
    assert answer["Content-Disposition"] == 'attachment; filename="audit.csv"'
    head, *rows = read(answer)
    assert head == ["at", "tenant", "username", "action", "model", "object_id", "object_name", "fields"]
    assert [row[1:] for row in rows] == [
        ["alpha", "ann", "changed", "tenants.BusinessLine", "", "'=1+1", '{"name": "x"}']
    ]


def test_more_than_a_page_is_exported_with_one_query_for_them(root, alpha, django_assert_max_num_queries):
    AuditEntry.objects.bulk_create(
        AuditEntry(tenant=alpha.tenant, action="changed", model="x.Y", object_name=f"n{n}") for n in range(260)
    )
    with django_assert_max_num_queries(20):
        assert len(read(root.get(reverse("admin:audit_csv")))) == 261


@pytest.mark.parametrize("role", ["admin", "viewer"])
def test_a_team_sees_and_exports_its_own_alone(client, alpha, role):
    bravo = team("bravo")
    own, _other, _platform = note(alpha.tenant), note(bravo.tenant, username="secretive"), note(None)
    client.force_login(member(alpha.tenant, role))
    assert listed(client) == [own.pk]
    assert [row[1] for row in read(client.get(reverse("admin:audit_csv")))] == ["tenant", "alpha"]
    assert "secretive" not in client.get(reverse(LIST)).content.decode()


def test_finance_has_neither(client, alpha):
    client.force_login(member(alpha.tenant, "finance"))
    assert client.get(reverse(LIST)).status_code == 403
    assert client.get(reverse("admin:audit_csv")).status_code == 403


def test_nobody_edits_it(root, alpha):
    row = note(alpha.tenant)
    assert root.post(reverse("admin:tenants_auditentry_change", args=[row.pk]), {"username": "x"}).status_code == 403
    assert delete(root, "tenants_auditentry", row).status_code == 403
    assert add(root, "tenants_auditentry", action="x").status_code == 403
    assert AuditEntry.objects.get().username == "ann"


def test_requests_are_exported_too(client, alpha):
    record = alpha.rows["billing.RequestRecord"]
    client.force_login(member(alpha.tenant, "finance"))
    query = {"team": alpha.tenant.pk, "month": f"{record.day:%Y-%m}", "kind": "requests"}
    head, row = read(client.get(reverse("admin:statements_csv"), query))
    assert dict(zip(head, row, strict=True))["request_id"] == record.request_id
    said = StringIO()
    month = ["--tenant", "alpha", "--month", f"{record.day:%Y-%m}"]
    call_command("billing_export", *month, "--kind", "requests", stdout=said)
    assert record.request_id in said.getvalue()
