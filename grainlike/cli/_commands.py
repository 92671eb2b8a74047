"""Commands to be run: the words of a command and its request, from the command line or a line of a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import msgspec

from grainlike.errors import ResourceSpecError
from grainlike.resources import Request, parse

__all__ = ["Command", "read_commands", "read_request"]

_REQUEST = ("-r", "--request")

_QUOTED_OR_COMMENT = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<!\S)(?P<comment>#)""")

_OF_SHELLS = re.compile(r"\||;|>|&&")


class Command(msgspec.Struct, frozen=True):
    """A program with its arguments, and what it asks for."""

    words: tuple[str, ...]
    request: Request

    def __str__(self) -> str:
        return shlex.join(self.words)


def read_request(text: str, *, lenient: bool, warn: list[str]) -> Request:
    """Parse a request. With `lenient`, a part that has no value is left out, with a message in `warn`.

    Raises `ResourceSpecError` for what is none.
    """
    if lenient:
        bare = [part for part in text.split() if "=" not in part and part != "|"]
        warn.extend(f"left out {part!r}: parts must be KEY=VALUE" for part in bare)
        text = " ".join(part for part in text.split() if part not in bare)
    return parse(text)


def read_commands(lines: Iterable[str], default: str | None, *, lenient: bool, warn: list[str]) -> list[Command]:
    """Return the commands of a file, one a line: `COMMAND...`, or `-r TEXT -- COMMAND...` for a request of its own.

    Words are split as a shell does, and nothing else is done to them; `warn` gets a message where a shell would do
    more; what begins with `#` is a comment. Raises `ValueError` for the first line that is wrong, with its number.
    """
    commands = []
    for number, line in enumerate(lines, 1):
        try:
            text = _without_comment(line)
            words = shlex.split(text)
            sign = _OF_SHELLS.search(_QUOTED_OR_COMMENT.sub("", text))
            if sign:
                warn.append(f"line {number}: no shell reads it, so {sign[0]!r} goes to the program; write sh -c '...'")
            if words:
                commands.append(_read_command(words, default, lenient=lenient, warn=warn))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return commands


def _without_comment(line: str) -> str:
    """Return what stands before a comment. `shlex` takes `#` for one inside of a word too, and so cuts addresses
    short.
    """
    for found in _QUOTED_OR_COMMENT.finditer(line):
        if found["comment"]:
            return line[: found.start()]
    return line


def _read_command(words: Sequence[str], default: str | None, *, lenient: bool, warn: list[str]) -> Command:
    wanted = []
    while words and words[0] in _REQUEST:
        if len(words) < 2:
            raise ValueError(f"{words[0]} takes a request, as {words[0]} 'cores=2'")
        wanted.append(words[1])
        words = words[2:]
    if wanted and "--" in words:
        end = words.index("--")
        if all("=" in word or word == "|" for word in words[:end]) and end:
            whole = shlex.quote(" ".join([*wanted, *words[:end]]))
            raise ValueError(f"a request is one word, so quote it: -r {whole} -- {shlex.join(words[end + 1 :])}")
    if words and words[0] == "--":
        words = words[1:]
    if not words or not words[0]:
        raise ValueError("there is a request, but no command")
    text = " ".join(wanted) or default
    if text is None:
        raise ResourceSpecError("it asks for nothing: give -r TEXT, as -r 'cores=1', here or for all")
    return Command(tuple(words), read_request(text, lenient=lenient, warn=warn))
