"""Programs of pages as processes: each has a home and a standard output of its own, and leaves nothing behind."""

import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from blocks import blocks_of
from limits import LIMIT_S
from waiting import until_ended_blocking, until_files_blocking

__all__ = [
    "PAGES",
    "Command",
    "Example",
    "Program",
    "compare",
    "environment_of",
    "finish",
    "nothing_left",
    "own_argv",
    "processes_of",
    "read_page",
    "run_example",
    "start_beside",
]

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/launching/*.md", "worker/*.md", "tutorials/*.md")
    for path in ROOT.glob(pattern)
)


@dataclass
class Command:
    """Command line of ours on a page, with what it prints, on its standard output and error."""

    name: str
    line: str
    output: str


@dataclass
class Example:
    """One program of a page, with what it prints and the commands that run beside it."""

    name: str
    program: str
    output: str = ""
    beside: list[Command] = field(default_factory=list)


def read_page(path: Path) -> tuple[list[Example], list[Command]]:
    """Return the programs of a page, and its commands that stand alone."""
    examples: list[Example] = []
    commands: list[Command] = []
    for block in blocks_of(path.read_text()):
        name = f"{path.relative_to(ROOT)}:{block.line}"
        if block.kind == "python" and not block.title:
            examples.append(Example(name, block.body, block.output))
        elif block.kind == "console":
            for line, output in re.findall(r"^\$ (grainlike .*)\n((?:(?!\$ ).*\n)*)", block.body, re.MULTILINE):
                command = Command(name, line, output)
                (examples[-1].beside if " worker start" in line else commands).append(command)
    return examples, commands


def environment_of(home: Path) -> dict[str, str]:
    """Return the environment of a program whose files are all below `home`."""
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


class Program(subprocess.Popen[bytes]):
    """Process that does not outlive its block.

    It prints to files: a pipe would be open for as long as anything that it started lives.
    """

    def __init__(self, argv: list[str], work: Path, environment: dict[str, str], *, as_one: bool = False) -> None:
        """With `as_one` its standard error is written to where its standard output is, as on a terminal."""
        self._out = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._err = self._out if as_one else tempfile.TemporaryFile("a+b")  # noqa: SIM115
        super().__init__(argv, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err)

    def printed(self) -> str:
        """Return what is on its standard output so far."""
        self._out.seek(0)
        return self._out.read().decode()

    def complained(self) -> str:
        """Return what is on its standard error so far."""
        self._err.seek(0)
        return self._err.read().decode()

    def __exit__(self, *error: object) -> None:
        if self.poll() is None:
            self.kill()
        super().__exit__(None, None, None)
        self._out.close()
        self._err.close()


@contextmanager
def nothing_left(home: Path) -> Iterator[None]:
    """Context manager that ends whatever was started with this home, daemons too."""
    try:
        yield
    finally:
        while left := processes_of(home):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            until_ended_blocking(*left)


def processes_of(home: Path) -> list[int]:
    """Return the processes that live with this home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"HOME={home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def finish(program: Program, limit_s: float = LIMIT_S) -> str:
    """Return what a program has printed when it ends; fail, with what it complained of, if it hangs or fails."""
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


def run_example(example: Example, folder: Path) -> None:
    """Run a program alone in an empty directory, the commands beside it in others; fail if they print anything else."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    work = folder / "work"
    work.mkdir()
    (work / "example.py").write_text(example.program)
    environment = environment_of(home)
    with ExitStack() as stack:
        stack.enter_context(nothing_left(home))
        program = stack.enter_context(Program([sys.executable, "example.py"], work, environment))
        workers = [stack.enter_context(start_beside(command, home, work, environment)) for command in example.beside]
        output = finish(program)
        for command, worker in zip(example.beside, workers, strict=True):
            compare(command.output, finish(worker))
    compare(example.output, output)


def start_beside(command: Command, home: Path, work: Path, environment: dict[str, str]) -> Program:
    """Return the process of a command in "another terminal", which begins once there is a head to find."""
    until_files_blocking(home, (home / "grainlike" / "current" / "worker.json").exists)
    return Program(own_argv(command.line), work, environment)


def own_argv(command: str) -> list[str]:
    """Return the arguments of a process for a command line of ours."""
    return [sys.executable, "-m", *shlex.split(command)]


def compare(expected: str, actual: str) -> None:
    """Fail where the output is not what a page shows, with `...` for what differs from run to run."""
    checker = doctest.OutputChecker()
    if not checker.check_output(expected, actual, doctest.ELLIPSIS):
        pytest.fail(f"expected\n{expected}\ngot\n{actual}", pytrace=False)
