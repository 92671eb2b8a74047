"""Rows of the lists of `top`: running jobs, what waits, functions, and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from typing import NamedTuple

from grainlike.live import LiveState
from grainlike.observe import usage_by_function
from grainlike.top._marks import Marks
from grainlike.wire import EndedJob, QueueIs, RunningRow

__all__ = ["MOST_ROWS", "Table", "Texts", "failures", "functions", "queue", "running"]

MOST_ROWS = 200
"""Rows of a list at most: what an update costs does not depend on how many jobs there are."""


class Texts(NamedTuple):
    """Writers of text of others, amounts and times: as in the listings of the user who opens the screen.

    Attributes:
        escaped: text with its control characters as escapes.
        amounts: a request or an allocation for people.
        seconds: a time in seconds.
        moment: a moment of `time.time()`.
        ended: what became of a job, in lines.
    """

    escaped: Callable[[str], str]
    amounts: Callable[[str], str]
    seconds: Callable[[float | None], str]
    moment: Callable[[float], str]
    ended: Callable[[EndedJob], Iterable[str]]


class Table(NamedTuple):
    """A list.

    Attributes:
        titles: those of its columns.
        rows: the cells of each row.
        jobs: the job of each row; 0 for none.
        more: how many rows are left out.
        numbers: columns that hold numbers, which stand at the right.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    jobs: Sequence[int]
    more: int = 0
    numbers: Sequence[int] = ()


def running(state: LiveState, now: float, wanted: Callable[[str], bool], texts: Texts) -> Table:
    """Return the jobs that run, the longest first; `now` is on the clock of the head."""
    jobs = [job for job in state.all_running() if wanted(job.name)]
    first = nsmallest(MOST_ROWS, jobs, key=_since)
    rows = [
        (
            *(str(job.job), texts.escaped(job.name)),
            texts.seconds(None if job.began is None else max(0.0, now - job.began)),
            *(texts.escaped(job.worker), texts.amounts(job.slots)),
        )
        for job in first
    ]
    titles = ("job", "name", "for", "worker", "slots")
    return Table(titles, rows, [job.job for job in first], len(jobs) - len(first), (0,))


def _since(job: RunningRow) -> tuple[float, int]:
    return (float("inf") if job.began is None else job.began), job.job


def queue(told: QueueIs | None, wanted: Callable[[str], bool], texts: Texts) -> Table:
    """Return the groups of alike jobs that wait, the largest first, each with the reason of its next one."""
    titles = ("jobs", "name", "request", "why", "next", "in words")
    if told is None:
        return Table(titles, [], [])
    shown = [row for row in told.rows if wanted(row.name)]
    rows = [
        (
            *(f"{row.count:,}", texts.escaped(row.name), texts.amounts(row.request), row.reason, str(row.job)),
            texts.escaped(" ".join(row.words.split())),
        )
        for row in shown
    ]
    return Table(titles, rows, [row.job for row in shown], told.groups - len(told.rows), (0,))


def functions(
    state: LiveState, ended: Sequence[EndedJob], marks: Marks, wanted: Callable[[str], bool], texts: Texts
) -> Table:
    """Return the functions of the jobs that run, and of the last ones that have ended, the busiest first, each with
    what to ask for next time: of several requests, by those that ran the longest.
    """
    now = Counter(job.name for job in state.all_running())
    well = Counter(job.name for job in ended if job.outcome == "succeeded")
    badly = Counter(job.name for job in ended if job.outcome in ("failed", "timed_out"))
    times: dict[str, list[float]] = {}
    for job in ended:
        if job.ran_s is not None:
            times.setdefault(job.name, []).append(job.ran_s)
    suggested = {usage.name: usage.suggested or "" for usage in reversed(usage_by_function(ended))}
    names = [name for name in {**now, **well, **badly} if wanted(name)]
    first = nlargest(MOST_ROWS, names, key=lambda name: (now[name], well[name] + badly[name]))
    rows = [
        (
            *(marks.of(name).letter, texts.escaped(name), f"{now[name]:,}", f"{well[name]:,}", f"{badly[name]:,}"),
            texts.seconds(sum(times[name]) / len(times[name])) if name in times else "",
            texts.amounts(suggested.get(name, "")),
        )
        for name in first
    ]
    titles = ("", "function", "running", "done", "failed", "mean", "suggested")
    return Table(titles, rows, [0] * len(rows), len(names) - len(first), (2, 3, 4, 5))


def failures(ended: Sequence[EndedJob], wanted: Callable[[str], bool], texts: Texts) -> Table:
    """Return the last jobs that failed or timed out, the latest first."""
    shown = [job for job in ended if wanted(job.name)][:MOST_ROWS]
    rows = [
        (
            *(str(job.job), texts.escaped(job.name), texts.moment(job.ended_at), texts.escaped(job.worker)),
            texts.escaped(job.error or job.outcome.replace("_", " ")),
        )
        for job in shown
    ]
    return Table(("job", "name", "ended", "worker", "error"), rows, [job.job for job in shown], 0, (0,))
