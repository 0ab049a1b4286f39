"""The preview on a group's page where no gateway runs: by the stored states, and said so."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from config.pages.preview import preview_of
from keys.core.outcome import Cause
from keys.core.sight import WHEEL_PREFIX
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import StoredState
from tests import factories
from tests.config.admin_world import UPSTREAM_SECRET, member, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    return team("alpha")


def with_members(alpha, *names, **fields):
    group = factories.GroupFactory(tenant=alpha.tenant, name="drawn", **fields)
    for place, name in enumerate(names):
        upstream = factories.UpstreamFactory(tenant=alpha.tenant, name=name, model_list=["m-1", f"{name}-own", "w-*"])
        factories.MemberFactory(group=group, upstream=upstream, position=place, weight=len(names) - place)
        factories.UpstreamKeyFactory(upstream=upstream, name="k")
    return group


def set_state(group, name, **fields):
    key = group.members.get(upstream__name=name).upstream.keys.get()
    StoredState.objects.create(target=f"key:{key.pk}", data={"state": dumped(KeyState(epoch=key.epoch, **fields))})


def shown(client, group, query=""):
    return client.get(reverse("admin:routing_strategygroup_change", args=[group.pk]) + query).content.decode()


def test_it_is_on_the_page_and_says_what_it_rests_on(client, alpha):
    group = with_members(alpha, "a", "b", strategy="round_robin")
    client.force_login(member(alpha.tenant, "viewer"))
    text = shown(client, group)
    assert "The next ten picks" in text
    assert text.count('class="pick-dot') == 12
    assert "5 picks to a" in text
    assert "The gateway does not run in this process" in text
    assert UPSTREAM_SECRET.format("alpha") not in text
    assert "The next ten picks" not in client.get(reverse("admin:routing_strategygroup_add")).content.decode()


def test_a_model_is_chosen(client, alpha):
    group = with_members(alpha, "a", "b", strategy="priority")
    client.force_login(member(alpha.tenant, "admin"))
    text = shown(client, group, "?model=b-own")
    assert "10 picks to b" in text
    assert "the only one usable" in text
    assert "<option selected>b-own</option>" in text
    assert "<option>w-*</option>" not in text
    assert shown(client, group, "?model=<script>").count("<script>") == shown(client, group).count("<script>")


def test_states_are_the_stored_ones(alpha):
    group = with_members(alpha, "a", "b", "c", strategy="priority", last_resort=None)
    until = datetime.now(UTC) + timedelta(seconds=50)
    set_state(group, "a", status=Status.COOLING, cause=Cause.RATE_LIMITED, until=until)
    told = preview_of(group, "")
    assert not told.live
    assert {pick.upstream for pick in told.picks} == {"b"}
    assert {pick.why for pick in told.picks} == {"first usable in the order"}
    assert told.out[0].name == "a · k"
    set_state(group, "b", status=Status.DEAD, cause=Cause.AUTH_INVALID)
    set_state(group, "c", status=Status.DEAD, cause=Cause.AUTH_INVALID)
    told = preview_of(group, "")
    assert told.picks == []
    assert [one.name for one in told.out] == ["a · k", "b · k", "c · k"]


def test_turns_go_on_where_the_stored_ones_stand(alpha):
    group = with_members(alpha, "a", "b", strategy="round_robin")
    assert [pick.upstream for pick in preview_of(group, "").picks[:3]] == ["a", "b", "a"]
    first, second = group.members.order_by("position").values_list("upstream_id", flat=True)
    turns = {str(first): -500, str(second): 500}
    StoredState.objects.create(target=f"{WHEEL_PREFIX}group:{group.pk}:round_robin", data=turns)
    assert [pick.upstream for pick in preview_of(group, "").picks[:3]] == ["b", "a", "b"]
    assert StoredState.objects.get().data == turns


def test_no_key_at_all(client, alpha):
    group = factories.GroupFactory(tenant=alpha.tenant, name="bare")
    client.force_login(member(alpha.tenant, "admin"))
    assert "No key of this group is usable at the moment." in shown(client, group)
    upstream = factories.UpstreamFactory(tenant=alpha.tenant, name="empty")
    factories.MemberFactory(group=group, upstream=upstream)
    group.last_resort = with_members(alpha, "z").members.get().upstream
    group.save()
    text = shown(client, group)
    assert "empty <small>has no key</small>" in text
    assert "The last resort, z, would be tried." in text


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("priority", "first in the order"),
        ("round_robin", "its turn"),
        ("weighted", "furthest behind its share of 67 %"),
        ("least_used", "fewest calls in 24 h: 0"),
        ("fastest", "none is measured yet; first in the order"),
        ("cheapest", "no price is known for any; first in the order"),
        ("headroom", "no cap; first in the order"),
    ],
)
def test_why(alpha, strategy, why):
    assert preview_of(with_members(alpha, "a", "b", strategy=strategy), "m-1").picks[0].why == why


def test_the_cheapest_names_its_cost(alpha):
    factories.PriceFactory(tenant=alpha.tenant, model="m-1", currency="USD")
    told = preview_of(with_members(alpha, "a", "b", strategy="cheapest"), "m-1")
    assert told.picks[0].why == "cheapest: about 0.01274 USD for a typical call"


def test_one_of_several_keys_by_chance(client, alpha):
    group = with_members(alpha, "a")
    upstream = group.members.get().upstream
    upstream.rotation = "random"
    upstream.save()
    factories.UpstreamKeyFactory(upstream=upstream, name="k2")
    assert {pick.key for pick in preview_of(group, "").picks} == {""}
    client.force_login(member(alpha.tenant, "admin"))
    assert "one of its keys, by chance" in shown(client, group)
