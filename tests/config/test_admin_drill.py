"""Every figure of the home page leads to exactly the rows that make it up: their sum is the figure."""

import random
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from billing.core.histogram import histogram
from billing.models import LedgerEntry
from billing.rollups import roll_up
from tests import factories
from tests.config.admin_world import member, person, team

pytestmark = pytest.mark.django_db
D = Decimal
TILES = {"spend": "Spend this month", "today": "Requests today", "first": "First content", "cache": "Read from cache",
         "active": "Active sessions"}  # fmt: skip


@pytest.fixture(params=["fresh", "summed up"])
def world(request):
    """A team with calls of every kind on two lines, on eight days; another team with one that must not be counted."""
    draw, now = random.Random(11), timezone.now()
    alpha, bravo = team("alpha"), team("bravo")
    if request.param == "fresh":  # what is older than a day is in the sums only
        roll_up(now=now - timedelta(hours=22))
    lines = [alpha.line, *(factories.LineFactory(tenant=alpha.tenant, slug=f"alpha-{n}") for n in range(7))]
    keys = [alpha.rows["keys.UpstreamKey"], factories.UpstreamKeyFactory(upstream=alpha.rows["keys.Upstream"])]
    for _ in range(80):
        status = draw.choice(["finished", "finished", "finished", "cancelled", "failed"])
        failed = status == "failed"
        recent = request.param == "fresh" or draw.random() < 0.4
        record = factories.RecordFactory(
            line=draw.choice(lines),
            created=now - timedelta(seconds=draw.randrange(20 * 3600) if recent else draw.randrange(8 * 86400)),
            status=status,
            http_status=draw.choice([None, 400, 429, 502]) if failed else 200,
            currency=draw.choice(["USD", "USD", "CNY"]),
            model_served=draw.choice(["a", "b", ""]),
            model_requested=draw.choice(["a", "c"]),
            charge=D(0) if failed else D(draw.randrange(10**12)).scaleb(-12),
            attempt_count=draw.choice([1, 1, 2]),
            first_content_ms=None if failed else draw.randrange(5000),
            input_tokens=draw.randrange(1000),
            cached_read_tokens=draw.randrange(50),
            refusal_limit="rpm" if failed and draw.random() < 0.3 else "",
            replay_of="req_x" if draw.random() < 0.05 else "",
            conversation=draw.choice(["", "c1", "c2", "c3"]),
        )
        for n in range(1, record.attempt_count + 1):
            key, served = draw.choice(keys), n == record.attempt_count and not failed
            factories.AttemptFactory(
                record=record, n=n, upstream_key_id=key.pk, upstream="alpha-upstream", upstream_key=key.name,
                outcome="served" if served else draw.choice(["rate_limited", "timeout", "bad_request"]),
            )  # fmt: skip
        if record.charge:
            factories.LedgerEntryFactory(
                record=record, line_id=record.line_id, amount=record.charge, currency=record.currency,
                created=record.created, day=record.day,
            )  # fmt: skip
    factories.RecordFactory(line=bravo.line, created=now, charge=D(99), conversation="c9")
    if request.param == "summed up":
        roll_up(now=now)
    return alpha


@dataclass(frozen=True)
class Seen:
    """The home page and who looks at it; `rows` are what an address lists."""

    client: Client
    user: User
    context: Any

    def rows(self, url: str) -> list[Any]:
        path, _mark, query = url.partition("?")
        model = next(model for model in admin.site._registry if f"/{model._meta.model_name}/" in path)
        request = RequestFactory().get(path, QueryDict(query).dict())
        request.user = self.user
        return list(admin.site._registry[model].get_changelist_instance(request).queryset)


@pytest.fixture
def page(client, world):
    """As the operator sees it, who looks at one team of two."""
    user = person("root", is_superuser=True)
    client.force_login(user)
    return Seen(client, user, client.get(reverse("admin:index"), {"team": world.tenant.pk, "days": 7}).context)


def charges(rows):
    return sum((row.charge or D(0) for row in rows), D(0))


def exact(tile):
    return D(re.search(r'title="([\d.]+)', str(tile.value)).group(1))


def test_the_tiles(page):
    tiles = {tile.title: tile for tile in page.context["tiles"]}
    spend = page.rows(tiles[TILES["spend"]].url)
    assert exact(tiles[TILES["spend"]]) == charges(spend) > 0
    assert {row.currency for row in spend} == {"USD"}
    today = page.rows(tiles[TILES["today"]].url)
    assert tiles[TILES["today"]].value == str(len(today))
    timed = page.rows(tiles[TILES["first"]].url)
    assert f"of {len(timed)} answers" in tiles[TILES["first"]].detail
    assert sum(histogram(row.first_content_ms for row in timed).values()) == len(timed)
    cached = page.rows(tiles[TILES["cache"]].url)
    tokens = sum(row.input_tokens for row in cached)
    assert tiles[TILES["cache"]].detail.startswith(f"{sum(row.cached_read_tokens for row in cached):,} of {tokens:,} ")
    talking = page.rows(tiles[TILES["active"]].url)
    assert tiles[TILES["active"]].value == str(len({row.conversation for row in talking}))


def test_the_bars_of_spend_and_their_table(page):
    plot = page.context["plots"][0]
    urls = dict(re.findall(r'xlink:href="([^"]+)"[^>]*>.*?<title>([^<]+)</title>', str(plot.wide), re.DOTALL))
    bars = {url.replace("&amp;", "&"): text for url, text in urls.items()}
    assert any(text.startswith("others, ") for text in bars.values())
    for url, text in bars.items():
        amount = text.partition(": ")[2].removesuffix(" USD")
        assert round(charges(page.rows(url)), 6) == D(amount.replace("<0.000001", "0")), text
    for row in plot.rows:
        for cell in row[1:]:
            assert f"{charges(page.rows(cell.url)):,.6f}".startswith(cell.text.rstrip("0") or "0")


def test_availability_and_times(page):
    _spend, answered, first = page.context["plots"]
    for row in answered.rows:
        judged, rescued, lost = (page.rows(row[place].url) for place in (1, 4, 5))
        assert (row[1].text, row[4].text, row[5].text) == tuple(str(len(rows)) for rows in (judged, rescued, lost))
        if judged:
            share = D(len(judged) - len(lost)) * 100 / len(judged)
            assert row[2].text == f"{share:.1f} %"
            alone = D(len(judged) - len(lost) - len(rescued)) * 100 / len(judged)
            assert row[3].text == f"{alone:.1f} %"
    for row in first.rows:
        if row[1].url:
            assert row[1].text == str(len(page.rows(row[1].url)))


def test_models(page):
    assert len(page.context["models"]) >= 3
    for model in page.context["models"]:
        rows = page.rows(model.url)
        assert (len(rows), charges(rows)) == (model.sums.calls, model.sums.charge)
        assert sum(row.input_tokens for row in rows) == model.sums.input_tokens


def test_hours_and_totals_of_keys(page):
    strips = [strip for health in page.context["healths"] for strip in health.strips]
    for totals in [health.totals for health in page.context["healths"]] + [strip.totals for strip in strips]:
        whole = len(page.rows(totals[0].url))
        assert totals[0].text == str(whole)
        for total in totals[1:]:
            part = len(page.rows(total.url)) if total.url else 0
            assert total.text == f"{D(part) * 100 / whole:.1f} %"
    cells = [cell for strip in strips for cell in strip.cells if cell.url]
    assert len(cells) >= 10
    for cell in cells:
        assert f": {len(page.rows(cell.url))} call" in cell.text


def test_budgets(page):
    assert page.context["budgets"]
    for one in page.context["budgets"]:
        rows = page.rows(one.url)
        assert sum((row.amount for row in rows), D(0)) == one.bar.spent > 0
        assert all(isinstance(row, LedgerEntry) for row in rows)


def test_the_list_says_what_it_adds_up_to(page):
    tile = page.context["tiles"][0]
    answer = page.client.get(tile.url)
    rows = list(answer.context["cl"].queryset)
    (total,) = answer.context["totals"]
    assert (total.currency, total.rows, total.charge) == ("USD", len(rows), charges(rows))
    assert f'title="{total.charge:f} USD"' in answer.content.decode()


def test_a_team_admin_follows_the_same_links(client, world):
    user = member(world.tenant, "admin")
    client.force_login(user)
    page = Seen(client, user, client.get(reverse("admin:index")).context)
    tile = page.context["tiles"][0]
    assert exact(tile) == charges(page.rows(tile.url)) > 0
    assert client.get(page.context["healths"][0].totals[0].url).status_code == 200
    assert client.get(page.context["budgets"][0].url).status_code == 200
