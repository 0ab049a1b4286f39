"""Key events and alerts: one per entry into a state, closed when it is over."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.policy import Policy
from keys.core.report import Change, Report
from keys.core.state import FRESH, KeyState, Status
from keys.events import note_changes, payload_of, probe_soon, report_of
from keys.models import KeyEvent
from tenants.models import Alert, AlertDelivery
from tests.factories import NOON, AccountFactory, TenantFactory, UpstreamFactory, UpstreamKeyFactory

# Not in a transaction: the work closes its thread's connection.
pytestmark = pytest.mark.usefixtures("clean_database")

DEAD = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, message="bad key", since=NOON)
BROKE = KeyState(
    status=Status.COOLING,
    cause=Cause.INSUFFICIENT_BALANCE,
    message="empty",
    since=NOON,
    until=NOON + timedelta(minutes=30),
)
QUOTA = replace(BROKE, cause=Cause.QUOTA_EXHAUSTED)
RATE = replace(BROKE, cause=Cause.RATE_LIMITED)
STRUCK = replace(BROKE, cause=Cause.SERVER_ERROR, by_strikes=True)


@pytest.fixture
def key():
    tenant = TenantFactory(alert_emails=["a@example.com"], alert_webhook="https://hooks.example.com/x")
    return UpstreamKeyFactory(
        upstream=UpstreamFactory(tenant=tenant, name="relay"), secret="sk-0123456789abcdef0123456789"
    )


def changed(key, new, old=FRESH, request_id="req_1", target=None):
    note_changes([Change(target or f"key:{key.pk}", old, new, NOON)], request_id)


def events(key):
    return list(KeyEvent.objects.filter(upstream_key=key).order_by("pk"))


def alerts(key):
    return list(Alert.objects.filter(tenant=key.upstream.tenant).order_by("pk"))


def test_a_death_leaves_an_event_and_an_alert(key):
    changed(key, DEAD)
    (event,) = events(key)
    assert (event.before, event.after, event.reason, event.message) == ("healthy", "dead", "auth_invalid", "bad key")
    assert (event.at, event.until, event.request_id, event.tenant) == (NOON, None, "req_1", key.upstream.tenant)
    (alert,) = alerts(key)
    assert (alert.kind, alert.subject, alert.opened, alert.closed) == ("key_dead", f"key:{key.pk}", NOON, None)
    assert "relay · …456789 is dead: bad key" in alert.text
    assert "0123456789abcdef" not in alert.text
    sent = {(row.channel, row.target) for row in AlertDelivery.objects.filter(alert=alert)}
    assert sent == {("mail", "a@example.com"), ("webhook", "https://hooks.example.com/x")}


@pytest.mark.parametrize(
    ("state", "kind"), [(BROKE, "no_balance"), (QUOTA, "quota"), (RATE, None), (STRUCK, None), (DEAD, "key_dead")]
)
def test_which_states_are_worth_an_alert(key, state, kind):
    changed(key, state)
    assert [alert.kind for alert in alerts(key)] == ([kind] if kind else [])
    assert len(events(key)) == 1
    assert events(key)[0].until == state.until


def test_the_same_state_again_alerts_once(key):
    changed(key, BROKE)
    changed(key, replace(BROKE, until=BROKE.until + timedelta(minutes=30)), old=BROKE)
    assert (len(events(key)), len(alerts(key))) == (1, 1)


def test_when_it_is_over_the_alert_is_closed(key):
    changed(key, DEAD)
    changed(key, replace(FRESH, epoch=2), old=DEAD)
    assert [(event.before, event.after) for event in events(key)] == [("healthy", "dead"), ("dead", "healthy")]
    (alert,) = alerts(key)
    assert alert.closed == NOON
    assert set(AlertDelivery.objects.filter(alert=alert).values_list("occasion", flat=True)) == {"opened", "resolved"}


def test_after_it_was_closed_it_may_open_again(key):
    for old, new in ((FRESH, DEAD), (DEAD, FRESH), (FRESH, DEAD)):
        changed(key, new, old=old)
    assert [alert.closed is None for alert in alerts(key)] == [False, True]


def test_an_account_has_events_of_its_own(key):
    account = AccountFactory(tenant=key.upstream.tenant, name="relay-a")
    changed(key, BROKE, target=f"account:{account.pk}")
    event = KeyEvent.objects.get(account=account)
    assert (event.upstream_key, event.after) == (None, "cooling")
    (alert,) = alerts(key)
    assert (alert.subject, alert.text) == (
        f"account:{account.pk}", "relay-a is cooling until 2026-11-15 12:30 UTC: empty",
    )  # fmt: skip


@pytest.mark.parametrize("target", ["key:999999", "account:999999"])
def test_what_was_deleted_meanwhile_leaves_nothing(key, target):
    changed(key, DEAD, target=target)
    assert not KeyEvent.objects.filter(request_id="req_1", upstream_key=None, account=None).exists()


def test_one_that_fails_does_not_end_the_thread(key, caplog):
    long = replace(DEAD, message="x" * 900)
    changed(key, long, request_id="r" * 60)
    told = events(key)
    assert [len(event.message) for event in told] in ([500], [])
    assert told or "could not be written" in caplog.text


def test_probing_soon(key):
    assert key.probe_due is None
    probe_soon([key.pk, 4711])
    key.refresh_from_db()
    assert key.probe_due is not None


def test_reports_travel_through_the_inbox():
    outcome = Outcome(Cause.AUTH_INVALID, Verdict.NEXT, Scope.KEY, wait_s=1.5, reason="r", message="m", status=401)
    report = Report(key_id=1, account_id=2, model="gpt", outcome=outcome, began=NOON, epoch=3, probe=True)
    payload = json.loads(json.dumps(payload_of(report, {"cool_429_s": 5})))
    back, policy = report_of(payload)
    assert (back, policy) == (report, replace(Policy(), cool_429_s=5))


def test_a_report_without_a_time_is_refused():
    outcome = Outcome(Cause.SERVED, Verdict.ANSWERED, Scope.NONE)
    payload = payload_of(Report(1, None, "", outcome, NOON, 1), {})
    with pytest.raises(ValueError, match="time"):
        report_of({**payload, "began": "never"})
