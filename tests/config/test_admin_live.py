"""The live page: the own teams' requests, oldest first; only their admins abort."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from proxy import live
from tenants.models import AuditEntry
from tests import factories
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db


@pytest.fixture
def alpha():
    return team("alpha")


@pytest.fixture
def bravo():
    return team("bravo")


class Flight:
    """What the gateway would tell, and the orders that it got."""

    def __init__(self):
        self.glances, self.orders = [], []

    def add(self, made, request_id, *, ago_s=10.0, sent_ago_s=10.0, **fields):
        moment = timezone.now().timestamp()
        self.glances.append(
            live.Glance(
                **{"id": request_id, "tenant_id": made.tenant.pk, "line_id": made.line.pk, "line": made.line.slug,
                   "key": "prod", "model": "gpt-4o", "stream": True, "upstream": f"{made.mark}-upstream",
                   "upstream_key": "k1", "tail": "abcdef", "attempts": 1, "at": moment - ago_s,
                   "sent": moment - sent_ago_s, "phase": "waiting", "first_content_ms": None, "silence_s": 300.0,
                   **fields}
            )
        )  # fmt: skip


@pytest.fixture
def flight(monkeypatch):
    made = Flight()
    monkeypatch.setattr(live, "seen", lambda: live.Seen(tuple(made.glances)))
    monkeypatch.setattr(live, "order_abort", made.orders.append)
    return made


def page(client, query=""):
    return client.get(reverse("admin:live") + query)


def abort(client, request_id):
    return client.post(reverse("admin:live_abort"), {"request": request_id})


def test_the_own_requests_are_shown_with_their_wait(client, alpha, bravo, flight):
    flight.add(alpha, "req_old", ago_s=200, sent_ago_s=150)
    flight.add(alpha, "req_new", phase="streaming", first_content_ms=120)
    flight.add(bravo, "req_theirs")
    client.force_login(member(alpha.tenant, "viewer"))
    answer = page(client)
    old, new = answer.context["traffic"].rows
    assert (old.glance.id, old.age, old.tone) == ("req_old", "3 min", "wait")
    assert 50 <= old.bar < 51
    assert (new.bar, new.tone) == (0, "good")
    text = answer.content.decode()
    assert "bravo" not in text
    assert "req_theirs" not in text
    assert "120 ms" in text
    assert 'value="req_old"' not in text  # a viewer gets no button


def test_the_fragment_is_the_moving_part_alone(client, alpha, flight):
    flight.add(alpha, "req_1")
    client.force_login(member(alpha.tenant, "admin"))
    text = page(client, "?fragment=1").content.decode()
    assert "req_1" in text
    assert "csrfmiddlewaretoken" in text
    assert "<html" not in text


def test_a_team_is_chosen(client, alpha, bravo, flight):
    flight.add(alpha, "req_a")
    flight.add(bravo, "req_b")
    client.force_login(person("root", is_superuser=True))
    assert [row.glance.id for row in page(client).context["traffic"].rows] == ["req_a", "req_b"]
    chosen = page(client, f"?team={bravo.tenant.pk}").context["traffic"].rows
    assert [row.glance.id for row in chosen] == ["req_b"]


def test_no_more_than_the_oldest_are_shown(client, alpha, flight, monkeypatch):
    monkeypatch.setattr("config.pages.live.SHOWN_MAX", 2)
    for n in range(5):
        flight.add(alpha, f"req_{n}")
    client.force_login(member(alpha.tenant, "viewer"))
    answer = page(client)
    assert len(answer.context["traffic"].rows) == 2
    assert "3 younger ones are not shown." in answer.content.decode()


def test_an_admin_aborts_and_it_is_noted(client, alpha, flight):
    flight.add(alpha, "req_1")
    client.force_login(member(alpha.tenant, "admin"))
    answer = abort(client, "req_1")
    assert (answer.status_code, answer["location"]) == (302, reverse("admin:live"))
    assert flight.orders == ["req_1"]
    entry = AuditEntry.objects.get(action="aborted")
    assert (entry.tenant, entry.object_name, entry.fields) == (alpha.tenant, "alpha/alpha-line", {"request": "req_1"})
    assert entry.username == "alpha-admin"


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("finance", 403)])
def test_others_do_not_abort(client, alpha, flight, role, status):
    flight.add(alpha, "req_1")
    client.force_login(member(alpha.tenant, role))
    assert abort(client, "req_1").status_code == status
    assert flight.orders == []


def test_requests_of_other_teams_are_not_aborted(client, alpha, bravo, flight):
    flight.add(bravo, "req_b")
    client.force_login(member(alpha.tenant, "admin"))
    before = AuditEntry.objects.count()
    assert abort(client, "req_b").status_code == 403
    assert abort(client, "req_nobody").status_code == 302
    assert (flight.orders, AuditEntry.objects.count()) == ([], before)


def test_an_order_is_a_post(client, alpha, flight):
    client.force_login(member(alpha.tenant, "admin"))
    assert client.get(reverse("admin:live_abort") + "?request=req_1").status_code == 405
    assert client.post(reverse("admin:live_abort")).status_code == 302
    assert flight.orders == []


def test_what_is_ending_has_no_button(client, alpha, flight):
    flight.add(alpha, "req_left", phase="left")
    flight.add(alpha, "req_stopping", phase="stopping")
    flight.add(alpha, "req_odd", phase="something new")
    client.force_login(member(alpha.tenant, "admin"))
    assert [row.may_abort for row in page(client).context["traffic"].rows] == [False, False, False]


@pytest.mark.parametrize("problem", [RuntimeError, TimeoutError])
def test_without_a_gateway_the_page_says_so(client, alpha, monkeypatch, problem):
    def nobody():
        raise problem

    monkeypatch.setattr(live, "seen", nobody)
    client.force_login(member(alpha.tenant, "admin"))
    assert "No gateway runs in this process" in page(client).content.decode()
    assert abort(client, "req_1").status_code == 302


@pytest.mark.parametrize(("role", "status"), [("admin", 200), ("viewer", 200), ("finance", 403)])
def test_roles(client, alpha, flight, role, status):
    client.force_login(member(alpha.tenant, role))
    assert page(client).status_code == status
    if status == 200:
        assert "Nothing in flight" in page(client).content.decode()


def test_it_costs_the_same_for_few_and_many(client, alpha, flight):
    client.force_login(member(alpha.tenant, "admin"))

    def cost():
        with CaptureQueriesContext(connection) as asked:
            page(client)
        return len(asked)

    cost()
    few = cost()
    for n in range(30):
        flight.add(alpha, f"req_{n}")
    factories.LineFactory.create_batch(3, tenant=alpha.tenant)
    assert cost() == few
