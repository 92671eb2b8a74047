"""Queries to a running head about what is there now: workers, jobs, sessions, and the head itself.

Queries about jobs that have ended are in `_past`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from grainlike.cli._exits import FAILED, OK, REFUSED, USAGE, is_of_output
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
from grainlike.client import Asker, BlockingClient, RefusedQueryError, call_blocking, completed
from grainlike.errors import GrainlikeError, SettingsError
from grainlike.wire import (
    AskCancel,
    AskDepart,
    AskHead,
    AskHistory,
    AskJob,
    AskJobs,
    AskSessions,
    AskWanted,
    AskWorkers,
    Done,
    EndSessions,
    HeadIs,
    HistoryIs,
    JobIs,
    JobsAre,
    Matched,
    SessionsAre,
    WantedIs,
    WorkersAre,
)

__all__ = [
    "asking",
    "cancel_job",
    "end_session",
    "end_workers",
    "explain_job",
    "list_jobs",
    "list_sessions",
    "list_workers",
    "show_head",
    "show_wanted",
    "with_reasons",
]

_NEARLY = 0.8
"""Part of what sessions may keep from which a warning about little room is printed."""


def asking(head: str | None, insecure: bool, ask: Callable[[BlockingClient], Coroutine[Any, Any, int]]) -> int:
    """Query a head; return the exit code, with the reason printed if it is not 0: 1 when it cannot answer, 3 when
    there is none. No event loop runs, for it takes longer to load than most answers take: `ask` awaits queries alone.
    """

    def main() -> int:
        with call_blocking(head, insecure=insecure) as caller:
            return completed(ask(caller))

    return with_reasons(main)


def with_reasons(main: Callable[[], int]) -> int:
    """Run queries to a head; return the exit code as `asking` does."""
    try:
        return main()
    except RefusedQueryError as error:
        code, why = FAILED, str(error)
    except BrokenPipeError:
        raise  # nobody reads what we print; a head that is gone is a HeadLostError
    except UnicodeEncodeError as error:
        code, why = USAGE, f"{error.object!r} is not valid UTF-8"
    except SettingsError as error:
        code, why = USAGE, str(error)
    except (GrainlikeError, OSError, ValueError) as error:
        if is_of_output(error):
            raise
        code, why = REFUSED, str(error)
    print(f"grainlike: {escaped(why)}", file=sys.stderr)  # noqa: T201 - a command line speaks
    return code


_WORKER_COLUMNS = [
    "worker",
    "block",
    "host",
    "resources",
    "running",
    "pid",
    "heard ago",
    "memory kept by",
    "no jobs for",
]


async def list_workers(caller: Asker, *, as_json: bool, most: int | None = None) -> int:
    """Print the workers; with `most`, so many of them at most to people."""
    found = await caller.ask(AskWorkers(0), WorkersAre)
    if as_json:
        print_json([as_plain(worker) for worker in found.workers])
    elif not found.workers:
        print("no workers")  # noqa: T201
        if (await caller.ask(AskHead(0), HeadIs)).lost:
            print("`grainlike head status` lists those that were lost")  # noqa: T201
    else:
        stored = any(worker.stored for worker in found.workers)
        spilled = any(worker.spilled for worker in found.workers)
        data = any(worker.data for worker in found.workers)
        rows = [
            (
                w.name,
                w.block or "-",
                w.host or "-",
                amounts(w.resources),
                str(w.running),
                str(w.pid),
                seconds(w.silent_s),
                w.memory_tier,
                w.shut or "-",
                *([bytes_text(w.stored) or "-"] if stored else []),
                *([bytes_text(w.spilled) or "-"] if spilled else []),
                *([w.data or "-"] if data else []),
            )
            for w in found.workers
        ]
        more = {"stored": stored, "on disk": spilled, "data": data}
        columns = [*_WORKER_COLUMNS, *(title for title, is_shown in more.items() if is_shown)]
        print_table(columns, rows, most=most)
        for w in found.workers[:most]:
            if w.shared:
                ids = ",".join(map(str, w.shared))
                print(escaped(f"cores {ids} of {w.name} are offered by another worker of its machine, too"))  # noqa: T201
            if w.scratch_lost:
                print(escaped(f"{w.name}: {w.scratch_lost}"))  # noqa: T201
    return OK


async def end_workers(caller: Asker, patterns: list[str], *, kill: bool, as_json: bool) -> int:
    """Let workers go, and print which; 1 if there is none of such a name."""
    found = await caller.ask(AskDepart(0, patterns, kill), Matched)
    if as_json:
        print_json(found.workers)
    for worker in [] if as_json else found.workers:
        print(escaped(f"worker {worker} ends{', and its jobs run elsewhere' if kill else ' when its jobs have'}"))  # noqa: T201
    if not found.workers:
        print(escaped(f"grainlike: no worker is called {' or '.join(patterns)}; see grainlike ls"), file=sys.stderr)  # noqa: T201
    return OK if found.workers else FAILED


async def list_jobs(caller: Asker, *, most: int, as_json: bool) -> int:
    """Print the oldest jobs that have not ended."""
    found = await caller.ask(AskJobs(0, most), JobsAre)
    if as_json:
        print_json({"jobs": [as_plain(job) for job in found.jobs], "total": found.total})
        return OK
    print_jobs(found.jobs)
    if not found.jobs and (await caller.ask(AskHistory(0, 1), HistoryIs)).jobs:
        print("`grainlike jobs --ended` lists those that have ended")  # noqa: T201
    if found.total > len(found.jobs):
        print(f"and {found.total - len(found.jobs)} more; see --most")  # noqa: T201
    return OK


async def explain_job(caller: Asker, job: int, *, as_json: bool) -> int:
    """Print where a job stands and what it waits for, or what became of it."""
    try:
        found = await caller.ask(AskJob(0, job), JobIs)
    except RefusedQueryError:
        from grainlike.cli._past import explain_ended  # what is known of jobs that have ended takes more modules

        if await explain_ended(caller, job, as_json=as_json):
            return OK
        raise
    if as_json:
        print_json(as_plain(found))
        return OK
    print(escaped(found.words))  # noqa: T201
    if found.attempt > 1:
        from grainlike.cli._past import earlier_words

        for line in await earlier_words(caller, job):
            print(escaped(line))  # noqa: T201
    return OK


async def cancel_job(caller: Asker, job: int) -> int:
    """Cancel a job for all its awaiters."""
    await caller.ask(AskCancel(0, job), Done)
    print(f"job {job} is cancelled")  # noqa: T201
    return OK


async def list_sessions(caller: Asker, *, as_json: bool) -> int:
    """Print the named sessions."""
    found = await caller.ask(AskSessions(0), SessionsAre)
    if as_json:
        print_json([as_plain(session) for session in found.sessions])
    elif not found.sessions:
        print("no sessions")  # noqa: T201
    else:
        rows = [
            (
                *(s.name, str(s.jobs), str(s.names), str(s.outcomes)),
                *(bytes_text(s.kept_bytes), bytes_text(s.limit_bytes), seconds(s.since_s), s.attached or "-"),
            )
            for s in found.sessions
        ]
        print_table(["session", "jobs", "names", "outcomes", "kept", "limit", "since", "attached"], rows)
        used, limit = sum(s.kept_bytes for s in found.sessions), found.sessions[0].limit_bytes
        if used >= _NEARLY * limit > 0:
            words = f"outcomes take {bytes_text(used)} of {bytes_text(limit)}"
            words += "; at that the head takes no new calls with names"
            print(f"grainlike: {words}: forget some", file=sys.stderr)  # noqa: T201
        if not (await caller.ask(AskHead(0), HeadIs)).directory:
            print("grainlike: this head has no journal: what sessions keep ends with it", file=sys.stderr)  # noqa: T201
    return OK


async def end_session(caller: BlockingClient, name: str) -> int:
    """End a session: its jobs, and what is kept of it."""
    found = await caller.ask(AskSessions(0), SessionsAre)
    if name not in [session.name for session in found.sessions]:
        raise RefusedQueryError(f"there is no session {name!r}")
    caller.post(EndSessions([name]))
    await caller.ask(AskHead(0), HeadIs)  # it is heard in order
    print(f"session {escaped(name)} is ended")  # noqa: T201
    return OK


async def show_head(caller: BlockingClient, *, as_json: bool) -> int:
    """Print the head's identity, how many workers, clients and jobs it has, and the last workers that it has lost."""
    found = await caller.ask(AskHead(0), HeadIs)
    found = replace(found, clients=found.clients - 1)  # without this command
    if as_json:
        print_json({"address": caller.peer, **as_plain(found)})
        return OK
    jobs = ", ".join(f"{count} {state}" for state, count in found.jobs.items()) or "none"
    print(  # noqa: T201
        escaped(f"head of cluster {found.cluster} at {caller.peer}, process {found.pid}, up {seconds(found.up_s)}")
    )
    print(escaped(f"  grainlike {found.version}, Python {found.python}"))  # noqa: T201
    print(escaped(f"  workers: {found.workers}; clients: {found.clients}; jobs: {jobs}"))  # noqa: T201
    if found.journal:
        print(escaped(f"  journal: {found.journal}"))  # noqa: T201
    for lost in found.lost:
        ran = "1 job ran" if lost.running == 1 else f"{lost.running or 'no'} jobs ran"
        print(escaped(f"  lost at {moment_text(lost.at)}: worker {lost.name}, where {ran}: {lost.why}"))  # noqa: T201
    return OK


async def show_wanted(caller: Asker, offer: str, *, most: int, within_s: float, as_json: bool) -> int:
    """Print how many more workers with this offer would help."""
    found = await caller.ask(AskWanted(0, offer, most, within_s), WantedIs)
    if as_json:
        print_json({"offer": offer, "wanted": found.workers})
    else:
        print(found.workers)  # noqa: T201 - a command line speaks
    return OK
