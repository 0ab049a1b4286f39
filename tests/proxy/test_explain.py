"""`manage.py explain`: the code that serves, told in advance; nothing is sent, charged or turned."""

import io
import json

import pytest
from django.core.management import call_command

from billing.models import RequestRecord
from keys.models import StateInbox
from tests.factories import GroupFactory, MemberFactory, RuleFactory
from tests.fake_upstream import status
from tests.gateway import chat, outcomes, wait_until
from tests.proxy.pool import ask, asking


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
