"""What befell jobs, as records in the order in which they were written, and an independent judge of them.

Jobs, the programs that want them, and whoever kills processes append lines to one file. The kernel puts what is
appended in an order, so no clock is compared. The judge knows nothing of grainlike: only what was seen to happen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

__all__ = ["OVER", "Complaint", "Record", "complaints", "note", "read"]

OVER = "over"
"""A file beside the history that is made when no more faults fall."""


@dataclass(frozen=True)
class Record:
    """One thing that happened.

    Attributes:
        what: `wanted`: a client (`who`) wants a job. `begin`, `end`: an attempt ran, on `workers`, in a process; `how`
            it ended is `done`, or `raised` where there is to be another attempt. `outcome`: a client has been told;
            `how` is `right`, `wrong` (another value) or `lost`. `falls`: `who`, a worker, a client or a process, is
            about to be killed. `left`: some time after that a process of it still runs.
        job: what it is called by those who want it.
        workers: who holds slots for it; each start of a worker has a name of its own. A head that still counts a worker
            as connected gives it another name when it joins once more: `w4` is `w4-2` there.
    """

    what: str
    job: str = ""
    attempt: int = 0
    workers: tuple[str, ...] = ()
    process: str = ""
    who: str = ""
    how: str = ""


class Complaint(NamedTuple):
    """A promise that was broken: `lost`, `wrong`, `duplicate outcome`, `invented`, `at the same time`, `again`, `after
    its outcome`, `orphan`.
    """

    kind: str
    job: str
    words: str


def note(path: str | Path, record: Record) -> None:
    """Append a record. It is in one piece, whoever else writes."""
    line = json.dumps({name: value for name, value in asdict(record).items() if value}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def read(path: str | Path) -> list[Record]:
    """All records, in order."""
    return [_record(json.loads(line)) for line in Path(path).read_text().splitlines()]


def _record(fields: dict[str, object]) -> Record:
    workers = fields.pop("workers", ())
    assert isinstance(workers, (list, tuple))
    return Record(workers=tuple(workers), **fields)  # type: ignore[arg-type]


@dataclass
class _Attempt:
    begin: Record
    end: str = ""


@dataclass
class _Job:
    client: str = ""
    attempts: list[_Attempt] = field(default_factory=list)
    outcomes: list[Record] = field(default_factory=list)


def complaints(history: Iterable[Record]) -> list[Complaint]:
    """Everything in a history that grainlike promises not to let happen. A history is over: nothing comes behind it."""
    jobs: dict[str, _Job] = {}
    fallen: set[str] = set()
    found: list[Complaint] = []
    for record in history:
        if record.what == "falls":
            fallen.add(record.who)
        elif record.what == "left":
            found.append(Complaint("orphan", "", f"{record.process} of {record.who} outlives it"))
        else:
            found += _take(record, jobs.setdefault(record.job, _Job()), fallen)
    for name, job in jobs.items():
        if job.client and not job.outcomes and job.client not in fallen:
            found.append(Complaint("lost", name, f"{job.client} wants it, and was told nothing"))
    return found


def _take(record: Record, job: _Job, fallen: set[str]) -> Iterator[Complaint]:
    match record.what:
        case "wanted":
            job.client = record.who
        case "begin":
            yield from _check_begin(record, job, fallen)
            job.attempts.append(_Attempt(record))
        case "end":
            ended = [one for one in job.attempts if _is_same(one.begin, record)]
            if not ended:
                yield Complaint("invented", record.job, f"attempt {record.attempt} ended and never began")
            for attempt in ended:
                attempt.end = record.how
        case "outcome":
            yield from _check_outcome(record, job, fallen)
            job.outcomes.append(record)
        case _:
            raise ValueError(f"no record: {record}")


def _is_same(begin: Record, end: Record) -> bool:
    return (begin.attempt, begin.process) == (end.attempt, end.process)


def _check_begin(begin: Record, job: _Job, fallen: set[str]) -> Iterator[Complaint]:
    if job.outcomes:
        yield Complaint("after its outcome", begin.job, f"attempt {begin.attempt} began on {begin.workers}")
    for before in job.attempts:
        if _has_fallen(before.begin, fallen) or before.end == "raised":
            continue
        kind = "again" if before.end else "at the same time"
        words = f"attempt {before.begin.attempt} on {before.begin.workers}, which lives, then {begin.attempt}"
        yield Complaint(kind, begin.job, f"{words} on {begin.workers}")


def _has_fallen(attempt: Record, fallen: set[str]) -> bool:
    started_as = {worker.partition("-")[0] for worker in attempt.workers}
    return not fallen.isdisjoint({*started_as, attempt.process})


def _check_outcome(outcome: Record, job: _Job, fallen: set[str]) -> Iterator[Complaint]:
    if job.outcomes:
        yield Complaint("duplicate outcome", outcome.job, f"{job.outcomes[0].how}, then {outcome.how}")
    if outcome.how == "right" and not any(one.end == "done" for one in job.attempts):
        yield Complaint("invented", outcome.job, "its value was told, and no attempt has ended")
    if outcome.how == "wrong":
        yield Complaint("wrong", outcome.job, "another value than it has")
    if outcome.how == "lost" and not any(_has_fallen(one.begin, fallen) for one in job.attempts):
        yield Complaint("lost", outcome.job, "it was given up, and nothing that ran it has fallen")
