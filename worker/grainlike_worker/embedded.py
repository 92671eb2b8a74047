"""The worker inside a user's process: the same daemon, with coroutines in the caller's event loop.

Loaded by name by the executor, and by nothing else. Plain functions and isolated jobs still get processes of their own.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial

from grainlike.net import Link
from grainlike.resources import Allocation
from grainlike.scheduler import NodeScheduler
from grainlike_worker.daemon._core_locks import core_locks
from grainlike_worker.daemon._daemon import _Daemon
from grainlike_worker.daemon._introduction import introduction
from grainlike_worker.daemon._keeper import memory_tier, open_keeper
from grainlike_worker.daemon._output import Show
from grainlike_worker.daemon._probe import offer_for, offered_devices, own_topology, warn_of_logical
from grainlike_worker.daemon._runners import processes, runner_at_home
from grainlike_worker.linux._worker_cgroups import claimed_cgroups
from grainlike_worker.runner.common._job_directories import warn_of_unknown_keep
from grainlike_worker.runner.loop._output import hooked_streams
from grainlike_worker.store._limits import StoreLimits, StoreOptions, store_limits
from grainlike_worker.store._replicas import open_replicas

__all__ = ["StoreOptions", "hooked_streams", "offer_for", "serve", "store_limits", "warn_of_logical"]


async def serve(link: Link, offer: Allocation, *, name: str, show: Show | None, limits: StoreLimits) -> None:
    """Be a worker inside a user's process, with coroutines in the calling loop. `show` shows what jobs write."""
    warn_of_unknown_keep()
    scheduler = NodeScheduler(offer, own_topology(), killable=False)
    rooms = open_replicas(limits, in_program=True)
    with (
        claimed_cgroups(move=False) as cgroups,
        closing(core_locks(name, offer)) as locks,
        rooms as replicas,
    ):
        async with open_keeper(cgroups) as keeper:
            tier, here = memory_tier(keeper, cgroups), (replicas.directory, replicas.budget)
            hello = introduction(name, offer, tier, here=here)
            make = partial(runner_at_home, processes(keeper, offered_devices(offer).option), show=show)
            made = partial(_Daemon, locks=locks, keeper=keeper, replicas=replicas)
            await made(link, scheduler, hello, make, show=show, in_program=True).run()
