"""Listings with `--watch`, as they are used: on a terminal, into a pipe, and over the death of a head."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.streams.text
import pytest
from limits import LIMIT_S
from terminals import Ended, at_terminal
from waiting import until

from grainlike import Cores, Executor, cancel, delayed, gather, start
from grainlike.cli import main
from grainlike.cli._app import with_pause
from grainlike.cli.screens._watch import RedrawOn, _Documents, _Watch
from grainlike.head import LiveView
from grainlike.head.server._clients import ClientRegistry
from grainlike.wire import AskJobs, LiveIs, Totals

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.anyio

HERE = "tcp://127.0.0.1:0"
SECOND_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture(autouse=True)
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def anyio_backend() -> str:
    """The commands are processes of their own: one event loop here is enough."""
    return "asyncio"


@delayed
async def sleeper() -> None:
    await anyio.sleep_forever()


@delayed
async def ended() -> None:
    return None


@delayed
async def unlucky() -> None:
    raise ValueError("[bold]out of luck[/bold]")


@asynccontextmanager
async def cluster(jobs: int = 0) -> AsyncIterator[Executor]:
    """A head with one worker of two cores, and so many jobs that do not end."""
    async with Executor(local=Cores(2), listen=HERE, on_failure="continue") as executor:
        waits_ = gather((sleeper @ Cores(1))() for _ in range(jobs))
        start(waits_)
        yield executor
        cancel(waits_)


async def watched(*arguments: str, **settings: object) -> Ended:
    """Run `grainlike` at a terminal."""
    argv = [sys.executable, "-m", "grainlike", *arguments]
    return await anyio.to_thread.run_sync(partial(at_terminal, argv, **settings))


def then(does: Callable[[], object]) -> Callable[[], object]:
    """Return what calls `does` in the event loop, from the thread of the terminal."""
    token = anyio.lowlevel.current_token()
    return lambda: anyio.from_thread.run_sync(does, token=token)


async def test_jobs_are_drawn_anew_in_place_until_ctrl_c() -> None:
    with anyio.fail_after(LIMIT_S):
        async with cluster(jobs=2):

            def submit() -> None:
                start(gather((sleeper @ Cores(1))() for _ in range(40)))

            shown = await watched(
                *("jobs", "--watch", "0.1"),
                columns=80,
                rows=12,
                steps=[(" 2  sleeper", then(submit)), ("and 34 more", lambda: None)],
                interrupt_at="and 34 more",
            )
    assert shown.code == 0
    assert (shown.written.count(SECOND_SCREEN), shown.written.count(FIRST_SCREEN)) == (1, 1)
    assert shown.written.endswith(FIRST_SCREEN)
    assert not shown.cursor_hidden
    before, after = shown.screens
    assert "sleeper  running" in before[3]
    assert not any("more" in line for line in before)
    assert len(after) <= 12
    assert "looked at every 0.1 s; Ctrl-C ends" in after[0]
    assert [line.split()[:3] for line in after[3:11]] == [
        *([str(job), "sleeper", "running"] for job in (1, 2)),
        *([str(job), "sleeper", "queued"] for job in (3, 4, 5, 6, 7, 8)),
    ]


async def test_workers_are_watched_on_a_narrow_terminal() -> None:
    with anyio.fail_after(LIMIT_S):
        async with cluster():
            shown = await watched("ls", "--watch", columns=80, rows=24, interrupt_at="cores=")
    assert shown.code == 0
    assert any(line.split()[0] == "local" for line in shown.lines)


async def test_pools_and_blocks_are_watched_too() -> None:
    with anyio.fail_after(LIMIT_S):
        async with cluster():
            for command in ("pools", "blocks"):
                shown = await watched(command, "--watch", interrupt_at=f"no {command}")
                assert (shown.code, shown.lines[1:]) == (0, [f"no {command}"])


async def test_a_head_that_goes_away_is_told_of_and_found_again() -> None:
    with anyio.fail_after(LIMIT_S):
        gone, back, seen = anyio.Event(), anyio.Event(), anyio.Event()

        async def heads() -> None:
            async with cluster(jobs=1):
                await gone.wait()
            await back.wait()
            async with cluster(jobs=2):
                await seen.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heads)
            await anyio.wait_all_tasks_blocked()
            shown = await watched(
                *("jobs", "--watch", "0.1"),
                steps=[
                    (" 1  sleeper", then(gone.set)),
                    ("waiting until it is there again", then(back.set)),
                    (" 2  sleeper", then(seen.set)),
                ],
                interrupt_at=" 2  sleeper",
            )
            seen.set()
    assert shown.code == 0
    assert len(shown.screens) == 3
    assert shown.screens[1][0].startswith("no head, waiting")
    assert " 1  sleeper" in "\n".join(shown.screens[1])  # what was so before stays in sight
    assert "no head" not in "\n".join(shown.screens[2])


async def test_sigterm_leaves_the_terminal_as_it_was() -> None:
    with anyio.fail_after(LIMIT_S):
        async with cluster():
            # The program sends it to itself: who starts it at a terminal knows no number.
            code = "import os, signal; from grainlike.cli import main; import grainlike.cli.screens._watch as w; "
            code += "draw = w._Screen._draw; "
            code += "w._Screen._draw = lambda self: (draw(self), os.kill(os.getpid(), signal.SIGTERM)); "
            code += "raise SystemExit(main(['ls', '--watch']))"
            argv = [sys.executable, "-c", code]
            shown = await anyio.to_thread.run_sync(partial(at_terminal, argv))
    assert shown.code == 128 + signal.SIGTERM
    assert shown.written.endswith(FIRST_SCREEN)
    assert not shown.cursor_hidden


@asynccontextmanager
async def piped(*arguments: str) -> AsyncIterator[anyio.abc.Process]:
    """`grainlike` with a pipe as its output; in the end it is interrupted, and has ended well."""
    command = [sys.executable, "-m", "grainlike", *arguments]
    async with await anyio.open_process(command, stderr=subprocess.PIPE, cwd=ROOT) as process:
        yield process
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


async def lines_of(process: anyio.abc.Process) -> AsyncIterator[str]:
    assert process.stdout is not None
    rest = ""
    async for text in anyio.streams.text.TextReceiveStream(process.stdout):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            yield line


async def test_into_a_pipe_a_listing_comes_after_another_when_something_has_ended() -> None:
    with anyio.fail_after(LIMIT_S):
        async with cluster(), piped("jobs", "--failed", "--watch", "0.1") as process:
            lines = lines_of(process)
            assert (await anext(lines)).startswith("# 20")
            assert (await anext(lines)).startswith("no such jobs have ended")
            await (ended @ Cores(1))()  # changes nothing in that listing
            with pytest.raises(ValueError, match="out of luck"):
                await (unlucky @ Cores(1))()
            rest = [await anext(lines)]
            while "unlucky" not in rest[-1]:
                rest.append(await anext(lines))
            assert [line[:4] for line in rest if line.startswith("#")] == ["# 20"]
            assert "ValueError: [bold]out of luck[/bold]" in rest[-1]


async def test_as_json_a_line_is_a_document() -> None:
    with anyio.fail_after(LIMIT_S):
        async with cluster(), piped("jobs", "--json", "--watch") as process:
            lines = lines_of(process)
            assert json.loads(await anext(lines)) == {"jobs": [], "total": 0}
            start((sleeper @ Cores(1))())
            told = json.loads(await anext(lines))
            assert [job["name"] for job in told["jobs"]] == ["sleeper"]


async def test_of_a_head_at_rest_jobs_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[AskJobs] = []
    answer = ClientRegistry._jobs
    monkeypatch.setattr(
        ClientRegistry, "_jobs", lambda self, question: asked.append(question) or answer(self, question)
    )
    looks: list[int] = []
    with anyio.fail_after(LIMIT_S):
        async with cluster(), piped("jobs", "--json", "--watch", "0.1") as process:
            lines = lines_of(process)
            await anext(lines)

            async def passes() -> None:
                looks.clear()
                look = LiveView.updates
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(LiveView, "updates", lambda self, ask: looks.append(ask) or look(self, ask))
                    await until(lambda: len(looks) > 4)

            await passes()
            assert len(asked) == 1
            start((sleeper @ Cores(64))())
            assert json.loads(await anext(lines))["total"] == 1
            await passes()
            assert len(asked) == 2


async def test_a_listing_of_ended_jobs_is_due_when_some_have_ended_and_not_before() -> None:
    async def listing(caller: object, room: int | None) -> int:
        raise AssertionError("nothing is listed here")

    def told(failed: int, **jobs: int) -> LiveIs:
        ended_ = {"succeeded": 0, "failed": failed, "skipped": 0, "timed_out": 0, "cancelled": 0}
        totals = Totals(**ended_, total_seconds=float(failed + len(jobs)), run_seconds=0.0)
        return LiveIs(1, 0.0, 0.0, False, False, jobs, totals, 1, [], [], [], ([], []))

    watch = _Watch(listing, 1.0, _Documents(), RedrawOn.ENDS)
    due = []
    for update in (told(0), told(0, queued=1), told(0, running=1), told(1), told(1, queued=5)):
        watch._due = anyio.Event()
        watch._take(update)
        due.append(watch._due.is_set())
    assert due == [True, False, False, True, False]


@pytest.mark.parametrize("value", ["0", "0.01", "4000", "nan", "soon", "-1"])
async def test_a_pause_that_cannot_be_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "--watch", value]) == 2
    told = capsys.readouterr().err
    assert "--watch" in told or value in told


async def test_without_a_head_there_is_nothing_to_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    done = await anyio.run_process([sys.executable, "-m", "grainlike", "ls", "--watch"], check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"no head is running here" in done.stderr


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("ls --watch", "ls --watch=2"),
        ("ls --watch --json", "ls --watch=2 --json"),
        ("jobs --watch 5 --json", "jobs --watch 5 --json"),
        ("jobs --watch=5", "jobs --watch=5"),
        ("pools --watch resume cpu", "pools --watch=2 resume cpu"),
        ("submit -- tool --watch", "submit -- tool --watch"),
    ],
)
async def test_a_pause_may_be_left_out(line: str, read: str) -> None:
    assert with_pause(line.split()) == read.split()
