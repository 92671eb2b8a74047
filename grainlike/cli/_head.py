"""`head stop`: end a head that is a program of its own, and tell what it has kept."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from grainlike.cli._exits import FAILED, OK
from grainlike.cli._words import escaped_line
from grainlike.client import BlockingClient
from grainlike.net import RETURN_S, has_journal_note, is_elsewhere, is_locked, runs_here
from grainlike.wire import (
    AskDepart,
    AskHead,
    AskJobs,
    AskSessions,
    AskStop,
    AskWorkers,
    Done,
    HeadIs,
    JobsAre,
    Matched,
    SessionRow,
    SessionsAre,
    WorkersAre,
)

__all__ = ["stop_head"]

_MOST_JOBS = 10_000
"""Most jobs of which `head stop` looks whose they were."""

_RUNS = ("running", "stopping")
"""States of jobs that run."""

_LOOK_S = 0.05
"""Seconds between two looks at the workers that end."""

_END_S = 10.0
"""Seconds that `head stop` waits for workers that it has ended, and for the process of a head that has closed its
connections.
"""


async def stop_head(caller: BlockingClient, *, forget: bool, workers: bool) -> int:
    """Stop a head, wait until it has exited, where that can be seen from here, and print what it has kept of sessions,
    or dropped. With `workers`, end these first. Return the exit code, which is `FAILED` where the disk refuses what
    sessions keep, or where a worker has not ended.
    """
    head = await caller.ask(AskHead(0), HeadIs)
    jobs = await caller.ask(AskJobs(0, _MOST_JOBS), JobsAre)  # as long as their workers are there
    all_ended = not workers or await _end_all_workers(caller)
    sessions = (await caller.ask(AskSessions(0), SessionsAre)).sessions
    held = [session for session in sessions if session.names or session.jobs]
    failure = head.journal if head.journal.startswith("not kept") else ""
    # Of a head elsewhere a file server would show its note for half a minute after it has gone.
    seen = bool(head.directory) and not is_elsewhere(caller.process)
    noted = seen and has_journal_note(head.cluster, Path(head.directory))
    await caller.ask(AskStop(0, forget), Done)
    await caller.gone()
    _wait_for_end(caller.process if head.ends_process else "", head.directory if noted else "")
    print("stopped")  # noqa: T201
    for line in _ended(jobs, {session.client for session in sessions}):
        print(escaped_line(line))  # noqa: T201
    if forget:
        # The note goes once the end is in the journal, whatever the disk said before; who sees no note goes by that.
        stays = has_journal_note(head.cluster, Path(head.directory)) if noted else bool(failure)
        lines, refused = _dropped(held, head.directory if stays else ""), stays
    else:
        lines, refused = _fate(held, head.directory, failure, workers_stay=not workers), bool(failure)
    for line in lines:
        print(escaped_line(line))  # noqa: T201
    return FAILED if (held and refused) or not all_ended else OK


async def _end_all_workers(caller: BlockingClient) -> bool:
    """End all workers, with their jobs, and wait until they have left, for a head that has gone could tell them
    nothing; print which have, and which have not. Return False if some have not.
    """
    told = (await caller.ask(AskDepart(0, ["*"], kill=True), Matched)).workers
    due = time.monotonic() + _END_S
    while (stay := await _workers_there(caller)) and time.monotonic() < due:
        await caller.pause(_LOOK_S)
    if ended := [name for name in told if name not in stay]:
        print(escaped_line(f"{_workers(ended)} ended"))  # noqa: T201
    if stay:
        have = "has" if len(stay) == 1 else "have"
        print(escaped_line(f"{_workers(stay)} {have} not ended within {_END_S:g} s, and may still run"))  # noqa: T201
    return not stay


async def _workers_there(caller: BlockingClient) -> list[str]:
    return [worker.name for worker in (await caller.ask(AskWorkers(0), WorkersAre)).workers]


def _workers(names: list[str]) -> str:
    return f"{'worker' if len(names) == 1 else 'workers'} {', '.join(names)}"


def _wait_for_end(process: str, journal: str) -> None:
    """Wait until the process of a head has ended, or has left its journal, if it is of this machine: until then it has
    the lock of that, and its port. Both are empty where that says nothing.
    """
    due = time.monotonic() + _END_S
    while (runs_here(process) or (journal and is_locked(Path(journal)))) and time.monotonic() < due:
        time.sleep(0.01)


def _ended(jobs: JobsAre, sessions: set[int]) -> Iterator[str]:
    """Iterate over the lines that say which jobs ended with a head, by their programs: those of sessions do not."""
    counts: dict[str, Counter[str]] = {}
    for job in jobs.jobs:
        if job.client not in sessions:
            counts.setdefault(job.program, Counter())["running" if job.state in _RUNS else "waiting"] += 1
    for program, count in counts.items():
        states = [f"{n} {state}" for state in ("running", "waiting") if (n := count[state])]
        first, *rest = states
        noun = "job" if first.startswith("1 ") else "jobs"
        yield f"ended {' and '.join([f'{first} {noun}', *rest])} of {program}"
    if jobs.next:
        yield f"only the oldest {len(jobs.jobs)} of {jobs.total} jobs were looked at"


def _dropped(held: list[SessionRow], journal: str) -> Iterator[str]:
    """Iterate over the lines that say what was dropped of the sessions that held anything; or, with a `journal`, that
    the disk has refused that.
    """
    if held and journal:
        yield f"the disk refuses: that these are dropped is not in the journal in {journal}"
    for session in held:
        yield f"{'not dropped' if journal else 'dropped'}: {_held_by(session)}"
    if held and journal:
        yield "a head with that journal would go on with it: make room, start one and stop it so, or remove the journal"


def _held_by(session: SessionRow) -> str:
    outcomes = f"{session.outcomes} outcome{'s' * (session.outcomes != 1)}"
    jobs = f"{session.jobs} job{'s' * (session.jobs != 1)} that had not ended" if session.jobs else ""
    return f"session {session.name!r}, {' and '.join(filter(None, (outcomes, jobs)))}"


def _fate(held: list[SessionRow], journal: str, failure: str, *, workers_stay: bool) -> Iterator[str]:
    """Iterate over the lines that say what a head that was stopped has kept in its journal of the sessions that held
    anything, or that it has dropped that for want of one. `failure` says why the journal was not kept at the end,
    `workers_stay` whether workers may wait for the next head.
    """
    if held and failure:
        yield f"the journal in {journal} was {failure}"
    for session in held:
        kept = "not all of it kept" if failure else f"kept in {journal}"
        yield f"{kept if journal else 'dropped'}: {_held_by(session)}"
    if held and journal:
        command = f"grainlike head start --journal {shlex.quote(journal)}"
        known = "what was written before" if failure else "that"
        yield f"`{command}` goes on with {known}; `grainlike head stop --forget` would have dropped it"
        if workers_stay:
            wait = f"workers go on with their jobs, and wait {RETURN_S:g} s for that head"
            yield f"{wait}; `grainlike head stop --workers` would have ended them"
