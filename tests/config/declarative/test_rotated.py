"""What a file says about a secret that was rotated in the admin."""

from datetime import timedelta

import pytest
from django.utils import timezone

from config.declarative import ConfigError
from keys.models import UpstreamKey
from keys.services import save_key
from tenants.models import GatewayKey
from tenants.services import gateway_digest, rotate_gateway_key
from tests import factories
from tests.config.declarative.samples import applied, small, tenant_of

pytestmark = pytest.mark.django_db

FIRST = "sk-gateway-0000000001"
HOUR = timedelta(hours=1)


def with_gateway_secret(secret):
    document = small()
    tenant_of(document)["lines"][0]["keys"][0]["secret"] = secret
    return document


def rotated():
    key = GatewayKey.objects.get()
    moment = timezone.now()
    issued = rotate_gateway_key(key=key, keep_until=moment + HOUR, now=moment)
    return issued.row


def test_a_changed_secret_replaces_both_at_once():
    applied(with_gateway_secret(FIRST))
    rotated()
    assert not applied(with_gateway_secret("sk-gateway-0000000002")).warnings
    key = GatewayKey.objects.get()
    assert (key.digest, key.last4) == (gateway_digest("sk-gateway-0000000002"), "0002")
    assert (key.old_digest, key.old_last4, key.old_until) == ("", "", None)


def test_the_secret_before_the_rotation_comes_back_with_a_warning():
    applied(with_gateway_secret(FIRST))
    row = rotated()
    result = applied(with_gateway_secret(FIRST))
    (warning,) = result.warnings
    assert warning.endswith(
        f"keys[0].secret: is the secret before the last rotation: it comes back, and …{row.last4} ends at once"
    )
    key = GatewayKey.objects.get()
    assert (key.digest, key.old_digest) == (gateway_digest(FIRST), "")
    assert applied(with_gateway_secret(FIRST)).changes == ()


def test_a_file_without_secrets_leaves_a_rotation_alone():
    applied(with_gateway_secret(FIRST))
    row = rotated()
    document = small()
    del tenant_of(document)["lines"][0]["keys"][0]["secret"]
    assert applied(document).changes == ()
    key = GatewayKey.objects.get()
    assert (key.digest, key.old_digest) == (row.digest, gateway_digest(FIRST))


def test_the_old_secret_of_another_teams_key_is_refused():
    other = factories.GatewayKeyFactory(secret=FIRST, name="theirs")
    moment = timezone.now()
    rotate_gateway_key(key=other, keep_until=moment + HOUR, now=moment)
    with pytest.raises(ConfigError, match=r"is the same secret as that of .*theirs"):
        applied(with_gateway_secret(FIRST))


def test_an_upstream_secret_in_the_file_forgets_the_old_one():
    applied(small())
    key = UpstreamKey.objects.get(upstream__name="up")
    save_key(key=key, secret="sk-up-000000077", keep_old_until=timezone.now() + HOUR)
    document = small()
    tenant_of(document)["upstreams"][0]["keys"][0]["secret"] = "sk-up-000000078"
    applied(document)
    key.refresh_from_db()
    assert (key.secret, key.old_secret, key.old_digest, key.old_tail, key.old_until) == (
        "sk-up-000000078", "", "", "", None,
    )  # fmt: skip
