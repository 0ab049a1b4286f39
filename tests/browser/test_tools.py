"""The work pages as people use them: dry run, classifier, live traffic, statements; wide, narrow and dark."""

import pytest
from django.urls import reverse

from tests import factories
from tests.browser.test_admin_flow import PASSWORD, PHONE, log_in, sideways
from tests.config.admin_world import member, team

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def alpha():
    made = team("alpha")
    boss = member(made.tenant, "admin")
    boss.set_password(PASSWORD)
    boss.save()
    type(made.rows["routing.RoutingRule"]).objects.update(position=5)
    route, group = made.rows["routing.Route"], made.rows["routing.StrategyGroup"]
    factories.RuleFactory(
        route=route, name="nightly", when={"line": "nightly-*", "stream": False}, group=group, position=0
    )
    relay = factories.UpstreamFactory(tenant=made.tenant, name="relay-b", model_list=["alpha-model"])
    factories.MemberFactory(group=group, upstream=relay)
    factories.UpstreamKeyFactory(upstream=relay, name="b1")
    factories.UpstreamKeyFactory(upstream=relay, name="b2", enabled=False)
    return made


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (PHONE, "light"), (1280, "dark")])
def test_a_request_is_explained(open_page, live_server, alpha, shoot, width, scheme):
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:dry_run"))
    shoot(page, f"tools-{scheme}-{width}-dry-run-empty")
    page.select_option("#id_line", label="alpha · alpha line")
    page.fill("#id_model", "alpha-model")
    page.check("#id_stream")
    page.click("button:has-text('Explain')")
    rules = page.locator(".steps").nth(0)
    assert "✕" in rules.locator("li").nth(0).inner_text()
    assert "decides" in rules.locator("li").nth(1).inner_text()
    assert page.locator(".steps").nth(1).locator("li").count() == 2
    assert "switched off" in page.locator(".steps").nth(2).inner_text()
    shoot(page, f"tools-{scheme}-{width}-dry-run")
    assert sideways(page) <= 0
