"""Lines of source for tracebacks, where the file is not: notebook cells, prompts, a script on another node.

Only the lines of the code that travels go along, each stretch with the number of its first line.
"""

import linecache
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType

__all__ = ["Stretch", "learn_sources", "sources_of"]

Stretch = tuple[int, list[str]]

_LONGEST = 5000


def sources_of(codes: Iterable[CodeType]) -> dict[str, list[Stretch]]:
    """For every file that `codes` come from, the stretches of lines that they cover, as far as known."""
    sources: dict[str, list[Stretch]] = {}
    for code in codes:
        first, last = _span(code)
        lines = linecache.getlines(code.co_filename)[first - 1 : min(last, first + _LONGEST)]
        if lines:
            sources.setdefault(code.co_filename, []).append((first, lines))
    return sources


def learn_sources(sources: Mapping[str, Iterable[Stretch]]) -> None:
    """Let `linecache`, and so every traceback, know these lines, where it does not see the file itself."""
    for name, stretches in sources.items():
        if not Path(name).exists():
            lines = list(linecache.getlines(name))
            for first, text in stretches:
                lines.extend(["\n"] * (first - 1 + len(text) - len(lines)))
                lines[first - 1 : first - 1 + len(text)] = text
            # No modification time: `linecache.checkcache` drops entries of missing files, but not such ones.
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _span(code: CodeType) -> tuple[int, int]:
    return code.co_firstlineno, max(_lines(code), default=code.co_firstlineno)


def _lines(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line is not None)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant)
