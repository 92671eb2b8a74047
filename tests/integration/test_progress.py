"""Progress as it is seen: on a terminal, in a notebook, as lines, or not at all; and that its counts are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from limits import LIMIT_S
from plain_calls import fail, square
from terminals import Ended, at_terminal
from waiting import until

from grainlike import Cores, Dag, Executor, Partition, ThreadBackend, amap, cancel, connect, delayed, gather, progress
from grainlike import start as start_call
from grainlike.executor import ConnectedExecutor, _progress
from grainlike.executor._displays import Display
from grainlike.observe import CallCounts, FunctionProgress

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.anyio


@delayed
async def add(*values: int) -> int:
    return sum(values)


_gates: dict[int, anyio.Event] = {}


@delayed
async def pass_gate(number: int) -> int:
    await _gates[0].wait()
    return number


class Kept(Display):
    """A display that keeps what it is shown."""

    every_s = 0.001

    def __init__(self) -> None:
        self.shown: list[dict[str, CallCounts]] = []
        self.closed = False

    def show(self, rows: Sequence[FunctionProgress]) -> None:
        self.shown.append({row.name: row.counts for row in rows})

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    display = Kept()
    monkeypatch.setattr(_progress, "display_here", lambda _: display)
    return display


# --- counts ----------------------------------------------------------------------------------------------------------


async def test_jobs_and_calls_in_this_process_are_counted_by_name(kept: Kept) -> None:
    async with Executor(local=Cores([0])):
        async with progress():
            squares = [(square @ Cores(1))(x) for x in range(20)]
            assert await add(*squares, square(3)) == 2470 + 9
        assert kept.closed
        await square(4)
    assert kept.shown[-1] == {"square": CallCounts(21, 0, 21), "add": CallCounts(1, 0, 1)}
    for shown in kept.shown:
        assert all(count.known == kept.shown[-1][name].known for name, count in shown.items())


async def test_what_nobody_awaits_is_counted_as_it_stands(kept: Kept) -> None:
    never = anyio.Event()

    @delayed
    async def wait() -> None:
        await never.wait()

    async with Executor(local=Cores([0])):
        with progress():
            waits_ = start_call(wait())
            sum_ = start_call(add(waits_, 1))
            await until(lambda: kept.shown and kept.shown[-1].get("wait", CallCounts()).running == 1)
            assert kept.shown[-1] == {"wait": CallCounts(1, 1), "add": CallCounts(1)}
            cancel(waits_)
        assert kept.shown[-1]["wait"] == CallCounts(1, 0, 0, 0, 1)
        with pytest.raises(Exception, match="cancelled"):
            await sum_


async def test_failures_and_second_attempts_are_told_apart(kept: Kept, tmp_path: Path) -> None:
    tried = str(tmp_path / "tried")

    @delayed(retries=1)
    def fail_once() -> None:
        if not Path(tried).exists():
            Path(tried).touch()
            raise ValueError("the first time")

    async with Executor(local=Cores([0]), on_failure="continue"):
        calls_ = gather((fail_once @ Cores(1))(), (fail @ Cores(1))())
        with pytest.raises(ValueError, match="on purpose"), progress():
            await calls_
    assert kept.closed
    assert kept.shown[-1] == {"fail_once": CallCounts(1, 0, 1), "fail": CallCounts(1, 0, 0, 1)}


async def test_named_calls_that_had_begun_are_counted_also_those_of_an_earlier_program(kept: Kept) -> None:
    gate = _gates[0] = anyio.Event()
    with anyio.fail_after(LIMIT_S):
        async with Executor(listen="tcp://127.0.0.1:0", local=Cores(2)) as head:
            async with connect(head.address, session="sweep") as ex:
                first_ = ex.name("first", (pass_gate @ Cores(1))(1))
                ended_ = ex.name("ended", (square @ Cores(1))(3))
                assert await ended_ == 9
                with progress():
                    await until(lambda: kept.shown)
            assert set(kept.shown[-1]) == {"pass_gate"}
            kept.shown.clear()
            async with connect(head.address, session="sweep") as ex, progress():
                r_ = ex.name("first", first_, exist_ok=True)
                second_ = ex.name("second", (pass_gate @ Cores(1))(2))
                await until(lambda: kept.shown and kept.shown[-1]["pass_gate"].known == 2)
                gate.set()
                assert [await r_, await second_] == [1, 2]
            assert kept.shown[-1]["pass_gate"] == CallCounts(2, 0, 2)


async def test_named_calls_that_had_ended_are_counted_once_the_program_takes_them(kept: Kept) -> None:
    def calls(ex: ConnectedExecutor, numbers: range) -> list[Any]:
        return [ex.name(f"square {x}", (square @ Cores(1))(x), exist_ok=True) for x in numbers]

    with anyio.fail_after(LIMIT_S):
        async with Executor(listen="tcp://127.0.0.1:0", local=Cores(1)) as head:
            async with connect(head.address, session="sweep") as ex:
                await gather(calls(ex, range(6)))
                bad_ = ex.name("bad", (fail @ Cores(1))())
                with pytest.raises(ValueError, match="on purpose"):
                    await bad_
            async with connect(head.address, session="sweep") as ex:
                before = calls(ex, range(4))
                with progress():
                    ex.name("bad", (fail @ Cores(1))(), exist_ok=True)
                    await gather(before, calls(ex, range(2, 5)), calls(ex, range(7, 9)), calls(ex, range(7, 9)))
                assert kept.shown[-1] == {"square": CallCounts(7, 0, 7), "fail": CallCounts(1, 0, 0, 1)}
                await ex.forget("square 0", "square 1")
                with progress():
                    await calls(ex, range(1))[0]
                assert kept.shown[-1] == {"square": CallCounts(6, 0, 6), "fail": CallCounts(1, 0, 0, 1)}


async def test_items_of_a_map_are_counted_however_they_travel(kept: Kept) -> None:
    async def source() -> AsyncIterator[int]:
        for x in range(3000):
            yield x

    async with Executor(local=Cores([0])), progress():
        assert [y async for y in amap(square @ Cores(1), source())][-1] == 2999**2
    assert kept.shown[-1] == {"square": CallCounts(3000, 0, 3000)}


async def test_calls_that_travel_in_parts_are_counted_by_themselves(kept: Kept) -> None:
    dag = Dag()
    before: Any = 1
    for step in range(10):
        before = dag.add(f"step {step}", square @ Cores(1), before)
    async with Executor(local=Cores([0])), progress():
        await dag.run(partition=Partition(2))
    assert kept.shown[-1] == {"square": CallCounts(10, 0, 10)}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_is_the_same_over_a_connection(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with Executor(listen="tcp://127.0.0.1:0", local=Cores([0])) as head, connect(head.address), progress():
        await gather([(square @ Cores(1))(x) for x in range(50)])
    assert kept.shown[-1] == {"square": CallCounts(50, 0, 50)}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_is_the_same_on_an_engine_of_another_kind(kept: Kept) -> None:
    async with Executor(backend=ThreadBackend(1)), progress():
        await gather([(square @ Cores(1))(x) for x in range(50)])
    assert kept.shown[-1] == {"square": CallCounts(50, 0, 50)}


async def test_it_is_shown_ten_times_a_second_at_the_most(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "every_s", Display.every_s)
    times: list[float] = []
    monkeypatch.setattr(kept, "show", lambda _: times.append(time.monotonic()))

    @delayed
    async def see_four() -> None:
        await until(lambda: len(times) >= 4)

    async with Executor(local=Cores([0])):
        began = time.monotonic()
        with progress():
            await gather(see_four(), [square(x) for x in range(100)])
    times[-1:] = []  # the last figures come at once
    assert all(after - before >= 0.1 for before, after in pairwise([began, *times]))


async def test_one_inside_another_does_nothing(kept: Kept) -> None:
    async with Executor(local=Cores([0])):
        with progress():
            with progress():
                await square(1)
            assert not kept.closed
            await square(2)
    assert kept.shown[-1] == {"square": CallCounts(2, 0, 2)}


async def test_a_display_that_fails_leaves_the_work_alone(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise OSError("the terminal is gone")

    monkeypatch.setattr(kept, "show", broken)
    async with Executor(local=Cores([0])):
        with progress():
            squares_ = start_call(gather([square(x) for x in range(9)]))
            await until(lambda: kept.closed)
            assert await squares_ == [x * x for x in range(9)]
        with progress():
            await square(1)
    assert caplog.text.count("progress is shown no more: OSError('the terminal is gone')") == 2


def test_outside_of_a_loop_it_says_what_to_write() -> None:
    with pytest.raises(RuntimeError, match=r"write `run\(main, progress=True\)`"), progress():
        pass


@pytest.mark.parametrize("every", [0, -1.0, float("nan")])
def test_lines_take_a_time(every: float) -> None:
    with pytest.raises(ValueError, match="positive number of seconds"):
        progress(lines_every=every)


# --- a terminal ------------------------------------------------------------------------------------------------------

PROGRAM = """
import logging, sys, threading
from grainlike import Cores, delayed, gather, progress, run

logging.basicConfig(format="%(levelname)s %(message)s")

@delayed
def square(x):
    print(f"square of {x}")
    return x * x

@delayed
async def say(word):
    print(word, "from a coroutine")

@delayed
def fail():
    raise ValueError("broken on purpose")
"""


def shown_by(tmp_path: Path, program: str, **options: Any) -> Ended:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + program)
    return at_terminal([sys.executable, str(path)], **options)


def is_last(ended: Ended, *names: str) -> bool:
    return [line.split()[0] for line in ended.lines[-len(names) :]] == list(names)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_last_figures_stay_below_what_was_written(tmp_path: Path, backend: str) -> None:
    ended = shown_by(
        tmp_path,
        f"""
async def main():
    print("begins", end="")
    print(" with a line in two pieces")
    await gather([(square @ Cores(1))(x) for x in range(9)] + [(say @ Cores(1))("word")])
    logging.warning("a record")
    print("a thread's", end="")
    thread = threading.Thread(target=print, args=[" line"]); thread.start(); thread.join()
    try:
        await fail()
    except ValueError as error:
        print("failed:", error, file=sys.stderr)
    print("no end", end="")

run(main, local=Cores(1), progress=True, backend={backend!r})
print("; after it")
""",
    )
    assert ended.code == 0, ended.lines
    assert not ended.cursor_hidden
    titles = next(n for n, line in enumerate(ended.lines) if line.split()[:2] == ["done", "running"])
    assert set(ended.lines[:titles]) >= {
        "begins with a line in two pieces",
        *(f"square of {x}" for x in range(9)),
        "word from a coroutine",
        "WARNING a record",
        "a thread's line",
        "failed: broken on purpose",
    }
    rows = {row[0]: row[2:6] for row in map(str.split, ended.lines[titles + 1 : -1])}
    assert rows == {
        "square": ["9/9", "0", "0", "0"],
        "say": ["1/1", "0", "0", "0"],
        "fail": ["0/1", "0", "0", "1"],
    }
    assert ended.lines[-1] == "no end; after it"


def test_ctrl_c_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    ended = shown_by(
        tmp_path,
        """
@delayed
async def forever():
    import anyio
    print("it runs")
    await anyio.sleep_forever()

try:
    run(forever, local=Cores(1), progress=True)
except KeyboardInterrupt:
    print("interrupted")
print("write" in vars(sys.stdout), "write" in vars(sys.stderr))
""",
        interrupt_at="forever ",
    )
    assert ended.code == 0, ended.lines
    assert not ended.cursor_hidden
    assert ended.lines[-2:] == ["interrupted", "False False"]
    assert ended.line("forever").split()[2:] == ["0/1", "0", "0", "0", "1", "-", "-"]


def test_an_error_of_the_program_is_below_the_last_figures(tmp_path: Path) -> None:
    ended = shown_by(
        tmp_path,
        """
async def main():
    await square(1)
    raise KeyError("of the program")

run(main, local=Cores(1), progress=True)
""",
        rows=80,
    )
    assert ended.code == 1
    assert ended.lines[-1] == "KeyError: 'of the program'"
    assert ended.lines.index(ended.line("square  ")) < ended.lines.index(ended.line("Traceback"))


def test_a_blocked_loop_shows_what_is_written_and_goes_on(tmp_path: Path) -> None:
    ended = shown_by(
        tmp_path,
        """
async def main():
    await square(1)
    for n in range(200):
        print("line", n)
    await square(2)

run(main, local=Cores(1), progress=True)
""",
    )
    assert [line for line in ended.lines if line.startswith("line")] == [f"line {n}" for n in range(174, 200)]
    assert is_last(ended, "square")
    assert ended.line("square  ").split()[2] == "2/2"


def test_what_goes_to_a_file_has_no_bars(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        ended = shown_by(
            tmp_path,
            """
async def main():
    await gather([(square @ Cores(1))(x) for x in range(9)])

run(main, local=Cores(1), progress=True)
""",
            stdout=out.fileno(),
        )
    assert sorted((tmp_path / "out").read_text().splitlines()) == [f"square of {x}" for x in range(9)]
    assert ended.line("square").split()[2] == "9/9"


def test_many_functions_leave_room_in_a_low_and_narrow_terminal(tmp_path: Path) -> None:
    ended = shown_by(
        tmp_path,
        """
async def main():
    await gather([delayed(lambda: 1, name=f"function_{n}")() for n in range(100)])

run(main, local=Cores(1), progress=True)
""",
        columns=45,
        rows=9,
    )
    assert len(ended.lines) == 7
    assert ended.lines[1].split() == ["function_0", "1/1", "0", "in", *ended.lines[1].split()[-2:]]
    assert ended.lines[-1].split()[:3] == ["95", "others", "95/95"]


def test_commands_have_a_bar_a_program_below_what_they_print(tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("echo out\nsh -c 'echo err >&2; exit 3'\n")
    ended = at_terminal(
        [
            *(sys.executable, "-m", "grainlike", "submit", "--run-once", "--progress", "--resources", "cores=1"),
            *("-r", "cores=1", "--file", str(tmp_path / "commands")),
        ],
        environment={"XDG_STATE_HOME": str(tmp_path)},
    )
    assert ended.code == 1
    titles = next(n for n, line in enumerate(ended.lines) if line.split()[:2] == ["done", "running"])
    assert {"[1] out", "[2] err", "grainlike: 1 succeeded, 1 failed in"} <= {
        line[: len("grainlike: 1 succeeded, 1 failed in")] for line in ended.lines[:titles]
    }
    assert [line.split()[0] for line in ended.lines[titles + 1 :]] == ["echo", "sh"]
    assert ended.line("echo ").split()[2:6] == ["1/1", "0", "0", "0"]
    assert ended.line("sh ").split()[2:6] == ["0/1", "0", "0", "1"]


def silent(tmp_path: Path, program: str, *, terminal: str = "xterm") -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(PROGRAM + program)
    argv = [sys.executable, str(tmp_path / "program.py")]
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_it_is_silent_where_no_terminal_is(tmp_path: Path) -> None:
    done = silent(tmp_path, "run(square, 3, local=Cores(1), progress=True)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "square of 3\n", "")


def test_a_terminal_that_can_not_move_its_cursor_is_none(tmp_path: Path) -> None:
    program = "run(square, 3, local=Cores(1), progress=True)"
    assert shown_by(tmp_path, program, environment={"TERM": "dumb"}).written == "square of 3\r\n"


def test_lines_tell_it_where_they_are_asked_for(tmp_path: Path) -> None:
    program = """
async def main():
    await gather([square(x) for x in range(3)])

run(main, local=Cores(1), progress=progress(lines_every=1000))
"""
    lines = silent(tmp_path, program).stderr.splitlines()
    assert lines[-1].startswith("grainlike: square: 3/3 done, ")
    assert len(lines) <= 2


# --- a notebook ------------------------------------------------------------------------------------------------------

NOTEBOOK = """
import json, sys
import nbformat
from nbclient import NotebookClient

cells = sys.argv[1:]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(notebook, kernel_name="python3", timeout=180, startup_timeout=180).execute()
print(json.dumps([cell.outputs for cell in notebook.cells]))
"""


def test_a_notebook_shows_a_table_that_changes_in_place(tmp_path: Path) -> None:
    first = """
from grainlike import Cores, Executor, delayed, gather, progress

@delayed
def square(x):
    return x * x

with progress():
    values = await gather([(square @ Cores(1))(x) for x in range(9)] + [square(9)])
"""
    second = "with progress():\n    print(await square(12))"
    third = """
from grainlike.executor._displays import NotebookDisplay
from grainlike.observe import CallCounts, FunctionProgress

display = NotebookDisplay()
for done in range(3):
    display.show([FunctionProgress("<b>", CallCounts(2, 0, done))])
"""
    argv = [sys.executable, "-c", NOTEBOOK, first, second, third]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "JUPYTER_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    environment = {**os.environ, **paths, "IPYTHONDIR": str(tmp_path), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    one, two, three = json.loads(done.stdout)
    (table,) = [output["data"] for output in one if output["output_type"] == "display_data"]
    assert '<progress max="10" value="10"></progress></td><td>10/10</td>' in table["text/html"]
    assert table["text/plain"].startswith("square: 10/10 done")
    assert ["1/1 done" in output["data"]["text/plain"] for output in two if "data" in output] == [True]
    assert [output["text"] for output in two if output["output_type"] == "stream"] == ["144\n"]
    (escaped,) = three
    assert "<th>&lt;b&gt;</th>" in escaped["data"]["text/html"]
    assert escaped["data"]["text/plain"] == "<b>: 2/2 done"
