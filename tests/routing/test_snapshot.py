"""The routing table: every row in its place, renewed when the version moves, kept when the database goes."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from billing.models import Budget
from keys.core.dialect import Dialect
from keys.core.policy import Policy
from routing.snapshot import Keeper, current_version, read_table
from tenants.encryption import UndecryptableError
from tenants.models import ConfigVersion, Tenant
from tenants.services import gateway_digest, revoke_gateway_key, touch_config
from tests.factories import (
    NOON,
    AccountFactory,
    BudgetFactory,
    ExchangeRateFactory,
    GatewayKeyFactory,
    GroupFactory,
    LineFactory,
    LineRouteFactory,
    MemberFactory,
    PriceFactory,
    RouteFactory,
    RuleFactory,
    TenantFactory,
    UpstreamFactory,
    UpstreamKeyFactory,
)


@pytest.mark.django_db
class TestTable:
    def test_an_empty_database(self):
        table = read_table()
        assert (table.version, dict(table.tenants), dict(table.gateway_keys)) == (current_version(), {}, {})

    def test_tenants_and_lines(self):
        tenant = TenantFactory(slug="acme", timezone="Asia/Shanghai", currency="CNY")
        line = LineFactory(
            tenant=tenant, slug="bot", name="Bot", model_globs=["gpt-*"], charge_multiplier=Decimal("1.1"), rpm=5,
            tpm=6, per_day=7, tokens_per_day=8, concurrency=9, line_class="batch", history=True, enabled=False,
        )  # fmt: skip
        table = read_table()
        found = table.tenants[tenant.pk]
        assert (found.slug, found.timezone, found.currency, found.enabled) == ("acme", "Asia/Shanghai", "CNY", True)
        found = table.lines[line.pk]
        assert (found.slug, found.name, found.models, found.route_id) == ("bot", "Bot", ("gpt-*",), None)
        assert (found.charge_multiplier, found.batch, found.history, found.enabled) == (
            Decimal("1.1"),
            True,
            True,
            False,
        )
        limits = found.limits
        assert (limits.rpm, limits.tpm, limits.per_hour, limits.per_day) == (5, 6, None, 7)
        assert (limits.tokens_per_day, limits.concurrency) == (8, 9)

    @pytest.mark.parametrize(
        ("said", "budgets", "expected"),
        [
            ("", [], "serve"),
            ("", [{"hard": True}], "refuse"),
            ("", [{"hard": False}], "serve"),
            ("serve", [{"hard": True}], "serve"),
            ("refuse", [], "refuse"),
        ],
    )
    @pytest.mark.parametrize("of_the_line", [True, False])
    def test_what_becomes_of_unpriced_models(self, said, budgets, expected, of_the_line):
        line = LineFactory(on_unpriced=said)
        for budget in budgets:
            BudgetFactory(tenant=line.tenant, line=line if of_the_line else None, **budget)
        assert read_table().lines[line.pk].on_unpriced == expected

    def test_an_accounts_budget_binds_no_line(self):
        line = LineFactory()
        BudgetFactory(tenant=line.tenant, account=AccountFactory(tenant=line.tenant), hard=True)
        assert read_table().lines[line.pk].on_unpriced == "serve"
        assert Budget.objects.count() == 1

    def test_gateway_keys_by_their_hash(self):
        key = GatewayKeyFactory(secret="sk-pm-" + "a" * 40, expires=NOON, rpm=3)
        found = read_table().gateway_keys[gateway_digest("sk-pm-" + "a" * 40)]
        assert (found.id, found.line_id, found.expires, found.limits.rpm, found.enabled) == (
            key.pk, key.line_id, NOON, 3, True,
        )  # fmt: skip
        revoke_gateway_key(key=key, now=NOON)
        assert read_table().gateway_keys[key.digest].enabled is False

    def test_upstreams_with_their_keys(self):
        upstream = UpstreamFactory(
            dialect="gemini", base_url="https://up.example/", aliases={"a": "b"}, max_context_tokens=100,
            cost_multiplier=Decimal("0.8"), rotation="weighted", auth="both", usage_semantics="x", headers={"h": "1"},
            timeouts={"connect_s": 2, "silence_s": 30},
        )  # fmt: skip
        account = AccountFactory(tenant=upstream.tenant, credit_amount=Decimal(5), credit_currency="USD")
        keys = [
            UpstreamKeyFactory(upstream=upstream, secret="sk-1-0123456789", account=account, weight=3, per_hour=4),
            UpstreamKeyFactory(upstream=upstream, secret="sk-2-0123456789", enabled=False, policy={"strikes": 1}),
        ]
        table = read_table()
        found = table.upstreams[upstream.pk]
        assert (found.dialect, found.base_url) == (Dialect.GEMINI, "https://up.example/v1beta")
        assert (found.aliases, found.max_context_tokens, found.cost_multiplier) == ({"a": "b"}, 100, Decimal("0.8"))
        assert (found.rotation, found.auth, found.usage_semantics, found.headers) == (
            "weighted",
            "both",
            "x",
            {"h": "1"},
        )
        assert (found.timeouts.connect_s, found.timeouts.silence_s) == (2, 30)
        assert [key.id for key in found.keys] == [key.pk for key in keys]
        first, second = found.keys
        assert (first.secret, first.tail, first.account_id, first.weight, first.limits.per_hour, first.epoch) == (
            "sk-1-0123456789", keys[0].tail, account.pk, 3, 4, 1,
        )  # fmt: skip
        assert (second.account_id, second.enabled, second.policy) == (None, False, {"strikes": 1})
        assert "sk-1" not in repr(found)
        assert (table.accounts[account.pk].credit_amount, table.accounts[account.pk].credit_currency) == (5, "USD")

    @pytest.mark.parametrize(
        ("listed", "read", "extra", "models"),
        [
            (None, [], [], None),
            (None, ["a"], ["b"], None),
            ("auto", [], ["b"], None),
            ("auto", ["a", "b"], ["b", "c"], ("a", "b", "c")),
            (["a"], ["x"], ["b"], ("a", "b")),
            ([], [], [], ()),
        ],
    )
    def test_which_models_are_known(self, listed, read, extra, models):
        upstream = UpstreamFactory(model_list=listed, read_models=read, extra_models=extra)
        assert read_table().upstreams[upstream.pk].models == models

    def test_groups_in_the_members_order(self):
        group = GroupFactory(strategy="weighted", basis="speed", stream_hold="full", policy={"strikes": 9})
        later = MemberFactory(group=group, position=2, weight=3)
        sooner = MemberFactory(group=group, position=1, weight=7)
        found = read_table().groups[group.pk]
        assert [(member.upstream_id, member.weight) for member in found.members] == [
            (sooner.upstream_id, 7), (later.upstream_id, 3),
        ]  # fmt: skip
        assert (found.strategy, found.basis, found.stream_hold) == ("weighted", "speed", "full")
        assert (found.policy.strikes, found.policy.cool_429_s) == (9, Policy().cool_429_s)

    def test_routes_and_their_rules_in_order(self):
        route = RouteFactory(is_default=True)
        group = GroupFactory(tenant=route.tenant)
        RuleFactory(route=route, position=2, name="second", group=group)
        RuleFactory(route=route, position=1, name="first", when={"model": "a"}, set={"n": 1}, proceed=True, deny="no")
        line = LineFactory(tenant=route.tenant)
        own = LineRouteFactory(line=line)
        RuleFactory(route=route, position=0, name="off", group=group, enabled=False)
        table = read_table()
        first, second = table.routes[route.pk].rules
        assert (first.name, first.when, first.set, first.deny, first.proceed) == (
            "first", {"model": "a"}, {"n": 1}, "no", True,
        )  # fmt: skip
        assert (second.name, second.group_id, second.deny, second.proceed) == ("second", group.pk, None, False)
        assert table.default_routes == {route.tenant_id: route.pk}
        assert table.lines[line.pk].route_id == own.route_id

    def test_prices_begin_at_midnight_in_the_tenants_zone(self):
        tenant = TenantFactory(timezone="Asia/Shanghai")
        PriceFactory(model="m", input=Decimal(1), output=Decimal(1))
        PriceFactory(tenant=tenant, model="m", input=Decimal(2), output=Decimal(2), starts=date(2026, 11, 16))
        ExchangeRateFactory()
        book = read_table().prices
        midnight = NOON.replace(hour=16)  # of the 16th in Shanghai
        assert book.find(tenant.pk, ["m"], midnight - timedelta(seconds=1)).input == 1
        assert book.find(tenant.pk, ["m"], midnight).input == 2
        assert book.convert(Decimal(10), "USD", "CNY", NOON) == Decimal(71)

    def test_a_wrong_encryption_key_is_told(self, settings):
        UpstreamKeyFactory()
        settings.POINTSMAN_ENCRYPTION_KEYS = ("MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=",)
        with pytest.raises(UndecryptableError):
            read_table()

    def test_its_queries_do_not_grow_with_the_rows(self, django_assert_max_num_queries):
        for _ in range(3):
            GatewayKeyFactory()
            UpstreamKeyFactory()
            MemberFactory()
            RuleFactory()
        with django_assert_max_num_queries(24):
            read_table()

    def test_no_version_row_is_version_zero(self):
        ConfigVersion.objects.all().delete()
        assert current_version() == 0


@pytest.mark.usefixtures("clean_database")
class TestKeeper:
    """Rows are committed; the keeper's own thread is not started unless told."""

    def test_it_reads_again_only_when_the_version_moved(self):
        seen = []
        keeper = Keeper(seen.append)
        keeper.refresh()
        first = keeper.table
        keeper.refresh()
        assert keeper.table is first
        touch_config()
        keeper.refresh()
        assert keeper.table is not first
        assert [table.version for table in seen] == [first.version, first.version + 1]
        assert (keeper.healthy, len(keeper.hash_key)) == (True, 32)

    def test_a_row_without_a_new_version_is_not_seen(self):
        keeper = Keeper()
        keeper.refresh()
        row = TenantFactory()
        keeper.refresh()
        assert row.pk not in keeper.table.tenants
        touch_config()
        keeper.refresh()
        assert row.pk in keeper.table.tenants

    def test_a_database_that_goes_leaves_the_last_table(self, caplog):
        keeper = Keeper()
        keeper.refresh()
        table = keeper.table
        rename(ConfigVersion._meta.db_table, "away")
        try:
            keeper.refresh()
            keeper.refresh()
            assert (keeper.healthy, keeper.table) == (False, table)
            assert caplog.text.count("the last one stays in use") == 1
        finally:
            rename("away", ConfigVersion._meta.db_table)
        touch_config()
        keeper.refresh()
        assert (keeper.healthy, keeper.table.version) == (True, table.version + 1)

    def test_a_database_that_is_away_at_start(self):
        keeper = Keeper()
        rename(Tenant._meta.db_table, "away")
        try:
            keeper.refresh()
            assert (keeper.healthy, keeper.table) == (False, None)
        finally:
            rename("away", Tenant._meta.db_table)
        keeper.refresh()
        assert (keeper.healthy, keeper.table is not None) == (True, True)


def rename(old, new):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")
