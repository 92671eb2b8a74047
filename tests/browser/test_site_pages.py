"""The site, opened as files in a real Chromium: searches, light and dark, and nothing asked of elsewhere."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from pages_here import browsing
from playwright.async_api import TimeoutError as NotYet

pytestmark = pytest.mark.anyio

LONG_S = 120
"""Seconds after which a test has hung: browsers are slow where machines are busy."""

_SITE = Path(__file__).parents[2] / "build" / "site"


@pytest.fixture
def front():
    """Link to the front page; without one the tests fail."""
    page = _SITE / "index.html"
    if not page.exists():
        pytest.fail("there is no site: make docs", pytrace=False)
    return page.as_uri()


async def test_a_search_finds_a_page_without_a_server(chromium, front):
    async with browsing(chromium) as browser:
        page = await browser.open(front)
        await page.keyboard.press("Control+k")
        await page.keyboard.insert_text("SIGABRT")  # a word of one page, at once: its first letters are of others
        with anyio.fail_after(LONG_S):
            while page.url.endswith("/index.html"):  # results are in a closed shadow tree; Enter opens the first
                await page.keyboard.press("Enter")
                with suppress(NotYet):  # there was none yet
                    await page.wait_for_url("**/why/worker_died.html*", timeout=500)
        await page.wait_for_load_state()
        assert "/why/worker_died.html" in page.url
        assert await page.title() == "Why did my worker die? - grainlike"
        assert browser.asked == {""}
        assert browser.said == []


@pytest.mark.parametrize(("scheme", "named"), [("light", "default"), ("dark", "slate")])
async def test_a_page_is_light_or_dark_as_the_system_is(chromium, front, scheme, named):
    async with browsing(chromium, color_scheme=scheme) as browser:
        page = await browser.open(front)
        assert await page.locator("body").get_attribute("data-md-color-scheme") == named
        assert browser.asked == {""}
