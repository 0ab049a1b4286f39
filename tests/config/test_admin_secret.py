"""The page that replaces an upstream key's secret, what its test says, and the way back."""

from datetime import timedelta
from html import unescape

import pytest
from django.contrib.messages import get_messages
from django.urls import reverse
from django.utils import timezone

from config import private_upstreams
from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import StateInbox, StoredState, UpstreamKey
from keys.services import save_key
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_forms import everything_written
from tests.config.admin_world import UPSTREAM_SECRET, member, team
from tests.fake_upstream import closed_port, status
from tests.gateway import committed_database, up

__all__ = ["committed_database", "up"]

pytestmark = pytest.mark.django_db

NEW = "sk-brand-new-secret-000111222333"
OLD = UPSTREAM_SECRET.format("alpha")


@pytest.fixture(autouse=True)
def loopback(settings):
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("127.0.0.1")


@pytest.fixture
def alpha(up):
    made = team("alpha")
    upstream = made.rows["keys.Upstream"]
    upstream.base_url = up.base_url
    upstream.save()
    return made


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


@pytest.fixture
def key(alpha):
    return alpha.rows["keys.UpstreamKey"]


def address(key):
    return reverse("admin:keys_upstreamkey_rotate", args=[key.pk])


def rotate(client, key, secret=NEW, keep="24", **data):
    return client.post(address(key), {"new_secret": secret, "keep": keep, **data})


def now_button(client, key, action):
    return client.post(reverse("admin:keys_upstreamkey_now", args=[key.pk, action]))


def said(answer):
    return [str(message) for message in get_messages(answer.wsgi_request)]


def stored(key):
    return UpstreamKey.objects.get(pk=key.pk)


def stands(key, **state):
    StoredState.objects.create(target=f"key:{key.pk}", data={"state": dumped(KeyState(**state))})


def test_a_tested_secret_takes_the_place_of_the_old_one(client, up, key, boss):
    up.models = ("alpha-model", "b")
    answer = rotate(client, key, test_first="on")
    assert answer["Location"] == reverse("admin:keys_upstreamkey_change", args=[key.pk])
    row = stored(key)
    assert (row.secret, row.old_secret, row.epoch) == (NEW, OLD, 2)
    assert timedelta(hours=23) < row.old_until - timezone.now() <= timedelta(hours=24)
    assert up.requests[-1].credentials == (("authorization", NEW),)
    (words,) = said(answer)
    assert words.startswith(f"alpha-upstream · …{NEW[-6:]}: the new secret is used within 2 seconds. The test says: ")
    assert "accepted: 2 models in " in words
    assert words.endswith(f"(alpha-model, b). The old one, …{OLD[-6:]}, is kept.")
    assert StateInbox.objects.filter(command="set_epoch").get().payload == {"key_id": key.pk, "epoch": 2}
    assert row.probed is not None
    note = AuditEntry.objects.get(action="rotated")
    assert (note.object_id, note.username) == (str(key.pk), boss.username)
    assert note.fields == {"secret": "changed", "old_until": row.old_until.isoformat()}
    assert not any(secret in everything_written() for secret in (NEW, OLD))


def test_a_secret_that_the_upstream_refuses_changes_nothing(client, up, key, boss):
    up.default(status(401, f"Incorrect API key provided: {NEW}"), path="*/models")
    answer = rotate(client, key, test_first="on")
    (complaint,) = answer.context["form"].errors["new_secret"]
    assert complaint.startswith("Nothing was changed. The test says: credentials refused (HTTP 401): Incorrect API key")
    assert NEW not in answer.content.decode()
    row = stored(key)
    assert (row.secret, row.old_secret, row.epoch) == (OLD, "", 1)
    assert not StateInbox.objects.exists()


def test_a_secret_that_cannot_be_tested_changes_nothing_unless_wanted(client, alpha, key, boss):
    alpha.rows["keys.Upstream"].base_url = f"http://127.0.0.1:{closed_port()}/v1"
    alpha.rows["keys.Upstream"].save()
    answer = rotate(client, key, test_first="on")
    assert "The test says: connection failed" in answer.context["form"].errors["new_secret"][0]
    assert stored(key).secret == OLD
    assert rotate(client, key).status_code == 302
    assert stored(key).secret == NEW


def test_a_relay_without_a_list_is_no_hindrance(client, up, key, boss):
    up.default(status(404), path="*/models")
    answer = rotate(client, key, test_first="on")
    assert "nothing was learnt about the key" in said(answer)[0]
    assert (stored(key).secret, stored(key).probed) == (NEW, None)


def test_without_the_test_nobody_is_asked(client, up, key, boss):
    assert rotate(client, key, keep="0").status_code == 302
    assert up.requests == []
    assert (stored(key).secret, stored(key).old_secret, stored(key).old_until) == (NEW, "", None)


@pytest.mark.parametrize(
    ("secret", "complaint"),
    [
        ("", "This field is required."),
        ("two words", "The secret contains a space or line break."),
        (OLD, "This is the present secret."),
        ("sk-of-a-twin-0000001", "twin has the same secret."),
    ],
)
def test_a_secret_that_cannot_be_is_refused_in_words(client, alpha, key, boss, secret, complaint):
    factories.UpstreamKeyFactory(upstream=key.upstream, name="twin", secret="sk-of-a-twin-0000001")
    answer = rotate(client, key, secret=secret)
    assert answer.context["form"].errors["new_secret"] == [complaint]
    assert stored(key).secret == OLD


def test_the_same_secret_elsewhere_in_the_team_is_a_warning(client, alpha, key, boss):
    other = factories.UpstreamFactory(tenant=alpha.tenant, name="elsewhere")
    factories.UpstreamKeyFactory(upstream=other, name="k", secret=NEW)
    assert said(rotate(client, key))[1] == "elsewhere/k has the same secret."


def test_a_dead_keys_old_secret_is_forgotten_unless_wanted(client, key, boss):
    stands(key, status=Status.DEAD, cause=Cause.AUTH_INVALID)
    assert client.get(address(key)).context["form"]["keep"].initial == "0"


def test_the_page_says_what_stays(client, key, boss):
    text = unescape(client.get(address(key)).content.decode())
    assert f"The new secret takes the place of …{OLD[-6:]} within 2 seconds." in text
    assert "(0 calls were made with this key so far)" in text
    assert OLD not in text


def test_one_click_puts_the_old_one_back(client, key, boss):
    save_key(key=stored(key), secret=NEW, keep_old_until=timezone.now() + timedelta(hours=1))
    page = unescape(client.get(reverse("admin:keys_upstreamkey_change", args=[key.pk])).content.decode())
    assert f"Use …{OLD[-6:]} again" in page
    assert "comes back by itself should the new one be refused" in page
    answer = now_button(client, key, "use-old")
    assert said(answer) == [
        f"alpha-upstream · …{OLD[-6:]} is used again within 2 seconds; …{NEW[-6:]} is kept in its place."
    ]
    row = stored(key)
    assert (row.secret, row.old_secret, row.epoch) == (OLD, NEW, 3)
    assert AuditEntry.objects.filter(action="rotated", object_id=str(key.pk)).count() == 1
    now_button(client, key, "forget-old")
    assert (stored(key).secret, stored(key).old_secret) == (OLD, "")
    assert "is not kept any more" in said(now_button(client, key, "use-old"))[-1]
    page = unescape(client.get(reverse("admin:keys_upstreamkey_change", args=[key.pk])).content.decode())
    assert "use-old" not in page


@pytest.mark.parametrize("role", ["finance", "viewer", "stranger"])
def test_others_replace_nothing(client, alpha, key, role):
    save_key(key=stored(key), secret=NEW, keep_old_until=timezone.now() + timedelta(hours=1))
    owner = team("bravo").tenant if role == "stranger" else alpha.tenant
    client.force_login(member(owner, "admin" if role == "stranger" else role))
    assert client.get(address(key)).status_code == 404
    assert rotate(client, key, secret="sk-third-0000000000").status_code == 404
    assert now_button(client, key, "use-old").status_code == 404
    assert now_button(client, key, "forget-old").status_code == 404
    assert (stored(key).secret, stored(key).old_secret) == (NEW, OLD)


# --- "Test now" ---


def found_by_test(client, key):
    (words,) = said(now_button(client, key, "test"))
    return words


def test_a_test_says_what_it_found(client, up, alpha, key, boss):
    up.models = ("alpha-model",)
    words = found_by_test(client, key)
    assert words.startswith(f"alpha-upstream · …{OLD[-6:]}: accepted: 1 model in ")
    assert words.endswith(" (alpha-model).")


def test_a_test_names_the_models_that_are_not_listed(client, up, alpha, key, boss):
    upstream = alpha.rows["keys.Upstream"]
    upstream.model_list, upstream.aliases = ["alpha-model", "short", "Other", "gpt-*"], {"short": "vendor/long"}
    upstream.save()
    up.models = ("ALPHA-MODEL", "other", "x", "y")
    assert found_by_test(client, key).endswith("(ALPHA-MODEL, other, x and 1 more); not among them: vendor/long.")


@pytest.mark.parametrize(
    ("reaction", "state", "words"),
    [
        (status(401, "No such key"), {}, "(HTTP 401): No such key. It is dead from now on: replace its secret."),
        (status(429, "Slow down"), {}, "(HTTP 429): Slow down. Its state stays as it was."),
        (status(404), {}, "nothing was learnt about the key. Its state stays as it was."),
        (None, {"status": Status.DEAD, "cause": Cause.AUTH_INVALID}, "It stays dead until you revive it."),
        (None, {"status": Status.COOLING, "cause": Cause.SERVER_ERROR, "by_strikes": True},
         "Its cooling after failures is over: the next call decides."),
        (None, {"status": Status.COOLING, "cause": Cause.INSUFFICIENT_BALANCE},
         "It goes on cooling: a limit or an empty balance does not show in this test."),
    ],
)  # fmt: skip
def test_a_test_says_what_it_changes(client, up, key, boss, reaction, state, words):
    if reaction is not None:
        up.default(reaction, path="*/models")
    if state:
        until = timezone.now() + timedelta(minutes=5) if state["status"] is Status.COOLING else None
        stands(key, until=until, **state)
    assert found_by_test(client, key).endswith(words)
