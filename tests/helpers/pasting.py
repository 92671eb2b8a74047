"""Programs of pages at the plain prompt of Python, pasted there statement by statement."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
from page_programs import environment_of
from prompts import end_input, spawned

__all__ = ["PlainPrompt", "plain_prompt", "statements_of"]

_STARTUP = Path(__file__).with_name("prompt_startup.py")
_FIRST, _NEXT = "[>>>] ", "[...] "


def statements_of(code: str) -> list[list[str]]:
    """Return the lines of each statement as they are typed.

    An empty line ends one that has a body; so there is none within, for until Python 3.13 it would be the end.
    """
    lines, found = code.splitlines(), []
    for node in ast.parse(code).body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        typed = lines[first - 1 : node.end_lineno]
        if hasattr(node, "body"):
            typed = [line for line in typed if line.strip()]
            (same,) = ast.parse("\n".join(typed)).body
            assert ast.dump(same) == ast.dump(node), "an empty line within a text"
            typed.append("")
        found.append(typed)
    return found


class PlainPrompt:
    """Driver of `python` at a terminal."""

    def __init__(self, program: pexpect.spawn[str]) -> None:
        self._program = program
        program.delaybeforesend = None  # type: ignore[assignment] # nothing there empties what was typed
        program.expect_exact(_FIRST)

    def begin_page(self, folder: Path) -> None:
        """Forget all names, and go to this folder."""
        assert self._type_line(f"begin_page({str(folder)!r})") == ""

    def paste(self, code: str, meanwhile: Callable[[], None] = lambda: None) -> str:
        """Type a program, and return what it has written to standard output.

        `meanwhile` is called when its last line is typed, and does not wait for the end of that.
        """
        *lines, last = [line for statement in statements_of(code) for line in statement]
        written = "".join(map(self._type_line, lines))
        self._program.send(f"{last}\r")
        meanwhile()
        return written + self._until_prompt()

    def end(self) -> int:
        """Press Ctrl-D, and return the program's exit code."""
        return end_input(self._program)

    def _type_line(self, line: str) -> str:
        self._program.send(f"{line}\r")
        return self._until_prompt()

    def _until_prompt(self) -> str:
        self._program.expect_exact([_FIRST, _NEXT])
        return str(self._program.before).replace("\r\n", "\n")


@contextmanager
def plain_prompt(home: Path) -> Iterator[PlainPrompt]:
    """Context manager of a prompt, whose standard error is `home/stderr`. It is killed at the end if it still lives."""
    environment = {
        **environment_of(home),
        "TERM": "dumb",
        "PYTHON_BASIC_REPL": "1",
        "PYTHONSTARTUP": str(_STARTUP),
    }
    command = 'exec "$0" -q 2>"$HOME/stderr"'
    with spawned("/bin/sh", ["-c", command, sys.executable], environment) as program:
        yield PlainPrompt(program)
