"""What migrations make of rows that are there already."""

import pytest
from django.apps import apps

from routing.migrations import __name__ as package
from tests import factories

pytestmark = pytest.mark.django_db


def test_places_are_settled_in_the_order_in_which_they_stood():
    settle = __import__(f"{package}.0003_places_without_gaps", fromlist=["settle"]).settle
    route, other = factories.RouteFactory(), factories.RouteFactory()
    for name, position in (("c", 9), ("a", 2), ("b", 2)):
        factories.RuleFactory(route=route, name=name, position=position)
    factories.RuleFactory(route=other, name="alone", position=4)
    group = factories.GroupFactory()
    for position in (3, 5):
        factories.MemberFactory(group=group, position=position)
    settle(apps, None)
    assert list(route.rules.values_list("name", "position")) == [("a", 0), ("b", 1), ("c", 2)]
    assert list(other.rules.values_list("name", "position")) == [("alone", 0)]
    assert list(group.members.values_list("position", flat=True)) == [0, 1]
