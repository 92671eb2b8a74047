"""What the reference shows, with the text of each: for tests of its docstrings."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api_pages import shown_members, shown_objects

__all__ = ["SHOWN", "Example", "entries_of", "examples_of"]

_EXAMPLE = re.compile(r"^Examples?:{1,2}\n\n?(?P<code>(?:(?: {4}.*)?\n)+)", re.MULTILINE)
_SECTION = re.compile(r"^(?:Args|Attributes):\n(?P<entries>(?:(?: {4}.*)?\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(?P<name>\w+)(?: \([^)\n]*\))?:(?P<text>.*\n(?:(?: {5,}.*)?\n)*)", re.MULTILINE)


def _shown() -> Iterator[tuple[str, Any]]:
    for name, found in shown_objects().items():
        yield name, found
        if isinstance(found, type) and not issubclass(found, BaseException):
            for member in shown_members(name, found):
                value = inspect.getattr_static(found, member)
                value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if inspect.isfunction(value) or isinstance(value, property):
                    yield f"{name}.{member}", value


SHOWN: dict[str, Any] = dict(_shown())
"""Classes, functions, methods and properties that the reference shows, by name below `grainlike`."""


@dataclass
class Example:
    """Code that a docstring shows, with the name of what it is about."""

    name: str
    code: str

    @property
    def is_session(self) -> bool:
        """True for lines of an interactive session, with what they print."""
        return self.code.startswith(">>>")


def examples_of(name: str) -> list[Example]:
    """Return the examples of what the reference shows under a name."""
    text = f"{inspect.getdoc(SHOWN[name]) or ''}\n"
    return [Example(name, textwrap.dedent(match["code"]).strip() + "\n") for match in _EXAMPLE.finditer(text)]


def entries_of(found: Any) -> dict[str, str]:
    """Return what a docstring says of each parameter or attribute, by name."""
    text = f"{inspect.getdoc(found) or ''}\n"
    sections = "".join(match["entries"] for match in _SECTION.finditer(text))
    return {match["name"]: " ".join(match["text"].split()) for match in _ENTRY.finditer(sections)}
