"""Commands, options and arguments of the program as plain data, and which kind of value each takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grainlike.cli._root import KeepScratch, LogLevel

__all__ = ["COMMAND", "DIRECTORY", "FILE", "NOTHING", "CommandWords", "commands"]

NOTHING = "nothing"
FILE = "file"
DIRECTORY = "directory"
COMMAND = "command"
"""Kind of value that is the command line of another program."""

_OF_METAVARS = {
    "ADDRESS_OR_ACCESS_FILE": "head",
    "JOB": "any-job",
    "LABEL": "block",
    "POOL": "pool",
    "POOL...": "pool",
    "[POOL] N|MIN..MAX": "pool",
    "PATTERN...": "worker",
    "HEAD_JSON": FILE,
    "FILE": FILE,
    "FILE.svg": FILE,
    "DIRECTORY": "journal",
    "D": DIRECTORY,
    "-- COMMAND...": COMMAND,
}
"""Kinds of values by what stands for them in the help."""

_OF_NAMES = {
    "request": "resource",
    "resources": "resource",
    "offer": "resource",
    "directory": "journal",
    "log_level": "=" + " ".join(level.value for level in LogLevel),
    "keep_scratch": "=" + " ".join(kept.value for kept in KeepScratch),
}
"""Kinds of values by names of options and arguments; behind an equals sign stand all there are."""

_OF_COMMANDS = {
    ("cancel", "job"): "job",
    ("completion", "shell"): "=bash zsh fish",
    ("up", "name"): "new-pool",
    ("sessions end", "name"): "session",
}


@dataclass(slots=True)
class CommandWords:
    """A command, or a group of some.

    Attributes:
        path: its words, as `worker start`; empty for the program.
        words: commands of a group, each with a line of help.
        options: with a line of help.
        values: kind of value by option; flags have none.
        arguments: kinds of values of its arguments.
        repeats: True if the last argument may be given again and again.
    """

    path: str
    words: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    repeats: bool = False


def commands(group: Any, path: str = "") -> Iterator[CommandWords]:
    """Return the commands of a group of click's, and the group itself, the first."""
    found = CommandWords(path)
    for name, command in getattr(group, "commands", {}).items():
        if not command.hidden:
            found.words[name] = _line(command.help)
    for parameter in group.params:
        if not getattr(parameter, "hidden", False):
            _add(found, parameter)
    found.options.setdefault("--help", "Show this message and exit.")
    yield found
    for name in found.words:
        yield from commands(group.commands[name], f"{path} {name}".strip())


def _add(command: CommandWords, parameter: Any) -> None:
    kind = _kind(command.path, parameter)
    if not parameter.opts[0].startswith("-"):
        command.arguments.append(kind)
        command.repeats = parameter.nargs == -1
        return
    for option in (*parameter.opts, *parameter.secondary_opts):
        command.options[option] = _line(parameter.help)
        if not parameter.is_flag:
            command.values[option] = kind


def _kind(path: str, parameter: Any) -> str:
    found = _OF_COMMANDS.get((path, parameter.name)) or _OF_METAVARS.get(parameter.metavar or "")
    return found or _OF_NAMES.get(parameter.name, NOTHING)


def _line(text: str | None) -> str:
    """Return the first sentence of a help."""
    first = " ".join((text or "").strip().partition("\n\n")[0].split())
    return first.partition(". ")[0].rstrip(".")
