"""Pages of a dashboard in a real browser: opened by a link, with all that goes wrong in them."""

from contextlib import asynccontextmanager
from pathlib import Path

import axe_playwright_python
from limits import LIMIT_S
from playwright.async_api import async_playwright

__all__ = ["WIDTHS", "Browser", "browsing", "findings"]

WIDTHS = {390: 844, 1024: 768, 1920: 1080}
"""Widths and heights of windows: a phone, a small laptop, a desk."""

_AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
_MORE = ("--disable-component-update", "--disable-sync")


class Browser:
    """Browser whose pages share a cookie. `said` is what consoles said, `asked` whose addresses were asked for."""

    def __init__(self, context):
        self.context = context
        self.said = []
        self.asked = set()

    async def open(self, link):
        """Return a new page that has opened a link."""
        page = await self.context.new_page()
        page.on("console", lambda told: self.said.append(f"{told.type}: {told.text} {told.location}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.asked.add(request.url.split("/")[2]))
        await page.goto(link)
        return page


@asynccontextmanager
async def browsing(chromium, **options):
    """Context manager: a browser with no cookies yet."""
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=chromium, args=[*_ARGUMENTS, *_MORE], timeout=1000 * LIMIT_S
        )
        try:
            context = await started.new_context(**options)
            context.set_default_timeout(1000 * LIMIT_S)
            yield Browser(context)
        finally:
            await started.close()


async def findings(page):
    """Return what axe finds that is serious, once no colour is on its way to another: rule, and the elements."""
    await page.evaluate("Promise.allSettled(document.getAnimations().map(one => one.finished)).then(() => 0)")
    if not await page.evaluate("'axe' in window"):
        # Evaluated, not added as an element: the page's policy forbids scripts that are not its own.
        await page.evaluate(_AXE.read_text())
    told = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (found["id"], found["impact"], [node["html"][:160] for node in found["nodes"]][:4])
        for found in told["violations"]
        if found["impact"] in ("serious", "critical")
    ]
