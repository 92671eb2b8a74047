"""Stand-in for the workers where there is no connection to them."""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.errors import UnsatisfiableError
from grainlike.graph import Node
from grainlike.jobs import Outcomes

__all__ = ["NoWorkers"]


class NoWorkers:
    """Rejects calls with resources, with an error that names what to do instead."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes

    def submit(self, nodes: Iterable[Node]) -> None:
        """Fail each of them."""
        for node in nodes:
            name = node.function.name
            error = UnsatisfiableError(
                f"{name} asks for {node.request}, and there is no way to the head from here: a job has one in the main "
                "thread of its process, and until it ends"
            )
            self._outcomes.failed(node, error)

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Do nothing: no call ever started."""
