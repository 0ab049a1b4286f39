"""The order of members and rules: typed numbers, no gaps, no place twice, and nobody's change is lost silently."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from routing.models import GroupMember, RoutingRule
from routing.ordering import settle
from routing.snapshot import read_table
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_forms import version
from tests.config.admin_world import member, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    return team("alpha")


@pytest.fixture
def boss(client, alpha):
    user = member(alpha.tenant, "admin")
    client.force_login(user)
    return user


class Group:
    """A group with members u1, u2 … and its page."""

    def __init__(self, client, tenant, names=("u1", "u2", "u3", "u4")):
        self.client = client
        self.row = factories.GroupFactory(tenant=tenant, name="ordered")
        for place, name in enumerate(names):
            upstream = factories.UpstreamFactory(tenant=tenant, name=name)
            factories.MemberFactory(group=self.row, upstream=upstream, position=place)
        self.address = reverse("admin:routing_strategygroup_change", args=[self.row.pk])

    def open(self):
        """Return what the page would post back untouched."""
        page = self.client.get(self.address)
        data = {"name": "ordered", "strategy": "priority", "basis": "share", "stream_hold": "first_content"}
        formset = page.context["inline_admin_formsets"][0].formset
        for field in formset.management_form:
            data[field.html_name] = field.value()
        for form in formset.initial_forms:
            for field in form:
                data[field.html_name] = "" if field.value() is None else field.value()
        return data

    def save(self, data):
        return self.client.post(self.address, data)

    def places(self):
        rows = self.row.members.order_by("position").values_list("upstream__name", "position")
        return list(rows)

    def names(self):
        return [name for name, _place in self.places()]


@pytest.fixture
def group(client, alpha, boss):
    return Group(client, alpha.tenant)


def typed(data, **numbers):
    return data | {f"members-{row}-position": number for row, number in numbers.items()}


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ({"3": "1"}, ["u4", "u1", "u2", "u3"]),  # up, to a number that is taken
        ({"0": "3"}, ["u2", "u3", "u1", "u4"]),  # down
        ({"0": ""}, ["u2", "u3", "u4", "u1"]),  # empty = the end
        ({"0": "4", "1": "3", "2": "2", "3": "1"}, ["u4", "u3", "u2", "u1"]),
        ({"0": "700"}, ["u2", "u3", "u4", "u1"]),
        ({"1": "1", "2": "1"}, ["u2", "u3", "u1", "u4"]),
    ],
)
def test_numbers_are_typed_without_a_script(group, numbers, names):
    data = group.open()
    assert [data[f"members-{row}-position"] for row in range(4)] == [1, 2, 3, 4]
    assert group.save(typed(data, **numbers)).status_code == 302
    assert group.places() == [(name, place) for place, name in enumerate(names)]


def test_what_is_no_number_is_refused_at_its_field(group):
    answer = group.save(typed(group.open(), **{"1": "0"}))
    formset = answer.context["inline_admin_formsets"][0].formset
    assert list(formset.forms[1].errors) == ["position"]
    assert group.names() == ["u1", "u2", "u3", "u4"]


def test_the_order_that_was_saved_is_the_order_that_routes(group):
    before = version()
    group.save(typed(group.open(), **{"3": "1"}))
    assert version() > before
    members = read_table().groups[group.row.pk].members
    names = dict(GroupMember.objects.values_list("upstream_id", "upstream__name"))
    assert [names[one.upstream_id] for one in members] == ["u4", "u1", "u2", "u3"]


def test_a_removed_member_leaves_no_gap(group):
    assert group.save(group.open() | {"members-1-DELETE": "on"}).status_code == 302
    assert group.places() == [("u1", 0), ("u3", 1), ("u4", 2)]


def test_a_new_member_goes_where_its_number_says(group, alpha):
    upstream = factories.UpstreamFactory(tenant=alpha.tenant, name="new")
    row = {"members-TOTAL_FORMS": 5, "members-4-upstream": upstream.pk, "members-4-weight": 1}
    assert group.save(group.open() | row | {"members-4-position": "2"}).status_code == 302
    assert group.names() == ["u1", "new", "u2", "u3", "u4"]


def test_a_number_alone_makes_no_member(group):
    row = {"members-TOTAL_FORMS": 5, "members-4-upstream": "", "members-4-weight": 1, "members-4-position": "5"}
    assert group.save(group.open() | row).status_code == 302
    assert group.names() == ["u1", "u2", "u3", "u4"]


def test_who_saves_second_is_told_and_overwrites_nothing(group):
    mine, theirs = group.open(), group.open()
    assert group.save(typed(theirs, **{"3": "1"})).status_code == 302
    noted = AuditEntry.objects.count()
    answer = group.save(typed(mine, **{"0": "3"}))
    assert answer.status_code == 200
    assert "Somebody else changed these rows after you opened the page." in answer.content.decode()
    assert group.names() == ["u4", "u1", "u2", "u3"]
    assert AuditEntry.objects.count() == noted


@pytest.mark.parametrize("theirs", [{"members-2-weight": "9"}, {"members-2-DELETE": "on"}])
def test_any_change_of_a_row_counts(group, theirs):
    mine = group.open()
    assert group.save(group.open() | theirs).status_code == 302
    after = list(group.row.members.order_by("position").values_list("upstream__name", "weight"))
    assert group.save(typed(mine, **{"0": "2"})).status_code == 200
    assert list(group.row.members.order_by("position").values_list("upstream__name", "weight")) == after


def test_who_touches_no_row_may_save_the_rest_of_the_page(group):
    mine = group.open()
    factories.MemberFactory(group=group.row, position=9)
    assert group.save(mine | {"strategy": "weighted"}).status_code == 302
    group.row.refresh_from_db()
    assert group.row.strategy == "weighted"
    assert len(group.names()) == 5
    assert [place for _name, place in group.places()] == [0, 1, 2, 3, 4]


# --- rules ---


@pytest.fixture
def route(alpha):
    made = factories.RouteFactory(tenant=alpha.tenant, name="ordered")
    target = alpha.rows["routing.StrategyGroup"]
    for place, name in enumerate(("a", "b", "c")):
        factories.RuleFactory(route=made, name=name, position=place, when={"model": name}, group=target)
    return made


def rows_of(client, route):
    page = client.get(reverse("admin:routing_route_change", args=[route.pk]))
    formset = page.context["inline_admin_formsets"][0].formset
    data = {"name": route.name}
    data |= {field.html_name: field.value() for field in formset.management_form}
    for form in formset.initial_forms:
        data |= {field.html_name: field.value() for field in form if field.value() is not False}
    return data


def rules(route):
    return list(route.rules.order_by("position").values_list("name", "position", "enabled"))


def test_rules_are_ordered_and_switched_on_their_route(client, boss, route):
    data = rows_of(client, route) | {"rules-2-position": "1"}
    del data["rules-1-enabled"]
    assert client.post(reverse("admin:routing_route_change", args=[route.pk]), data).status_code == 302
    assert rules(route) == [("c", 0, True), ("a", 1, True), ("b", 2, False)]
    assert [rule.name for rule in read_table().routes[route.pk].rules] == ["c", "a"]


def test_an_order_that_shadows_warns_and_names_the_rule(client, boss, route):
    RoutingRule.objects.filter(name="c").update(when={})
    data = rows_of(client, route) | {"rules-2-position": "1"}
    answer = client.post(reverse("admin:routing_route_change", args=[route.pk]), data, follow=True)
    text = answer.content.decode()
    for name in ("a", "b"):
        assert f"Rule {name} can never match: c, which stands before it, decides every request" in text


def test_a_deleted_rule_leaves_no_gap(client, boss, route):
    rule = RoutingRule.objects.get(name="b")
    client.post(reverse("admin:routing_routingrule_delete", args=[rule.pk]), {"post": "yes"})
    assert rules(route) == [("a", 0, True), ("c", 1, True)]
    picked = {"action": "delete_selected", "_selected_action": [RoutingRule.objects.get(name="a").pk], "post": "yes"}
    client.post(reverse("admin:routing_routingrule_changelist"), picked)
    assert rules(route) == [("c", 0, True)]


def test_a_rules_own_page_does_not_move_it(client, boss, route):
    rule = RoutingRule.objects.get(name="c")
    page = client.get(reverse("admin:routing_routingrule_change", args=[rule.pk]))
    assert "position" not in page.context["adminform"].form.fields
    data = {"name": "c", "enabled": "on", "group": rule.group_id, "when_model": "z", "position": "1"}
    assert client.post(reverse("admin:routing_routingrule_change", args=[rule.pk]), data).status_code == 302
    assert rules(route) == [("a", 0, True), ("b", 1, True), ("c", 2, True)]


def test_places_with_gaps_and_doubles_are_settled_as_they_stood(route):
    RoutingRule.objects.filter(name="a").update(position=7)
    RoutingRule.objects.filter(name__in=["b", "c"]).update(position=3)
    settle(RoutingRule, route, "route")
    assert rules(route) == [("b", 0, True), ("c", 1, True), ("a", 2, True)]


@pytest.mark.django_db(transaction=True)
def test_of_two_who_save_at_once_one_is_told(client):
    made = team("alpha")
    boss = member(made.tenant, "admin")
    client.force_login(boss)
    group = Group(client, made.tenant)
    data = group.open()
    both = threading.Barrier(2)

    def save(numbers):
        own = Client()
        own.force_login(boss)
        try:
            both.wait(10)
            return own.post(group.address, typed(data, **numbers)).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(save, ({"3": "1"}, {"0": "4"})))
    assert sorted(statuses) == [200, 302]
    names = ["u4", "u1", "u2", "u3"] if statuses[0] == 302 else ["u2", "u3", "u4", "u1"]
    assert group.places() == [(name, place) for place, name in enumerate(names)]
