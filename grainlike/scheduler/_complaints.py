"""Warnings of jobs that wait in vain: nobody who is here could run them, and they may not know it."""

from __future__ import annotations

from grainlike.scheduler._events import HeadAction, JobsPending
from grainlike.scheduler._head_books import HeadBooks

__all__ = ["NOBODY_S", "complain"]

NOBODY_S = 5.0
"""How long jobs may wait for a first worker before that is worth a warning."""


def complain(books: HeadBooks, now: float, out: list[HeadAction]) -> float | None:
    """Warn, once per class, of jobs that nobody who is here could run; say when to look again."""
    members, catalogue = books.planner.members, books.catalogue
    wake: float | None = None
    for cls in catalogue.classes.values():
        oldest = None if cls.warned or cls.fits_as_of == members else cls.head()
        if oldest is None:
            continue
        if catalogue.anybody_fits(cls):
            cls.fits_as_of = members
            continue
        due = cls.blocked_since + NOBODY_S
        if now < due and not any(catalogue.staying()):
            wake = due if wake is None else min(wake, due)
            continue
        cls.warned = True
        out.append(JobsPending(cls.request, oldest.job, len(cls.live()), catalogue.why_never(cls.request)))
    return wake
