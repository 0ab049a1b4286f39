"""A group's next ten picks, foretold from the live state and then seen to happen."""

import pytest

from config.pages.preview import preview_of
from routing.models import GroupMember
from tenants.services import touch_config
from tests.fake_upstream import status
from tests.gateway import wait_until

NAMES = {"k-1": "u1", "k-2": "u2", "k-3": "u3"}


def weighted(gateway, up, strategy, weights=(5, 3, 2)):
    world = gateway.serving(up, "k-1", "k-2", "k-3", group={"strategy": strategy})
    for name, weight in zip(("u1", "u2", "u3"), weights, strict=True):
        GroupMember.objects.filter(group=world.group, upstream__name=name).update(weight=weight)
    gateway.refresh()
    return world


def served(gateway, up, world, number):
    up.requests.clear()
    for _ in range(number):
        # Each conversation is new: one that stays on its key takes no part in the draw.
        assert gateway.post(world, None).status_code == 200
    asked = up.keys()
    return [NAMES[key] for key in asked]


@pytest.mark.parametrize("strategy", ["weighted", "round_robin", "priority"])
def test_what_is_foretold_happens(gateway, up, strategy):
    world = weighted(gateway, up, strategy)
    served(gateway, up, world, 3)  # somewhere in the middle of the round
    foretold = preview_of(world.group, "")
    assert foretold.live
    assert [pick.n for pick in foretold.picks] == list(range(1, 11))
    again = preview_of(world.group, "gpt-4o")
    assert [pick.upstream for pick in again.picks] == [pick.upstream for pick in foretold.picks]
    assert served(gateway, up, world, 10) == [pick.upstream for pick in foretold.picks]
    assert sum(share.count for share in foretold.shares) == 10


def test_a_member_that_rests_is_told_with_its_reason(gateway, up):
    world = weighted(gateway, up, "priority")
    up.script("k-1", status(429, headers=(("retry-after", "40"),)))
    assert gateway.post(world, None).status_code == 200
    wait_until(lambda: preview_of(world.group, "").out)
    told = preview_of(world.group, "")
    assert {(pick.upstream, pick.key, pick.why) for pick in told.picks} == {("u2", "k2", "first usable in the order")}
    assert [one.name for one in told.out] == ["u1 · k1"]
    assert "rate limited" in told.out[0].why
    assert "s more" in told.out[0].why


def test_what_was_saved_a_moment_ago_counts(gateway, up):
    world = weighted(gateway, up, "priority")
    GroupMember.objects.filter(group=world.group, upstream__name="u3").update(position=0)
    touch_config()
    assert preview_of(world.group, "").picks[0].upstream == "u3"


def test_chance_is_not_foretold(gateway, up):
    world = weighted(gateway, up, "random")
    told = preview_of(world.group, "")
    assert told.chance
    assert told.picks == []
    assert [(share.upstream, share.count) for share in told.shares] == [("u1", 33), ("u2", 33), ("u3", 33)]
