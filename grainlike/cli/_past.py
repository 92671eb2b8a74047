"""Queries to a running head about jobs that have ended: `jobs --ended`, `report`, `trace`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grainlike.cli._exits import OK
from grainlike.cli._words import (
    amounts,
    as_plain,
    bytes_text,
    escaped,
    moment_text,
    print_jobs,
    print_json,
    print_table,
    seconds,
)
from grainlike.client import Asker, BlockingClient, RefusedQueryError
from grainlike.jobs import ended_jobs
from grainlike.system import LateFile
from grainlike.wire import (
    KEPT_JOBS,
    AskHistory,
    AskJobs,
    AskReport,
    EndedAttempt,
    EndedJob,
    HistoryIs,
    JobsAre,
    ReceiptRow,
    ReportIs,
    SpanRow,
    Totals,
    checked_pattern,
)

if TYPE_CHECKING:
    from grainlike.observe import Depth, FunctionUsage, Stretch

__all__ = [
    "attempt_words",
    "earlier_words",
    "ended_words",
    "explain_ended",
    "list_ended",
    "selection",
    "show_report",
    "write_trace",
]

_AGO = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s*([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def selection(
    name: str | None, since: str | None, *, most: int, failed: bool, error: str | None = None, worker: str | None = None
) -> AskHistory:
    """Return the question for ended jobs as the options of the command say it.

    Raises:
        ValueError: a pattern is empty or too long, or the time is none.
    """
    if "" in (name, error, worker):
        raise ValueError("an empty pattern matches no name")
    outcomes = ["failed", "timed_out"] if failed else []
    found = AskHistory(0, most, checked_pattern(name), outcomes, 0.0 if since is None else _moment(since))
    return replace(found, error=checked_pattern(error), worker=checked_pattern(worker))


def _moment(text: str) -> float:
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return time.time() - float(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is no time: write 90s, 30m, 2h or 7d for how long ago, or 2026-07-01T12:00"
        ) from None


async def list_ended(caller: Asker, asked: AskHistory, *, unended: bool, as_json: bool) -> int:
    """Print what became of jobs that have ended, the latest first; with `unended`, the others before them."""
    live = await caller.ask(AskJobs(0, asked.most), JobsAre) if unended else None
    jobs = [] if live is None else [job for job in live.jobs if fnmatchcase(job.name, asked.name or "*")]
    kept = 0

    async def page(question: AskHistory) -> HistoryIs:
        nonlocal kept
        found = await caller.ask(question, HistoryIs)
        kept = found.kept
        return found

    ended = await ended_jobs(page, asked)
    if as_json:
        told = {} if live is None else {"jobs": [as_plain(job) for job in jobs], "total": live.total}
        print_json(told | {"ended": [as_plain(job) for job in ended]})
        return OK
    if live is not None and (jobs or not ended):
        print_jobs(jobs)
    if ended:
        _print_ended(ended)
    else:
        print(f"no such jobs have ended, of those that the head remembers{_hint(asked)}")  # noqa: T201
    if len(ended) == asked.most < kept:
        print(f"there may be more, of {kept:,} ended jobs that the head remembers; see --most")  # noqa: T201
    return OK


async def list_reasons(caller: Asker, asked: AskHistory, *, most: int, as_json: bool) -> int:
    """Print the failures that `asked` means by reason, at most so many of them, the most frequent first."""
    from grainlike.observe import failures_by_reason  # a plain list of jobs needs nothing of that room

    jobs = await ended_jobs(partial(caller.ask, answer=HistoryIs), asked)
    groups = failures_by_reason(jobs)
    if as_json:
        print_json({"failures": len(jobs), "reasons": [asdict(group) for group in groups]})
        return OK
    rows = [
        (f"{group.jobs:,}", group.name, group.worker, moment_text(group.ended_at), str(group.latest), group.reason)
        for group in groups
    ]
    if rows:
        print_table(["jobs", "name", "worker", "ended", "latest", "error"], rows, most=most, keep=_KEEP)
        differ = "; # stands for numbers that differ" if any("#" in group.reason for group in groups) else ""
        print(f"latest is the number of the last such job{differ}")  # noqa: T201
    else:
        print(f"no such jobs have failed, of those that the head remembers{_hint(asked)}")  # noqa: T201
    return OK


def _hint(asked: AskHistory) -> str:
    """Return what was searched, where a question for a text of errors has found nothing."""
    searched = "it looks into the first line of each error, and the last line that a program wrote"
    return f"; {searched}; `grainlike logs N` has more" if asked.error else ""


_KEEP = ("worker", "error")
"""Columns of lists of failures that are left out last."""


def _print_ended(jobs: Sequence[EndedJob]) -> None:
    """Print a table of jobs that have ended; without their outcomes where the list is of plain failures alone."""
    columns, rows = list(_ENDED_COLUMNS), [list(_ended_row(job)) for job in jobs]
    if any(job.named for job in jobs):  # most have no such column
        for row, name in zip((columns, *rows), ("called", *(job.named for job in jobs)), strict=True):
            row.insert(2, name)
    at = columns.index("outcome")
    failed = all(job.outcome in ("failed", "timed_out") for job in jobs)
    if all(row[at] == "failed" for row in rows):
        for row in (columns, *rows):
            del row[at]
    print_table(columns, rows, keep=_KEEP if failed else ())


_ENDED_COLUMNS = ["job", "name", "outcome", "worker", "slots", "ran", "cpu", "memory", "ended", "client", "error"]


def _ended_row(job: EndedJob) -> tuple[str, ...]:
    tries = f", attempt {job.attempts}" if job.attempts > 1 else ""
    ran = job.ran_s is not None
    return (
        *(str(job.job), job.name, job.outcome.replace("_", " ") + tries, job.worker, amounts(job.slots)),
        *(seconds(job.ran_s), _cpu_text(job) if ran else "", bytes_text(job.peak_memory)),
        *(moment_text(job.ended_at), job.program or str(job.client or ""), job.error),
    )


def _cpu_text(job: EndedJob) -> str:
    """Return the CPU time of a job that ran; `-` where its worker could not tell, which the row has as none."""
    return seconds(job.cpu_s) if job.cpu_s else "-"


async def explain_ended(caller: Asker, number: int, *, as_json: bool) -> bool:
    """Print what became of a job; return False if the head does not remember that it has ended."""
    found = await caller.ask(AskHistory(0, 1, job=number), HistoryIs)
    for job in found.jobs:
        if as_json:
            print_json({"state": "ended"} | as_plain(job) | ({"few_replicas": found.few} if found.few else {}))
        else:
            few = f"  its value has fewer replicas than it is to have: {found.few}" if found.few else ""
            lines = filter(None, [*ended_words(job), few])
            print("\n".join(map(escaped, lines)))  # noqa: T201 - a command line speaks
    return bool(found.jobs)


def ended_words(job: EndedJob) -> Iterator[str]:
    """Iterate over lines that say what became of a job."""
    tries = f" in attempt {job.attempts}" if job.attempts else ""
    name = f"{job.name}, called {job.named}" if job.named else job.name
    yield f"job {job.job}, {name}: {job.outcome.replace('_', ' ')}{tries}, ended {moment_text(job.ended_at)}"
    if job.error:
        yield f"  {job.error}"
    if job.outcome == "failed" and job.attempts:
        yield f"  traceback: grainlike logs {job.job}"
    if job.worker:
        yield f"  worker: {job.worker}{f', slots {amounts(job.slots)}' if job.slots else ''}"
    if job.request:
        yield f"  asked for: {amounts(job.request)}"
    times = [f"queued for {seconds(job.queued_s)}"] if job.queued_s is not None else []
    if job.ran_s is None:
        times.append("it did not run")
    else:
        times += [f"ran for {seconds(job.ran_s)}", f"CPU {_cpu_text(job)}"]
        times += [f"peak memory {bytes_text(job.peak_memory)}"] if job.peak_memory else []
    yield f"  {', '.join(times)}"
    if job.receipt is not None:
        apart = job.coroutine and "cores=" in job.slots  # its process is shared, the programs that it starts are not
        programs = f"; programs that it starts: {amounts(job.slots)}" if apart else ""
        yield f"  enforced: {receipt_words(job.receipt)}{programs}"
    if job.attempts - 1 > len(job.earlier) > 0:
        yield f"  of {job.attempts - 1} attempts before that, the latest {len(job.earlier)}:"
    for attempt in job.earlier:
        yield f"  {attempt_words(attempt)}"
    if job.program or job.client or job.parent:
        of = f"client: {job.program or job.client}" if job.program or job.client else ""
        by = f"submitted by job {job.parent}" if job.parent else ""
        yield f"  {', '.join(filter(None, (of, by)))}"


def attempt_words(one: EndedAttempt) -> str:
    """Return a line on an attempt that was followed by another one."""
    where = f"on worker {one.worker}{f', slots {amounts(one.slots)}' if one.slots else ''}"
    when = f"began {moment_text(one.began_at)}, ran for {seconds(one.ran_s)}"
    why = f": {one.error}" if one.error else ""
    return f"attempt {one.attempt}: {one.outcome.replace('_', ' ')}, {where}, {when}{why}"


def receipt_words(receipt: ReceiptRow) -> str:
    """Return what was enforced on a job, in one line."""
    parts = [f"cores {','.join(map(str, receipt.affinity)) or 'not pinned'}"]
    parts += [f"gpus {','.join(map(str, receipt.devices))}"] if receipt.devices else []
    parts += (
        [f"threads {' '.join(f'{pool}={width}' for pool, width in receipt.threads.items())}"] if receipt.threads else []
    )
    tier = "no limit of memory" if receipt.memory_tier == "none" else f"memory by {receipt.memory_tier}"
    return "; ".join([*parts, tier])


async def earlier_words(caller: Asker, job: int) -> list[str]:
    """Return a line for each attempt so far of a job that has not ended."""
    found = await caller.ask(AskHistory(0, 1, job=job), HistoryIs)
    return list(map(attempt_words, found.earlier))


async def show_report(caller: Asker, asked: AskHistory, *, as_json: bool) -> int:
    """Print how jobs have ended, and what those that `asked` means used of what they asked for, by function."""
    from grainlike.observe import usage_by_function

    found = await caller.ask(AskReport(0), ReportIs)
    usage = usage_by_function(await ended_jobs(partial(caller.ask, answer=HistoryIs), asked))
    if as_json:
        functions = [asdict(each) for each in usage]
        print_json(asdict(found.totals) | {"unended": found.unended, "functions": functions})
        return OK
    print(f"{found.totals}, since this head was first started")  # noqa: T201 - a command line speaks
    print(f"they ran for {seconds(found.totals.run_seconds)} in all; {found.unended:,} have not ended")  # noqa: T201
    values = transfer_words(found.totals)
    if values:
        print(values)  # noqa: T201
    if usage:
        print_table(_USAGE_COLUMNS, map(_usage_row, usage))
        print("cores busy and ran: median, 95th percentile, most; peak memory: the latter two")  # noqa: T201
        if found.totals.recomputed:
            print("the table counts a job once more for each time that it ran again for a lost value")  # noqa: T201
    return OK


def transfer_words(totals: Totals) -> str:
    """Return a line on what large values did; empty where none moved, and none was made again."""
    relayed = f", {bytes_text(totals.relayed)} of that through the head" if totals.relayed else ""
    parts = [f"{bytes_text(totals.moved)} moved between workers{relayed}"] if totals.moved else []
    parts += [f"{bytes_text(totals.fetched)} came to programs"] if totals.fetched else []
    times = "once" if totals.recomputed == 1 else f"{totals.recomputed:,} times"
    parts += [f"lost ones were made again {times}"] if totals.recomputed else []
    return f"large values: {'; '.join(parts)}" if parts else ""


_USAGE_COLUMNS = ["function", "jobs ended", "asked for", "cores busy", "peak memory", "ran", "suggested"]


def _usage_row(usage: FunctionUsage) -> tuple[str, ...]:
    """Return the cells of a function: of figures the median, the 95th percentile and the most, of memory the latter."""
    jobs = ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in usage.outcomes.items())
    cores = "" if usage.cores is None else f"{usage.cores.median:.2f}, {usage.cores.p95:.2f}, {usage.cores.most:.2f}"
    memory, ran = usage.memory, usage.ran_s
    return (
        *(usage.name, jobs, amounts(usage.asked), cores),
        "" if memory is None else f"{bytes_text(int(memory.p95))}, {bytes_text(int(memory.most))}",
        "" if ran is None else ", ".join(map(seconds, (ran.median, ran.p95, ran.most))),
        amounts(usage.suggested or ""),
    )


async def write_trace(caller: BlockingClient, path: Path) -> int:
    """Draw what the head has recorded, or else what it remembers of jobs that have ended: as an SVG picture where the
    file's name says so, else for Perfetto.
    """
    from grainlike.observe import trace

    picture = path.suffix.lower() == ".svg"
    with LateFile(path) as file:
        stretches, depths, recorded = await _recorded_or_remembered(caller)
        file.write(_picture(stretches) if picture else trace(stretches, depths))
    attempts = sum(not stretch.lane for stretch in stretches)
    what = "which core ran what when" if picture else "what ran"
    many = f"{attempts:,} attempt{'s' * (attempts != 1)}"
    print(f"{path}: {what} in {many}; open it in {'a browser' if picture else 'ui.perfetto.dev'}")  # noqa: T201
    if not recorded:
        lacking = "earlier attempts, what runs now" + ("" if picture else ", who needed whom")
        print(f"from the history of ended jobs: a head that is started with --record knows {lacking}, too")  # noqa: T201
    return OK


async def _recorded_or_remembered(caller: BlockingClient) -> tuple[list[Stretch], list[Depth], bool]:
    """Return what ran where and when, how many waited, and whether that was recorded; else it is of ended jobs.

    Raises:
        RefusedQueryError: it was not, and no job has ended.
    """
    from grainlike.observe import Depth, spans_from_history, spans_from_rows

    spans: list[SpanRow] = []
    depths: list[Depth] = []
    try:
        async with aclosing(caller.trace()) as pieces:
            async for piece in pieces:
                spans.extend(piece.spans)
                depths.extend(Depth(*depth) for depth in piece.depths)
    except RefusedQueryError:
        ended = await ended_jobs(lambda asked: caller.ask(asked, HistoryIs), AskHistory(0, KEPT_JOBS))
        if remembered := list(spans_from_history(ended)):
            return remembered, [], False
        raise
    return list(spans_from_rows(spans)), depths, True


def _picture(stretches: Sequence[Stretch]) -> str:
    """Return an SVG picture: a row for each core, a bar for each attempt."""
    from grainlike.observe import Lane, Span, timeline

    spans = [
        Span(tuple(Lane(stretch.worker, core) for core in stretch.cores), stretch.began, stretch.ended, stretch.name)
        for stretch in stretches
        if stretch.cores
    ]
    if not spans:
        raise RefusedQueryError("no job has held a core yet: there is nothing to draw")
    return timeline(spans, title="What ran when")
