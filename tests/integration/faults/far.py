"""Workers that share no memory with the program, and what a head, and they, know of values that stay at workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from limits import LIMIT_S
from waiting import until

from grainlike import Executor, connect

__all__ = ["far_workers", "far_workers_of_client", "head_of", "lose", "records", "replicas"]

_heads: WeakKeyDictionary[Executor, Any] = WeakKeyDictionary()
"""Heads of those executors that are clients of one in this process."""

_ELSEWHERE = "import grainlike.payload as p\np.memory_id = lambda: {name!r}"


@asynccontextmanager
async def far_workers(
    start_worker: Callable[..., Any],
    *names: str,
    resources: str = "cores=2",
    first: Mapping[str, str] | None = None,
    more: tuple[str, ...] = (),
    record: bool = False,
) -> AsyncIterator[tuple[Executor, dict[str, Any]]]:
    """Open an executor with these workers, each as on a machine of its own. They have `more` options, and some run code
    `first`; `resources` may say {name}.
    """
    code = {name: f"{_ELSEWHERE.format(name=name)}\n{(first or {}).get(name, '')}" for name in names}
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0", record=record) as executor:
        workers = {
            name: start_worker(
                executor.address, name=name, resources=resources.format(name=name), first=code[name], more=more
            )
            for name in names
        }
        await executor.wait_for_workers(len(names))
        yield executor, workers


@asynccontextmanager
async def far_workers_of_client(
    start_worker: Callable[..., Any], *names: str, resources: str = "cores=2", more: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Executor, dict[str, Any]]]:
    """The same for a program that uses that executor's head by `connect`."""
    async with (
        far_workers(start_worker, *names, resources=resources, more=more) as (head, workers),
        connect(head.address) as mine,
    ):
        _heads[mine] = head_of(head)
        yield mine, workers


def head_of(executor: Executor) -> Any:
    return _heads.get(executor) or executor._service.head


def records(executor: Executor) -> dict[int, Any]:
    """The values that the scheduler knows, by number."""
    values: dict[int, Any] = head_of(executor).state.scheduler._values._table.values
    return values


def replicas(executor: Executor) -> list[str]:
    """The files of all workers that are here; tests' workers are on this machine, whatever they say of their memory."""
    homes = [Path(peer.hello.replicas) for peer in head_of(executor).peers.values()]
    return sorted(path.name for home in homes for path in home.glob("v*"))


async def lose(executor: Executor, workers: dict[str, Any], name: str) -> None:
    """Kill a worker, and wait until the head knows that it is lost."""
    head = head_of(executor)
    (peer,) = [peer for peer in head.peers.values() if peer.name == name]
    workers[name].process.kill()
    await until(lambda: peer.number not in head.peers)
