"""Keys in the browser: a rotation of ours, a new secret for theirs, and a pool that renews itself without a jump."""

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from keys.core.counts import Counts
from keys.core.outcome import Cause, Outcome, Scope, Verdict
from keys.core.state import KeyState, Rest, Status
from keys.core.stored import dumped
from keys.models import KeyEvent, StoredState, UpstreamKey
from tenants.models import GatewayKey
from tenants.services import gateway_digest
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
    return made


def stands(key, failures=0, calls=0, **state):
    counts, moment = Counts(), timezone.now()
    for n in range(calls):
        cause = Cause.SERVER_ERROR if n < failures else Cause.SERVED
        counts.add(Outcome(cause, Verdict.NEXT, Scope.KEY, message="the model is overloaded"), moment)
    data = {"state": dumped(KeyState(**state)), "counts": counts.dumped()}
    StoredState.objects.update_or_create(target=f"key:{key.pk}", defaults={"data": data})


@pytest.fixture
def pool(alpha):
    """A pool with one key of every kind; returns the key that cools."""
    moment = timezone.now()
    upstream = alpha.rows["keys.Upstream"]
    made = factories.UpstreamKeyFactory.create_batch(4, upstream=upstream)
    UpstreamKey.objects.filter(pk=made[0].pk).update(rpm=60, per_day=2000, concurrency=8)
    UpstreamKey.objects.filter(pk=made[3].pk).update(created=moment - timedelta(days=3))
    rest = Rest("gpt-4o-mini", moment + timedelta(seconds=500), Cause.MODEL_UNAVAILABLE)
    stands(made[0], 2, 12, status=Status.COOLING, cause=Cause.RATE_LIMITED, until=moment + timedelta(seconds=90))
    stands(made[1], 1, 1, status=Status.DEAD, cause=Cause.AUTH_INVALID)
    stands(made[2], 1, 7, strikes=2, models=(rest,))
    return made[0]


def test_a_gateway_key_is_rotated_and_its_old_secret_ended(open_page, live_server, alpha, shoot):
    key = alpha.gateway_key
    factories.RecordFactory(line=alpha.line, gateway_key_id=key.pk, key_last4=key.last4)
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:tenants_gatewaykey_change", args=[key.pk]))
    page.click(".object-tools a:has-text('Rotate')")
    assert f"…{key.last4} was used by 1 of the line's latest 1,000 calls" in page.locator(".callout").inner_text()
    shoot(page, "keys-rotate")
    page.get_by_label("7 days more").check()
    page.click("input[value='Make the new secret']")
    secret = page.locator("#secret").inner_text()
    row = GatewayKey.objects.get(pk=key.pk)
    assert (row.digest, row.old_digest) == (gateway_digest(secret), key.digest)
    assert "works until" in page.locator(".callout-wait").inner_text()
    shoot(page, "keys-rotated")
    page.click("a.button:has-text('Done')")
    assert secret not in page.content()
    page.goto(live_server.url + reverse("admin:tenants_gatewaykey_changelist"))
    assert f"old secret …{key.last4} works until" in page.locator("#result_list").inner_text()
    shoot(page, "keys-list")
    page.goto(live_server.url + reverse("admin:tenants_gatewaykey_change", args=[key.pk]))
    page.click(".object-tools a:has-text('End the old secret')")
    assert "stops working within 2 seconds, for good" in page.locator(".callout-bad").inner_text()
    shoot(page, "keys-end-old")
    page.click("input[value='End it']")
    assert not GatewayKey.objects.get(pk=key.pk).old_works(timezone.now())


def test_an_upstream_secret_is_replaced_by_keyboard_and_put_back(open_page, live_server, alpha, shoot):
    key = alpha.rows["keys.UpstreamKey"]
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:keys_upstreamkey_change", args=[key.pk]))
    page.click(".object-tools a:has-text('Replace the secret')")
    shoot(page, "keys-replace")
    page.get_by_label("new secret").fill("sk-brand-new-0123456789-zyxwvu")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # without the test: nobody answers here
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")  # seven days
    page.keyboard.press("Enter")
    page.wait_for_selector(".messagelist")
    assert "the new secret is used within 2 seconds" in page.locator(".messagelist").inner_text()
    row = UpstreamKey.objects.get(pk=key.pk)
    assert (row.tail, row.old_tail) == ("zyxwvu", key.tail)
    assert timedelta(days=6) < row.old_until - timezone.now() <= timedelta(days=7)
    shoot(page, "keys-replaced")
    page.click(f".object-tools button:has-text('Use …{key.tail} again')")
    assert UpstreamKey.objects.get(pk=key.pk).tail == key.tail


def test_the_pool_renews_itself_under_the_pointer_and_nothing_jumps(open_page, live_server, alpha, pool, shoot):
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:pool"))
    shoot(page, "pool-light")
    row = page.locator(f"tr:has-text('{pool.name}')")
    assert re.search(r"◐\s+cooling\s+\d+ s", row.inner_text())
    before = row.bounding_box()
    counting = row.locator(".countdown").inner_text()
    button = row.locator("button:has-text('Test now')")
    button.focus()
    row.hover()
    stands(pool, 2, 13)
    page.wait_for_selector(f"tr:has-text('{pool.name}') .chip-good", timeout=15000)
    assert "13 calls, 2 failed" in row.inner_text()
    assert counting not in row.inner_text()
    assert button.evaluate("node => node === document.activeElement")
    after = row.bounding_box()
    assert (after["x"], after["y"], after["width"]) == (before["x"], before["y"], before["width"])


def test_a_new_key_appears_without_a_reload(open_page, live_server, alpha, pool):
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:pool"))
    page.evaluate("window.kept = true")
    factories.UpstreamKeyFactory(upstream=alpha.rows["keys.Upstream"], name="fresh-key")
    page.wait_for_selector("tr:has-text('fresh-key')", timeout=15000)
    assert page.evaluate("window.kept") is True


def test_keys_are_pasted_beside_the_pool_and_looked_at_as_they_are_typed(open_page, live_server, alpha, shoot):
    page = open_page()
    log_in(page, live_server)
    page.goto(live_server.url + reverse("admin:pool"))
    page.click("summary:has-text('Paste many keys')")
    page.select_option("#id_upstream", label="alpha · alpha-upstream")
    page.fill("#id_secrets", "sk-pasted-0000000001\ntwo words\nsk-pasted-0000000001")
    report = page.locator("#paste-report")
    assert report.inner_text().split(" · ") == [
        "1 key looks right", "line 2: has a space inside", "line 3: is the same as an earlier one",
    ]  # fmt: skip
    shoot(page, "keys-paste-beside")
    page.click("input[value='Store them']")
    assert "2 lines were not stored:" in page.locator(".callout-bad").inner_text()
    assert UpstreamKey.objects.filter(upstream=alpha.rows["keys.Upstream"], name="k1").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_keys_fit_a_phone(open_page, live_server, alpha, pool, shoot, scheme):
    key = alpha.rows["keys.UpstreamKey"]
    until = timezone.now() + timedelta(minutes=20)
    KeyEvent.objects.create(tenant=alpha.tenant, account=key.account, before="healthy", after="cooling", until=until,
                            reason="insufficient_balance", message="Insufficient Balance")  # fmt: skip
    record = factories.RecordFactory(line=alpha.line, created=timezone.now())
    factories.AttemptFactory(record=record, n=1, upstream_key_id=key.pk, outcome="server_error", status=500,
                             message="The server had an error processing your request", ms=340)  # fmt: skip
    for width, name in ((PHONE, "phone"), (1280, "wide")):
        page = open_page(width=width, scheme=scheme)
        log_in(page, live_server)
        pages = {
            "pool": reverse("admin:pool"),
            "key": reverse("admin:keys_upstreamkey_change", args=[key.pk]),
            "replace": reverse("admin:keys_upstreamkey_rotate", args=[key.pk]),
            "rotate": reverse("admin:tenants_gatewaykey_rotate", args=[alpha.gateway_key.pk]),
            "paste": reverse("admin:pool_paste"),
        }
        for what, address in pages.items():
            page.goto(live_server.url + address)
            shoot(page, f"keys-{name}-{scheme}-{what}")
            assert sideways(page) <= 0, what
