"""What the documentation shows is what happens: every program in it is run, and its output compared.

In Markdown, a `console` block runs each line that starts with `$ grainlike`, and shows all that this writes. A
tutorial's docstring ends with what the tutorial prints, after the line `It prints::`. Programs of pages are run by
test_page_files.py.
"""

import ast
import json
import os
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
import typer
from blocks import blocks_of
from page_programs import (
    PAGES,
    Command,
    Example,
    Program,
    compare,
    environment_of,
    finish,
    nothing_left,
    own_argv,
    processes_of,
    read_page,
    run_example,
)
from ports import free_port
from waiting import until_blocking

from grainlike.scheduler import JobState, transition_table

ROOT = Path(__file__).parents[2]
_ALL = sorted({*PAGES, *ROOT.glob("docs/**/*.md")})
_ELSEWHERE = {"16_lammps_on_slurm.py"}
"""Tutorials for a batch system, which the tests of launching run on a real one."""
TUTORIALS = sorted(path for path in ROOT.glob("tutorials/[0-9]*.py") if path.name not in _ELSEWHERE)

_PRINTS = "It prints::\n"

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the examples are for two cores or more")


def read_tutorial(path: Path) -> Example:
    """A tutorial and what its docstring says it prints."""
    program = path.read_text()
    docstring = ast.get_docstring(ast.parse(program)) or ""
    _, found, output = docstring.partition(_PRINTS)
    assert found, f"{path.name} does not say what it prints"
    return Example(str(path.relative_to(ROOT)), program, textwrap.dedent(output).strip("\n") + "\n")


EXAMPLES = [read_tutorial(path) for path in TUTORIALS]
COMMANDS = [command for path in _ALL for command in read_page(path)[1]]


@needs_two_cores
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_tutorial_prints_what_it_says(example: Example, tmp_path: Path) -> None:
    run_example(example, tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_prints_what_it_says(command: Command, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    argv, environment = own_argv(command.line), environment_of(tmp_path)
    with nothing_left(tmp_path), Program(argv, work, environment, as_one=True) as program:
        compare(command.output, finish(program))


def test_a_head_listens_with_access_files_that_were_made_beforehand(tmp_path: Path) -> None:
    page = ROOT / "docs" / "security.md"
    (program,) = (block.body for block in blocks_of(page.read_text()) if block.title == "head.py")
    (command,) = read_page(page)[1]
    port, environment = str(free_port()), environment_of(tmp_path)
    assert "tcp://login1:7777" in command.line
    (tmp_path / "head.py").write_text(program.replace("7777", port))
    with nothing_left(tmp_path):
        for argv in (own_argv(command.line.replace("7777", port)), [sys.executable, "head.py"]):
            with Program(argv, tmp_path, environment) as one:
                finish(one)
    found = json.loads((tmp_path / "cluster" / "worker.json").read_text())["addresses"]
    assert {f"tcp://login1:{port}", f"tcp://127.0.0.1:{port}"} <= set(found)


_FAILS = """
import anyio
from grainlike import Cores, Executor, delayed, gather


@delayed
def fails(seed):
    raise ArithmeticError(f"seed {seed} diverged")


async def main():
    async with Executor(local=Cores(1), events="events.jsonl"):
        await gather([(fails @ Cores(1))(seed) for seed in (1, 2, 2)], return_exceptions=True)


anyio.run(main)
"""


@pytest.mark.skipif(shutil.which("jq") is None, reason="it is a question for jq")
def test_an_event_log_answers_which_functions_fail(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    (question,) = (block.body for block in blocks_of(page) if block.body.startswith("jq "))
    environment = environment_of(tmp_path)
    with nothing_left(tmp_path):
        with Program([sys.executable, "-c", _FAILS], tmp_path, environment) as program:
            finish(program)
        with Program(["bash", "-c", question], tmp_path, environment) as asked:
            rows = [line.strip() for line in sorted(finish(asked).splitlines())]
    told = "fails\tlocal\tArithmeticError: seed"
    assert rows == [f"1 {told} 1 diverged", f"2 {told} 2 diverged"]


_STANDS_STILL = """
import subprocess, sys, time
left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("started", left.pid, flush=True)
time.sleep(1000)
"""


def test_an_example_that_stands_still_fails_and_leaves_nothing(tmp_path: Path) -> None:
    with (
        nothing_left(tmp_path),
        Program([sys.executable, "-c", _STANDS_STILL], tmp_path, environment_of(tmp_path)) as one,
    ):
        until_blocking(lambda: "\n" in one.printed())  # a file without a name, of whose changes nobody is told
        with pytest.raises(pytest.fail.Exception, match=r"did not end[^$]*started \d+"):
            finish(one, limit_s=0)
        left = int(one.printed().split()[1])
        assert processes_of(tmp_path) == [left]
    assert processes_of(tmp_path) == []


def test_there_is_something_to_run() -> None:
    assert len(TUTORIALS) >= 4
    assert all(example.output != "" for example in EXAMPLES)


def test_the_page_of_commands_has_every_command_and_no_other() -> None:
    table = (ROOT / "docs" / "commands.md").read_text().partition("## All commands")[2]
    named = re.findall(r"`([a-z]+)[^`]*`", " ".join(row.split("|")[1] for row in table.splitlines() if "|" in row))
    from grainlike.cli._root import whole_app

    assert {name for name in named if name not in {"stop", "status", "wanted", "drain", "kill"}} == set(
        typer.main.get_command(whole_app()).commands
    )


def test_links_inside_the_documentation_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            if target.startswith("reference/"):  # generated with the site, which has its own check
                continue
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_page_shows_every_step_of_a_job_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = "|".join(state.name for state in JobState)
    shown = set(re.findall(rf"^    ({names}) --> ({names})\b", page, re.MULTILINE))
    allowed = {(old.name, new.name) for old, following in transition_table().items() for new in following}
    assert shown == allowed
    assert {old for old, _ in shown} == {state.name for state in JobState}
