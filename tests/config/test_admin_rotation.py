"""The pages that rotate a gateway key: consequences first, the secret once, the old one to its end."""

from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from tenants.models import AuditEntry, GatewayKey
from tenants.services import gateway_digest, rotate_gateway_key
from tests import factories
from tests.config.admin_forms import everything_written
from tests.config.admin_world import member, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    made = team("alpha")
    made.tenant.timezone = "Asia/Shanghai"
    made.tenant.save()
    return made


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


def address(key, what="rotate"):
    return reverse(f"admin:tenants_gatewaykey_{what}", args=[key.pk])


def rotate(client, key, overlap="24", seen=None, **data):
    return client.post(address(key), {"overlap": overlap, "seen": seen or key.last4, **data})


def text_of(answer):
    return unescape(answer.content.decode())


def old_for(key, hours=1):
    moment = timezone.now()
    issued = rotate_gateway_key(key=key, keep_until=moment + timedelta(hours=hours), now=moment)
    return issued.row


def test_the_page_names_who_uses_the_present_secret(client, alpha, boss):
    key = alpha.gateway_key
    for _ in range(2):
        factories.RecordFactory(line=alpha.line, gateway_key_id=key.pk, key_last4=key.last4)
    text = text_of(client.get(address(key)))
    assert f"…{key.last4} was used by 2 of the line's latest 1,000 calls" in text
    assert "A new secret is made and shown once." in text
    assert "Asia/Shanghai" in text
    assert "older secret" not in text


@pytest.mark.parametrize(("overlap", "hours"), [("0", 0), ("24", 24), ("168", 168)])
def test_the_new_secret_is_shown_once_and_the_old_one_has_its_end(client, alpha, boss, overlap, hours):
    key = alpha.gateway_key
    before = timezone.now()
    answer = rotate(client, key, overlap)
    secret = answer.context["secret"]
    row = GatewayKey.objects.get(pk=key.pk)
    assert (row.digest, row.old_digest, row.name) == (gateway_digest(secret), key.digest, key.name)
    assert before <= row.old_until - timedelta(hours=hours) <= timezone.now()
    assert "no-store" in answer["Cache-Control"]
    assert answer.content.decode().count(secret) >= 7  # itself and six snippets
    assert secret not in everything_written()
    assert secret not in client.get(reverse("admin:tenants_gatewaykey_change", args=[key.pk])).content.decode()
    note = AuditEntry.objects.get(action="rotated")
    assert (note.object_id, note.username, note.tenant) == (str(key.pk), boss.username, alpha.tenant)
    assert note.fields == {"secret": "changed", "old_until": row.old_until.isoformat()}


def test_a_date_is_meant_in_the_teams_zone(client, alpha, boss):
    key = alpha.gateway_key
    end = (timezone.now() + timedelta(days=3)).replace(second=0, microsecond=0)
    local = f"{end + timedelta(hours=8):%Y-%m-%dT%H:%M}"
    answer = rotate(client, key, "date", until=local)
    assert answer.status_code == 200
    assert GatewayKey.objects.get(pk=key.pk).old_until == end
    assert f"works until {local.replace('T', ' ')} (Asia/Shanghai)" in text_of(answer)


@pytest.mark.parametrize("until", ["", "2001-01-01T00:00", "2999-01-01T00:00", "soon"])
def test_a_date_that_cannot_be_is_refused(client, alpha, boss, until):
    answer = rotate(client, alpha.gateway_key, "date", until=until)
    assert list(answer.context["form"].errors) == ["until"]
    assert GatewayKey.objects.get(pk=alpha.gateway_key.pk).digest == alpha.gateway_key.digest


def test_a_form_sent_twice_makes_no_second_secret(client, alpha, boss):
    key = alpha.gateway_key
    digest = gateway_digest(rotate(client, key).context["secret"])
    again = client.post(address(key), {"overlap": "24", "seen": key.last4}, follow=True)
    assert "has a new secret already, so nothing was changed." in text_of(again)
    row = GatewayKey.objects.get(pk=key.pk)
    assert (row.digest, row.old_digest) == (digest, key.digest)


def test_rotating_again_names_the_older_secret_that_ends(client, alpha, boss):
    old_tail = alpha.gateway_key.last4
    key = old_for(alpha.gateway_key)
    factories.RecordFactory(line=alpha.line, gateway_key_id=key.pk, key_last4=old_tail)
    text = text_of(client.get(address(key)))
    assert f"The older secret …{old_tail}, which works until" in text
    assert "It was used by 1 of the line's latest 1,000 calls" in text
    assert f"…{key.last4} was used by none of the line's latest 1,000 calls." in text


def test_list_and_page_say_until_when_the_old_secret_works(client, alpha, boss):
    tail = alpha.gateway_key.last4
    key = old_for(alpha.gateway_key)
    end = f"{key.old_until + timedelta(hours=8):%Y-%m-%d %H:%M} CST"
    words = f"old secret …{tail} works until {end}"
    assert words in text_of(client.get(reverse("admin:tenants_gatewaykey_changelist")))
    page = text_of(client.get(reverse("admin:tenants_gatewaykey_change", args=[key.pk])))
    assert words in page
    assert address(key, "end_old") in page


def test_ending_the_old_one_names_who_uses_it_first(client, alpha, boss):
    tail = alpha.gateway_key.last4
    key = old_for(alpha.gateway_key)
    factories.RecordFactory(line=alpha.line, gateway_key_id=key.pk, key_last4=tail)
    text = text_of(client.get(address(key, "end_old")))
    assert f"The old secret …{tail} stops working within 2 seconds, for good." in text
    assert "1 of the line's latest 1,000 calls used it" in text
    client.post(address(key, "end_old"), {"seen": "none"})
    key.refresh_from_db()
    assert key.old_works(timezone.now())
    client.post(address(key, "end_old"), {"seen": tail})
    key.refresh_from_db()
    assert not key.old_works(timezone.now())
    assert AuditEntry.objects.filter(action="changed", object_id=str(key.pk)).count() == 1
    assert client.get(address(key, "end_old")).status_code == 404
    page = text_of(client.get(reverse("admin:tenants_gatewaykey_change", args=[key.pk])))
    assert "has ended" in page
    assert address(key, "end_old") not in page


def test_revoking_names_the_old_secret_too(client, alpha, boss):
    tail = alpha.gateway_key.last4
    key = old_for(alpha.gateway_key)
    page = text_of(client.get(reverse("admin:tenants_gatewaykey_revoke") + f"?ids={key.pk}"))
    assert f"and its old secret …{tail}" in page


@pytest.mark.parametrize("what", ["rotate", "end_old"])
@pytest.mark.parametrize("role", ["finance", "viewer", "stranger"])
def test_others_rotate_nothing(client, alpha, what, role):
    owner = team("bravo").tenant if role == "stranger" else alpha.tenant
    key = old_for(alpha.gateway_key)
    client.force_login(member(owner, "admin" if role == "stranger" else role))
    assert client.get(address(key, what)).status_code == 404
    assert client.post(address(key, what), {"overlap": "0", "seen": key.last4}).status_code == 404
    row = GatewayKey.objects.get(pk=key.pk)
    assert (row.digest, row.old_until) == (key.digest, key.old_until)


def test_a_revoked_key_gets_no_new_secret(client, alpha, boss):
    GatewayKey.objects.update(revoked=timezone.now(), enabled=False)
    assert client.get(address(alpha.gateway_key)).status_code == 404
    assert rotate(client, alpha.gateway_key).status_code == 404


def test_an_expired_key_is_said_to_stay_unusable(client, alpha, boss):
    GatewayKey.objects.update(expires=timezone.now() - timedelta(days=1))
    assert "neither secret works until that is changed" in text_of(client.get(address(alpha.gateway_key)))
