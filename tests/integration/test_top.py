"""`grainlike top`, driven as by a person: in textual's pilot at two sizes, and at a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from limits import LIMIT_S
from terminals import Ended, at_terminal
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Log
from waiting import until

from grainlike import Cores, Executor, GPUs, cancel, delayed, gather, start, wait
from grainlike.cli import main
from grainlike.cli._past import ended_words
from grainlike.cli._words import amounts, escaped, moment_text, seconds
from grainlike.client import RefusedQueryError
from grainlike.errors import HeadLostError
from grainlike.jobs import LogLine
from grainlike.live import LiveState
from grainlike.top import Texts, TopApp
from grainlike.top._app import _HELP
from grainlike.top._core_map import CoreMap
from grainlike.top._job_screen import TAIL, JobScreen
from grainlike.top._lists import JobList
from grainlike.top._marks import _COLOURS, Marks
from grainlike.top._tables import MOST_ROWS, Table, functions, running
from grainlike.wire import EndedJob, JobIs, LiveIs, RunningRow, Totals, WorkerRow

HERE = "tcp://127.0.0.1:0"
TEXTS = Texts(escaped, amounts, seconds, moment_text, ended_words)
SIZES = [(80, 24), (200, 60)]
LINES = TAIL + 500
"""Lines that a noisy job prints: more than a screen keeps, and less than its worker does."""


@pytest.fixture(autouse=True)
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@delayed
async def fit() -> None:
    await anyio.sleep_forever()


@delayed
async def train() -> None:
    await anyio.sleep_forever()


@delayed
def noisy() -> None:
    for number in range(LINES):
        print(f"[bold]line[/bold] \x1b[31m{number}\x1b[0m")
    raise ValueError("[bold]out of luck[/bold]")


@asynccontextmanager
async def cluster() -> AsyncIterator[Executor]:
    """A head with one worker of eight cores, on which three jobs run and others wait."""
    async with Executor(local=Cores(8) & GPUs(2), listen=HERE, on_failure="continue") as executor:
        waits_ = gather(
            [
                (fit @ Cores(4))(),
                (train @ (Cores(1) & GPUs(1)))(),
                (train @ Cores(1))(),
                *((fit @ Cores(4))() for _ in range(1500)),
                (train @ Cores(64))(),
            ]
        )
        start(waits_)
        yield executor
        cancel(waits_)


def screen(app: App[None]) -> str:
    """What is on the screen, as text."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


async def shown(pilot: Pilot[None], *texts: str) -> str:
    """The screen once all of these stand on it."""

    async def there() -> str:
        await pilot.pause()
        now = screen(pilot.app)
        return now if all(text in now for text in texts) else ""

    try:
        return await until(there)
    except TimeoutError:
        raise AssertionError(f"no {texts} on\n{screen(pilot.app)}") from None


def top(**settings: float) -> TopApp:
    return TopApp(None, TEXTS, **{"every_s": 0.1, **settings})


@pytest.mark.asyncio
async def test_on_a_small_terminal_each_part_has_its_key() -> None:
    async with asyncio.timeout(LIMIT_S), cluster():
        app = top()
        async with app.run_test(size=SIZES[0]) as pilot:
            now = await shown(pilot, "ffff", "cores=", "3 running", "1,501 queued")
            assert now.splitlines()[1].startswith("0 failed, 0 done  ")
            assert all(part in now for part in ("head tcp://127.0.0.1:", "workers 1", "1,501 queued", "2 · running"))
            assert all(word in now for word in ("Filter", "Pause", "Help", "Quit"))
            assert "3 · waiting" not in now
            [line] = [line for line in now.splitlines() if "local" in line and "|" in line]
            cells = line.split("local")[1].strip(" │")
            assert sorted(cells) == sorted("ffff" + "tt" + ".." + "|" + "t" + ".")
            assert len(now.splitlines()) == 24
            await pilot.press("3")
            now = await shown(pilot, "3 · waiting, and why", "never")
            assert "1,500  fit    cores=4   room" in now
            assert "2 · running" not in now
            await pilot.press("4")
            now = await shown(pilot, "function  running")
            assert "t  train           2     0       0" in now
            await pilot.press("question_mark")
            now = await shown(pilot, "Esc closes this.")
            assert all(line in now for line in _HELP.splitlines()), "none is cut"
            assert now.count("─╮") == now.count("─╯") == 3, "of the map, the list, and the help"
            await pilot.press("escape", "slash", *"tra", "enter")
            now = await shown(pilot, "filter: tra", "~~~~")
            assert "ffff" not in now
            await pilot.press("2", "p", "m")
            assert "paused" in await shown(pilot, "paused; p goes on")
            await pilot.press("p")
            await shown(pilot, "1 · workers", "workers          t")  # a cell is a worker now
            await pilot.press("q")
        assert app.failure is None


@pytest.mark.asyncio
async def test_bytes_of_large_values_stand_in_the_head_while_there_are_any() -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), listen=HERE):
        app = top()
        async with app.run_test(size=SIZES[1]) as pilot:
            now = await shown(pilot, "workers 1")
            assert "stored" not in now
            large_ = (delayed(bytes) @ Cores(1))(5 * 2**20)
            await wait(large_)
            now = await shown(pilot, "stored 5")
            assert "on disk" not in now.splitlines()[0]


@pytest.mark.asyncio
async def test_on_a_large_terminal_all_is_in_sight_and_a_job_is_opened() -> None:
    async with asyncio.timeout(LIMIT_S), cluster():
        with pytest.raises(ValueError, match="luck"):
            await (noisy @ Cores(1))()
        app = top()
        async with app.run_test(size=SIZES[1]) as pilot:
            titles = "1 · cores", "2 · running", "3 · waiting, and why", "4 · functions", "5 · failures"
            now = await shown(pilot, *titles, "ValueError: [bold]out of luck[/bold]", "1 failed, 0 done")
            assert len(now.splitlines()) == 60
            await pilot.press("5", "enter")
            last = f"[bold]line[/bold] {LINES - 1}"
            now = await shown(
                pilot, "noisy: failed in attempt 1", "asked for: cores=1", "log, the last 2,000 lines", last
            )
            assert "[bold]out of luck[/bold]" in now
            log = app.screen.query_one(Log)
            assert log.line_count <= TAIL + 1
            assert not any("\x1b" in line for line in log.lines)
            await pilot.resize_terminal(SIZES[1][0], SIZES[1][1] // 2)
            await shown(pilot, last)  # its end, although nothing more is written
            await pilot.resize_terminal(*SIZES[1])
            await pilot.press("1")  # of the screen below: nothing here
            await pilot.press("escape")
            await shown(pilot, *titles)
            await pilot.press("2", "end", "enter")
            await shown(pilot, "runs on local, attempt 1")


@pytest.mark.asyncio
async def test_a_head_that_dies_is_told_of_and_another_found() -> None:
    async with asyncio.timeout(LIMIT_S):
        app = top()
        async with cluster():
            pilots = app.run_test(size=SIZES[0])
            pilot = await pilots.__aenter__()
            await shown(pilot, "3 running")
            port = app._peer
        now = await shown(pilot, "no head, waiting until it is there again")
        assert "workers 1" in now  # as it was
        async with cluster():
            await until(lambda: app._peer != port)
            now = await shown(pilot, "3 running", app._peer)
            assert "no head" not in now
            await pilots.__aexit__(None, None, None)
        assert app.failure is None


async def at_top(*arguments: str, **settings: object) -> Ended:
    argv = [sys.executable, "-m", "grainlike", "top", *arguments]
    return await anyio.to_thread.run_sync(partial(at_terminal, argv, **settings))


@pytest.mark.asyncio
@pytest.mark.parametrize(("size", "plain"), [(SIZES[0], False), (SIZES[0], True), (SIZES[1], False)])
async def test_at_a_terminal(size: tuple[int, int], plain: bool) -> None:
    environment = {"COLORTERM": "truecolor", "TERM": "xterm-256color", **({"NO_COLOR": "1"} if plain else {})}
    async with asyncio.timeout(LIMIT_S), cluster():
        ended = await at_top(
            columns=size[0],
            rows=size[1],
            steps=[("3 running", "3"), (("1,500  fit", "ffff"), "q")],
            environment=environment,
        )
    assert ended.code == 0
    assert not ended.cursor_hidden
    assert "ffff" in "\n".join(ended.screens[1])
    assert ended.written.rindex("\x1b[?1049l") > ended.written.rindex("\x1b[?1049h")
    inks = [";".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5)) for colour in _COLOURS]
    assert any(ink in ended.written for ink in inks) is not plain


@pytest.mark.asyncio
async def test_at_a_terminal_it_is_drawn_where_its_errors_go_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "errors").open("wb") as errors:
        async with asyncio.timeout(LIMIT_S), cluster():
            steps = [(("3 running", "ffff"), "q")]
            ended = await at_top(columns=80, rows=24, steps=steps, stderr=errors.fileno())
        assert ended.code == 0
        assert "ffff" in "\n".join(ended.screens[0])
        ended = await at_top(stderr=errors.fileno())
    assert ended.code == 3
    assert "no head is running here" in (tmp_path / "errors").read_text()
    assert "\x1b" not in (tmp_path / "errors").read_text()


def at_a_terminal_that_goes() -> int:
    """Start it at a terminal that is no controlling one, so that nobody sends SIGHUP; return its exit code."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "grainlike", "top"]
    program = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    with program:
        try:
            written = b""
            while b"running" not in written:
                written += os.read(ours, 65536)
            os.close(ours)
            return program.wait(LIMIT_S)
        finally:
            program.kill()


@pytest.mark.asyncio
async def test_it_ends_with_its_terminal() -> None:
    async with asyncio.timeout(LIMIT_S), cluster():
        assert await anyio.to_thread.run_sync(at_a_terminal_that_goes) == 0


@pytest.mark.asyncio
async def test_without_a_head_it_says_so_and_ends() -> None:
    ended = await at_top()
    assert ended.code == 3
    assert "no head is running here" in " ".join(ended.lines)


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert main(["top"]) == 2
    assert capsys.readouterr().err == "grainlike: top needs textual: pip install 'grainlike[top]'\n"


def test_into_a_pipe_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 2
    assert "top needs a terminal" in capsys.readouterr().err


# --- many workers ----------------------------------------------------------------------------------------------------

WORKERS, CORES = 300, 64


def many() -> LiveState:
    """A head with 300 workers of 64 cores, all of them busy."""
    workers = [
        WorkerRow(
            f"cpu-{number}.0",
            f"cores=[{','.join(map(str, range(CORES)))}]",
            [],
            1,
            CORES,
            0,
            0.0,
            block=f"cpu-{number}",
        )
        for number in range(WORKERS)
    ]
    jobs = [
        RunningRow(
            number + 1, workers[number // CORES].name, f"cores=[{number % CORES}]", f"f{number % 70}", 1, 1.0, 1, ""
        )
        for number in range(WORKERS * CORES)
    ]
    totals = Totals(succeeded=0, failed=0, skipped=0, timed_out=0, cancelled=0, total_seconds=0.0, run_seconds=0.0)
    state = LiveState()
    figures = {"queued": 100_000, "running": len(jobs)}
    state.take(LiveIs(1, 5.0, 5.0, True, False, figures, totals, 1, workers, [], jobs, ([], [])))
    return state


class Parts(App[None]):
    """The map and a list alone."""

    CSS = "CoreMap, JobList { height: 12; }"

    def __init__(self) -> None:
        super().__init__()
        self.map = CoreMap(Marks(), escaped, id="map")
        self.list = JobList("list", id="list", classes="list")

    def compose(self):
        yield self.map
        yield self.list


@pytest.mark.asyncio
@pytest.mark.parametrize("by_worker", [True, False])
async def test_an_update_draws_what_is_in_sight_alone(by_worker: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    state = many()
    looked: list[str] = []
    slots = LiveState.slots
    monkeypatch.setattr(LiveState, "slots", lambda self, worker: looked.append(worker) or slots(self, worker))
    app = Parts()
    async with app.run_test(size=SIZES[0]) as pilot:
        before = app.map.drawn, app.list.drawn
        app.map.show(state, by_worker=by_worker, wanted=lambda name: True, legend=["f0"])
        table = running(state, 6.0, lambda name: True, TEXTS)
        app.list.show(table)
        await pilot.pause()
        assert 0 < app.map.drawn - before[0] <= 24
        assert 0 < app.list.drawn - before[1] <= 24
        assert len(set(looked)) <= 24
        assert (len(table.rows), table.more) == (MOST_ROWS, WORKERS * CORES - MOST_ROWS)
        now = screen(app)
        assert ("cpu              f" if by_worker else "cpu-0.0          f") in now


@pytest.mark.asyncio
async def test_the_job_that_is_opened_is_the_one_in_sight_whatever_comes_above_it() -> None:
    opened: list[int] = []

    class Listening(Parts):
        def on_job_list_opened(self, event: JobList.Opened) -> None:
            opened.append(event.job)

    def rows(newest: int) -> Table:
        jobs = range(newest, 0, -1)
        return Table(("job", "name"), [(str(job), "f") for job in jobs], list(jobs))

    app = Listening()
    async with app.run_test(size=SIZES[0]) as pilot:
        app.list.focus()
        app.list.show(rows(100))
        app.list.show(rows(150))
        await pilot.press("enter")
        assert opened == [150]
        await pilot.press("down", "down")
        app.list.show(rows(200))
        await pilot.pause()
        await pilot.press("enter")
        assert opened == [150, 148]
        assert app.list.scroll_offset.y <= 52 <= app.list.scroll_offset.y + app.list.size.height


class LostHead:
    """A head that was just lost: the reader of a log hears so before what follows the head does."""

    def __init__(self) -> None:
        self.client: Any = self
        self.connected = anyio.Event()
        self.connected.set()
        self.logs_asked = 0

    async def ask(self, *_: object) -> JobIs:
        raise HeadLostError("silent")

    async def logs(self, job: int, *, follow: bool) -> AsyncIterator[LogLine]:
        self.logs_asked += 1
        if self.logs_asked == 1:
            asyncio.get_running_loop().call_soon(self._forget)
        if self.logs_asked == 1000:
            raise RefusedQueryError("it is asked again and again, and nothing else has a turn")
        raise HeadLostError("silent")
        yield LogLine("", 1, "stdout")

    def _forget(self) -> None:
        self.client, self.connected = None, anyio.Event()


@pytest.mark.asyncio
async def test_a_log_whose_head_was_just_lost_lets_the_rest_have_its_turn() -> None:
    head = LostHead()
    app = App[None]()
    async with asyncio.timeout(LIMIT_S), app.run_test() as pilot:
        app.push_screen(JobScreen(7, head, 0.1, TEXTS))
        await shown(pilot, "no head; what is kept of its output follows again")
    assert head.logs_asked == 1


def test_functions_have_what_to_ask_for_next_time() -> None:
    def ended(job: int, name: str) -> EndedJob:
        request = "cores=4 memory=8589934592"
        times = 0.0, 1.0, 1.0, 700 << 20, 5.0
        return EndedJob(job, name, "succeeded", "", "n1", request, "cores=[0]", 1, 0, "", 0, *times)

    jobs = [ended(number, "fit") for number in range(5)] + [ended(9, "rare")]
    table = functions(LiveState(), jobs, Marks(), lambda name: True, TEXTS)
    found = {row[1]: row[-1] for row in table.rows}
    assert found == {"fit": "cores=1 memory=850Mi", "rare": ""}


def test_marks_have_stable_colours_and_letters_of_their_own() -> None:
    names = [f"function{number}" for number in range(62)]
    marks = Marks()
    assert len({marks.of(name).letter for name in names}) == 62
    assert marks.of("one more").letter == "?"
    assert {marks.of(name).colour for name in names[:8]} == set(_COLOURS)
    assert [marks.of(name) for name in names] == [marks.of(name) for name in names]
    assert Marks().of("function7").colour == Marks().of("function7").colour
    assert Marks().of("fit").letter == "f"
