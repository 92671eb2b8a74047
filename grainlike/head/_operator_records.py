"""Provenance of operator values: the jobs that a value was computed from, for the arrows of a trace."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from grainlike.jobs import Job

if TYPE_CHECKING:
    from grainlike.graph import Node

__all__ = ["Behind", "key_of", "sources_of"]

MOST = 64
"""Most sources that are kept of one value: of a sum of thousands each partial sum would list all before it."""


class Behind:
    """Record of an operator while jobs are recorded. Implements the graph's `Record`: it ran nowhere."""

    __slots__ = ("sources",)

    worker = allocation = receipt = usage = None
    attempt = 0
    began: float | None = None
    ended: float | None = None

    def __init__(self, sources: tuple[Hashable, ...]) -> None:
        self.sources = sources

    def elapsed_s(self) -> float | None:
        """Return None: an operator takes no time of a worker."""
        return None

    def why_pending(self) -> str | None:
        """Return None: an operator is never pending."""
        return None


def sources_of(node: Node) -> tuple[Hashable, ...]:
    """Return the jobs and calls whose values are inputs of an unfinished node; the last 64 of more."""
    found: dict[Hashable, None] = {}
    for dep in node.deps:
        record = dep.record
        if isinstance(record, Behind):
            found.update(dict.fromkeys(record.sources))
        elif record is not None:
            found[key_of(record)] = None
    return tuple(found)[-MOST:]


def key_of(record: object) -> Hashable:
    """Return the key of a job among others: its number; a call without resources has none, and is identified by its
    record.
    """
    return record.job if isinstance(record, Job) else ("call", id(record))
