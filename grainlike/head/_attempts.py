"""Attempts of jobs that are followed by another one: what ended each, and those of each live job so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grainlike.head._errors import name_of, stopped, text_of
from grainlike.head._nested import RelayedJob
from grainlike.history import plain_text
from grainlike.jobs import Job
from grainlike.payload import message_of_error, told_of_error
from grainlike.wire import Code, Completed, EndedAttempt, Parcel, Report

__all__ = ["MOST_ATTEMPTS", "AttemptEnds", "EarlierAttempts", "made_before"]

MOST_ATTEMPTS = 8
"""Earlier attempts that are kept of one job: the latest."""

_MOST_BYTES = 4_000_000
_ROW_BYTES = 250
"""Bytes that the attempts of jobs that have not ended take at most: those of jobs that were tried again the longest ago
are dropped. A row takes so many beside its text.
"""

_AS_BEFORE = (Code.RETURNED, Code.UNFIT)
"""Ends after which the same attempt is assigned again: nothing of the job has run."""

_VALUE_LOST = "its value was lost, and was needed again"

_BY_ITSELF = (Code.FAILED, Code.OUT_OF_MEMORY)
_BY_ITS_PROCESS = (Code.CRASHED, Code.UNBEGUN, Code.UNSTARTED)


class AttemptEnds:
    """Ends of the attempts that a head hears of now: in a worker's `report`, or with a worker that is `lost`.

    They are set before the scheduler's actions are performed, as attributes: a call would be one for each report.

    Attributes:
        report: the report that is being handled, if one is.
        parcels: outcomes of each of its `Completed`, by identity.
        skew: seconds by which the clock of its worker is behind the head's.
        rows: where in the report each attempt is that has ended, by job; None until that is looked up.
        lost: why a worker is lost.
    """

    __slots__ = ("lost", "parcels", "report", "rows", "skew")

    def __init__(self) -> None:
        self.report: Report | None = None
        self.parcels: Mapping[int, Sequence[Parcel]] = {}
        self.skew = 0.0
        self.rows: dict[int, tuple[Completed, int]] | None = None
        self.lost = ""

    def of(self, job: Job, now: float, ahead: float) -> EndedAttempt | None:
        """Return what ended the present attempt of a job that runs again; None if nothing of it had run.

        `now` is the head's clock, and `time.time()` is `ahead` of it.
        """
        began, slots = job.began, job.slots
        if began is None or slots is None:
            return None
        found = self._row(job.id)
        if found is None:
            outcome, error, ran = "lost", self.lost, now - began
        else:
            completed, row = found
            code = Code(completed.codes[row])
            if code in _AS_BEFORE:
                return None
            outcome, error, ran = code.name.lower(), self._error(job, code, completed, row), now - began
            if code not in _BY_ITS_PROCESS:  # which would have measured it
                began, ran = completed.begun[row] + self.skew, completed.wall[row]
        where = plain_text(job.worker or "")
        return EndedAttempt(job.attempt, where, slots, outcome, plain_text(error), began + ahead, max(0.0, ran))

    def message_of(self, job: int) -> str:
        """Return the message of the exception that has ended a job in the report that is being handled."""
        found = self._row(job)
        assert found is not None, "it has failed in this report"
        completed, row = found
        return message_of_error(self.parcels[id(completed)][row][0])

    def _row(self, job: int) -> tuple[Completed, int] | None:
        if self.report is None:
            return None
        if self.rows is None:
            completed = self.report.completed
            self.rows = {number: (each, row) for each in completed for row, number in enumerate(each.jobs)}
        return self.rows.get(job)

    def _error(self, job: Job, code: Code, completed: Completed, row: int) -> str:
        if code in _BY_ITSELF:
            return told_of_error(self.parcels[id(completed)][row][0])
        if code in _BY_ITS_PROCESS:
            return completed.details.get(job.id, "")
        return text_of(stopped(job, name_of(job), _timeout(job), code))


def _timeout(job: Job) -> float | None:
    if isinstance(job, RelayedJob):
        return job.timeout
    return None if job.node is None else job.node.function.options.timeout


def made_before(job: Job, ahead: float) -> EndedAttempt | None:
    """Return the attempt of a job that made a value which is lost, and is made again; None if it never began.

    `time.time()` is `ahead` of the head's clock.
    """
    made = job.placement
    if made is None or made.began is None:
        return None
    ran = 0.0 if made.used is None else made.used[0]
    where, began = plain_text(made.worker or ""), made.began + ahead
    return EndedAttempt(made.attempt, where, made.slots or "", "succeeded", _VALUE_LOST, began, ran)


class EarlierAttempts:
    """Attempts so far of jobs that have not ended, in `jobs` by number: of each the latest, within bounds."""

    def __init__(self, jobs: dict[int, list[EndedAttempt]] | None = None) -> None:
        self.jobs = {} if jobs is None else jobs
        self._bytes = sum(map(_size, self.jobs.values()))

    def add(self, job: int, ended: EndedAttempt) -> None:
        """Add an attempt of a job; one of the same number is replaced, as it was assigned again."""
        before = self.jobs.pop(job, [])
        now = [*(one for one in before if one.attempt != ended.attempt), ended][-MOST_ATTEMPTS:]
        self._bytes += _size(now) - _size(before)
        self.jobs[job] = now
        while self._bytes > _MOST_BYTES:
            self.take(next(iter(self.jobs)))

    def take(self, job: int) -> list[EndedAttempt]:
        """Return the attempts of a job that has ended, and keep them no more."""
        taken = self.jobs.pop(job, [])
        self._bytes -= _size(taken)
        return taken


def _size(attempts: Sequence[EndedAttempt]) -> int:
    return sum(_ROW_BYTES + len(one.error) + len(one.slots) + len(one.worker) for one in attempts)
