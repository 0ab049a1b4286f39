from datetime import timedelta
from decimal import Decimal

import pytest

from billing.selectors import explained, plain, request_explained, requests_explained
from tests.factories import NOON, AttemptFactory, LineFactory, RecordFactory

# Not in a transaction: the selectors close their thread's connection.
pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, None),
        (Decimal(0), "0.00"),
        (Decimal("0E-12"), "0.00"),
        (Decimal("1.5"), "1.50"),
        (Decimal("0.000132500000"), "0.0001325"),
        (Decimal("0.000000000001"), "0.000000000001"),
        (Decimal("1E+3"), "1000.00"),
        (Decimal("-2.10"), "-2.10"),
        (Decimal("123456789012345678.123456789012"), "123456789012345678.123456789012"),
    ],
)
def test_amounts_are_plain_text(amount, text):
    assert plain(amount) == text


def test_one_request_of_a_line():
    record = RecordFactory(request_id="req_x1")
    AttemptFactory(record=record, n=2)
    AttemptFactory(record=record, n=1, outcome="rate_limited", status=429, skipped="")
    found = request_explained(record.line_id, "req_x1")
    assert [attempt["n"] for attempt in found["attempts"]] == [1, 2]
    assert (found["id"], found["charge"]["amount"], found["error"], found["refusal"]) == (
        "req_x1",
        "0.00045",
        None,
        None,
    )
    assert found["created"] == "2026-11-15T12:00:00+00:00"


def test_none_of_another_line():
    record = RecordFactory(request_id="req_y1")
    neighbour = LineFactory(tenant=record.tenant)
    assert request_explained(neighbour.pk, "req_y1") is None
    assert request_explained(record.line_id, "req_y2") is None


def test_newest_first_in_pages():
    line = LineFactory()
    made = [RecordFactory(line=line, request_id=f"req_{n}") for n in range(5)]
    RecordFactory()
    ids = [row["id"] for row in requests_explained(line.pk, 2, None)]
    assert ids == ["req_4", "req_3"]
    assert [row["id"] for row in requests_explained(line.pk, 10, "req_3")] == ["req_2", "req_1", "req_0"]
    assert requests_explained(line.pk, 10, made[0].request_id) == []
    assert requests_explained(line.pk, 10, "req_unknown") == []
    assert requests_explained(line.pk, 10, RecordFactory().request_id) == []


def test_a_page_takes_two_queries(django_assert_num_queries):
    line = LineFactory()
    for _ in range(5):
        AttemptFactory(record=RecordFactory(line=line))
    with django_assert_num_queries(2):
        requests_explained(line.pk, 5, None)


def test_unknown_is_null_not_zero():
    record = RecordFactory(
        charge=None, priced=False, input_tokens=None, output_tokens=None, usage_source="none", model_served="",
        http_status=None, first_content_ms=None,
    )  # fmt: skip
    found = explained(record, [])
    assert found["charge"] == {"amount": None, "currency": "USD", "priced": False, "estimated": False}
    assert (found["usage"]["input_tokens"], found["model_served"], found["http_status"]) == (None, None, None)


def test_a_refusal_tells_limit_and_end():
    record = RecordFactory(
        refusal_limit="line:rpm", refusal_until=NOON + timedelta(minutes=1), error_code="limit_reached", message="full"
    )
    found = explained(record, [])
    assert found["refusal"] == {"limit": "line:rpm", "until": "2026-11-15T12:01:00+00:00"}
    assert found["error"] == {"code": "limit_reached", "message": "full"}


def test_a_skip_has_no_outcome():
    record = RecordFactory()
    attempt = AttemptFactory(record=record, outcome="", skipped="dead", status=None, reason="r", message="")
    (told,) = explained(record, [attempt])["attempts"]
    assert told == {
        "n": 1, "upstream": "relay-a", "key": "a1", "outcome": None, "content": False, "skipped": "dead",
        "status": None, "ms": None, "queued_ms": 0, "message": "", "reason": "r",
    }  # fmt: skip
