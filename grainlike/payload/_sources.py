"""Lines of source for tracebacks, where the file is not: notebook cells, prompts, a script on another node."""

import linecache
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType

__all__ = ["learn_sources", "sources_of"]

_LARGEST = 256 * 1024


def sources_of(codes: Iterable[CodeType]) -> dict[str, str]:
    """The text of every file that `codes` come from, as far as it is known here and of a sensible size."""
    texts = {name: "".join(linecache.getlines(name)) for name in {code.co_filename for code in codes}}
    return {name: text for name, text in texts.items() if 0 < len(text) <= _LARGEST}


def learn_sources(sources: Mapping[str, str]) -> None:
    """Let `linecache`, and so every traceback, know these texts, where it does not see the file itself."""
    for name, text in sources.items():
        if name not in linecache.cache and not Path(name).exists():
            # No modification time: `linecache.checkcache` drops entries of missing files, but not those.
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
