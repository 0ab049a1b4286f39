"""`manage.py explain`: the code that serves, told in advance; nothing is sent, charged or turned."""

import io
import json
from datetime import timedelta

import pytest
from django.core.management import call_command

from billing.models import RequestRecord
from keys.core.report import key_target
from keys.models import StateInbox
from tests.factories import GroupFactory, MemberFactory, RuleFactory
from tests.fake_upstream import Gate, answer, status
from tests.gateway import chat, outcomes, wait_until
from tests.proxy.pool import Calls, ask, asking

SOON_S = 15.0


@pytest.fixture
def explained(tmp_path):
    def explain(world, body=None, **fields):
        asked = {
            "line": f"{world.tenant.slug}/{world.line.slug}",
            "dialect": "openai",
            "body": body or chat(),
            **fields,
        }
        path = tmp_path / "request.json"
        path.write_text(json.dumps(asked))
        out = io.StringIO()
        call_command("explain", str(path), stdout=out)
        return json.loads(out.getvalue())

    return explain


def weighted(gateway, up):
    world = gateway.serving(up, "k-1", "k-2", group={"strategy": "weighted"})
    for member, weight in zip(world.group.members.order_by("position"), (7, 3), strict=True):
        member.weight = weight
        member.save()
    gateway.refresh()
    return world


def test_a_hundred_dry_runs_leave_the_next_pick_alone(gateway, up, explained):
    """7:3 draws A B A A: the second live pick is B, however often somebody asked in between."""
    world = weighted(gateway, up)
    ask(gateway, world, asking("one"))
    wheels = gateway.runtime.store.notes.wheels
    before = {scope: dict(values) for scope, values in wheels._scopes.items()}
    counts = [model.objects.count() for model in (RequestRecord, StateInbox)]
    for _ in range(100):
        assert explained(world)["rule"] == "everything"
    assert {scope: dict(values) for scope, values in wheels._scopes.items()} == before
    assert [model.objects.count() for model in (RequestRecord, StateInbox)] == counts
    assert len(up.requests) == 1
    for number in range(3):
        ask(gateway, world, asking(f"later {number}"))
    assert up.keys() == ["k-1", "k-2", "k-1", "k-1"]


def test_it_says_what_then_happens(gateway, up, explained):
    world = gateway.serving(up, "k-1", "k-2", "k-3")
    special = GroupFactory(tenant=world.tenant, name="special")
    MemberFactory(group=special, upstream=world.upstreams[2])
    route = world.tenant.routes.get()
    route.rules.update(position=9)
    RuleFactory(route=route, name="streams", position=1, when={"stream": True}, set={"temperature": 0.5}, group=special)
    RuleFactory(route=route, name="no-images", position=2, when={"image": True}, deny="No pictures.")
    gateway.refresh()
    for body in (chat(), chat(stream=True)):
        told = explained(world, body)
        record = gateway.record(ask(gateway, world, body))
        assert (told["rule"], told["group"], told["route"]) == (record.rule, record.group, record.route)
        shown = [(one["upstream"], one["key"], one["model_sent"]) for one in told["candidates"]]
        assert shown == [(one["upstream"], one["key"], one["model"]) for one in record.decision["candidates"]]
    told = explained(world, chat(stream=True))
    assert told["candidates"][0]["set"] == {"temperature": 0.5}
    assert [(rule["name"], rule["matched"]) for rule in told["rules"]] == [
        ("streams", True), ("no-images", False), ("everything", False),
    ]  # fmt: skip
    assert told["rules"][2]["why"] == "not reached: streams decided"
    picture = chat(
        messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a"}}]}]
    )
    refusal = explained(world, picture)["refusal"]
    got = gateway.post(world, picture)
    assert (refusal["status"], refusal["text"]) == (403, "No pictures.") == (got.status_code, "No pictures.")


def test_it_knows_the_states(gateway, up, explained):
    world = gateway.serving(up, "k-1", "k-2", "k-3")
    up.script("k-1", status(401))
    up.script("k-2", status(429, retry_after=60))
    ask(gateway, world)

    def skipped():
        return {one["key"]: one["bar"] for one in explained(world)["skipped"]}

    wait_until(lambda: skipped() == {"k1": "dead", "k2": "cooling"}, 3.0)
    told = explained(world)
    assert [one["key"] for one in told["candidates"]] == ["k3"]
    left = next(one["left_s"] for one in told["skipped"] if one["key"] == "k2")
    assert 50 < left <= 60
    assert outcomes(gateway.record(ask(gateway, world, asking("x"))))[-1] == ("k3", "served")


def test_a_rest_counts_for_the_name_that_a_rule_sets(gateway, up, explained):
    world = gateway.serving(up, "k-1", "k-2")
    world.tenant.routes.get().rules.update(set={"model": "gpt-4o-mini"})
    gateway.refresh()
    up.script("k-1", status(404, "no such model", error_code="model_not_found"))
    ask(gateway, world)
    wait_until(lambda: [one["key"] for one in explained(world)["candidates"]] == ["k2"], 3.0)


def test_the_end_of_the_road_is_told(gateway, up, explained):
    world = gateway.serving(up, "k-1")
    up.script("k-1", status(402))
    ask(gateway, world)
    wait_until(lambda: explained(world)["candidates"] == [], 3.0)
    told = explained(world)["fallback"]
    assert (told["else"]["status"], told["last_resort"], told["cooling_by_strikes"]) == (503, [], [])


class TestLoad:
    """What other requests take is seen from outside the process that serves them."""

    def skipped(self, told):
        return {one["key"]: (one["bar"], one["why"]) for one in told["skipped"]}

    def test_a_full_key_is_passed_over_and_comes_back(self, gateway, up, explained):
        world = gateway.serving(up, "k-1", "k-2")
        world.keys[0].concurrency = 1
        world.keys[0].save()
        gateway.refresh()
        gate = Gate()
        up.script("k-1", answer("slow", holds=((-1, gate),)))
        calls = Calls(gateway)
        calls.start(world, asking("slow"))
        try:
            wait_until(lambda: self.skipped(explained(world)) == {"k1": ("busy", "1 calls in flight of 1")}, SOON_S)
            told = explained(world)
            assert [one["key"] for one in told["candidates"]] == ["k2"]
            assert told["fallback"]["waiting"] == [f"{world.upstreams[0].name}/k1"]
        finally:
            gate.open()
            calls.finish()
        wait_until(lambda: [one["key"] for one in explained(world)["candidates"]] == ["k1", "k2"], SOON_S)
        assert explained(world)["candidates"][0]["in_flight"] == 0

    def test_a_cap_that_is_reached_says_how_long(self, gateway, up, explained):
        world = gateway.serving(up, "k-1", "k-2")
        world.keys[0].per_hour = 2
        world.keys[0].save()
        gateway.refresh()
        ask(gateway, world, asking("one"))
        wait_until(lambda: explained(world)["candidates"][0]["calls_left"] == 1, 10.0)
        ask(gateway, world, asking("two"))
        wait_until(lambda: self.skipped(explained(world)) == {"k1": ("quota", "its own limit per_hour")}, 10.0)
        (one,) = explained(world)["skipped"]
        assert 3500 < one["left_s"] <= 3660
        assert gateway.record(ask(gateway, world, asking("three"))).upstream == world.upstreams[1].name

    def test_low_water_and_its_reason(self, gateway, up, explained):
        world = gateway.serving(up, "k-1", "k-2")
        figures, now = gateway.runtime.store.figures, gateway.runtime.now()
        figures.saw_credit(key_target(world.keys[0].pk), 0.1, now + timedelta(minutes=5))
        wait_until(lambda: explained(world)["candidates"][0]["key"] == "k2", SOON_S)
        assert [(one["key"], one["last_for"]) for one in explained(world)["candidates"]] == [
            ("k2", []), ("k1", ["low water"]),
        ]  # fmt: skip

    def test_the_turn_of_a_rotation_is_that_of_the_next_call(self, gateway, up, explained):
        world = weighted(gateway, up)
        for number, key in enumerate(("k1", "k2", "k1", "k1")):  # 7:3
            wait_until(lambda key=key: explained(world)["candidates"][0]["key"] == key, SOON_S)
            ask(gateway, world, asking(f"n {number}"))
        assert up.keys() == ["k-1", "k-2", "k-1", "k-1"]


CALLED = {"id": "t", "type": "function", "function": {"name": "w", "arguments": "{}"}}


class TestConversations:
    def test_a_turn_stays_with_the_key_that_answered(self, gateway, up, explained):
        world = gateway.serving(up, "k-1", "k-2")
        up.script("k-1", status(500))
        first = chat(messages=[{"role": "user", "content": "weather?"}])
        ask(gateway, world, first, headers={"x-session-id": "s-1"})
        following = chat(
            messages=[
                *first["messages"],
                {"role": "assistant", "tool_calls": [CALLED]},
                {"role": "tool", "tool_call_id": "t", "content": "rain"},
            ]
        )
        headers = {"x-session-id": "s-1"}
        wait_until(lambda: explained(world, following, headers=headers)["conversation"]["hold"] == "turn", 10.0)
        told = explained(world, following, headers=headers)
        assert told["conversation"] == {
            "hold": "turn", "pinned": f"{world.upstreams[1].name}/k2", "rule_kept": True, "bound_by": [],
        }  # fmt: skip
        assert told["candidates"][0]["key"] == "k2"
        for _ in range(3):  # asking holds nothing and moves nothing
            explained(world, following, headers=headers)
        answered = ask(gateway, world, following, headers=headers)
        assert answered.headers["x-pointsman-session"] == "turn"
        other = explained(world, following, headers={"x-session-id": "s-2"})["conversation"]
        assert (other["hold"], other["pinned"]) == (None, None)
