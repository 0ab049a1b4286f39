"""The home page in a browser: what needs somebody on top, plots that lead to their rows, nothing cut or sideways."""

import random
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from billing.rollups import roll_up
from keys.core.outcome import Cause
from keys.core.state import KeyState, Status
from keys.core.stored import dumped
from keys.models import StoredState
from tests import factories
from tests.browser.test_admin_flow import PASSWORD, PHONE, log_in, sideways
from tests.config.admin_world import member, team

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MODELS = ("claude-sonnet-4-5", "gpt-4o", "gpt-4o-mini", "gemini-2.5-pro")


@pytest.fixture
def alpha():
    """A team with eight days of traffic, a dead key and a budget that is nearly gone."""
    draw, now = random.Random(5), timezone.now()
    made = team("alpha")
    boss = member(made.tenant, "admin")
    boss.set_password(PASSWORD)
    boss.save()
    lines = [factories.LineFactory(tenant=made.tenant, slug=slug, name=slug)
             for slug in ("support-bot", "nightly-batch", "search-assistant", "sales-copilot")]  # fmt: skip
    keys = []
    for name in ("relay-asia-east", "official"):
        upstream = factories.UpstreamFactory(tenant=made.tenant, name=name)
        keys += [factories.UpstreamKeyFactory(upstream=upstream, name=f"production-key-{n}") for n in range(3)]
    for _ in range(260):
        _call(draw, now, draw.choice(lines[: draw.choice([2, 4])]), keys)
    dead = KeyState(status=Status.DEAD, cause=Cause.AUTH_INVALID, message="invalid api key")
    counts = {"calls": 3, "failures": 1, "last_error": "auth_invalid: invalid api key"}
    StoredState.objects.create(target=f"key:{keys[1].pk}", data={"state": dumped(dead), "counts": counts})
    budget = factories.BudgetFactory(tenant=made.tenant, line=lines[0], amount=Decimal(60))
    assert budget.pk
    roll_up(now=now)
    return made


def _call(draw, now, line, keys):
    failed, moved = draw.random() < 0.04, draw.random() < 0.12
    recent = draw.random() < 0.5
    record = factories.RecordFactory(
        line=line,
        created=now - timedelta(seconds=draw.randrange(23 * 3600) if recent else draw.randrange(8 * 86400)),
        status="failed" if failed else "finished",
        http_status=502 if failed else 200,
        model_served=draw.choice(MODELS),
        charge=Decimal(0) if failed else Decimal(draw.randrange(1, 100)).scaleb(-2),
        attempt_count=2 if moved else 1,
        first_content_ms=None if failed else round(draw.lognormvariate(6, 0.6)),
        input_tokens=4000,
        cached_read_tokens=draw.choice([0, 3000]),
        conversation=f"c{draw.randrange(40)}",
    )
    first, second = draw.sample(keys, 2)
    for n, key in enumerate([first, second][: record.attempt_count], start=1):
        lost = n < record.attempt_count or failed
        factories.AttemptFactory(
            record=record, n=n, upstream=key.upstream.name, upstream_key=f"{key.name} (…{key.tail})",
            upstream_key_id=key.pk, outcome="rate_limited" if lost else "served",
        )  # fmt: skip
    if record.charge:
        factories.LedgerEntryFactory(record=record)


def cut(page):
    """Texts of the heat map's first column that do not fit."""
    return page.evaluate(
        "Array.from(document.querySelectorAll('table.heat tbody th')).filter(e => e.scrollWidth > e.clientWidth + 1)"
        ".map(e => e.textContent)"
    )


def test_a_bar_leads_to_its_rows_and_the_table_is_one_click_away(open_page, live_server, alpha, shoot):
    page = open_page()
    log_in(page, live_server)
    shoot(page, "home-wide-light")
    assert "dead" in page.locator(".attention li").first.inner_text()
    assert cut(page) == []
    table = page.locator(".plot-spend .plot-table table")
    assert not table.is_visible()
    page.click(".plot-spend .plot-table summary")
    assert table.is_visible()
    shoot(page, "home-wide-table")
    page.select_option("select[name=line]", label="support-bot")
    page.click(".scope button")
    page.locator(".plot-spend .plot-wide svg a").last.click()
    page.wait_for_url("**/requestrecord/**")
    assert "charge" in page.locator(".list-totals").inner_text()
    shoot(page, "home-rows")
    page.goto(live_server.url + reverse("admin:index"))
    assert page.locator("select[name=line] option:checked").inner_text() == "support-bot"


@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_in_both_languages(open_page, live_server, alpha, shoot, scheme, width):
    page = open_page(width=width, scheme=scheme)
    log_in(page, live_server)
    assert sideways(page) <= 0
    shoot(page, f"home-{width}-{scheme}-en")
    page.click("footer button[value=zh-hans]")
    page.wait_for_selector("html[lang=zh-hans]")
    assert sideways(page) <= 0
    shoot(page, f"home-{width}-{scheme}-zh")
