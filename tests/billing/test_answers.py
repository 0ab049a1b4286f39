"""Answers kept for idempotency keys: written with their records, the newer stands, read for a day."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.conf import settings as configured
from django.db import connection
from django.test import override_settings

from billing import answers
from billing.core.record import AnswerRow
from billing.models import RequestRecord, StoredAnswer
from billing.rows import inserts, write
from billing.spool import decode, encode
from tenants.encryption import box
from tests.billing.bundles import NOON, bundle
from tests.factories import LineFactory

HOUR = timedelta(hours=1)


def kept(line, **fields):
    """A bundle with an answer."""
    made = bundle(line)
    row = AnswerRow(
        line_id=line.pk, key_digest="k", body_digest="b", request_id=made.record.request_id, status=200,
        headers={"content-type": "text/plain"}, body=box().encrypt(b"packed").decode(), created=NOON,
    )  # fmt: skip
    return replace(made, answer=replace(row, **fields))


def written(*bundles):
    write(connection, inserts(connection), bundles)


@pytest.fixture
def line(clean_database):
    yield (made := LineFactory())
    StoredAnswer.objects.filter(line=made).delete()


def test_it_comes_with_its_record(line):
    made = kept(line)
    written(made, bundle(line))
    found = answers.find(line.pk, "k", NOON + HOUR)
    assert found == answers.Stored(made.record.request_id, "b", 200, {"content-type": "text/plain"}, "packed")
    assert RequestRecord.objects.filter(tenant=line.tenant).count() == 2
    assert answers.find(line.pk, "other", NOON) is None
    assert answers.find(line.pk + 1, "k", NOON) is None


def test_it_goes_through_the_spool(line):
    made = kept(line)
    assert decode(encode(made)) == made
    assert b"packed" not in encode(made)
    before = encode(bundle(line)).replace(b',"answer":null', b"")  # as older versions wrote
    assert decode(before).answer is None


def test_written_twice_it_is_there_once(line):
    made = kept(line)
    written(made)
    written(made)
    assert StoredAnswer.objects.filter(line=line).count() == 1


@pytest.mark.parametrize(("hours", "stands"), [(1, "newer"), (0, "newer"), (-1, "older")])
def test_the_newer_stands(line, hours, stands):
    """The older one may come late, from the spool of a process that died."""
    written(kept(line, request_id="older"))
    written(
        kept(line, request_id="newer", created=NOON + hours * HOUR, body_digest="c", status=400, headers={}, body="")
    )
    row = StoredAnswer.objects.get()
    assert row.request_id == stands
    assert (row.body_digest, row.status, row.body == "") == (
        ("c", 400, True) if stands == "newer" else ("b", 200, False)
    )


@pytest.mark.parametrize(("age", "there"), [(timedelta(hours=24), False), (timedelta(hours=24, seconds=-1), True)])
def test_for_a_day(line, age, there):
    written(kept(line))
    assert (answers.find(line.pk, "k", NOON + age) is not None) is there
    assert answers.drop_old(now=NOON + age) == (0 if there else 1)


def test_one_too_large_has_no_body(line):
    written(kept(line, body=""))
    assert answers.find(line.pk, "k", NOON).body is None


def test_one_whose_encryption_key_is_gone_cannot_be_given(line):
    written(kept(line))
    with override_settings(POINTSMAN_ENCRYPTION_KEYS=[Fernet.generate_key().decode()]):
        found = answers.find(line.pk, "k", NOON)
    assert (found.status, found.body) == (200, None)
    assert answers.find(line.pk, "k", NOON).body == "packed"
    assert configured.POINTSMAN_ENCRYPTION_KEYS


def test_a_line_that_is_gone_takes_its_answers_along(line):
    gone = LineFactory(tenant=line.tenant)
    first, late = kept(gone), kept(gone)
    written(first)
    gone.delete()
    assert not StoredAnswer.objects.filter(request_id=first.record.request_id).exists()
    written(late)
    assert RequestRecord.objects.filter(pk=late.record.id).exists()
    assert StoredAnswer.objects.filter(request_id=late.record.request_id).delete()[0] == 1
