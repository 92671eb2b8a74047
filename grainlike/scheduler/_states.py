"""States of a job in the head scheduler, and all transitions between them.

::

    QUEUED ──> PLANNED ──> LEASED ──> (gone)
      │ ^  ├──> AHEAD ──────^ │
      │ ^  └──> MOVING ─> (QUEUED)
      │ └── returned, lost, retried ─┤
      └<──────── BACKOFF <───────────┘

A job that has ended, in whatever way, is dropped: there is no final state.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["JobState", "transition_table"]


class JobState(IntEnum):
    """State of a live job."""

    QUEUED = 0  # waits at the head
    PLANNED = 1  # assigned to a worker and counted against its free amounts
    AHEAD = 2  # waits at a worker, counted against nothing yet
    LEASED = 3  # part of a lease that its worker granted
    BACKOFF = 4  # waits at the head until it is time for its next attempt
    MOVING = 5  # waits at the head, counted against nothing, until its inputs are whole where it is to run


_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.PLANNED, JobState.AHEAD, JobState.MOVING}),
    JobState.PLANNED: frozenset({JobState.LEASED, JobState.QUEUED}),
    JobState.AHEAD: frozenset({JobState.LEASED, JobState.QUEUED}),
    JobState.LEASED: frozenset({JobState.LEASED, JobState.QUEUED, JobState.BACKOFF}),  # LEASED: handed back inside
    JobState.BACKOFF: frozenset({JobState.QUEUED}),
    JobState.MOVING: frozenset({JobState.QUEUED}),
}


def transition_table() -> dict[JobState, frozenset[JobState]]:
    """Return the allowed transitions; the picture in the documentation is drawn from it, and tests hold the scheduler
    to it.
    """
    return dict(_TRANSITIONS)
