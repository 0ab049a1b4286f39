"""Every page of the menu, in both languages, wide and narrow: none breaks, none scrolls sideways, a picture of each.

The pictures stand in artifacts/pages/, to be looked at.
"""

import re
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.urls import reverse

from tests import factories
from tests.browser.conftest import ARTIFACTS
from tests.browser.test_admin_flow import PASSWORD, PHONE, sideways
from tests.config.admin_world import member, person, shared_rows, team

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDE = 1280
# Each language, width and scheme once; the operator sees every page.
LOOKS = (
    ("operator", "zh-hans", PHONE, "light"),
    ("finance", "en", WIDE, "dark"),
)


@pytest.fixture
def alpha():
    made = team("alpha")
    shared_rows()
    factories.RuleFactory(
        route=made.rows["routing.Route"], name="nightly", when={"line": "nightly-*", "stream": False},
        group=made.rows["routing.StrategyGroup"], position=5,
    )  # fmt: skip
    return made


def with_password(user, **fields):
    for name, value in fields.items():
        setattr(user, name, value)
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.mark.parametrize(("who", "language", "width", "scheme"), LOOKS)
def test_every_page_of_the_menu(open_page, live_server, alpha, who, language, width, scheme):
    user = person("root", is_superuser=True) if who == "operator" else member(alpha.tenant, who)
    with_password(user)
    page = open_page(width=width, scheme=scheme)
    page.context.add_cookies([{"name": settings.LANGUAGE_COOKIE_NAME, "value": language, "url": live_server.url}])
    page.goto(live_server.url + reverse("admin:login") + f"?next={reverse('admin:index')}")
    page.fill("#id_username", user.username)
    page.fill("#id_password", PASSWORD)
    page.click("input[type=submit]")
    page.wait_for_url(live_server.url + reverse("admin:index"))
    assert page.locator("html").get_attribute("lang") == language
    folder = ARTIFACTS / "pages" / f"{who}-{language}-{width}-{scheme}"
    folder.mkdir(parents=True, exist_ok=True)
    addresses = menu(page)
    assert len(addresses) > 5
    seen = set()
    while addresses:
        address = addresses.pop(0)
        if address in seen:
            continue
        seen.add(address)
        page.goto(live_server.url + address)
        assert page.locator("h1").count() == 1, address
        page.screenshot(path=str(folder / f"{named(address)}.png"), full_page=True)
        assert sideways(page) <= 0, address
        addresses += inner(page, address)


def menu(page):
    """The addresses that the menu offers, the home page first."""
    found = page.eval_on_selector_all(".menu a", "links => links.map(link => link.getAttribute('href'))")
    return [reverse("admin:index"), *dict.fromkeys(link for link in found if link.startswith("/admin/"))]


def inner(page, address):
    """Of a list, the form for a new row and the page of its first row; of a row, its history."""
    if re.search(r"/(add|change|history)/$", urlsplit(address).path):
        return []
    new = page.eval_on_selector_all(".object-tools a[href*='/add/']", "links => links.map(link => link.pathname)")
    rows = page.eval_on_selector_all("#result_list tbody th a", "links => links.map(link => link.pathname)")
    return [*new[:1], *rows[:1]]


def named(address):
    """A name for the picture, without the numbers of rows."""
    path = re.sub(r"/\d+/", "/", urlsplit(address).path.removeprefix("/admin/"))
    return path.strip("/").replace("/", "-") or "home"
