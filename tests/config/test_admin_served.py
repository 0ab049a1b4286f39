"""The admin where it really runs: threads of the process that serves, beside the gateway's own loop."""

import threading

import httpx
import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.urls import reverse

from tests.config.admin_world import member
from tests.fake_upstream import silent
from tests.gateway import chat, committed_database, gateway, outcomes, up, wait_until

__all__ = ["committed_database", "gateway", "up"]


@pytest.fixture
def people(gateway):
    """Return a function that opens a logged-in client of the real server."""
    opened = []

    def client_of(user):
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        client = gateway.client(cookies={"pointsman_session": session.session_key}, follow_redirects=True)
        opened.append(client)
        return client

    yield client_of
    for client in opened:
        client.close()


def csrf(client, page):
    client.get(page)
    return {"csrfmiddlewaretoken": client.cookies["pointsman_csrf"]}


def test_a_request_is_seen_and_aborted_from_the_page(gateway, up, people):
    up.script("k-1", silent())
    world = gateway.serving(up, "k-1")
    answered = []
    caller = threading.Thread(target=lambda: answered.append(gateway.post(world, chat())))
    caller.start()
    up.wait_for_requests(1)
    boss = people(member(world.tenant, "admin"))
    page = boss.get(reverse("admin:live"))
    assert page.status_code == 200
    assert world.line.slug in page.text
    request_id = page.text.split('name="request" value="')[1].split('"')[0]
    gone = boss.post(reverse("admin:live_abort"), data={"request": request_id, **csrf(boss, reverse("admin:live"))})
    assert "is being aborted" in gone.text
    caller.join(10)
    assert answered[0].json()["error"]["code"] == "aborted"
    record = gateway.record(answered[0])
    assert (record.status, outcomes(record)) == ("failed", [("k1", "aborted")])
    wait_until(lambda: "Nothing in flight" in boss.get(reverse("admin:live") + "?fragment=1").text)


def test_a_bill_is_streamed(gateway, up, people):
    world = gateway.serving(up, "k-1")
    record = gateway.record(gateway.post(world))
    clerk = people(member(world.tenant, "finance"))
    page = clerk.get(reverse("admin:statements"))
    assert world.line.name in page.text
    bill = clerk.get(reverse("admin:statements_csv"), params={"team": world.tenant.pk, "month": f"{record.day:%Y-%m}"})
    assert isinstance(bill, httpx.Response)
    assert "content-length" not in bill.headers
    assert bill.text.splitlines()[1].startswith(f"{record.day},{world.tenant.slug},{world.line.slug}")


def test_a_dry_run_says_what_the_gateway_then_does(gateway, up, people):
    world = gateway.serving(up, "k-1", "k-2")
    boss = people(member(world.tenant, "viewer"))
    page = reverse("admin:dry_run")
    asked = {"line": world.line.pk, "dialect": "openai", "model": "gpt-4o", "download": "1", **csrf(boss, page)}
    told = boss.post(page, data=asked).json()
    record = gateway.record(gateway.post(world))
    assert told["candidates"][0]["key"] == outcomes(record)[0][0]
    assert (told["rule"], told["group"]) == (record.rule, record.group)
