"""Shell patterns for names, as clients send them, and which ended jobs a question means."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

from grainlike.history._form import Entry
from grainlike.wire import AskHistory, EndedJob

__all__ = ["HistoryFilter", "matcher"]


def matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that is true for names that match a shell pattern; for all names, if that is empty.

    It compiles the pattern once: many names are compared, and `fnmatchcase` would keep each client's pattern for ever.

    Example::

        >>> bool(matcher("fit*")("fit_model")), bool(matcher("fit*")("load")), bool(matcher("")("load"))
        (True, False, True)
    """
    return re.compile(translate(pattern)).match if pattern else lambda name: True  # noqa: ARG005 - the signature


class HistoryFilter:
    """Filter of ended jobs: those that a question means.

    Attributes:
        good: jobs that gave a value may be among them.
    """

    def __init__(self, asked: AskHistory) -> None:
        self._asked = asked
        self.good: bool = not asked.error and (not asked.outcomes or "succeeded" in asked.outcomes)
        self._named = matcher(asked.name)
        self._on_worker = matcher(asked.worker)
        self._error = asked.error.casefold()

    def has_any_of(self, entry: Entry) -> bool:
        """Return True if jobs of this entry may be meant."""
        asked = self._asked
        if (asked.outcomes and entry.outcome not in asked.outcomes) or (asked.parent and entry.parent != asked.parent):
            return False
        if not self._on_worker(entry.worker) or self._error not in entry.error.casefold():
            return False
        return not asked.name or any(map(self._named, entry.names))

    def has(self, job: EndedJob) -> bool:
        """Return True if this job of such an entry is meant."""
        return job.ended_at >= self._asked.since and bool(self._named(job.name))
