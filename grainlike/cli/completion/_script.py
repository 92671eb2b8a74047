"""The scripts of completion: what is known of the program, in the words of each shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grainlike.cli.completion._program import CommandWords, commands

__all__ = ["SHELLS", "script"]

_HERE = "# What is completed where.\n"
"""Line of a script behind which the tables stand."""


def script(shell: str, program: Any) -> str:
    """Return what a shell has to load to complete the command lines of a program of click's.

    Raises:
        KeyError: the shell is none of `SHELLS`.
    """
    known = list(commands(program))
    text = (Path(__file__).parent / f"grainlike.{shell}").read_text(encoding="utf-8")
    return text.replace(_HERE, _HERE + "\n".join(SHELLS[shell](known)) + "\n", 1)


def _posix(known: list[CommandWords]) -> Iterator[str]:
    """The tables as functions of bash and zsh: `word:help` lines, and the kind of a value."""
    yield from ("_grainlike_words() {", '    case "$1" in')
    for command in known:
        if command.words:
            yield f"    {_quoted(command.path)}) printf '%s\\n' {_described(command.words)} ;;"
    yield from ("    esac", "}", "_grainlike_options() {", '    case "$1" in')
    for command in known:
        yield f"    {_quoted(command.path)}) printf '%s\\n' {_described(command.options)} ;;"
    yield from ("    esac", "}", "_grainlike_kind() {", '    case "$1 $2" in')
    for command in known:
        for option, kind in command.values.items():
            yield f"    {_quoted(f'{command.path} {option}')}) kind={_quoted(kind)} ;;"
        for pattern, kind in _places(command):
            yield f"    {_quoted(command.path)}\\ {pattern}) kind={_quoted(kind)} ;;"
    yield from ("    *) kind='' ;;", "    esac", "}")


def _fish(known: list[CommandWords]) -> Iterator[str]:
    """Return the tables as functions of fish."""
    for table in ("words", "options"):
        yield from (f"function __grainlike_{table}", "    switch $argv[1]")
        for command in known:
            yield f"        case {_quoted(command.path)}"
            for word, help_ in getattr(command, table).items():
                yield f"            printf '%s\\t%s\\n' {_quoted(word)} {_quoted(help_)}"
        yield from ("    end", "end")
    yield from ("function __grainlike_kind", '    switch "$argv[1] $argv[2]"')
    for command in known:
        for option, kind in command.values.items():
            yield from (f"        case {_quoted(f'{command.path} {option}')}", f"            echo {_quoted(kind)}")
        for pattern, kind in _places(command):
            glob = pattern.replace("[0-9]*", "*")
            yield from (f"        case {_quoted(f'{command.path} {glob}')}", f"            echo {_quoted(kind)}")
    yield from ("    end", "end")


def _places(command: CommandWords) -> Iterator[tuple[str, str]]:
    """Return patterns of the numbers of a command's arguments, from 1, with the kinds of their values."""
    for place, kind in enumerate(command.arguments, 1):
        is_last = place == len(command.arguments)
        yield ("[0-9]*" if command.repeats and is_last else str(place)), kind


def _described(table: dict[str, str]) -> str:
    return " ".join(_quoted(f"{word}:{help_}") for word, help_ in table.items())


def _quoted(text: str) -> str:
    """Return text in single quotes, as all three shells take it."""
    return "'" + text.replace("\\", "").replace("'", "’") + "'"


SHELLS: dict[str, Callable[[list[CommandWords]], Iterator[str]]] = {"bash": _posix, "zsh": _posix, "fish": _fish}
"""Writers of the tables, by shell."""
