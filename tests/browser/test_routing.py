"""Routing as people arrange it: rows dragged by mouse and finger, moved by keyboard; rules filled in from nothing."""

import pytest
from django.urls import reverse

from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import StoredState
from tests import factories
from tests.browser.test_admin_flow import PASSWORD, PHONE, log_in, sideways
from tests.config.admin_world import member, team

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOOKS = [(1280, "light"), (1280, "dark"), (PHONE, "light"), (PHONE, "dark")]


@pytest.fixture
def alpha():
    made = team("alpha")
    boss = member(made.tenant, "admin")
    boss.set_password(PASSWORD)
    boss.save()
    group = made.rows["routing.StrategyGroup"]
    group.members.all().delete()
    group.last_resort = None
    group.strategy, group.policy = "weighted", {"preset": "keypool", "strikes": 2}
    group.save()
    for place, (name, weight) in enumerate((("relay-a", 5), ("relay-b", 3), ("official", 2), ("backup", 1))):
        upstream = factories.UpstreamFactory(tenant=made.tenant, name=name, model_list=["gpt-4o", "gpt-4o-mini"])
        factories.MemberFactory(group=group, upstream=upstream, position=place, weight=weight)
        for n in (1, 2) if name == "relay-a" else (1,):
            factories.UpstreamKeyFactory(upstream=upstream, name=f"{name[-1]}{n}")
    dead = made.tenant.upstreams.get(name="backup").keys.get()
    state = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, epoch=dead.epoch)
    StoredState.objects.create(target=f"key:{dead.pk}", data={"state": dumped(state)})
    return made


@pytest.fixture
def group_page(alpha, live_server):
    return live_server.url + reverse(
        "admin:routing_strategygroup_change", args=[alpha.rows["routing.StrategyGroup"].pk]
    )


def members(alpha):
    rows = alpha.rows["routing.StrategyGroup"].members.order_by("position")
    return list(rows.values_list("upstream__name", "position"))


def names(page):
    return [text.strip() for text in page.locator("tr.has_original .select2-selection__rendered").all_inner_texts()]


def centre(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def beyond(y, locator):
    """A little past the middle of a row, seen from y."""
    middle = centre(locator)[1]
    return middle + (8 if middle > y else -8)


def row_of(page, name):
    return page.locator(f"tr.form-row:not(.empty-form):has-text('{name}')")


def drag(page, name, to):
    row_of(page, to).scroll_into_view_if_needed()
    x, y = centre(row_of(page, name).locator(".grip"))
    end = beyond(y, row_of(page, to))
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(x, y + (end - y) * step / 8)
    page.mouse.up()


def test_two_members_are_dragged_and_saved(open_page, live_server, alpha, group_page, shoot):
    page = open_page()
    log_in(page, live_server)
    page.goto(group_page)
    assert not page.locator(".order-note").is_visible()
    drag(page, "official", "relay-a")
    drag(page, "relay-a", "backup")
    assert [text.replace("×", "").strip() for text in names(page)] == ["official", "relay-b", "backup", "relay-a"]
    assert page.locator(".order-note").inner_text() == "The order is not saved yet."
    shoot(page, "routing-group-dragged")
    page.click("input[name=_continue]")
    assert members(alpha) == [("official", 0), ("relay-b", 1), ("backup", 2), ("relay-a", 3)]
    page.wait_for_selector("tr.has_original input.place >> nth=3", state="attached")
    assert page.locator("tr.has_original input.place").evaluate_all("all => all.map(one => one.value)") == list("1234")


def test_a_finger_drags_as_well(open_page, live_server, alpha, group_page):
    page = open_page(width=PHONE)
    log_in(page, live_server)
    page.goto(group_page)
    row_of(page, "relay-a").locator(".grip").evaluate("one => one.scrollIntoView({block: 'center'})")
    x, y = centre(row_of(page, "relay-a").locator(".grip"))
    end = beyond(y, row_of(page, "relay-b"))
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    before = page.evaluate("window.scrollY")
    for step in range(1, 9):
        point = {"x": x, "y": y + (end - y) * step / 8}
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    assert page.locator("tr.dragged").count() == 1
    assert page.evaluate("window.scrollY") == before  # the page stays, the row moves
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.click("input[name=_continue]")
    assert [name for name, _place in members(alpha)] == ["relay-b", "relay-a", "official", "backup"]


def test_the_keyboard_moves_a_row_and_keeps_its_place(open_page, live_server, alpha, group_page):
    page = open_page()
    log_in(page, live_server)
    page.goto(group_page)
    up = page.locator("tr.has_original:has-text('official')").get_by_role("button", name="Move up")
    up.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert page.locator("#sortable-said").inner_text() == "Now number 1 of 4."
    assert up.evaluate("one => one === document.activeElement")
    page.keyboard.press("Enter")  # nothing above: nothing happens
    page.locator("input[name=_continue]").press("Enter")
    page.wait_for_load_state()
    assert [name for name, _place in members(alpha)] == ["official", "relay-a", "relay-b", "backup"]


def test_an_added_member_moves_too(open_page, live_server, alpha, group_page):
    factories.UpstreamFactory(tenant=alpha.tenant, name="newcomer")
    page = open_page()
    log_in(page, live_server)
    page.goto(group_page)
    page.click("text=Add another")
    row = page.locator("tr.dynamic-members").last
    row.locator(".select2-selection").click()
    page.click(".select2-results__option:has-text('newcomer')")
    for _ in range(4):
        row_of(page, "newcomer").get_by_role("button", name="Move up").click()
    page.click("input[name=_continue]")
    assert members(alpha)[0] == ("newcomer", 0)
    assert len(members(alpha)) == 5


def test_the_next_picks_are_shown(open_page, live_server, alpha, group_page):
    page = open_page()
    log_in(page, live_server)
    page.goto(group_page)
    preview = page.locator("#preview")
    picks = preview.locator(".picks li strong").all_inner_texts()
    assert picks == [
        "relay-a", "relay-b", "official", "relay-a", "relay-a", "relay-b", "relay-a", "official", "relay-b", "relay-a",
    ]  # fmt: skip
    assert "5 picks to relay-a" in preview.locator(".pick-shares").inner_text()
    assert "furthest behind its share of 50 %" in preview.locator(".picks li").first.inner_text()
    assert "backup · p1" in preview.inner_text()
    assert "dead" in preview.locator(".steps").nth(1).inner_text()
    page.select_option("#preview-model", "gpt-4o-mini")
    page.click("button:has-text('Look again')")
    page.wait_for_url("**model=gpt-4o-mini*")
    page.wait_for_selector("#preview .picks li >> nth=9")
    assert page.locator("#preview .picks li").count() == 10
    assert page.locator("#preview-model").input_value() == "gpt-4o-mini"


def test_a_preset_says_what_it_does(open_page, live_server, alpha, group_page):
    page = open_page()
    log_in(page, live_server)
    page.goto(group_page)
    shown = page.locator(".preset-words:visible")
    assert shown.count() == 1
    assert "whatever the answer asks for" in shown.inner_text()
    page.select_option("#id_policy_0", "relay")
    assert "no try begins later than 15 s" in shown.inner_text()
    page.select_option("#id_policy_0", "")
    assert "None chosen" in shown.inner_text()


def test_without_scripts_all_is_there(chromium, live_server, alpha, group_page):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, live_server)
    page.goto(group_page)
    assert page.locator(".preset-words:visible").count() == 5
    page.fill("#id_members-2-position", "1")
    page.click("input[name=_continue]")
    assert [name for name, _place in members(alpha)] == ["official", "relay-a", "relay-b", "backup"]
    context.close()


def test_a_rule_from_nothing_to_a_sentence(open_page, live_server, alpha, shoot):
    route = alpha.rows["routing.Route"]
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:routing_route_change", args=[route.pk]))
    page.click("a:has-text('Add a rule')")
    assert page.input_value("#id_position") == "1"  # before the one that takes everything
    page.fill("#id_name", "long-nights")
    page.fill("#id_when_model", "gpt-*")
    page.fill("#id_when_line", "nightly-*")
    page.select_option("#id_when_stream", "no")
    page.fill("#id_when_input_tokens-0-number", "32")
    page.select_option("#id_when_input_tokens-0-unit", "k")
    page.click(".field-when_input_tokens button:has-text('and …')")
    page.select_option("#id_when_input_tokens-1-is", "<")
    page.fill("#id_when_input_tokens-1-number", "1")
    page.select_option("#id_when_input_tokens-1-unit", "M")
    page.fill("#id_when_hours-0-from", "22:00")
    page.fill("#id_when_hours-0-to", "7")
    for day in range(5):
        page.check(f"#id_when_hours-0-days_{day}")
    page.click(".field-group .select2-selection")
    page.click(".select2-results__option:has-text('alpha-group')")
    page.fill("#id_set-0-name", "temperature")
    page.fill("#id_set-0-value", "0.2")
    page.click("button:has-text('Another field')")
    page.fill("#id_set-1-name", "user")
    page.fill("#id_set-1-value", "night shift")
    shoot(page, "routing-rule-filled")
    page.click("input[name=_save]")
    page.wait_for_selector("tr.form-row .rule-text")
    assert page.locator("tr.form-row .rule-text").all_inner_texts()[0] == (
        "When the model is gpt-* and the line is nightly-* and the answer is not streamed and input tokens are >= 32k"
        " and < 1M and the time is mon-fri 22:00-07:00, set temperature to 0.2, set user to night shift, use group"
        " alpha-group."
    )
    shoot(page, "routing-route-sentence")


def test_a_mistake_is_told_at_its_field(open_page, live_server, alpha):
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:routing_routingrule_add") + f"?route={alpha.rows['routing.Route'].pk}")
    page.fill("#id_name", "odd")
    page.fill("#id_when_hours-0-from", "late")
    page.fill("#id_when_hours-0-to", "7")
    page.click("input[name=_save]")
    page.click("input[name=_save]")
    assert "is no time window such as" in page.locator(".field-when_hours .errorlist").inner_text()
    assert page.input_value("#id_when_hours-0-from") == "late"


def test_a_shadowed_rule_is_greyed_until_it_is_dragged_up(open_page, live_server, alpha, shoot):
    route = alpha.rows["routing.Route"]
    route.rules.update(position=0)
    for place, name in enumerate(("special", "other"), start=1):
        factories.RuleFactory(
            route=route, name=name, position=place, when={"model": name}, group=alpha.rows["routing.StrategyGroup"]
        )
    page = open_page()
    log_in(page, live_server)
    address = live_server.url + reverse("admin:routing_route_change", args=[route.pk])
    page.goto(address)
    rows = page.locator("tr.form-row:not(.empty-form)")
    assert page.locator(".rule-never").count() == 2
    assert "never matches" in rows.nth(1).inner_text()
    assert "alpha-rule, which stands before it, decides every request that it matches" in rows.nth(1).inner_text()
    shoot(page, "routing-route-shadowed")
    drag(page, "When the model is special", "Always")
    page.click("input[name=_continue]")
    assert "Rule other can never match" in page.locator(".messagelist").inner_text()
    assert page.locator(".rule-never").all_inner_texts()[0].startswith("other")
    assert list(route.rules.order_by("position").values_list("name", flat=True)) == ["special", "alpha-rule", "other"]
    page.uncheck("tr.form-row:has-text('alpha-rule') input[type=checkbox]")
    page.click("input[name=_continue]")
    assert page.locator(".rule-never").count() == 0
    assert "switched off" in page.locator(".rule-off").inner_text()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_pages_fit_and_are_pictured(open_page, live_server, alpha, group_page, shoot, width, scheme):
    route, rule = alpha.rows["routing.Route"], alpha.rows["routing.RoutingRule"]
    factories.RuleFactory(
        route=route, name="nightly-batch", position=900, group=rule.group, set={"temperature": 0.2, "stop": ["x"]},
        when={"model": ["gpt-*", "o1*"], "line": "nightly-*", "input_tokens": [">= 32k", "< 1M"],
              "hours": "mon-fri 22:00-07:00"},
    )  # fmt: skip
    factories.RuleFactory(route=route, name="not-now", position=901, deny="Not now, please.", enabled=False)
    later = route.rules.get(name="nightly-batch")
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    pages = {
        "group": group_page,
        "route": live_server.url + reverse("admin:routing_route_change", args=[route.pk]),
        "rule": live_server.url + reverse("admin:routing_routingrule_change", args=[later.pk]),
        "rules": live_server.url + reverse("admin:routing_routingrule_changelist"),
    }
    for name, address in pages.items():
        page.goto(address)
        shoot(page, f"routing-{scheme}-{width}-{name}")
        assert sideways(page) <= 0, name
