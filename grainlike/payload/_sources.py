"""Lines of source that travel with code, for tracebacks where its file is not."""

import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["Stretch", "dependencies_of", "learn_sources", "placed"]

Stretch = tuple[int, list[str]]

_LONGEST = 5000


def dependencies_of(codes: Iterable[CodeType]) -> dict[str, list[Stretch]]:
    """Return the lines of source that `codes` cover, in stretches, by file, as far as known."""
    sources: dict[str, list[Stretch]] = {}
    for code in codes:
        first, last = _span(code)
        lines = linecache.getlines(code.co_filename)[first - 1 : min(last, first + _LONGEST)]
        if lines:
            sources.setdefault(code.co_filename, []).append((first, lines))
    return sources


def learn_sources(sources: Mapping[str, Iterable[Stretch]]) -> None:
    """Give `linecache`, and so every traceback, these lines of files that do not exist here."""
    for name, stretches in sources.items():
        if not Path(name).exists():
            lines = list(linecache.getlines(name))
            for first, text in stretches:
                lines.extend(["\n"] * (first - 1 + len(text) - len(lines)))
                lines[first - 1 : first - 1 + len(text)] = text
            # `linecache.checkcache` drops entries of missing files, except those without a modification time.
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _span(code: CodeType) -> tuple[int, int]:
    return code.co_firstlineno, max(_lines(code), default=code.co_firstlineno)


def _lines(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line is not None)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant)


def placed(make: Callable[..., CodeType], args: tuple[Any, ...], name: str, lines: list[Stretch]) -> CodeType:
    """Return the code that `make` rebuilds, as that of the file `name`, of which it learns these lines. cloudpickle
    leaves the name out, and tracebacks show neither file nor line.
    """
    if lines:
        learn_sources({name: lines})
    return make(*args).replace(co_filename=name)
