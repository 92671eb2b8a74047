"""Values that a head, settings or files know: numbers of jobs, names of workers, pools, blocks and sessions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from grainlike.client import Asker, call_blocking, completed
from grainlike.resources import KINDS, parse_allocation
from grainlike.wire import (
    AskFleet,
    AskHead,
    AskHistory,
    AskJobs,
    AskSessions,
    AskWorkers,
    FleetIs,
    HeadIs,
    HistoryIs,
    JobsAre,
    SessionsAre,
    WorkersAre,
)

__all__ = ["print_values"]

LIMIT_S = 1.0
"""Seconds for which a head is waited for, while the user waits after a key."""

_MOST = 200
"""Number of jobs that are offered at most."""

_TERMS = {
    "nodes": "a gang",
    "walltime": "time at most",
    "token": "one at a time",
    "limit:": "so many",
    "rate:": "per s",
}
"""Parts of a request that are no amounts."""

Values = Iterable[tuple[str, str]]


def print_values(arguments: Sequence[str]) -> int:
    """Print values of the kind `arguments[0]`, each with a word about it behind a tab; return the exit code, 0.

    The other arguments are those of any command that queries a head: `--head X`, `--insecure`. Nothing is printed of
    what cannot be found within `LIMIT_S`, and no error.
    """
    kind, *options = [*arguments, ""]
    head = options[options.index("--head") + 1] if "--head" in options[:-1] else None
    found = dict(_known_here(kind))
    if kind in _QUESTIONS:
        # No head, one that refuses, an old one: nothing to offer.
        with suppress(Exception), call_blocking(head, insecure="--insecure" in options, limit_s=LIMIT_S) as caller:
            found |= dict(completed(_QUESTIONS[kind](caller)))
    with suppress(OSError):
        for value, about in found.items():
            if value.isprintable():
                words = "".join(char for char in about if char.isprintable())
                sys.stdout.write(f"{value}\t{words}\n")
        sys.stdout.flush()
    return 0


def _known_here(kind: str) -> Values:
    """Return the values that are known without a head."""
    with suppress(Exception):  # settings that are not right are told of by other commands
        if kind == "resource":
            yield from ((f"{name}=", found.unit) for name, found in KINDS.items())
            yield from ((name if name.endswith(":") else f"{name}=", about) for name, about in _TERMS.items())
        elif kind == "new-pool":
            from grainlike.launch import LAUNCHERS
            from grainlike.settings import read_settings

            yield from ((name, "of the settings") for name in read_settings().pools)
            yield from ((name, "kind of pools") for name in LAUNCHERS)
        elif kind == "journal":
            from grainlike.settings import read_settings

            journal = read_settings().sections.get("head", {}).get("journal")
            if journal is not None:
                yield str(journal.value), "of the settings"
        elif kind == "head":
            from grainlike.net import state_directory

            yield from ((str(path), "access file") for path in state_directory().glob("*/client.json"))


async def _jobs(caller: Asker) -> Values:
    found = await caller.ask(AskJobs(0, _MOST), JobsAre)
    return [(str(job.job), f"{job.name}, {job.state}") for job in found.jobs]


async def _ended_too(caller: Asker) -> Values:
    ended = await caller.ask(AskHistory(0, _MOST), HistoryIs)
    return [*await _jobs(caller), *((str(job.job), f"{job.name}, {job.outcome}") for job in ended.jobs)]


async def _workers(caller: Asker) -> Values:
    found = await caller.ask(AskWorkers(0), WorkersAre)
    return [(worker.name, f"{worker.running} running") for worker in found.workers]


async def _resources(caller: Asker) -> Values:
    found = await caller.ask(AskWorkers(0), WorkersAre)
    names = {name for worker in found.workers for name in parse_allocation(worker.resources).units}
    return [(f"{name}=", "offered by workers") for name in sorted(names - KINDS.keys())]


async def _pools(caller: Asker) -> Values:
    found = await caller.ask(AskFleet(0, ended=False), FleetIs)
    return [(pool.pool, f"{pool.up} up") for pool in found.pools]


async def _blocks(caller: Asker) -> Values:
    found = await caller.ask(AskFleet(0, ended=True), FleetIs)
    return [(block.label, block.state) for block in found.blocks]


async def _sessions(caller: Asker) -> Values:
    found = await caller.ask(AskSessions(0), SessionsAre)
    return [(session.name, f"{session.jobs} jobs") for session in found.sessions]


async def _journal(caller: Asker) -> Values:
    found = await caller.ask(AskHead(0), HeadIs)
    return [(found.directory, "of the head that runs")] if found.directory else []


_QUESTIONS: dict[str, Callable[[Asker], Coroutine[Any, Any, Values]]] = {
    "job": _jobs,
    "any-job": _ended_too,
    "worker": _workers,
    "resource": _resources,
    "pool": _pools,
    "new-pool": _pools,
    "block": _blocks,
    "session": _sessions,
    "journal": _journal,
}
