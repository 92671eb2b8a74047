"""The site, opened as files in a real Chromium: searches, light and dark, and nothing asked of elsewhere."""

from pathlib import Path

import anyio
import pytest
from limits import LIMIT_S
from pages_here import browsing
from waiting import until

pytestmark = pytest.mark.anyio

_SITE = Path(__file__).parents[2] / "build" / "site"


@pytest.fixture
def front():
    """Link to the front page; without one the tests fail."""
    page = _SITE / "index.html"
    if not page.exists():
        pytest.fail("there is no site: make docs", pytrace=False)
    return page.as_uri()


async def test_a_search_finds_a_page_without_a_server(chromium, front):
    with anyio.fail_after(LIMIT_S):
        async with browsing(chromium) as browser:
            page = await browser.open(front)
            gone = []
            page.on("request", lambda request: gone.append(request.url) if request.is_navigation_request() else None)

            async def enter():
                await page.keyboard.press("Enter")  # results are in a closed shadow tree; this goes to the first
                return gone

            await page.keyboard.press("Control+k")
            await page.wait_for_function("document.activeElement !== document.body")
            await page.keyboard.insert_text("SIGABRT")  # a word of one page, at once: its first letters are of others
            await until(enter)  # a page that is on its way is not asked for again, which would begin anew
            assert "why/worker_died.html" in gone[0]
            await page.wait_for_url("**/why/worker_died.html*")
            assert await page.title() == "Why did my worker die? - grainlike"
            assert browser.asked == {""}
            assert browser.said == []


@pytest.mark.parametrize(("scheme", "named"), [("light", "default"), ("dark", "slate")])
async def test_a_page_is_light_or_dark_as_the_system_is(chromium, front, scheme, named):
    async with browsing(chromium, color_scheme=scheme) as browser:
        page = await browser.open(front)
        assert await page.locator("body").get_attribute("data-md-color-scheme") == named
        assert browser.asked == {""}
