"""What stands in for the workers where there is no way to them: inside a job."""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.errors import UnsatisfiableError
from grainlike.executor._head import Outcomes
from grainlike.graph import Node

__all__ = ["NoWorkers"]


class NoWorkers:
    """Refuses calls with resources, and says what to do instead."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes

    def submit(self, nodes: Iterable[Node]) -> None:
        """Fail each of them."""
        for node in nodes:
            name = node.function.name
            error = UnsatisfiableError(
                f"{name} asks for {node.request} from inside a job, and jobs cannot start jobs on workers yet: call it "
                f"where the job is called, and pass its placeholder as an argument; or call {name} without resources"
            )
            self._outcomes.failed(node, error)

    def cancel(self, nodes: Iterable[Node]) -> None:
        """Nothing ever started."""
