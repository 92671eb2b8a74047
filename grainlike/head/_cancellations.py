"""Jobs of the program that are wanted no more: stopped at once, or once the actions at hand are performed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from grainlike.head._history import JobHistory
from grainlike.head._state import HeadState
from grainlike.jobs import Job
from grainlike.scheduler import HeadEvent, JobsCancelled

if TYPE_CHECKING:
    from grainlike.graph import Node

__all__ = ["Cancellations"]


class Cancellations:
    """Removes jobs from `state` as they are cancelled, keeps them in `history`, and tells the scheduler by `tell`.

    An observer, or whatever rebuilds a value, may cancel calls while the head performs the actions of an event. Those
    that follow may be about the same jobs, as the scheduler chose them before: so these stay until `release`.
    """

    def __init__(self, state: HeadState, history: JobHistory, tell: Callable[[HeadEvent], object]) -> None:
        self._state = state
        self._history = history
        self._tell = tell
        self.held: bool = False
        """True while actions are performed."""
        self.put_off: list[tuple[list[Node], bool]] = []
        """Nodes that were cancelled meanwhile, and whether they were skipped, in their order."""

    def cancel(self, nodes: Iterable[Node], *, skipped: bool) -> None:
        """Stop the jobs of nodes."""
        if self.held:
            self.put_off.append((list(nodes), skipped))
            return
        counters = self._state.counters
        numbers: list[int] = []
        for node in nodes:
            job = node.record
            if isinstance(job, Job) and self._state.jobs.pop(job.id, None) is not None:
                self._history.unwanted([job], skipped=skipped)
                job.close()
                numbers.append(job.id)
                counters.unwanted(skipped=skipped and job.began is None, internal=node.function.internal)
            elif job is None or (isinstance(job, Job) and job.node is not None):  # never sent, or along with another
                counters.unwanted(skipped=skipped)
        if numbers:
            self._tell(JobsCancelled(numbers))

    def release(self) -> None:
        """Stop the jobs that were cancelled while actions were performed."""
        put_off, self.put_off = self.put_off, []
        for nodes, skipped in put_off:
            self.cancel(nodes, skipped=skipped)
