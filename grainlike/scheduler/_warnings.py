"""Warnings about jobs that no connected worker could run."""

from __future__ import annotations

from itertools import islice

from grainlike.scheduler._events import HeadAction, JobsPending
from grainlike.scheduler._state import SchedulerState

__all__ = ["NOBODY_S", "complain"]

NOBODY_S = 5.0
"""Seconds for which jobs wait for a first worker without a warning."""


LOOKED_AT_MOST = 1024
"""The most classes that one call looks at; the next call, at once, looks at more."""


def complain(state: SchedulerState, now: float, out: list[HeadAction]) -> float | None:
    """Warn, once per class, of jobs that no connected worker could run; return when to look again."""
    catalogue = state.catalogue
    doubted = catalogue.doubted
    somebody: bool | None = None
    for cls in list(islice(doubted.values(), LOOKED_AT_MOST)):
        oldest = None if cls.warned else cls.head()
        if oldest is not None and somebody is None:
            somebody = any(catalogue.staying())
        if oldest is not None and not (somebody and catalogue.anybody_fits(cls)):
            due = cls.blocked_since + NOBODY_S
            if now < due and not somebody:
                return due  # those behind it came later
            if somebody and state.split(cls):
                del doubted[cls.id]
                return now
            cls.warned = True
            out.append(JobsPending(oldest.request, oldest.id, len(cls.live()), catalogue.why_never(oldest.request)))
        del doubted[cls.id]
    return now if doubted else None
