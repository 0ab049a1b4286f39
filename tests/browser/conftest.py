"""Chromium for tests that click. Scoped to a module: a browser of the whole session breaks later async tests."""

import os
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    *(("--no-sandbox",) if os.geteuid() == 0 else ()),
)
ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts"


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed")
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # playwright's sync interface runs a loop in this thread
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
    else:
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = before


def lost(request):
    """Whether a load failed; one that the page gave up because it was left is no fault of the page."""
    return request.failure != "net::ERR_ABORTED"


@pytest.fixture
def open_page(chromium):
    """Return a function that opens a page; whatever the page complains about fails the test at its end."""
    complaints: list[str] = []
    contexts = []

    def opened(width=1280, scheme="light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)  # milliseconds
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}") if lost(request) else None)
        page.on("response", lambda answer: complaints.append(answer.url) if answer.status >= 400 else None)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def shoot():
    """Return a function that keeps a picture of a page in artifacts/."""
    ARTIFACTS.mkdir(exist_ok=True)

    def shot(page, name):
        page.screenshot(path=str(ARTIFACTS / f"{name}.png"), full_page=True)

    return shot
