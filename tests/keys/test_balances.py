"""Reading balances: where, with which key, what a reading changes and what it never does."""

import socket
from datetime import timedelta
from decimal import Decimal

import pytest

from config import private_upstreams
from keys.balances import DOUBTED, EVERY, JITTER, KEPT, due_watches, note, read_due
from keys.core.balance import Balance, Unreadable
from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import BalanceReading, BalanceWatch, StateInbox, StoredState
from tests.factories import NOON, AccountFactory, UpstreamFactory, UpstreamKeyFactory
from tests.fake_upstream import closed_port, html, raw, silent, status

pytestmark = pytest.mark.django_db

PAGE = "/dashboard/billing/subscription"
BROKE = KeyState(
    Status.COOLING, until=NOON + timedelta(minutes=20), since=NOON, cause=Cause.INSUFFICIENT_BALANCE, message="no money"
)


@pytest.fixture(autouse=True)
def loopback(settings):
    settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("127.0.0.1")


def account_at(up, path="/balance", *, keys=("k-1",), **options):
    """Make an account whose balance is told at `path`, with keys at one upstream there."""
    upstream = UpstreamFactory(base_url=up.base_url)
    account = AccountFactory(tenant=upstream.tenant, balance_url=up.url + path, **options)
    for secret in keys:
        UpstreamKeyFactory(upstream=upstream, account=account, secret=secret)
    return account


def watched(account):
    (pk,) = due_watches(now=NOON)
    return BalanceWatch.objects.get(pk=pk, account=account)


def read(watch, at=NOON):
    result = read_due(watch_id=watch.pk, now=at)
    watch.refresh_from_db()
    return result


def noted(watch, amount, at=NOON, currency="USD", **options):
    note(watch_id=watch.pk, result=Balance(Decimal(amount), currency, **options), now=at)
    watch.refresh_from_db()
    return watch


def stand(target, state):
    StoredState.objects.update_or_create(target=target, defaults={"data": {"state": dumped(state)}})


def asked():
    return [(row.command, row.payload) for row in StateInbox.objects.order_by("pk")]


class TestDue:
    def test_accounts_with_an_address_and_a_key_are_read_and_then_wait(self, up):
        account = account_at(up, keys=("k-1", "k-2"))
        AccountFactory(tenant=account.tenant, balance_url=up.url)  # no key
        watch = watched(account)
        assert (watch.tenant, watch.upstream_key) == (account.tenant, None)
        assert NOON + EVERY <= watch.due <= NOON + EVERY + JITTER
        assert due_watches(now=NOON + EVERY - timedelta(seconds=1)) == []
        assert due_watches(now=NOON + EVERY + JITTER) == [watch.pk]
        assert BalanceWatch.objects.count() == 1

    def test_a_known_provider_is_read_without_an_address_also_for_a_key_without_an_account(self):
        upstream = UpstreamFactory(base_url="https://api.deepseek.com")
        account = AccountFactory(tenant=upstream.tenant)
        UpstreamKeyFactory(upstream=upstream, account=account)
        lone = UpstreamKeyFactory(upstream=upstream)
        assert len(due_watches(now=NOON)) == 2
        assert set(BalanceWatch.objects.values_list("account", "upstream_key")) == {(account.pk, None), (None, lone.pk)}

    def test_nobody_is_asked_who_is_not_known(self):
        upstream = UpstreamFactory(base_url="https://relay.example/v1")
        UpstreamKeyFactory(upstream=upstream, account=AccountFactory(tenant=upstream.tenant))
        UpstreamKeyFactory(upstream=upstream)
        assert due_watches(now=NOON) == []

    def test_what_is_switched_off_is_not_read(self):
        UpstreamKeyFactory(upstream=UpstreamFactory(base_url="https://api.deepseek.com"), enabled=False)
        UpstreamKeyFactory(upstream=UpstreamFactory(base_url="https://api.deepseek.com", enabled=False))
        assert due_watches(now=NOON) == []

    def test_what_lost_its_address_is_forgotten(self, up):
        account = account_at(up)
        watch = watched(account)
        account.balance_url = ""
        account.save()
        assert read_due(watch_id=watch.pk, now=NOON) is None
        assert not BalanceWatch.objects.exists()
        assert read_due(watch_id=watch.pk, now=NOON) is None


class TestAsking:
    def test_the_stated_address_is_asked_with_a_key_of_the_account(self, up):
        up.default(raw({"balance": "12.50", "currency": "USD"}), path="/balance")
        watch = watched(account_at(up))
        assert read(watch) == Balance(Decimal("12.5"), "USD", None, "balance 12.50, currency USD")
        (seen,) = up.requests
        assert (seen.method, seen.path, seen.credentials) == ("GET", "/balance", (("authorization", "k-1"),))
        assert (watch.amount, watch.currency, watch.read, watch.tried, watch.error) == (
            Decimal("12.5"), "USD", NOON, NOON, "",
        )  # fmt: skip

    def test_a_relay_is_asked_for_its_usage_with_the_key_and_for_its_site_without(self, up):
        up.default(raw({"object": "billing_subscription", "hard_limit_usd": 50}), path=PAGE)
        up.default(raw({"object": "list", "total_usage": 1250}), path="/dashboard/billing/usage")
        up.default(raw({"success": True, "data": {"quota_display_type": "CNY"}}), path="/api/status")
        watch = watched(account_at(up, PAGE))
        found = read(watch)
        assert (found.amount, found.currency, found.total) == (Decimal("37.5"), "CNY", Decimal(50))
        assert [(seen.path, bool(seen.credentials)) for seen in up.requests] == [
            (PAGE, True), ("/dashboard/billing/usage", True), ("/api/status", False),
        ]  # fmt: skip

    @pytest.mark.parametrize("host", ["api.deepseek.com", "api.moonshot.cn", "openrouter.ai"])
    def test_a_known_provider_is_asked_where_it_is_known_to_answer(self, up, monkeypatch, host):
        """The name leads to the fake one here."""
        real = socket.getaddrinfo

        def resolve(name, *args, **options):
            return real("127.0.0.1" if name == host else name, *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        up.default(raw({"balance_infos": [{"currency": "CNY", "total_balance": "5"}]}), path="/user/balance")
        up.default(raw({"code": 0, "data": {"available_balance": 5}}), path="/v1/users/me/balance")
        up.default(status(403), path="/api/v1/credits")  # wants a management key
        up.default(raw({"data": {"limit": 9, "limit_remaining": 5}}), path="/api/v1/key")
        upstream = UpstreamFactory(base_url=f"http://{host}:{up.port}/v1")
        UpstreamKeyFactory(upstream=upstream, account=AccountFactory(tenant=upstream.tenant))
        (pk,) = due_watches(now=NOON)
        assert read_due(watch_id=pk, now=NOON).amount == 5
        assert all(seen.header("host") == f"{host}:{up.port}" for seen in up.requests)

    def test_a_dead_key_is_asked_last(self, up):
        up.default(raw({"balance": 1}), path="/balance")
        account = account_at(up, keys=("k-1", "k-2"))
        stand(f"key:{account.keys.first().pk}", KeyState(Status.DEAD, cause=Cause.AUTH_INVALID))
        read(watched(account))
        assert [seen.key for seen in up.requests] == ["k-2"]

    def test_the_next_key_is_asked_when_one_may_not(self, up):
        up.default(status(401), path="/balance", key="k-1")
        up.default(raw({"balance": 1}), path="/balance", key="k-2")
        watch = watched(account_at(up, keys=("k-1", "k-2")))
        assert isinstance(read(watch), Balance)
        assert watch.error == ""

    def test_extra_headers_of_the_upstream_go_along(self, up):
        up.default(raw({"data": {"quota": 1, "used_quota": 2}}), path="/api/user/self")
        account = account_at(up, "/api/user/self")
        account.keys.get().upstream.__class__.objects.update(headers={"new-api-user": "7"})
        read(watched(account))
        assert up.requests[0].header("new-api-user") == "7"


class TestFailedReads:
    @pytest.mark.parametrize(
        ("reaction", "words"),
        [
            (status(401), "answered 401: the key may not read its balance there"),
            (status(500), "answered 500"),
            (html(), "a web page came instead of a balance"),
            (raw({"hello": 1}), "the answer has no balance that is known here (its fields: hello)"),
            (raw({"balance": "x" * 2_000_000}), "the answer is larger than allowed"),
            (silent(), "no whole answer came in time"),
        ],
    )
    def test_it_is_told_and_harms_nothing(self, up, monkeypatch, reaction, words):
        monkeypatch.setattr("keys.balances.TIMEOUT_S", 0.3)
        watch = noted(watched(account_at(up)), 7, at=NOON - EVERY)
        up.default(reaction, path="/balance")
        assert read(watch) == Unreadable(words)
        assert (watch.error, watch.tried, watch.read, watch.amount) == (words, NOON, NOON - EVERY, 7)
        assert (asked(), StoredState.objects.count()) == ([], 0)

    def test_who_is_silent_is_not_asked_again_with_another_key(self, up, monkeypatch):
        monkeypatch.setattr("keys.balances.TIMEOUT_S", 0.3)
        up.default(silent(), path="/balance")
        read(watched(account_at(up, keys=("k-1", "k-2", "k-3"))))
        assert len(up.requests) == 1

    def test_the_secret_is_not_in_the_words(self, up):
        secret = "relay-token-without-a-shape"
        up.default(raw({"success": False, "message": f"no such token {secret}"}), path="/balance")
        watch = watched(account_at(up, keys=(secret,)))
        assert read(watch).reason == "the relay refuses: no such token [redacted]"
        assert secret not in watch.error

    def test_a_refused_port(self, up):
        account = account_at(up)
        with closed_port() as url:
            account.balance_url = url
            account.save()
            assert read(watched(account)) == Unreadable("the connection was refused")

    def test_an_inner_address_is_not_asked(self, up, settings):
        account = account_at(up)
        settings.POINTSMAN_ALLOW_PRIVATE_UPSTREAMS = private_upstreams.parse("off")
        assert read(watched(account)) == Unreadable("127.0.0.1 is a loopback address")
        assert up.requests == []

    def test_the_next_good_reading_ends_the_error(self, up):
        watch = watched(account_at(up))
        note(watch_id=watch.pk, result=Unreadable("x" * 900), now=NOON)
        watch.refresh_from_db()
        assert watch.error == "x" * 300
        assert noted(watch, 1, at=NOON + EVERY).error == ""

    def test_a_late_result_does_not_replace_a_later_one(self, up):
        watch = noted(watched(account_at(up)), 5)
        note(watch_id=watch.pk, result=Unreadable("slow"), now=NOON - timedelta(seconds=9))
        assert noted(watch, 9, at=NOON - timedelta(seconds=1)).amount == 5
        assert watch.error == ""


class TestReadings:
    def test_only_changes_are_kept_and_not_for_ever(self, up):
        watch = watched(account_at(up))
        for minutes, amount in ((0, "5"), (10, "5"), (20, "4.5")):
            noted(watch, amount, at=NOON + timedelta(minutes=minutes))
        assert list(BalanceReading.objects.values_list("amount", flat=True)) == [Decimal("4.5"), Decimal(5)]
        noted(watch, "4", at=NOON + KEPT + timedelta(minutes=15))
        assert list(BalanceReading.objects.values_list("amount", flat=True)) == [Decimal(4), Decimal("4.5")]

    def test_the_high_mark_moves_up_with_a_top_up_only(self, up):
        watch = watched(account_at(up))
        highs = [noted(watch, amount, at=NOON + timedelta(minutes=n)).high for n, amount in enumerate(
            ("50", "100", "30", "9", "9.5", "25", "20")
        )]  # fmt: skip
        assert highs == [50, 100, 100, 100, 100, 25, 25]

    def test_another_currency_starts_anew(self, up):
        watch = noted(watched(account_at(up)), 100)
        assert noted(watch, 7, at=NOON + EVERY, currency="CNY").high == 7


class TestMoneyAgain:
    @pytest.fixture
    def watch(self, up):
        account = account_at(up)
        stand(f"account:{account.pk}", BROKE)
        return watched(account)

    def test_it_ends_a_cooling_for_lack_of_it(self, watch):
        noted(watch, "0.01")
        assert asked() == [("balance_seen", {"target": f"account:{watch.account_id}"})]

    @pytest.mark.parametrize("amount", ["0", "-3"])
    def test_no_money_changes_no_state(self, watch, amount):
        noted(watch, amount)
        noted(watch, amount, at=NOON + EVERY)
        assert asked() == []

    def test_money_that_is_not_enough_to_call_is_none(self, watch):
        assert noted(watch, "0.05", available=False).available is False
        assert asked() == []

    @pytest.mark.parametrize(
        "state",
        [
            KeyState(),
            KeyState(Status.DEAD, cause=Cause.INSUFFICIENT_BALANCE),
            KeyState(Status.COOLING, until=NOON, since=NOON, cause=Cause.QUOTA_EXHAUSTED),
            KeyState(Status.DEAD, cause=Cause.AUTH_INVALID),
        ],
    )
    def test_it_ends_nothing_else(self, watch, state):
        """A death for lack of money (`on_balance: dead`) is a person's to end."""
        stand(f"account:{watch.account_id}", state)
        noted(watch, 100)
        assert asked() == []

    def test_an_upstream_that_goes_on_refusing_is_believed_once_in_a_while(self, watch):
        for minutes in (0, 10, 20):
            noted(watch, 5, at=NOON + timedelta(minutes=minutes))
        assert len(asked()) == 1
        noted(watch, 5, at=NOON + DOUBTED)
        assert len(asked()) == 2
        noted(watch, 105, at=NOON + DOUBTED + timedelta(minutes=10))
        assert len(asked()) == 3

    def test_a_key_without_an_account_has_its_own(self, monkeypatch):
        key = UpstreamKeyFactory(upstream=UpstreamFactory(base_url="https://api.deepseek.com"))
        stand(f"key:{key.pk}", BROKE)
        (pk,) = due_watches(now=NOON)
        note(watch_id=pk, result=Balance(Decimal(5), "CNY"), now=NOON)
        assert asked() == [("balance_seen", {"target": f"key:{key.pk}"})]
