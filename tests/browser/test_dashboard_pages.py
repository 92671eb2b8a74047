"""Dashboard in a real Chromium: every page at three widths, its rules of entry, its keys, and much to show."""

import re
from contextlib import asynccontextmanager

import anyio
import pytest
from limits import LIMIT_S
from pages_here import WIDTHS, browsing, findings
from waiting import until

import grainlike
from grainlike import Cores, Executor, Limit, Rate, delayed, gather, start, wait
from grainlike.client import call
from grainlike.dashboard import Dashboard

pytestmark = pytest.mark.anyio

PAGES = ["/", "/queue", "/jobs", "/history", "/usage", "/job/1", "/job/2", "/timeline", "/workers", "/pools", "/limits"]

GATES = {}


@delayed
async def held(name):
    print("reading\n<b>bold</b>")
    await GATES[name].wait()


@delayed
async def stuck():
    await anyio.sleep_forever()


@delayed
async def quick(x):
    if x % 5 == 4:
        raise ValueError(f"x={x} is <i>unlucky</i>")
    return x


@delayed
async def rare():
    pass


@delayed
async def sweep():
    await gather((held @ Cores(1))("child") for _ in range(2))


@asynccontextmanager
async def busy(**options):
    """An executor with jobs that run, wait for all kinds of reasons, have ended well, and have not."""
    GATES.update(a=anyio.Event(), child=anyio.Event())
    offer = grainlike.parse("cores=8 memory=4Gi gpus=2")
    async with Executor(local=offer, dashboard=True, on_failure="continue", **options) as executor:
        start((sweep @ Cores(1))())
        await gather([(quick @ Cores(1))(x) for x in range(40)], return_exceptions=True)
        await gather((rare @ Cores(1))() for _ in range(2))
        start((stuck @ grainlike.parse("cores=1 gpus=1"))())
        for _ in range(4):
            start((held @ Cores(2))("a"))
            start((held @ (Cores(1) & Limit("licence", 2)))("a"))
            start((held @ (Cores(1) & Rate("api", 2)))("a"))
        yield executor
        for gate in GATES.values():
            gate.set()


async def holds(page, expression):
    """Wait until an expression is true in a page, whose policy forbids what Playwright itself would wait by."""
    await until(lambda: page.evaluate(expression))


async def reads(element, text):
    """Return whether this is the text of an element."""
    return await element.inner_text() == text


async def shown(page, path):
    """Go to a page, and wait until it shows what the head said."""
    await page.goto(f"{page.url.split('/')[0]}//{page.url.split('/')[2]}{path}")
    await page.wait_for_selector(".status:has-text('Live')")
    await page.wait_for_selector("main :is(.table .tb .tr, .card, .panel dd, .timeline canvas, .empty, .map canvas)")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_each_page_at_three_widths_is_without_errors_and_serious_findings(chromium, theme, width):
    with anyio.fail_after(LIMIT_S):
        async with busy() as executor, browsing(chromium, color_scheme=theme) as browser:
            page = await browser.open(executor.dashboard)
            await page.set_viewport_size({"width": width, "height": WIDTHS[width]})
            found = {}
            for path in PAGES:
                await shown(page, path)
                wider = await page.evaluate(
                    "[document.documentElement, document.querySelector('main')]"
                    ".map(box => box.scrollWidth - box.clientWidth)"
                )
                if wider != [0, 0]:
                    found[path] = f"wider than the window by {wider}"
                if width != 1024 or theme == "light":
                    serious = await findings(page)
                    if serious:
                        found[path, "axe"] = serious
            assert found == {}
            assert browser.said == []
            assert browser.asked == {page.url.split("/")[2]}


async def test_amounts_of_memory_are_as_people_write_them(chromium):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=grainlike.parse("cores=2 memory=4Gi"), dashboard=True) as executor:
            asked = [(quick @ grainlike.parse("cores=1 memory=1500Mi"))(x) for x in range(2)]
            await gather(asked, return_exceptions=True)
            async with browsing(chromium) as browser:
                page = await browser.open(executor.dashboard)
                for path in ("/usage", "/job/1"):
                    await shown(page, path)
                    await page.wait_for_selector("text=memory=1.5Gi")
                    assert "memory=15" not in await page.inner_text("main")


async def test_bytes_of_large_values_are_in_the_list_of_workers(chromium):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor, browsing(chromium) as browser:
            page = await browser.open(executor.dashboard)
            await shown(page, "/workers")
            assert "large values" not in await page.inner_text(".head .note")
            large_ = (delayed(bytes) @ Cores(1))(5 * 2**20)
            await wait(large_)
            await page.wait_for_selector(".head .note:has-text('large values: 5.0 MiB in memory, – on disk')")
            titles = await page.locator(".table .th > *").all_inner_texts()
            stored = page.locator(f".table .tb .tr > * >> nth={titles.index('Stored')}")
            await until(lambda: reads(stored, "5.0 MiB"))  # rows are drawn anew after the total
            assert browser.said == []
            del large_


async def test_a_link_opens_one_browser_whose_cookie_no_script_sees(chromium):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor:
            link = executor.dashboard
            async with browsing(chromium) as browser, browsing(chromium) as other:
                page = await browser.open(link)
                assert "token" not in page.url
                assert "token" not in await page.evaluate("document.referrer + performance.getEntries()[0].name")
                assert await page.evaluate("document.cookie") == ""
                [cookie] = await browser.context.cookies()
                assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
                refused = await other.open(link)
                assert "does not open" in await refused.inner_text("h1")
                assert await findings(refused) == []
                assert "does not open" in await (await other.open(page.url)).inner_text("h1")
                again = await browser.open(page.url)
                await again.wait_for_selector(".status:has-text('Live')")
                third = await other.open(executor.dashboard)
                await third.wait_for_selector(".status:has-text('Live')")


async def test_names_errors_and_logs_with_markup_are_text_and_scripts_of_others_do_not_run(chromium):
    name = "<img src=x onerror=\"window.broken='name'\">"

    async def rude():
        print("<script>window.broken='log'</script>")
        raise ValueError("<script>window.broken='error'</script>")

    rude.__name__ = rude.__qualname__ = name
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor, browsing(chromium) as browser:
            await gather([(delayed(rude) @ Cores(1))()], return_exceptions=True)
            page = await browser.open(executor.dashboard)
            for path in ("/history", "/job/1", "/timeline"):
                await shown(page, path)
                await page.wait_for_selector(f"text={name[:18]}")
                assert await page.locator("main img, main script").count() == 0
            await shown(page, "/job/1")
            await page.wait_for_selector("pre >> text=window.broken='log'")
            assert await page.evaluate("window.broken") is None
            with pytest.raises(Exception, match="Content Security Policy"):
                await page.add_script_tag(content="window.broken = 'inline'")
            assert await page.evaluate("window.broken") is None


async def test_which_jobs_failed_why_and_where_is_a_search_and_two_clicks_away(chromium):
    with anyio.fail_after(LIMIT_S):
        async with busy() as executor, browsing(chromium) as browser:
            page = await browser.open(executor.dashboard)
            await page.click("nav >> text=History")
            await page.click("button:has-text('Failed')")
            await page.fill("input[type=search]", "qui")
            await holds(page, "document.querySelectorAll('.tb .tr').length === 8")
            await holds(page, "location.pathname + location.search === '/history?name=qui&show=failed'")
            text = await page.inner_text(".tb .tr >> nth=0")
            assert "local" in text
            error = re.search(r"ValueError: x=\d+ is <i>unlucky</i>", text)
            assert error is not None  # of that which ended last, whichever that is
            await page.click(".tb .tr a >> nth=0")
            await page.wait_for_selector(f"text={error[0]}")
            await page.go_back()
            await holds(page, "document.querySelectorAll('.tb .tr').length === 8")
            assert browser.said == []


async def test_failures_are_counted_by_reason_and_lead_to_their_jobs(chromium):
    with anyio.fail_after(LIMIT_S):
        async with busy() as executor, browsing(chromium) as browser:
            page = await browser.open(executor.dashboard)
            await page.click("a[aria-labelledby^=failed]:has-text('8')")
            await holds(page, "location.pathname + location.search === '/history?show=failed'")
            await page.wait_for_selector("button:has-text('Failed') .count:has-text('8')")
            await page.click("button:has-text('By reason')")
            await holds(page, "document.querySelectorAll('.tb .tr').length === 1")
            row = await page.inner_text(".tb .tr")
            assert re.search(r"^8\s+quick\s+local\s+\d+\s.*ValueError: x=# is <i>unlucky</i>$", row, re.DOTALL)
            assert await findings(page) == []
            await page.click(".tb .tr a >> nth=0")
            await holds(page, "document.querySelectorAll('.tb .tr').length === 8")
            assert await page.input_value("[aria-label='Search by text of the error']") == "is <i>unlucky</i>"
            await page.fill("[aria-label='Search by worker']", "elsewhere")
            await page.wait_for_selector("text=No such jobs")
            await page.wait_for_selector("button:has-text('Failed') .count:has-text('0')")
            assert browser.said == []


async def test_at_any_width_usage_has_all_figures_and_says_why_nothing_is_suggested(chromium):
    with anyio.fail_after(LIMIT_S):
        async with busy() as executor, browsing(chromium) as browser:
            page = await browser.open(executor.dashboard)
            for width in (1600, 1024, 700, 390):
                await page.set_viewport_size({"width": width, "height": 800})
                await shown(page, "/usage")
                await page.wait_for_selector(".tb .tr")
                text = await page.inner_text(".table")
                titles = ("Function", "Ended", "Asked for", "Cores busy", "Peak memory", "Ran")
                assert all(title in text for title in titles), (width, text)
                # Of `rare`, which ran twice: on a busy machine any job may run for longer.
                assert re.search("it takes 3 jobs that ran for 0.1 s or longer, (none|[12]) did", text), (width, text)
            await page.click("button:has-text('Refresh')")
            await shown(page, "/history")
            await page.wait_for_selector("text=Without room at this width: Waited, Memory, Tries, Ended")
            await page.set_viewport_size({"width": 1600, "height": 800})
            await page.wait_for_selector("text=Without room", state="hidden")
            assert browser.said == []


async def at_its_end(route):
    """Answer as in the moment in which the last job of the timeline has ended, which is its right edge."""
    answered = await route.fetch()
    line = await answered.json()
    late = min((bar[4] - bar[5] for bar in line["bars"]), default=0)
    bars = [[*bar[:4], bar[4] - late, *bar[5:]] for bar in line["bars"]]
    await route.fulfill(response=answered, json=line | {"at": line["at"] - late, "bars": bars})


async def test_on_a_timeline_failures_are_seen_however_short_they_were(chromium):
    of_failures = """() => {
        const canvas = document.querySelector('.timeline canvas'), context = canvas.getContext('2d');
        const probe = document.createElement('canvas').getContext('2d');
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--bad');
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        let found = 0;
        for (let at = 0; at < data.length; at += 4) found += data[at] === r && data[at + 1] === g && data[at + 2] === b;
        return found;
    }"""
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True, on_failure="continue") as executor:
            await gather([(quick @ Cores(1))(x) for x in (1, 2, 3)])
            async with browsing(chromium) as browser:
                page = await browser.open(executor.dashboard)
                await shown(page, "/timeline")
                await page.wait_for_selector("text=3 attempts that ended")
                assert await page.evaluate(of_failures) == 0
                await page.route("**/api/timeline?*", at_its_end)
                await gather([(quick @ Cores(1))(4)], return_exceptions=True)
                await page.wait_for_selector("text=4 attempts that ended")
                assert await page.evaluate(of_failures) > 20, (
                    "a wedge and hatching; a bar of a millisecond alone has three"
                )


@delayed(retries=1)
async def again(path):
    if not path.exists():
        path.touch()
        raise ValueError("<b>once</b>")


async def test_a_job_that_has_ended_shows_each_attempt_and_its_receipt(chromium, tmp_path):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor, browsing(chromium) as browser:
            await (again @ Cores(1))(tmp_path / "tried")
            page = await browser.open(executor.dashboard)
            await shown(page, "/job/1")
            first, second = [await page.inner_text(f".attempts li >> nth={at}") for at in (0, 1)]
            assert re.search(r"Attempt 1\s+failed\s.*on local cores=\[.*ValueError: <b>once</b>", first, re.DOTALL)
            assert re.search(r"Attempt 2\s+succeeded\s.*on local cores=\[", second, re.DOTALL)
            receipt = await page.inner_text(".panel:has(h2:text('Receipt'))")
            assert re.search(r"Cores\s+[\d, ]+\s+Threads\s", receipt)
            assert await findings(page) == []


async def test_all_is_reached_by_keys(chromium):
    with anyio.fail_after(LIMIT_S):
        async with busy() as executor, browsing(chromium, reduced_motion="reduce") as browser:
            page = await browser.open(executor.dashboard)
            await shown(page, "/")
            await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.textContent") == "Skip to content"
            for _ in range(3):
                await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.getAttribute('href')") == "/queue"
            await page.keyboard.press("Enter")
            await page.wait_for_selector("h1:has-text('Queue')")
            assert await page.evaluate("document.activeElement.id") == "view"
            await shown(page, "/")
            await page.focus("a.slot[href]")
            await page.keyboard.press("Enter")
            await page.wait_for_selector("h2:has-text('Where it stands')")
            await shown(page, "/timeline")
            await page.focus("canvas[aria-label^=Timeline]")
            await holds(page, "document.querySelector('.note').textContent.includes('that ended')")
            await page.keyboard.press("n")
            await holds(page, "/job [0-9]+: /.test(document.querySelector('.readout').textContent)")
            await page.keyboard.press("Enter")
            await page.wait_for_selector("h2:has-text('Where it stands')")
            quick_ = await page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--quick')")
            assert quick_.strip() == "0ms"


async def test_a_head_that_dies_is_told_on_the_open_page_which_goes_on_with_the_next(chromium, tmp_path):
    with anyio.fail_after(LIMIT_S):
        address = f"unix://{tmp_path}/head.sock"
        dashboard = Dashboard(lambda: call(address))
        async with anyio.create_task_group() as tasks:
            await tasks.start(dashboard.serve)
            async with browsing(chromium) as browser:
                async with Executor(local=Cores(2), listen=address):
                    page = await browser.open(dashboard.link())
                    await page.wait_for_selector("text=0/2 cores")
                await page.wait_for_selector(".banner:has-text('The head is not there')")
                assert await page.inner_text(".top .status") == "No head"
                async with Executor(local=Cores(3), listen=address):
                    await page.wait_for_selector("text=0/3 cores")
                    await page.wait_for_selector(".banner", state="hidden")
                    assert await findings(page) == []
                dashboard.feed.closed.set()
                await page.wait_for_selector(".banner:has-text('No connection')")
            tasks.cancel_scope.cancel()


async def test_a_page_that_nobody_sees_is_sent_nothing(chromium):
    hide = (
        "state => { Object.defineProperty(document, 'hidden', {get: () => state, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), listen=None) as executor:
            dashboard = Dashboard(_viewer(executor))
            async with anyio.create_task_group() as tasks:
                await tasks.start(dashboard.serve)
                async with browsing(chromium) as browser:
                    page = await browser.open(dashboard.link())
                    await page.wait_for_selector(".status:has-text('Live')")
                    assert dashboard.feed.pages == 1
                    await page.evaluate(hide, True)
                    await until(lambda: dashboard.feed.pages == 0)
                    await page.evaluate(hide, False)
                    await until(lambda: dashboard.feed.pages == 1)
                    await page.wait_for_selector(".card")
                tasks.cancel_scope.cancel()


def _viewer(executor):
    from grainlike.dashboard import in_process

    return in_process(executor._service.connect_viewer)


async def test_of_100_000_jobs_a_page_has_few_elements_and_reaches_the_last_loaded(chromium):
    GATES.update(a=anyio.Event())
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2), dashboard=True) as executor, browsing(chromium) as browser:
            wants_ = [start((held @ Cores(1))("a")) for _ in range(100_000)]
            page = await browser.open(executor.dashboard)
            await shown(page, "/jobs")
            await page.wait_for_selector("text=100,000 have not ended")
            before = await page.evaluate("document.querySelectorAll('*').length")
            for turn in range(1, 11):
                await page.evaluate("document.querySelector('main').scrollTop = 1e9")
                await holds(page, f"document.querySelector('.tb').offsetHeight >= 32 * 200 * {turn + 1}")
            text = await page.inner_text(".tb .tr:last-child")
            assert int(text.split()[0]) > 1_900
            assert await page.evaluate("document.querySelectorAll('*').length") < before + 400
            await page.fill("input[type=search]", "nobody")
            await page.wait_for_selector("text=No such jobs")
            await shown(page, "/queue")
            assert "99,99" in await page.inner_text(".tb .tr")
            assert browser.said == []
            GATES["a"].set()
            del wants_


async def test_a_list_that_is_read_on_while_it_is_asked_anew_has_each_job_once(chromium):
    GATES.update(a=anyio.Event())
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2), dashboard=True) as executor, browsing(chromium) as browser:
            wants_ = [start((held @ Cores(1))("a")) for _ in range(1000)]
            page = await browser.open(executor.dashboard)
            await shown(page, "/jobs")
            asked, answered = [], anyio.Event()

            async def later(route):
                asked.append(route.request)
                await answered.wait()
                await route.continue_()

            await page.route("**/api/jobs?*", later)
            await until(lambda: asked)
            assert asked[0].url.endswith("after=0")  # from the beginning, as again and again at the top
            await page.evaluate("document.querySelector('main').scrollTop = 1e9")
            await until(lambda: len(asked) == 2)  # the next page of it
            answered.set()
            for request in asked:
                await request.response()
            for turn in range(1, 4):
                await page.evaluate("document.querySelector('main').scrollTop = 1e9")
                await holds(page, f"document.querySelector('.tb').offsetHeight >= 32 * 200 * {turn + 1}")
            place_and_job = "row => [row.ariaRowIndex, row.firstElementChild.innerText]"
            placed = await page.evaluate(f"[...document.querySelectorAll('.tb .tr')].map({place_and_job})")
            assert [place for place, _ in placed] == [job for _, job in placed]
            assert browser.said == []
            GATES["a"].set()
            del wants_


async def test_thousands_of_slots_are_one_canvas_with_keys_and_words(chromium):
    with anyio.fail_after(LIMIT_S):
        GATES.update(a=anyio.Event())
        offer = grainlike.parse("cores=[" + ",".join(map(str, range(4800))) + "]")
        async with Executor(local=offer, dashboard=True) as executor, browsing(chromium) as browser:
            wants_ = [start((held @ Cores(16))("a")) for _ in range(200)]
            page = await browser.open(executor.dashboard)
            await page.wait_for_selector(".map canvas[aria-label^='3,200 of 4,800 slots of 1 worker']")
            assert await page.evaluate("document.querySelectorAll('*').length") < 300
            await page.focus(".map canvas")
            for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
                await page.keyboard.press(key)
            told = re.fullmatch(r"core 17 of local: held, job ([0-9]+)", await page.inner_text(".readout"))
            assert told is not None
            await page.keyboard.press("Enter")
            await page.wait_for_selector(f".head .note:has-text('job {told[1]}')")
            assert browser.said == []
            GATES["a"].set()
            del wants_
