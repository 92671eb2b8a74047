"""Commands of shell text on pages: which there are, and whether grainlike's own parser takes them; none is run."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from grainlike.cli._root import whole_app

__all__ = ["commands_in", "own_commands", "parse_own", "typed_lines"]

_PROMPT = re.compile(r"^(?:\w+)?\$ (.*)$", re.MULTILINE)
_ASSIGNMENT = re.compile(r"^\w+=")
_OPERATORS = re.compile(r"^[();<>|&]+$")
_REDIRECTIONS = re.compile(r"^[<>&]*[<>][<>&]*$")
_BEFORE = {"exec", "nohup", "srun", "time"}
"""Words before a command that run it."""

_OWN = {
    ("grainlike",): (),
    ("python", "-m", "grainlike"): (),
    ("python", "-m", "grainlike_worker"): ("worker", "start"),
}
"""First words of our commands, and what they say by their name alone."""


def typed_lines(console: str) -> str:
    """Return what is typed in a `console` block: what stands behind its prompts, `$ ` or `HOST$ `."""
    return "\n".join(_PROMPT.findall(console))


def commands_in(script: str) -> Iterator[list[str]]:
    """Return the words of each simple command of a script, without assignments, redirections and comments."""
    for line in _whole_lines(script):
        found: list[str] = []
        operand = False
        for word in _split(line):
            if _OPERATORS.match(word):
                operand = bool(_REDIRECTIONS.match(word))
                if not operand:
                    yield from _one(found)
                    found = []
            elif operand:
                operand = False
            else:
                found.append(word)
        yield from _one(found)


def own_commands(script: str) -> list[list[str]]:
    """Return the words of our commands in a script, behind `grainlike`; those that another shell is given, too."""
    found = []
    for words in commands_in(script):
        for first, meant in _OWN.items():
            if tuple(words[: len(first)]) == first:
                found.append([*meant, *words[len(first) :]])
        # ssh, sh -c and their like are given a script in one word.
        found += [command for word in words[1:] if "grainlike " in word for command in own_commands(word)]
    return found


def parse_own(words: list[str]) -> None:
    """Parse a command line of ours to the end, and run nothing.

    Raises:
        Exception: the program would refuse it; of the kind that its parser has for that.
    """
    command = _program()
    context = _parsed(command, "grainlike", words, None)
    while hasattr(command, "commands") and context is not None:
        rest = [*context._protected_args, *context.args]
        if not rest:  # a group that does something without a command of its own
            return
        name, command, rest = command.resolve_command(context, rest)
        context = _parsed(command, name, rest, context)


@cache
def _program() -> Any:
    return typer.main.get_command(whole_app())


def _parsed(command: Any, name: str, words: list[str], parent: Any) -> Any:
    """Return the context of a command that has taken its words; None where one of them was all, as `--version`."""
    try:
        return command.make_context(name, words, parent=parent)
    except typer.Exit:
        return None


def _whole_lines(script: str) -> Iterator[str]:
    """Return the lines of a script; one that ends within quotes goes on in the next, and so does one that ends with a
    backslash.
    """
    begun = ""
    for line in script.replace("\\\n", " ").splitlines():
        begun += line
        try:
            _split(begun)
        except ValueError:
            begun += "\n"
        else:
            yield begun
            begun = ""
    assert not begun, f"quotes that do not end: {begun}"


def _split(line: str) -> list[str]:
    found = shlex.shlex(line, posix=True, punctuation_chars=True)
    found.whitespace_split = True
    return list(found)


def _one(words: list[str]) -> Iterator[list[str]]:
    """Return a command from its first word on: what sets variables, or runs it, is left out."""
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _BEFORE):
        words = words[1:]
    if words:
        yield [re.sub(r"^python3$", "python", Path(words[0]).name), *words[1:]]
