"""Each ending × what was used, as a row; the invariants of money hold for all of them."""

from dataclasses import replace
from datetime import date
from decimal import Decimal as D

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.core.outcome import Cause, Verdict
from proxy.core.booking import bundle_of, main_try
from proxy.core.ending import Ending
from proxy.core.errors import Code, Fault
from tests.proxy.core.calls import PER_CALL, PER_TOKEN, SERVED, attempt, call, finished, outcome, skip, usage

LIST = D("0.00045")  # 100 × 2.5 + 20 × 10, per million
DIED = outcome(Cause.OVERLOADED, Verdict.STOP, status=200, message="gone")
LEFT = outcome(Cause.ABORTED, Verdict.STOP, status=200)


def failed(*, delivered=True):
    made = Ending(delivered=delivered, http_status=200 if delivered else 502)
    made.fail(Fault(Code.UPSTREAM_FAILED, "broke", source="upstream"))
    return made


def cancelled(*, delivered=True):
    made = Ending(delivered=delivered, http_status=200 if delivered else None)
    made.cancel()
    return made


def money(bundle):
    record = bundle.record
    return (record.charge, record.cost, record.waste)


def booked(bundle):
    return [(row.kind, row.amount, row.attempt_n) for row in bundle.ledger]


ONE_SERVED = attempt(1, SERVED, usage=usage(), content=True)
ENDINGS = {
    "served": (ONE_SERVED, finished(), (LIST, LIST, None), "upstream", False),
    "served without usage": (
        attempt(1, SERVED, output_bytes=41, content=True), finished(), (D("0.0001375"), D("0.0001375"), None),
        "estimated", True,
    ),
    "served, output missing": (
        attempt(1, SERVED, usage=usage(output_tokens=None), output_bytes=8), finished(),
        (D("0.00027"), D("0.00027"), None), "estimated", True,
    ),
    "died with usage": (attempt(1, DIED, usage=usage(), content=True), failed(), (0, None, LIST), "partial", False),
    "died without usage": (
        attempt(1, DIED, output_bytes=40, content=True), failed(), (0, None, D("0.0001275")), "estimated", True,
    ),
    "died, output missing": (
        attempt(1, DIED, usage=usage(output_tokens=None), output_bytes=40, content=True), failed(),
        (0, None, D("0.00035")), "partial", True,
    ),
    "nothing served": (attempt(1), failed(delivered=False), (0, None, None), "none", False),
    "nothing served, usage seen": (
        attempt(1, usage=usage(output_tokens=None)), failed(delivered=False), (0, None, D("0.00025")), "partial", False,
    ),
    "left before content": (attempt(1, LEFT), cancelled(delivered=False), (0, None, None), "none", False),
    "left before content, usage seen": (
        attempt(1, LEFT, usage=usage()), cancelled(delivered=False), (0, LIST, None), "upstream", False,
    ),
    "left after content": (
        attempt(1, LEFT, usage=usage(), content=True), cancelled(), (LIST, LIST, None), "upstream", False,
    ),
    "left after content, no usage": (
        attempt(1, LEFT, output_bytes=40, content=True), cancelled(), (D("0.0001275"), D("0.0001275"), None),
        "estimated", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "ending", "amounts", "source", "estimated"), ENDINGS.values(), ids=ENDINGS.keys())
def test_endings(made, ending, amounts, source, estimated):
    bundle = bundle_of(call(made, ending=replace(ending)), 6.5)
    assert money(bundle) == amounts
    assert (bundle.record.usage_source, bundle.record.estimated) == (source, estimated)
    assert bundle.record.duration_ms == 1500
    charge, cost, waste = amounts
    expected = [("charge", charge, None), ("cost", cost, 1), ("waste", waste, 1)]
    assert booked(bundle) == [row for row in expected if row[1]]


class TestLostAttempts:
    def test_what_they_used_is_waste_of_their_own(self):
        made = call(attempt(1, usage=usage(40, 0)), skip(2), attempt(2, SERVED, usage=usage(), content=True))
        bundle = bundle_of(made, 5)
        assert money(bundle) == (LIST, LIST, D("0.0001"))
        assert booked(bundle) == [("charge", LIST, None), ("cost", LIST, 3), ("waste", D("0.0001"), 1)]
        assert [(row.waste, row.cost) for row in bundle.attempts] == [(D("0.0001"), None), (None, None), (None, LIST)]
        assert (bundle.record.upstream, bundle.record.attempt_count) == ("up2", 2)

    def test_all_lost(self):
        made = call(attempt(1, usage=usage(40, 0)), attempt(2, usage=usage(80, 0)), ending=failed(delivered=False))
        bundle = bundle_of(made, 5)
        assert money(bundle) == (0, None, D("0.0003"))
        assert booked(bundle) == [("waste", D("0.0002"), 2), ("waste", D("0.0001"), 1)]

    def test_usage_of_zero_books_nothing(self):
        bundle = bundle_of(call(attempt(1, usage=usage(0, 0)), ONE_SERVED), 5)
        assert booked(bundle) == [("charge", LIST, None), ("cost", LIST, 2)]


class TestPrices:
    def test_none_is_unpriced_never_zero(self):
        bundle = bundle_of(call(ONE_SERVED, prices=()), 5)
        assert money(bundle) == (None, None, None)
        assert (bundle.record.priced, bundle.record.price_id, bundle.ledger) == (False, None, ())

    def test_a_failed_call_without_a_price_owes_nothing(self):
        made = call(attempt(1, DIED, usage=usage(), content=True), prices=(), ending=failed())
        assert money(bundle_of(made, 5)) == (0, None, None)
        assert bundle_of(made, 5).record.priced is True

    def test_a_lost_attempt_without_a_price(self):
        made = call(attempt(1, usage=usage()), ONE_SERVED, prices=())
        assert money(bundle_of(made, 5)) == (None, None, None)

    def test_free_of_charge_books_nothing(self):
        bundle = bundle_of(call(ONE_SERVED, prices=(replace(PER_TOKEN, input=D(0), output=D(0)),)), 5)
        assert (money(bundle), bundle.record.priced, bundle.ledger) == ((0, 0, None), True, ())

    def test_another_currency_at_the_days_rate(self):
        bundle = bundle_of(call(ONE_SERVED, currency="CNY"), 5)
        assert money(bundle) == (D("0.003195"), D("0.003195"), None)
        assert (bundle.record.currency, bundle.record.price["currency"]) == ("CNY", "USD")
        assert bundle.record.price["rate"] == "71/10"

    def test_without_a_rate_it_is_unpriced(self):
        bundle = bundle_of(call(ONE_SERVED, currency="XAF"), 5)
        assert (money(bundle), bundle.record.priced) == ((None, None, None), False)

    def test_multipliers(self):
        made = call(ONE_SERVED, charge_multiplier=D("1.1"))
        known = made.admitted.table
        cheap = {**known.upstreams, 1: replace(known.upstreams[1], cost_multiplier=D("0.8"))}
        made.admitted = replace(made.admitted, table=replace(known, upstreams=cheap))
        bundle = bundle_of(made, 5)
        assert money(bundle) == (D("0.000495"), D("0.00036"), None)
        assert (bundle.record.price["charge_multiplier"], bundle.record.price["cost_multiplier"]) == ("1.10", "0.80")

    def test_an_upstream_that_is_gone_counts_as_it_lists(self):
        made = call(attempt(7, SERVED, usage=usage(), content=True))
        assert money(bundle_of(made, 5)) == (LIST, LIST, None)

    @pytest.mark.parametrize(
        ("made", "ending", "amounts"),
        [
            (attempt(1, SERVED, content=True), finished(), (D("0.031"), D("0.031"), None)),
            (attempt(1, LEFT, content=True), cancelled(), (D("0.031"), D("0.031"), None)),
            (attempt(1, LEFT, usage=usage()), cancelled(delivered=False), (0, None, None)),
            (attempt(1, DIED, content=True), failed(), (0, None, D("0.031"))),
            (attempt(1), failed(delivered=False), (0, None, None)),
        ],
    )
    def test_per_call_once_content_was_delivered(self, made, ending, amounts):
        assert money(bundle_of(call(made, prices=(PER_CALL,), ending=replace(ending)), 5)) == amounts

    def test_the_name_sent_goes_before_the_name_asked(self):
        sent = replace(PER_TOKEN, id=2, model="relay/gpt-4o", input=D(1), output=D(0))
        asked = replace(PER_TOKEN, id=3, model="gpt-4o", input=D(2), output=D(0))
        served = attempt(1, SERVED, usage=usage(), content=True)
        served = replace(served, target=replace(served.target, model="relay/gpt-4o"))
        assert bundle_of(call(served, prices=(sent, asked)), 5).record.price_id == 2
        assert bundle_of(call(served, prices=(asked,)), 5).record.price_id == 3


class TestTheRecord:
    def test_names_and_times(self):
        made = call(skip(2, left_s=3.0, reason="rpm"), ONE_SERVED, session="new", explained={"hold": None})
        made.ending.first_content_ms = 12
        record = bundle_of(made, 5.25).record
        assert (record.id, record.request_id, record.tenant_id, record.line_id) == (77, "req_1", 1, 10)
        assert (record.gateway_key_id, record.key_name, record.key_last4) == (9, "prod", "wxyz")
        assert (record.model_requested, record.model_served, record.upstream_key) == (
            "gpt-4o",
            "gpt-4o",
            "k11 (…tail00)",
        )
        assert (record.status, record.http_status, record.error_code) == ("finished", 200, "")
        assert (record.duration_ms, record.first_content_ms, record.session) == (250, 12, "new")
        assert record.decision == {"hold": None}

    @pytest.mark.parametrize(
        ("timezone", "day"), [("UTC", 30), ("Asia/Shanghai", 1), ("America/Los_Angeles", 30), ("Pacific/Kiritimati", 1)]
    )
    def test_the_day_is_the_tenants(self, timezone, day):
        bundle = bundle_of(call(ONE_SERVED, timezone=timezone), 5)
        assert bundle.record.day == date(2026, 12 if day == 1 else 11, day)
        assert {row.day for row in bundle.ledger} == {bundle.record.day}

    def test_a_refusal(self):
        ending = Ending(http_status=429)
        ending.fail(Fault(Code.LIMIT_REACHED, "full", refusal_limit="line:rpm"))
        record = bundle_of(call(ending=ending), 5).record
        assert (record.status, record.refusal_limit, record.error_code) == ("failed", "line:rpm", "limit_reached")
        assert (record.charge, record.attempt_count, record.message) == (0, 0, "full")

    def test_a_call_that_was_never_read(self):
        made = call(ending=failed(delivered=False), facts=None)
        record = bundle_of(made, 5).record
        assert (record.model_requested, record.stream, record.status) == ("", False, "failed")

    def test_one_without_any_ending_was_left(self):
        assert bundle_of(call(ending=Ending()), 5).record.status == "cancelled"

    def test_long_texts_are_cut_to_their_columns(self):
        long = outcome(Cause.SERVER_ERROR, message="m" * 900, reason="r" * 900, evidence="e" * 900)
        tried = attempt(1, long, upstream_request_id="u" * 900)
        ending = Ending()
        ending.fail(Fault(Code.UPSTREAM_FAILED, "f" * 900))
        bundle = bundle_of(call(tried, ending=ending, operation="o" * 900), 5)
        row = bundle.attempts[0]
        assert (len(row.message), len(row.reason), len(row.evidence), len(row.upstream_request_id)) == (
            500,
            200,
            120,
            120,
        )
        assert (len(bundle.record.message), len(bundle.record.endpoint)) == (500, 60)

    def test_skips_and_attempts_are_numbered_together(self):
        bundle = bundle_of(call(skip(1, "dead"), attempt(1), attempt(2, SERVED)), 5)
        assert [(row.n, row.skipped, row.outcome) for row in bundle.attempts] == [
            (1, "dead", ""), (2, "", "server_error"), (3, "", "served"),
        ]  # fmt: skip

    def test_free_calls_use_and_cost_nothing(self):
        """Token counts, and looks at what is stored."""
        bundle = bundle_of(call(ONE_SERVED, free=True), 5)
        assert (money(bundle), bundle.record.usage_source, bundle.ledger) == ((0, 0, None), "none", ())
        assert bundle.record.price == {}

    def test_sound_and_pictures_are_not_estimated(self):
        bundle = bundle_of(call(attempt(1, SERVED, output_bytes=900), unestimable=True), 5)
        assert (bundle.record.usage_source, bundle.record.estimated, bundle.record.priced) == ("none", False, False)


class TestMainTry:
    def test_it_is_the_one_that_served(self):
        made = call(attempt(1, content=True), attempt(2, SERVED))
        assert main_try(made) is made.chain.tries[1]

    def test_else_the_last_whose_content_was_seen(self):
        made = call(attempt(1, content=True), attempt(2))
        assert main_try(made) is made.chain.tries[0]

    def test_else_the_last_one_when_it_told_its_usage(self):
        made = call(attempt(1, usage=usage()), attempt(2))
        assert main_try(made) is None
        made = call(attempt(1), attempt(2, usage=usage()))
        assert main_try(made) is made.chain.tries[1]

    def test_else_none(self):
        assert main_try(call()) is None
        assert main_try(call(skip(1))) is None


TOKENS = st.one_of(st.none(), st.integers(0, 10**9))
TRIES = st.builds(
    lambda number, cause, tokens, size, content: attempt(
        number,
        SERVED if cause is Cause.SERVED else outcome(cause),
        usage=None if tokens is None else usage(*tokens),
        output_bytes=size,
        content=content,
    ),
    st.sampled_from([1, 2]),
    st.sampled_from([Cause.SERVED, Cause.SERVER_ERROR, Cause.ABORTED]),
    st.one_of(st.none(), st.tuples(TOKENS, TOKENS)),
    st.integers(0, 10**6),
    st.booleans(),
)


@given(
    st.lists(TRIES, max_size=4),
    st.sampled_from([finished, failed, cancelled]),
    st.booleans(),
    st.sampled_from([(PER_TOKEN,), (PER_CALL,), ()]),
)
def test_laws_of_money(tries, end, delivered, prices):
    ending = end()
    ending.delivered = delivered
    bundle = bundle_of(call(*tries, ending=ending, prices=prices), 5)
    record, rows = bundle.record, bundle.ledger
    assert record.charge is None or record.charge >= 0
    if record.status == "failed" or (record.status == "cancelled" and not delivered):
        assert record.charge == 0
    assert sum(row.amount for row in rows if row.kind == "charge") == (record.charge or 0)
    assert sum(row.amount for row in rows if row.kind == "cost") == (record.cost or 0)
    assert sum(row.amount for row in rows if row.kind == "waste") == (record.waste or 0)
    assert len({(row.kind, row.attempt_n) for row in rows}) == len(rows)
    assert all(row.amount > 0 for row in rows)
    assert (record.charge is None) == (not record.priced)
