"""Which jobs a value goes back to, through operators: what a trace draws arrows from."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from grainlike.jobs import Job

if TYPE_CHECKING:
    from grainlike.graph import Node

__all__ = ["Behind", "key_of", "sources_of"]

MOST = 64
"""Of a sum of thousands each partial sum would list all before it."""


class Behind:
    """What is known of an operator while jobs are recorded. Implements the graph's `Record`: it ran nowhere."""

    __slots__ = ("sources",)

    worker = allocation = receipt = usage = None
    attempt = 0
    began: float | None = None
    ended: float | None = None

    def __init__(self, sources: tuple[Hashable, ...]) -> None:
        self.sources = sources

    def elapsed_s(self) -> float | None:
        """It took no time of anybody's."""
        return None

    def why_pending(self) -> str | None:
        """It is not pending."""
        return None


def sources_of(node: Node) -> tuple[Hashable, ...]:
    """The jobs and calls whose values a node that has not finished is given; the last 64 of more."""
    found: dict[Hashable, None] = {}
    for dep in node.deps:
        record = dep.record
        if isinstance(record, Behind):
            found.update(dict.fromkeys(record.sources))
        elif record is not None:
            found[key_of(record)] = None
    return tuple(found)[-MOST:]


def key_of(record: object) -> Hashable:
    """By what a job is told from others: its number; a call without resources has none, and is told by what it is."""
    return record.job if isinstance(record, Job) else ("call", id(record))
