"""Jobs at the prompts of `python -m asyncio` and of IPython in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from prompts import ASYNCIO, IPYTHON, Prompt, at_prompt
from waiting import until_ended_blocking

FUNCTIONS = """
import os, sys, time
from pathlib import Path
import anyio
from grainlike import Cores, Executor, cancel, connect, delayed, gather, info, run, start
from waiting import until

@delayed
def say(word):
    print("said", word)
    return word

@delayed
def block():
    print("begun", os.getpid(), flush=True)
    time.sleep(1000)
    return "never"

def be_busy():
    print("begun", os.getpid(), flush=True)
    while True:
        pass

@delayed
async def wait(cancelled):
    print("begun", os.getpid(), flush=True)
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        Path(cancelled).touch()
        print("too late")
        raise
"""


@pytest.fixture(scope="module", params=[ASYNCIO, IPYTHON], ids=["asyncio", "IPython"])
def prompt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prompt]:
    folder = tmp_path_factory.mktemp("prompt")
    (folder / "functions.py").write_text(FUNCTIONS)
    with at_prompt(request.param, folder) as prompt:
        prompt.run(f"import sys; sys.path.append({str(folder)!r})")
        prompt.run("from functions import *")
        yield prompt


def processes_of(prompt: Prompt) -> list[int]:
    return [child.pid for child in psutil.Process(prompt.pid).children(recursive=True)]


def test_ctrl_c_cancels_the_job_that_is_awaited_and_the_next_prompt_is_its_own(prompt: Prompt) -> None:
    for opened in ("ex = None", "ex = await Executor(local=Cores(1))"):
        prompt.run(opened)
        prompt.type("await (block @ Cores(1))()")
        prompt.until("begun ")
        written = prompt.interrupt()
        assert re.search("KeyboardInterrupt|CancelledError", written)
        written = prompt.run("await (say @ Cores(1))('word')")
        assert written.count("said word") == 1
        assert written.count("'word'") - written.count("('word')") == 1
        assert "never" not in written


def test_what_a_cancelled_job_still_prints_is_shown_at_no_later_prompt(prompt: Prompt, tmp_path: Path) -> None:
    prompt.type(f"await (wait @ Cores(1))('{tmp_path}/cancelled')")
    prompt.until("begun ")
    written = prompt.interrupt()
    written += prompt.run("await (say @ Cores(1))('word')")
    written += prompt.run("[1, 2, 3]")
    assert (tmp_path / "cancelled").exists()
    assert "said word" in written
    assert "too late" not in written


def test_one_of_several_that_a_gather_awaits_is_cancelled_with_the_others(prompt: Prompt) -> None:
    prompt.run("blocks = [(block @ Cores(1))() for _ in range(3)]")
    prompt.type("await gather(blocks)")
    prompt.until("begun ")
    prompt.interrupt()
    assert "cancelled cancelled cancelled" in prompt.run("print(*[info(r_).state for r_ in blocks])")


def test_a_busy_cell_is_interrupted_as_ever(prompt: Prompt) -> None:
    prompt.type("be_busy()")
    prompt.until("begun ")
    assert "KeyboardInterrupt" in prompt.interrupt()
    assert "said word" in prompt.run("await (say @ Cores(1))('word')")


def test_ctrl_d_closes_what_was_opened_and_leaves_no_process(  # the last: it ends the prompt
    prompt: Prompt, tmp_path: Path
) -> None:
    prompt.run("ex = await Executor(listen='tcp://127.0.0.1:0', local=Cores(2))")
    prompt.run("far = await connect(ex.address)")
    prompt.run("await (say @ Cores(1))('word')")
    job = f"r_ = start((wait @ Cores(1))('{tmp_path}/cancelled'))"
    prompt.run(f"{job}; await until(lambda: info(r_).state == 'running')")
    left = processes_of(prompt)
    assert left
    assert prompt.end() == 0
    until_ended_blocking(*left)
    assert (tmp_path / "cancelled").exists()
