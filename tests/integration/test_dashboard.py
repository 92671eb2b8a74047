"""Dashboard of a real head, by HTTP: what its pages are told, how it ends, and what it says where it cannot begin."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import anyio
import httpx
import pytest
from descriptors import without_descriptors
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Executor, Limit, ThreadBackend, delayed, gather, run, start
from grainlike.client import call
from grainlike.dashboard import Dashboard, _app, _connections

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[pytest.param(("asyncio", {}), id="asyncio")])
def anyio_backend(request):
    return request.param


GATES: dict[str, anyio.Event] = {}


@delayed
async def held(name):
    print(f"<b>{name}</b> & co")
    await GATES[name].wait()
    return name


@delayed
async def bad():
    raise ValueError("unlucky <script>alert(1)</script>")


@delayed
async def parent():
    await (held @ Cores(1))("child")


@asynccontextmanager
async def opened(executor_or_dashboard):
    """A browser that has opened the dashboard's link."""
    link = getattr(executor_or_dashboard, "dashboard", None) or executor_or_dashboard.link()
    async with httpx.AsyncClient(follow_redirects=True, timeout=LIMIT_S) as browser:
        answer = await browser.get(link)
        assert answer.status_code == 200
        browser.base_url = answer.url.copy_with(path="/", query=None)
        yield browser


@asynccontextmanager
async def live(browser, query=""):
    """The updates of a page."""
    async with browser.stream("GET", f"/api/live?{query}") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")

        async def updates():
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

        yield updates()


async def first(updates, right):
    async for told in updates:
        if right(told):
            return told
    raise AssertionError("the updates ended")


async def answer(browser, path):
    found = await browser.get(path)
    assert found.status_code == 200, found.text
    return found.json()


async def test_a_page_is_told_who_runs_on_which_core_and_is_sent_what_it_asks_for():
    GATES.update(a=anyio.Event(), b=anyio.Event())
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2), dashboard=True) as executor, opened(executor) as browser:
            assert executor.dashboard != executor.dashboard
            page = (await browser.get("/queue")).text
            assert '<script type="module" src="/static/main.js">' in page
            calls = [(held @ Cores(1))("a"), (held @ Cores(1))("b"), (held @ (Cores(1) & Limit("db", 2)))("a")]
            start(gather(calls))
            async with live(browser, "topic=slots") as updates:
                told = await first(updates, lambda told: any(part for *_, part in told.get("c", ())))
                assert told["f"] == [[0, "held"]]
                [[worker, kind, place, part]] = told["c"]
                assert (worker, kind, place) == (told["w"][0][0], 0, 0)
                assert [[at, many, fn] for at, many, fn, _, _ in part] == [[0, 1, 0], [1, 1, 0]]
                assert told["w"][0][1] == "local"
                bars = (await answer(browser, "/api/timeline"))["bars"]
                assert [(bar[2], bar[6]) for bar in bars] == [([[0, 1]], -1), ([[1, 1]], -1)]
            async with live(browser) as updates:
                told = await first(updates, lambda told: "figures" in told)
                assert told["figures"]["cores"] == [2, 2]
                assert told["figures"]["jobs"] == {"queued": 1, "running": 2}
                assert "c" not in told
            async with live(browser, "topic=queue") as updates:
                doc = (await first(updates, lambda told: "doc" in told))["doc"]
                assert [(row["name"], row["count"], row["reason"]) for row in doc["rows"]] == [("held", 1, "room")]
            async with live(browser, "topic=limits") as updates:
                [row] = (await first(updates, lambda told: "doc" in told))["doc"]["rows"]
                assert (row["kind"], row["name"], row["most"], row["waiting"]) == ("limit", "db", 2, 1)
            async with live(browser, "topic=pools") as updates:
                doc = (await first(updates, lambda told: "doc" in told))["doc"]
                assert doc.get("pools") == [] or "error" in doc
            rows = (await answer(browser, "/api/jobs?name=eld"))["rows"]
            assert [row["state"] for row in rows] == ["running", "running", "queued"]
            assert (await answer(browser, "/api/jobs?state=queued"))["rows"][0]["request"] == "cores=1 limit:db=2"
            assert (await answer(browser, "/api/jobs?name=no*"))["rows"] == []
            page = await answer(browser, "/api/jobs?most=2")
            rest = await answer(browser, f"/api/jobs?most=2&after={page['next']}")
            assert [row["job"] for row in page["rows"] + rest["rows"]] == [1, 2, 3]
            head = await answer(browser, "/api/head")
            assert (head["cluster"], head["pid"]) == ("embedded", os.getpid())
            GATES["a"].set()
            GATES["b"].set()


@delayed(retries=1)
async def again(path):
    if not path.exists():
        path.touch()
        raise ValueError("once")


async def test_a_timeline_ends_after_its_attempts_which_have_numbers(tmp_path):
    """Also where no update has come yet, for which a page must be open."""
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor, opened(executor) as browser:
            await (again @ Cores(1))(tmp_path / "tried")
            line = await answer(browser, "/api/timeline")
            assert [(line["outcomes"][bar[6]], bar[7], bar[8]) for bar in line["bars"]] == [
                ("failed", 1, 1),
                ("succeeded", 1, 2),
            ]
            assert all(ago >= ran - 0.001 for *_, ago, ran, _, _, _ in line["bars"]), line


async def test_one_job_has_its_parent_its_children_its_attempts_and_its_log(tmp_path):
    GATES.update(child=anyio.Event())
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2), dashboard=True) as executor, opened(executor) as browser:
            waits_ = start((parent @ Cores(1))())
            rows = await until(lambda: _rows(browser, "/api/jobs", 2))
            assert [(row["job"], row["parent"]) for row in rows] == [(1, 0), (2, 1)]
            one = await answer(browser, "/api/job/1?family=1")
            assert (one["explain"]["name"], one["parent"]) == ("parent", None)
            assert [child["job"] for child in one["children"]] == [2]
            two = await answer(browser, "/api/job/2?family=1")
            assert (two["parent"]["name"], two["children"], two["row"]["state"]) == ("parent", [], "running")
            async with live(browser, "topic=log&job=2") as updates:
                told = await first(updates, lambda told: told.get("lines"))
                assert told["lines"] == [["<b>child</b> & co", 1, "stdout"]]
                GATES["child"].set()
                assert await first(updates, lambda told: told.get("end"))
            await waits_
            with pytest.raises(ValueError, match="unlucky"):
                await (bad @ Cores(1))()
            rows = await until(lambda: _rows(browser, "/api/history", 3))
            assert (rows[0]["name"], rows[0]["outcome"]) == ("bad", "failed")
            assert [row["name"] for row in (await answer(browser, "/api/history?outcome=failed"))["rows"]] == ["bad"]
            one = await answer(browser, "/api/job/1?family=1")
            assert (one["ended"]["outcome"], [child["job"] for child in one["children"]]) == ("succeeded", [2])
            assert "<script>" in (await answer(browser, "/api/job/3"))["ended"]["error"]
            found = await answer(browser, "/api/failures?error=UNLUCKY&worker=loc&name=bad")
            assert [(row["jobs"], row["name"], row["worker"], row["latest"]) for row in found["rows"]] == [
                (1, "bad", "local", 3)
            ]
            assert (found["jobs"], found["more"]) == (1, False)
            assert (await answer(browser, "/api/failures?worker=else"))["rows"] == []
            assert (await answer(browser, "/api/history?worker=else"))["rows"] == []
            assert one["ended"]["receipt"]["memory_tier"] in ("none", "watchdog", "cgroup")
            assert (await answer(browser, "/api/history"))["rows"][0]["receipt"] is None, "lists are short"
            await (again @ Cores(1))(tmp_path / "tried")
            [tried] = (await answer(browser, "/api/job/4"))["earlier"]
            assert (tried["attempt"], tried["worker"], tried["error"]) == (1, "local", "ValueError: once")
            use = await answer(browser, "/api/usage?name=bad")
            assert [(row["name"], row["asked"], row["outcomes"]) for row in use["rows"]] == [
                ("bad", "cores=1", {"failed": 1})
            ]
            line = await answer(browser, "/api/timeline")
            bars = [(line["names"][str(bar[1])], bar[2], line["outcomes"][bar[6]]) for bar in line["bars"]]
            assert sorted((name, outcome) for name, _, outcome in bars) == [
                *(
                    ("again", "failed"),
                    ("again", "succeeded"),
                    ("bad", "failed"),
                    ("held", "succeeded"),
                    ("parent", "succeeded"),
                )
            ]
            assert all(len(cores) == 1 for _, cores, _ in bars)
            assert (await answer(browser, "/api/timeline?since=99999999999"))["bars"] == []
            trace = await browser.get("/api/trace.json")
            assert "attachment" in trace.headers["content-disposition"]
            drawn = [event["name"] for event in trace.json()["traceEvents"] if event["ph"] == "X"]
            assert sorted(drawn) == ["again", "bad", "held", "parent"]


async def _rows(browser, path, least):
    rows = (await answer(browser, path))["rows"]
    return rows if len(rows) >= least else None


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/job/77", 404, "there is no job 77 yet"),
        ("/api/jobs?after=-1", 400, "no whole number"),
        ("/api/jobs?most=1e3", 400, "no whole number"),
        ("/api/history?outcome=lucky", 400, "outcomes are"),
        ("/api/timeline?since=nan", 400, "no time"),
        ("/api/job/99999999999999999999", 400, "no number of a job"),
        ("/api/live?topic=secrets", 400, "no such topic"),
        ("/api/live?topic=log&job=x", 400, "no such topic"),
        ("/static/../_access_control.py", 404, "no such page"),
        ("/static/%2e%2e/_access_control.py", 404, "no such page"),
        ("/nowhere", 404, "no such page"),
    ],
)
async def test_what_makes_no_sense_is_answered_with_the_reason(path, status, words):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor, opened(executor) as browser:
            found = await browser.get(path)
            assert (found.status_code, words in found.text) == (status, True), found.text


async def test_a_head_that_dies_under_an_open_page_is_told_and_so_is_the_next_one(tmp_path):
    with anyio.fail_after(LIMIT_S):
        address = f"unix://{tmp_path}/head.sock"
        dashboard = Dashboard(lambda: call(address))
        async with anyio.create_task_group() as tasks:
            await tasks.start(dashboard.serve)
            async with opened(dashboard) as browser, live(browser, "topic=slots") as updates:
                async with Executor(local=Cores(1), listen=address):
                    told = await first(updates, lambda told: "w" in told)
                    assert told["w"][0][1] == "local"
                lost = await first(updates, lambda told: told.get("lost"))
                assert "it has closed" in lost["lost"] or "gone" in lost["lost"]
                assert (await browser.get("/api/jobs")).status_code == 503
                async with live(browser, "topic=log&job=1") as log, Executor(local=Cores(2), listen=address):
                    told = await first(updates, lambda told: "w" in told)
                    assert told["anew"] is True
                    assert told["w"][0][8] == [[0, 2]]
                    told = await first(log, lambda told: told.get("end"))
                    assert told["begin"] is True
                    assert told["lines"][0][0].startswith("[there is no job 1 yet")
            tasks.cancel_scope.cancel()


async def test_leaving_the_executor_ends_open_pages_at_once():
    with anyio.fail_after(LIMIT_S):
        executor = await Executor(local=Cores(1), dashboard=True).__aenter__()
        async with opened(executor) as browser, live(browser) as updates:
            await anext(updates)
            await executor.__aexit__(None, None, None)
            assert all([isinstance(told, dict) async for told in updates])
            with pytest.raises(httpx.ConnectError):
                await browser.get("/")


async def test_a_port_in_use_is_an_oserror():
    with anyio.fail_after(LIMIT_S), socket.create_server(("127.0.0.1", 0)) as taken:
        executor = Executor(local=Cores(1), dashboard=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(OSError, match="in use"):
            await executor.__aenter__()


def test_on_trio_it_says_what_to_do_instead():
    async def main():
        raise AssertionError("it opened")

    with pytest.raises(RuntimeError, match="grainlike dashboard"):
        run(main, local=Cores(1), dashboard=True, backend="trio")


def test_run_logs_the_link(caplog):
    async def main():
        return None

    with caplog.at_level(logging.WARNING, "grainlike"):
        run(main, local=Cores(1), dashboard="127.0.0.1:0")
    assert re.search(r"dashboard: http://127\.0\.0\.1:\d+/\?token=\S{40,}", caplog.text)


@pytest.mark.filterwarnings("ignore:an executor was never opened:RuntimeWarning")
def test_what_dashboard_may_be():
    with pytest.raises(TypeError, match="an address such as"):
        Executor(dashboard=8787)
    with pytest.raises(ValueError, match="HOST:PORT"):
        Executor(dashboard="here")
    with pytest.raises(ValueError, match="leave out dashboard="):
        Executor(backend=ThreadBackend(1), dashboard=True)
    assert Executor(local=Cores(1)).dashboard is None


def grainlike_(*arguments, without=(), **options):
    missing = "".join(f"sys.modules[{name!r}] = None; " for name in without)
    program = f"import sys; {missing}from grainlike.cli import main; sys.exit(main({list(arguments)!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_without_its_packages_commands_and_executors_say_what_to_install():
    command = grainlike_("dashboard", without=["uvicorn"])
    _, said = command.communicate(timeout=LIMIT_S)
    assert (command.returncode, "pip install 'grainlike[dashboard]'" in said) == (2, True)
    program = "import sys; sys.modules['starlette'] = None; from grainlike import Executor; Executor(dashboard=True)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "ImportError: the dashboard needs more packages: pip install 'grainlike[dashboard]'" in done.stderr


def test_a_command_line_that_cannot_begin_says_why(tmp_path):
    nobody = grainlike_("dashboard", "--no-open", "--head", f"unix://{tmp_path}/nobody.sock")
    wrong = grainlike_("dashboard", "--listen", "nowhere")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        busy = grainlike_("head", "start", "--listen", f"unix://{tmp_path}/h.sock", "--dashboard", at)
        assert (busy.communicate(timeout=LIMIT_S)[1], busy.returncode)[1] == 3
    assert (nobody.communicate(timeout=LIMIT_S)[1] != "", nobody.returncode) == (True, 3)
    assert ("HOST:PORT" in wrong.communicate(timeout=LIMIT_S)[1], wrong.returncode) == (True, 2)


async def test_the_command_and_a_head_of_its_own_print_links_that_open_their_pages(tmp_path):
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    address = f"unix://{tmp_path}/h.sock"
    head = grainlike_("head", "start", "--listen", address, "--dashboard", "127.0.0.1:0", env=environment)
    said = head.stdout.readline()
    keyboard, terminal = os.openpty()
    beside = grainlike_("dashboard", "--head", address, "--no-open", env=environment, stdin=terminal)
    link = beside.stdout.readline().removeprefix("dashboard: ").strip()
    assert "Enter prints another link" in beside.stdout.readline()
    os.write(keyboard, b"\n")
    another = beside.stdout.readline().removeprefix("dashboard: ").strip()
    try:
        with anyio.fail_after(LIMIT_S):
            async with httpx.AsyncClient(follow_redirects=True) as browser:
                for one in (said.rpartition("dashboard: ")[2].strip(), link, another):
                    page = await browser.get(one)
                    assert page.status_code == 200
                    head_is = (await browser.get(page.url.join("/api/head"))).json()
                    assert head_is["pid"] == head.pid
                    assert (await browser.get(one)).status_code == 403
    finally:
        beside.send_signal(signal.SIGINT)
        assert beside.wait(LIMIT_S) == 130
        head.send_signal(signal.SIGINT)
        assert head.wait(LIMIT_S) == 0
        logged = head.stderr.read()
        assert "server process" not in logged
        assert "Uvicorn" not in logged
        for process in (beside, head):
            process.stdout.close()
            process.stderr.close()
        os.close(keyboard)
        os.close(terminal)


async def test_who_only_looks_does_not_keep_a_head_that_runs_once(tmp_path):
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    address = f"unix://{tmp_path}/h.sock"
    arguments = ["head", "start", "--run-once", "--listen", address, "--dashboard", "127.0.0.1:0"]
    head = grainlike_(*arguments, env=environment)
    assert "dashboard: " in head.stdout.readline()
    program = grainlike_("submit", "--head", address, "-r", "cores=1", "--", "true", env=environment)
    worker = grainlike_("worker", "start", "--head", address, "--resources", "cores=1", env=environment)
    assert program.wait(LIMIT_S) == 0
    assert head.wait(LIMIT_S) == 0
    assert worker.wait(LIMIT_S) == 0
    for process in (program, head, worker):
        process.stdout.close()
        process.stderr.close()


async def test_out_of_descriptors_jobs_go_on_and_the_log_is_not_flooded():
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["message"]))
    GATES["c"] = anyio.Event()
    GATES["c"].set()
    with socket.socket() as waiting:
        async with Executor(local=Cores(1), dashboard=True) as executor:
            port = httpx.URL(executor.dashboard).port
            with without_descriptors():
                waiting.connect(("127.0.0.1", port))
                await until(lambda: said)
            assert await (held @ Cores(1))("c") == "c"
    # Some versions of asyncio log one for each connection that might wait in the kernel.
    assert len([message for message in said if "out of system resource" in message]) <= 32


# --- strangers -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def strangers(port, count):
    """Connections of somebody without a link, as pairs of a reader and a writer."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


async def are_closed(connections):
    for reader, _ in connections:
        with suppress(ConnectionError):
            assert await reader.read() == b""


async def test_strangers_hold_few_connections_and_keep_nobody_out(monkeypatch):
    monkeypatch.setattr(_connections, "MOST_CONNECTIONS", 4)
    with anyio.fail_after(LIMIT_S):
        async with (
            Executor(local=Cores(1), dashboard=True) as executor,
            opened(executor) as browser,
            live(browser) as updates,
            strangers(browser.base_url.port, 6) as idle,
        ):
            assert await first(updates, lambda told: "figures" in told)
            await are_closed(idle[:3])
            assert (await answer(browser, "/api/head"))["pid"] == os.getpid()
            idle[-1][1].write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert await idle[-1][0].readline() == b"HTTP/1.1 403 Forbidden\r\n"
            GATES["c"] = anyio.Event()
            start((held @ Cores(1))("c"))
            assert await first(updates, lambda told: told.get("figures", {}).get("jobs") == {"running": 1})
            GATES["c"].set()


async def test_where_all_connections_are_in_use_another_is_refused(monkeypatch):
    monkeypatch.setattr(_connections, "MOST_CONNECTIONS", 2)
    with anyio.fail_after(LIMIT_S):
        async with (
            Executor(local=Cores(1), dashboard=True) as executor,
            opened(executor) as browser,
            live(browser) as one,
            live(browser) as other,
        ):
            for updates in (one, other):
                assert await first(updates, lambda told: "figures" in told)
            async with strangers(browser.base_url.port, 1) as refused:
                await are_closed(refused)


async def test_a_connection_that_asks_for_nothing_whole_is_closed(monkeypatch):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor:
            monkeypatch.setattr(_connections, "IDLE_S", 0.01)
            async with strangers(httpx.URL(executor.dashboard).port, 2) as idle:
                idle[1][1].write(b"GET / HTTP/1.1\r\nHost: ")
                await are_closed(idle)


async def test_no_more_pages_than_may_be_are_followed(monkeypatch):
    monkeypatch.setattr(_app, "_MOST_PAGES", 2)
    with anyio.fail_after(LIMIT_S):
        async with (
            Executor(local=Cores(1), dashboard=True) as executor,
            opened(executor) as browser,
            live(browser) as one,
            live(browser) as other,
        ):
            for updates in (one, other):
                assert await first(updates, lambda told: "figures" in told)
            refused = await browser.get("/api/live")
            assert (refused.status_code, refused.text) == (503, "2 pages are open already.")


async def test_what_strangers_send_is_not_logged_and_other_servers_log_as_before(caplog):
    caplog.set_level(logging.INFO)
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1), dashboard=True) as executor:
            async with strangers(httpx.URL(executor.dashboard).port, 1) as [(reader, writer)]:
                writer.write(b"no request\r\n\r\n")
                assert await reader.readline() == b"HTTP/1.1 400 Bad Request\r\n"
            logging.getLogger("uvicorn.error").info("of another server")
    assert [record.message for record in caplog.records if record.name.startswith("uvicorn")] == ["of another server"]
