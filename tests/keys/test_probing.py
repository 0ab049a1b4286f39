from datetime import timedelta

import pytest

from config import private_upstreams
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.events import report_of
from keys.models import StateInbox
from keys.prober import ProbeResult
from keys.probing import EVERY, JITTER, due_keys, note, probe_key
from tenants.models import ConfigVersion
from tests.factories import NOON, AccountFactory, UpstreamFactory, UpstreamKeyFactory
from tests.fake_upstream import status

pytestmark = pytest.mark.django_db


def result(cause, models=()):
    return ProbeResult(Outcome(cause, Verdict.NEXT, Scope.KEY, message="m", status=401), models)


def inbox():
    return list(StateInbox.objects.values_list("command", flat=True))


class TestDue:
    def test_new_keys_are_due_and_then_wait(self):
        keys = {UpstreamKeyFactory().pk for _ in range(3)}
        assert set(due_keys(now=NOON)) == keys
        assert due_keys(now=NOON + EVERY - timedelta(seconds=1)) == []
        assert set(due_keys(now=NOON + EVERY + JITTER)) == keys

    def test_times_are_spread(self):
        keys = [UpstreamKeyFactory() for _ in range(20)]
        due_keys(now=NOON)
        for key in keys:
            key.refresh_from_db()
        assert len({key.probe_due for key in keys}) > 10
        assert all(NOON + EVERY <= key.probe_due <= NOON + EVERY + JITTER for key in keys)

    def test_what_is_switched_off_is_not_probed(self):
        UpstreamKeyFactory(enabled=False)
        UpstreamKeyFactory(upstream=UpstreamFactory(enabled=False))
        assert due_keys(now=NOON) == []

    def test_a_limit(self):
        for _ in range(3):
            UpstreamKeyFactory()
        assert [len(due_keys(now=NOON, limit=2)) for _ in range(3)] == [2, 1, 0]


class TestNote:
    def test_success_lets_a_cooling_half_open(self):
        key = UpstreamKeyFactory()
        note(key=key, result=result(Cause.SERVED), now=NOON)
        request = StateInbox.objects.get()
        assert (request.command, request.payload) == ("probe_succeeded", {"key_id": key.pk})
        key.refresh_from_db()
        assert key.probed == NOON

    def test_only_success_is_remembered_as_a_good_probe(self):
        key = UpstreamKeyFactory()
        note(key=key, result=result(Cause.RATE_LIMITED), now=NOON)
        note(key=key, result=ProbeResult(None), now=NOON)
        key.refresh_from_db()
        assert key.probed is None

    def test_refused_credentials_kill_the_key(self):
        key = UpstreamKeyFactory(account=None, policy={"on_auth": "strike"}, epoch=4)
        note(key=key, result=result(Cause.AUTH_INVALID), now=NOON)
        request = StateInbox.objects.get()
        report, policy = report_of(request.payload)
        assert (request.command, report.key_id, report.epoch, report.probe) == ("report", key.pk, 4, True)
        assert (report.outcome.cause, report.began, policy.on_auth) == (Cause.AUTH_INVALID, NOON, "strike")

    @pytest.mark.parametrize(
        "cause",
        [Cause.RATE_LIMITED, Cause.INSUFFICIENT_BALANCE, Cause.SERVER_ERROR, Cause.TIMEOUT, Cause.PERMISSION_DENIED],
    )
    def test_the_rest_teaches_nothing(self, cause):
        note(key=UpstreamKeyFactory(), result=result(cause), now=NOON)
        assert inbox() == []

    def test_no_list_teaches_nothing(self):
        note(key=UpstreamKeyFactory(), result=ProbeResult(None), now=NOON)
        assert inbox() == []


class TestModels:
    def noted(self, listed, models, read=()):
        upstream = UpstreamFactory(model_list=listed, read_models=list(read))
        before = ConfigVersion.objects.get().version
        note(key=UpstreamKeyFactory(upstream=upstream), result=result(Cause.SERVED, models), now=NOON)
        upstream.refresh_from_db()
        return upstream.read_models, ConfigVersion.objects.get().version - before

    def test_auto_takes_what_was_read(self):
        assert self.noted("auto", ("a", "b")) == (["a", "b"], 1)

    def test_the_same_list_changes_nothing(self):
        assert self.noted("auto", ("a", "b"), read=("a", "b")) == (["a", "b"], 0)

    def test_an_empty_list_does_not_empty_it(self):
        assert self.noted("auto", (), read=("a",)) == (["a"], 0)

    @pytest.mark.parametrize("listed", [None, ["x"]])
    def test_a_list_of_a_persons_own_stays(self, listed):
        assert self.noted(listed, ("a",)) == ([], 0)


def test_a_key_that_is_gone_is_no_error():
    assert probe_key(key_id=4711, now=NOON) is None


def test_a_probe_from_end_to_end(up, settings):
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("127.0.0.1")
    up.default(status(401), path="*/models", key="k-2")
    upstream = UpstreamFactory(base_url=up.base_url)
    account = AccountFactory(tenant=upstream.tenant)
    keys = [UpstreamKeyFactory(upstream=upstream, secret=f"k-{n}", account=account) for n in (1, 2)]
    assert [probe_key(key_id=key.pk, now=NOON).alive for key in keys] == [True, False]
    assert inbox() == ["probe_succeeded", "report"]
    assert StateInbox.objects.last().payload["account_id"] == account.pk
