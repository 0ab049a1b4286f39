"""The home page: what needs attention comes first, figures are those of the records, nothing of other teams."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from billing.rollups import roll_up
from config.dashboard.tiles import percent
from config.dashboard.upstreams import Count, is_failing, is_taking
from config.pages.gauges import Gauge
from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import StoredState
from tenants.models import Alert
from tests import factories
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_cache():
    cache.clear()


@pytest.fixture
def alpha():
    return team("alpha")


def home(client, query=""):
    return client.get(reverse("admin:index") + query)


def texts(answer):
    return [sentence.text for sentence in answer.context["sentences"]]


def kill(key, message="invalid api key"):
    state = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, message=message)
    counts = {"calls": 3, "failures": 1, "last_error": f"auth_invalid: {message}"}
    StoredState.objects.create(target=f"key:{key.pk}", data={"state": dumped(state), "counts": counts})


def call(line, **fields):
    return factories.RecordFactory(line=line, created=timezone.now(), **fields)


def spend(line, charge):
    record = call(line, charge=charge)
    return factories.LedgerEntryFactory(
        record=record, line_id=line.pk, amount=charge, created=record.created, day=record.day
    )


def test_a_dead_key_is_said_with_its_reason_and_the_way_to_it(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    key = alpha.rows["keys.UpstreamKey"]
    assert not any("dead" in text for text in texts(home(client)))
    kill(key)
    answer = home(client)
    assert f"Key alpha-upstream · …{key.tail} is dead: credentials refused: invalid api key" in texts(answer)
    assert answer.context["sentences"][0].url == reverse("admin:keys_upstreamkey_change", args=[key.pk])


def test_a_key_that_is_off_needs_nobody(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    key = alpha.rows["keys.UpstreamKey"]
    kill(key)
    type(key).objects.filter(pk=key.pk).update(enabled=False)
    assert not any("dead" in text for text in texts(home(client)))


@pytest.mark.parametrize(("spent", "said"), [("79", False), ("80", True), ("100", True)])
def test_a_budget_is_said_from_its_threshold_on(client, alpha, spent, said):
    client.force_login(member(alpha.tenant, "viewer"))
    spend(alpha.line, Decimal(spent))
    found = [text for text in texts(home(client)) if "budget" in text]
    assert found == (
        [f"alpha line has spent {spent} % of its budget per month: {spent}.00 of 100.00 USD."] if said else []
    )


def test_an_unpriced_model_is_said_with_its_calls(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    call(alpha.line, priced=False, charge=None, model_served="mystery")
    assert "Model mystery has no price: 1 call of the last 7 days is not billed." in texts(home(client))


def test_mail_that_is_not_set_up_is_said_to_those_who_can_act(client, alpha, settings):
    settings.POINTSMAN_MAIL_CONFIGURED = False
    client.force_login(member(alpha.tenant, "admin"))
    assert any(text.startswith("Mail is not set up") for text in texts(home(client)))
    client.force_login(member(alpha.tenant, "viewer"))
    assert not any(text.startswith("Mail is not set up") for text in texts(home(client)))


def test_mail_that_fails_is_said_where_no_mail_is_needed(client, alpha, settings):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    Alert.objects.create(tenant=None, kind="mail", subject="mail", text="Mail could not be sent: refused")
    client.force_login(person("root", is_superuser=True))
    assert "mail cannot be sent: Mail could not be sent: refused" in texts(home(client))


def test_an_empty_installation_names_the_next_step(client, settings):
    settings.POINTSMAN_MAIL_CONFIGURED = True
    client.force_login(person("root", is_superuser=True))
    answer = home(client)
    assert texts(answer) == ["There is no team yet."]
    assert "No calls yet" in answer.content.decode()
    factories.TenantFactory()
    assert texts(home(client)) == ["There is no upstream key yet."]


def test_nothing_of_another_team_is_on_the_page(client, alpha):
    bravo = team("bravo")
    kill(bravo.rows["keys.UpstreamKey"])
    call(bravo.line, charge=Decimal(99))
    for role in ("admin", "finance", "viewer"):
        client.force_login(member(alpha.tenant, role))
        for query in ("", f"?team={bravo.tenant.pk}", f"?line={bravo.line.pk}", "?days=30"):
            assert "bravo" not in home(client, query).content.decode(), (role, query)


def test_finance_sees_money_and_no_keys(client, alpha):
    kill(alpha.rows["keys.UpstreamKey"])
    call(alpha.line, charge=Decimal(5))
    client.force_login(member(alpha.tenant, "finance"))
    answer = home(client)
    assert not any("dead" in text for text in texts(answer))
    assert [tile.title for tile in answer.context["tiles"]] == [
        "Spend this month", "Requests today", "First content", "Read from cache", "Active sessions",
    ]  # fmt: skip
    assert client.get(reverse("admin:pool")).status_code == 403


def test_the_tiles_add_up_the_records(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    call(alpha.line, charge=Decimal("1.25"), first_content_ms=100, input_tokens=100, cached_read_tokens=50)
    call(
        alpha.line,
        charge=Decimal("0.25"),
        attempt_count=2,
        first_content_ms=300,
        input_tokens=100,
        cached_read_tokens=0,
    )
    call(alpha.line, status="failed", http_status=502, charge=Decimal(0), first_content_ms=None, input_tokens=None)
    call(alpha.line, status="failed", http_status=400, charge=Decimal(0), first_content_ms=None, input_tokens=None)
    call(alpha.line, status="failed", refusal_limit="rpm", http_status=429, charge=Decimal(0), first_content_ms=None)
    tiles = {tile.title: tile for tile in home(client).context["tiles"]}
    assert "1.50 USD" in tiles["Spend this month"].value
    assert tiles["Requests today"].value == "4"
    assert tiles["Requests today"].detail == "66.7 % answered · 33.3 % without failover"
    assert "108 / 304 ms" in tiles["First content"].value
    assert tiles["Read from cache"].value == "25.0 %"


def test_the_page_has_no_script_of_its_own_and_its_plots_say_their_values(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))
    call(alpha.line, charge=Decimal("1.25"))
    text = home(client).content.decode()
    assert "<svg" in text
    assert "alpha-line, " in text
    for part in text.split("<script")[1:]:
        assert " src=" in part.partition(">")[0]
    assert " onclick" not in text
    assert "javascript:" not in text


def test_the_page_costs_the_same_for_few_and_many_records(client, alpha):
    client.force_login(member(alpha.tenant, "admin"))

    def cost():
        cache.clear()
        with CaptureQueriesContext(connection) as asked:
            assert home(client).status_code == 200
        return len(asked)

    call(alpha.line)
    cost()  # the first look at a budget begins its kept sum
    few = cost()
    for _ in range(20):
        call(alpha.line)
    assert cost() == few <= 30


@pytest.mark.parametrize(
    ("own", "others", "marked"),
    [((10, 3), (100, 10), True), ((10, 3), (100, 11), False), ((4, 4), (100, 0), False), ((10, 0), (10, 0), False)],
)
def test_a_key_is_marked_at_three_times_the_others_failures(own, others, marked):
    assert is_failing(Count(*own), Count(*others)) is marked


@pytest.mark.parametrize(
    ("own", "others", "marked"),
    [(30, [10, 10], True), (29, [10, 10], False), (30, [20, 0], True), (30, [], False), (4, [1], False)],
)
def test_a_key_is_marked_when_it_takes_three_times_the_others_calls(own, others, marked):
    assert is_taking(Count(own), [Count(each) for each in others]) is marked


def test_shares_do_not_round_to_certainty():
    assert (percent(9999, 10000), percent(1, 100000), percent(5, 5), percent(0, 5), percent(0, 0)) == (
        "99.9 %", "0.1 %", "100.0 %", "0.0 %", "–",
    )  # fmt: skip


def test_what_was_chosen_is_there_when_one_comes_back(client, alpha):
    other = factories.LineFactory(tenant=alpha.tenant, slug="alpha-other")
    client.force_login(member(alpha.tenant, "viewer"))
    assert home(client, f"?line={other.pk}&days=30").context["view"].line == other
    client.get(reverse("admin:billing_requestrecord_changelist"))
    view = home(client).context["view"]
    assert (view.line, view.days) == (other, 30)
    assert home(client, "?line=&days=7").context["view"].line is None
    view = home(client).context["view"]
    assert (view.line, view.days) == (None, 7)


def test_a_slow_key_is_said_with_its_figures(client, alpha, monkeypatch):
    key = alpha.rows["keys.UpstreamKey"]
    gauge = Gauge(slow=(901.0, 300.0), left={}, water=None)
    monkeypatch.setattr("config.dashboard.page.gauges", lambda keys: {key.pk: gauge for key in keys})
    client.force_login(member(alpha.tenant, "admin"))
    answer = home(client)
    said = f"Key alpha-upstream · …{key.tail} is slow: 901 ms to first content, usually 300 ms. It is tried last."
    assert said in texts(answer)
    assert "1 slow" in answer.content.decode()


def test_sums_that_lag_are_said(client, alpha):
    call(alpha.line)
    roll_up(now=timezone.now() - timedelta(days=3))
    client.force_login(member(alpha.tenant, "viewer"))
    assert any(text.startswith("Figures since ") for text in texts(home(client)))
    roll_up(now=timezone.now())
    assert not any(text.startswith("Figures since ") for text in texts(home(client)))
