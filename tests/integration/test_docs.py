"""What the documentation shows is what happens: every program in it is run, and its output compared.

In Markdown, a block of `python` is a program, run alone in an empty directory. A block of `text` right after it is
its whole standard output, with `...` for what differs from run to run. A `console` block runs each line that starts
with `$ grainlike`; `worker start` lines are started beside the program before them. A tutorial's docstring ends with
what the tutorial prints, after the line `It prints::`.
"""

import ast
import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import typer
from limits import LIMIT_S
from waiting import until_blocking, until_ended_blocking, until_files_blocking

from grainlike.scheduler import JobState, transition_table

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/launching/*.md", "worker/*.md", "tutorials/*.md")
    for path in ROOT.glob(pattern)
)
_ELSEWHERE = {"16_lammps_on_slurm.py"}
"""Tutorials for a batch system, which the tests of launching run on a real one."""
TUTORIALS = sorted(path for path in ROOT.glob("tutorials/[0-9]*.py") if path.name not in _ELSEWHERE)

"""How long an example may take on a busy machine; then its test fails, and shows what it had printed."""

_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTS = "It prints::\n"

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the examples are for two cores or more")


@dataclass
class Example:
    """One program of a page, with what it prints and the commands that run beside it."""

    name: str
    program: str
    output: str | None = None
    beside: list[str] = field(default_factory=list)


def read_page(path: Path) -> tuple[list[Example], list[str]]:
    """The programs of a page, and its commands that stand alone."""
    text = path.read_text()
    examples: list[Example] = []
    commands: list[str] = []
    last, end = "", 0
    for block in _BLOCK.finditer(text):
        kind, body = block["kind"], block["body"]
        if kind == "python":
            line = text.count("\n", 0, block.start()) + 1
            examples.append(Example(f"{path.relative_to(ROOT)}:{line}", body))
        elif kind == "text" and last == "python" and not text[end : block.start()].strip():
            examples[-1].output = body
        elif kind == "console":
            for command in re.findall(r"^\$ (grainlike .*)$", body, re.MULTILINE):
                (examples[-1].beside if " worker start" in command else commands).append(command)
        last, end = kind, block.end()
    return examples, commands


def read_tutorial(path: Path) -> Example:
    """A tutorial and what its docstring says it prints."""
    program = path.read_text()
    docstring = ast.get_docstring(ast.parse(program)) or ""
    _, found, output = docstring.partition(_PRINTS)
    assert found, f"{path.name} does not say what it prints"
    return Example(str(path.relative_to(ROOT)), program, textwrap.dedent(output).strip("\n") + "\n")


_PAGES = {path: read_page(path) for path in PAGES}
EXAMPLES = [example for examples, _ in _PAGES.values() for example in examples]
EXAMPLES += [read_tutorial(path) for path in TUTORIALS]
COMMANDS = [command for _, commands in _PAGES.values() for command in commands]


@needs_two_cores
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_it_says(example: Example, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    work = tmp_path / "work"
    work.mkdir()
    (work / "example.py").write_text(example.program)
    environment = _environment(home)
    with ExitStack() as stack:
        stack.enter_context(_nothing_left(home))
        program = stack.enter_context(_start([sys.executable, "example.py"], work, environment))
        workers = [stack.enter_context(_start_beside(command, home, work, environment)) for command in example.beside]
        output = _finish(program)
        for worker in workers:
            _finish(worker)
    if example.output is None:
        assert output == "", "the page does not show this output"
    else:
        _compare(example.output, output)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, tmp_path: Path) -> None:
    with _nothing_left(tmp_path), _start(_argv(command), tmp_path, _environment(tmp_path)) as program:
        _finish(program)


_STANDS_STILL = """
import subprocess, sys, time
left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("started", left.pid, flush=True)
time.sleep(1000)
"""


def test_an_example_that_stands_still_fails_and_leaves_nothing(tmp_path: Path) -> None:
    with (
        _nothing_left(tmp_path),
        _start([sys.executable, "-c", _STANDS_STILL], tmp_path, _environment(tmp_path)) as one,
    ):
        until_blocking(lambda: "\n" in one.printed())  # a file without a name, of whose changes nobody is told
        with pytest.raises(pytest.fail.Exception, match=r"did not end[^$]*started \d+"):
            _finish(one, limit_s=0)
        left = int(one.printed().split()[1])
        assert _those_of(tmp_path) == [left]
    assert _those_of(tmp_path) == []


def test_there_is_something_to_run() -> None:
    assert len(TUTORIALS) >= 4
    assert sum(example.output is not None for example in EXAMPLES) >= len(TUTORIALS) + 4
    assert any(example.beside for example in EXAMPLES)


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


def _environment(home: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": paths,
        "XDG_STATE_HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "TMPDIR": str(home),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # Open MPI refuses it otherwise
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def _start(argv: list[str], work: Path, environment: dict[str, str]) -> "_Process":
    return _Process(argv, work, environment)


class _Process(subprocess.Popen[bytes]):
    """A process that does not outlive its block.

    It prints to files: a pipe would be open for as long as anything that it started lives.
    """

    def __init__(self, argv: list[str], work: Path, environment: dict[str, str]) -> None:
        self._out, self._err = tempfile.TemporaryFile("a+b"), tempfile.TemporaryFile("a+b")  # noqa: SIM115
        super().__init__(argv, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err)

    def printed(self) -> str:
        """What is on its standard output so far."""
        self._out.seek(0)
        return self._out.read().decode()

    def complained(self) -> str:
        """What is on its standard error so far."""
        self._err.seek(0)
        return self._err.read().decode()

    def __exit__(self, *error: object) -> None:
        if self.poll() is None:
            self.kill()
        super().__exit__(None, None, None)
        self._out.close()
        self._err.close()


@contextmanager
def _nothing_left(home: Path) -> Iterator[None]:
    """End whatever was started with this home, daemons too, when the block ends."""
    try:
        yield
    finally:
        while left := _those_of(home):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            until_ended_blocking(*left)


def _those_of(home: Path) -> list[int]:
    """The processes that live with this home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"HOME={home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _finish(program: _Process, limit_s: float = LIMIT_S) -> str:
    """Wait for a program and return what it printed; fail, with what it complained of, if it hangs or fails."""
    ended = True
    try:
        program.wait(limit_s)
    except subprocess.TimeoutExpired:
        ended = False
        program.kill()
        program.wait()
    output = program.printed()
    if not ended:
        pytest.fail(f"{program.args!r} did not end\n{output}\n{program.complained()}", pytrace=False)
    if program.returncode != 0:
        said = f"{output}\n{program.complained()}"
        pytest.fail(f"{program.args!r} ended with {program.returncode}\n{said}", pytrace=False)
    return output


def _start_beside(command: str, home: Path, work: Path, environment: dict[str, str]) -> _Process:
    """Start a command in "another terminal", once there is a head to find."""
    until_files_blocking(home, (home / "grainlike" / "current" / "worker.json").exists)
    return _start(_argv(command), work, environment)


def _argv(command: str) -> list[str]:
    return [sys.executable, "-m", *shlex.split(command)]


def _compare(expected: str, actual: str) -> None:
    checker = doctest.OutputChecker()
    if not checker.check_output(expected, actual, doctest.ELLIPSIS):
        pytest.fail(f"expected\n{expected}\ngot\n{actual}", pytrace=False)
