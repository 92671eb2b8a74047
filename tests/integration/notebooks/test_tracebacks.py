"""Tracebacks of jobs are short: the job's own lines first, then the line that awaits it; ours are folded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from notebooks import Kernel
from prompts import ASYNCIO, IPYTHON, at_prompt

MOST_LINES = 25
NOTE = re.compile(r"^grainlike: job \d+, on worker local, slots cores=\[0\], attempt 1 of fail$", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def check(lines: list[str], *, awaits: str, source: bool = True) -> None:
    """Check a traceback of `1/0`; with `source`, the line of the job is in it."""
    text = "\n".join(lines)
    assert len(lines) <= MOST_LINES, text
    assert len(NOTE.findall(text)) == 1
    assert NOTE.fullmatch(lines[-1])
    assert ("1/0" in text[: text.index("direct cause")]) is source, text
    assert text.index(", in fail") < text.index(awaits)
    assert len(re.findall(r"File .*grainlike/", text)) <= 1


PROGRAM = """
from grainlike import Cores, Partition, delayed, gather, run

@delayed
def fail():
    1/0

@delayed
def fail_here():
    return deeper()

def deeper():
    return fail.__wrapped__()

async def main():
    return await (fail @ Cores(1))()
"""


def written_by(tmp_path: Path, program: str) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM + program)
    argv = [sys.executable, "program.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    return done.stderr.rstrip().split("\n")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_of_a_script(tmp_path: Path, backend: str) -> None:
    check(written_by(tmp_path, f"run(main, local=Cores([0]), backend={backend!r})"), awaits="in main")


def test_of_a_script_that_gathers(tmp_path: Path) -> None:
    program = "async def main():\n    await gather((fail @ Cores(1))())\nrun(main, local=Cores([0]))"
    check(written_by(tmp_path, program), awaits="in main")


@pytest.mark.parametrize(
    "reads", ["amap(fail_for @ Cores(1), [1])", "(items @ Cores(1))()", "amap(fail_for @ Cores(1), source())"]
)
def test_of_a_script_that_reads_values_as_they_come(tmp_path: Path, reads: str) -> None:
    program = f"""
import asyncio
from grainlike import amap

@delayed
def fail_for(number):
    1/0

@delayed
async def items():
    yield 1
    1/0

async def source():
    1/0
    yield 1

async def main():
    async for _ in {reads}:
        pass
asyncio.run(main())  # `run` folds what is left, too
"""
    text = "\n".join(written_by(tmp_path, program))
    assert "    1/0\n" in text
    assert "in main\n" in text
    assert len(re.findall(r"File .*(grainlike|grainlike_worker)/", text)) == 1, text


@pytest.mark.parametrize("fails", ["(takes @ Cores(1))(open(__file__))", "(gives @ Cores(1))()"])
def test_of_a_script_with_an_object_that_cannot_travel(tmp_path: Path, fails: str) -> None:
    program = f"""
@delayed
def takes(file):
    pass

@delayed
def gives():
    return open(__file__)

async def main():
    await {fails}
run(main, local=Cores([0]))
"""
    text = "\n".join(written_by(tmp_path, program))
    assert "in main\n" in text
    assert len(re.findall(r"File .*(grainlike|grainlike_worker)/", text)) == 1, text
    assert "cannot travel: an object of type _io.TextIOWrapper" in text


def test_a_call_in_the_program_itself_keeps_all_frames_of_the_user(tmp_path: Path) -> None:
    lines = written_by(tmp_path, "async def main():\n    await fail_here()\nrun(main, local=Cores([0]))")
    assert [line.split(", in ")[1] for line in lines if "program.py" in line] == [
        "<module>",
        "main",
        "fail_here",
        "deeper",
        "fail",
    ]
    assert len(lines) <= MOST_LINES


def test_what_run_itself_raises_keeps_its_frames(tmp_path: Path) -> None:
    text = "\n".join(written_by(tmp_path, "run(lambda: 5, local=Cores([0]))"))
    assert ", in inside" in text
    assert "which cannot be awaited" in text


CELL = """
@delayed
def fail():
    1/0

await (fail @ Cores(1))()
"""


def test_in_a_notebook(kernel: Kernel) -> None:
    kernel.run("from grainlike import Cores, Executor, delayed\nex = await Executor(local=Cores([0]))")
    cell = kernel.send(CELL)
    kernel.until(lambda: cell.ended)
    check([_COLOURS.sub("", line) for line in cell.trace], awaits="----> 5 await (fail @ Cores(1))()")


@pytest.mark.parametrize("program", [ASYNCIO, IPYTHON], ids=["asyncio", "IPython"])
def test_at_a_prompt(tmp_path: Path, program: list[str]) -> None:
    with at_prompt(program, tmp_path, edits=True) as prompt:
        prompt.run("from grainlike import Cores, Executor, delayed")
        prompt.run("ex = await Executor(local=Cores([0]))")
        prompt.run("fail = delayed(lambda: 1/0, name='fail')")
        lines = prompt.run("await (fail @ Cores(1))()").rstrip().split("\n")
    lines = [line.replace("in <lambda>", "in fail") for line in lines if not line.startswith("In [")]
    # The console of Python 3.11 and 3.12 keeps no lines.
    source = program is IPYTHON or sys.version_info >= (3, 13)
    check(lines, awaits="in <module>" if program is ASYNCIO else "----> 1 await", source=source)
