"""Export of the state of a head that is not running, from its journal."""

from __future__ import annotations

from pathlib import Path

from grainlike.graph import Node
from grainlike.head.durable._clients import DurableGuests
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._snapshot import began_here
from grainlike.head.durable._store import Keeping
from grainlike.wire import JobRow

__all__ = ["exported"]


class _Nobody:
    """Receiver of outcomes that ignores them: it is all past."""

    def succeeded(self, node: Node, value: object) -> None:
        """A job gave a value."""

    def failed(self, node: Node, error: BaseException) -> None:
        """A job will give no value."""


def exported(directory: Path) -> list[JobRow]:
    """The jobs that had not ended, the oldest first. The head must not be running, and does not notice.

    Raises:
        JournalError: the journal is damaged, in use, of another release, or open to others.
    """
    keeping = Keeping(directory, began_here(0))
    try:
        head = DurableHead(_Nobody(), keeping.began, keeping.clock, _forget)
        keeping.restore(head, DurableGuests(head, "", bool, bool, _nothing))
        return head.view.rows(None)
    finally:
        keeping.close()


def _forget(at: float) -> None:
    """Ignore a request for a tick: no time passes in an export."""


def _nothing() -> None:
    """Do nothing when the last client has left."""
