"""A program at a terminal into which a test types: a REPL."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
from limits import LIMIT_S

__all__ = ["ASYNCIO", "IPYTHON", "Prompt", "at_prompt", "end_input", "spawned"]

ROOT = Path(__file__).parents[2]

ASYNCIO = ["-m", "asyncio"]
IPYTHON = ["-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=nocolor", "--no-term-title"]
DRAWN = sys.version_info >= (3, 13)
"""Whether asyncio has a prompt that edits several lines, and draws them. The plain one of 3.13.0 reads one line."""

_EDITS, _RUNS = "\x1b[?2004h", "\x1b[?2004l"
_PASTE = "\x1b[200~{}\x1b[201~"
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x1b\][^\x07]*\x07")


class Prompt:
    """Driver of a REPL. What it writes is text without the controls of a terminal; IPython draws what is typed, too."""

    def __init__(self, program: pexpect.spawn[str], *, numbered: bool, drawn: bool) -> None:
        self._program = program
        self._numbered = numbered
        self._drawn = drawn
        self._number = 0
        if not numbered:
            program.expect_exact(">>> import asyncio")
        self._read_prompt()

    @property
    def pid(self) -> int:
        """Process of the REPL."""
        return int(self._program.pid)

    def run(self, line: str) -> str:
        """Type a line, and return what is written until the next prompt."""
        self.type(line)
        return self._read_prompt()

    def type(self, line: str) -> None:
        """Type a line, and do not wait until it has run. Several are pasted where the prompt would indent them."""
        pasted = self._drawn and "\r" in line
        self._program.send((_PASTE.format(line.replace("\r", "\n")) if pasted else line) + "\r")
        if self._drawn:
            self._program.expect_exact(_RUNS)

    def until(self, text: str) -> None:
        """Wait until the program has written this."""
        self._program.expect_exact(text)

    def interrupt(self) -> str:
        """Press Ctrl-C, and return what is written until the next prompt."""
        self._program.sendintr()
        return self._read_prompt()

    def end(self) -> int:
        """Press Ctrl-D at the prompt, and return the program's exit code."""
        return end_input(self._program)

    def _read_prompt(self) -> str:
        self._number += 1  # IPython draws a prompt again and again, while somebody types there
        mark = _EDITS if self._drawn else ">>> "
        self._program.expect_exact(f"In [{self._number}]:" if self._numbered else mark)
        return _CONTROLS.sub("", self._program.before or "").replace("\r", "")


@contextmanager
def at_prompt(arguments: list[str], home: Path, *, edits: bool = False) -> Iterator[Prompt]:
    """Context manager of a REPL, `python` with these arguments, which is killed at the end if it still lives.

    With `edits`, asyncio's is the one that edits several lines, where Python has it; Ctrl-C there ends the next, too.
    """
    drawn = edits and DRAWN and arguments is ASYNCIO
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}:{ROOT / 'tests/helpers'}",
        "HOME": str(home),
        "IPYTHONDIR": str(home),
        "TERM": "dumb" if arguments is ASYNCIO and not drawn else "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "PYTHON_BASIC_REPL": "" if drawn else "1",
        "PYTHON_COLORS": "0",
    }
    with spawned(sys.executable, arguments, environment) as program:
        yield Prompt(program, numbered=arguments is IPYTHON, drawn=drawn)


def end_input(program: pexpect.spawn[str]) -> int:
    """Press Ctrl-D, and return the program's exit code."""
    program.sendeof()
    program.expect(pexpect.EOF)
    code = program.wait()
    assert code is not None
    return int(code)


@contextmanager
def spawned(command: str, arguments: list[str], environment: dict[str, str]) -> Iterator[pexpect.spawn[str]]:
    """Context manager of a program at a terminal, which is killed at the end if it still lives."""
    program: pexpect.spawn[str] = pexpect.spawn(
        command, arguments, env=environment, encoding="utf-8", timeout=LIMIT_S, echo=False, dimensions=(50, 200)
    )
    try:
        yield program
    finally:
        program.kill(signal.SIGKILL)  # `close` itself waits for the end for a tenth of a second, and raises after that
        program.wait()
        program.close()
