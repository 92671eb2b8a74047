"""Worker in a process of its own: what it has of its machine while it serves, and the daemon that serves."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from functools import partial

import anyio
from msgspec.structs import replace

from grainlike.net import Access, Link
from grainlike.resources import Allocation
from grainlike.scheduler import NodeScheduler
from grainlike_worker.daemon._core_locks import core_locks
from grainlike_worker.daemon._daemon import _Daemon
from grainlike_worker.daemon._data_process import OFF, open_data_process
from grainlike_worker.daemon._introduction import introduction
from grainlike_worker.daemon._keeper import memory_tier, open_keeper
from grainlike_worker.daemon._output import show_all
from grainlike_worker.daemon._probe import offered_devices, own_topology
from grainlike_worker.daemon._runners import processes, runner_in_process
from grainlike_worker.daemon._stops import EndTimer, IdleTimer
from grainlike_worker.linux._worker_cgroups import claimed_cgroups
from grainlike_worker.runner.common._job_directories import warn_of_unknown_keep
from grainlike_worker.store._limits import StoreLimits
from grainlike_worker.store._replicas import open_replicas

__all__ = ["serve_daemon"]

logger = logging.getLogger("grainlike.worker")


async def serve_daemon(
    link: Link,
    offer: Allocation,
    *,
    name: str,
    stop: anyio.Event | None = None,
    echo: bool = False,
    context: str = "",
    idle: IdleTimer | None = None,
    end: EndTimer | None = None,
    limits: StoreLimits,
    access: Access | None = None,
    data: str = OFF,
) -> None:
    """Be a worker at the other end of `link`, with all jobs in processes of their own, until the head sends `Goodbye`.

    When `stop` is set, it takes no more jobs, ends those it has as a cancellation would, hands them back, and returns.
    What jobs write is kept for those who ask; with `echo`, this process's own streams show it too. `context` names a
    context manager, as `module:factory`, for each process that runs jobs; the current directory is searched too.
    `idle` and `end` stop it; see `_stops`. `limits` are those of its values. With `access` to the head over TLS it has
    a data server, by the option `data`; see `open_data_process`.

    Raises:
        HeadLostError: the head fell silent, or the connection broke before it let us in.
        AuthenticationError, VersionMismatchError: the head refused us.
    """
    from grainlike.net import ReconnectingLink  # an embedded worker needs none of what waits on sockets

    warn_of_unknown_keep()
    scheduler = NodeScheduler(offer, own_topology())
    key = os.urandom(16)
    with (
        claimed_cgroups(move=True) as cgroups,
        closing(core_locks(name, offer)) as locks,
        open_replicas(limits) as replicas,
        open_data_process(access, link, data, replicas.directory, key) as server,
    ):
        async with open_keeper(cgroups, early=True) as keeper:
            make = partial(runner_in_process, processes(keeper, offered_devices(offer).option))
            if keeper is not None and isinstance(link, ReconnectingLink):
                link.carried_by(lambda now: keeper.hold(now.fileno()))
            tier, lasting = memory_tier(keeper, cgroups), isinstance(link, ReconnectingLink)
            left_s = None if end is None else end.left_s
            here = replicas.directory, replicas.budget
            hello = introduction(name, offer, tier, lasting=lasting, left_s=left_s, here=here)
            if server is not None:
                hello = replace(hello, data=server.address, data_key=key)
            made = partial(_Daemon, locks=locks, keeper=keeper, replicas=replicas, data=server)
            daemon = made(link, scheduler, hello, make, show=show_all if echo else None, context=context)
            if isinstance(link, ReconnectingLink):
                link.returned = daemon.link_returned
            daemon.stops_by(idle, end)
            await daemon.run(stop)
