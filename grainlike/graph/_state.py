"""States of a node, and the places where its work is done."""

from enum import IntEnum
from typing import Literal, TypeAlias

__all__ = ["RunsIn", "State", "Status"]

Status: TypeAlias = Literal["succeeded", "failed", "skipped", "timed_out", "cancelled"]
"""How a run of a named graph ended a job."""


class State(IntEnum):
    """State of a node. Everything from `SUCCEEDED` on is final.

    A call is `LAZY` until it is awaited or started, `PENDING` until it runs, and `RUNNING` then; it ends as
    `SUCCEEDED`, `FAILED` or `CANCELLED`.
    """

    LAZY = 0
    PENDING = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4
    CANCELLED = 5

    @property
    def label(self) -> str:
        """The word that users see: `"lazy"`, `"pending"`, ..."""
        return self.name.lower()


class RunsIn(IntEnum):
    """Place where the work of a node is done."""

    INLINE = 0
    """The resolver itself, synchronously: operators, attributes, `gather`."""
    LOCAL = 1
    """The caller's process: a call without resources."""
    REMOTE = 2
    """A worker: a call with resources."""
