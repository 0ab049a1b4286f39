"""`apply` and ordered lists: members of groups, rules of routes."""

import pytest

from config.declarative import ConfigError, export_document
from routing.models import GroupMember, RoutingRule
from tests.config.declarative.samples import applied, small, tenant_of

pytestmark = pytest.mark.django_db


def test_an_entry_of_an_ordered_list_states_the_whole_row() -> None:
    document = small()
    rules = tenant_of(document)["routes"][0]["rules"]
    rules.insert(0, {"name": "first", "when": {"stream": True}, "then": {"deny": "no"}})
    applied(document)
    rules[0] = {"name": "first", "when": {"stream": False}, "then": {"set": {"temperature": 0.5}}}
    applied(document)
    rule = RoutingRule.objects.get(name="first")
    assert (rule.when, rule.set, rule.deny) == ({"stream": False}, {"temperature": 0.5}, "")


def test_a_rule_that_is_switched_off_shadows_nothing() -> None:
    document = small()
    rules = tenant_of(document)["routes"][0]["rules"]
    rules.insert(0, {"name": "first", "then": {"deny": "no"}, "enabled": False})
    applied(document)
    assert RoutingRule.objects.get(name="first").enabled is False
    assert tenant_of(export_document())["routes"][0]["rules"][0]["enabled"] is False
    del rules[0]["enabled"]
    with pytest.raises(ConfigError):
        applied(document)  # an entry states the whole row: this one would take everything


def order_of(group: str) -> list[str]:
    return list(
        GroupMember.objects.filter(group__name=group).order_by("position").values_list("upstream__name", flat=True)
    )


def test_a_member_that_goes_leaves_no_gap() -> None:
    applied(small())
    document = small()
    del tenant_of(document)["groups"][0]["members"][0]
    changes = applied(document, prune=True).changes
    assert not any("in the order" in line for line in changes)
    assert list(GroupMember.objects.values_list("upstream__name", "position")) == [("spare", 0)]
    assert applied(document, prune=True).changes == ()


def test_members_take_the_order_of_the_file() -> None:
    applied(small())
    document = small()
    tenant_of(document)["groups"][0]["members"].reverse()
    assert applied(document).changes == ("~ tenants[acme].groups[main].members: in the order spare, up",)
    assert order_of("main") == ["spare", "up"]
    assert applied(document).changes == ()


def test_a_member_that_the_file_leaves_out_keeps_its_place_and_is_named() -> None:
    document = small()
    tenant_of(document)["upstreams"].append({"name": "third", "base_url": "https://c.example"})
    tenant_of(document)["groups"][0]["members"] = [{"upstream": name} for name in ("up", "spare", "third")]
    applied(document)
    tenant_of(document)["groups"][0]["members"] = [{"upstream": "third"}, {"upstream": "up"}]
    result = applied(document)
    assert order_of("main") == ["third", "up", "spare"]
    assert (
        "tenants[acme].groups[main].members[spare]: is not in the file and stays; --prune removes it" in result.warnings
    )
    assert applied(document).changes == ()
