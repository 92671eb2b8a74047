"""Record of a worker that programs are shown."""

from __future__ import annotations

from dataclasses import dataclass

from grainlike.resources import Allocation

__all__ = ["WorkerInfo"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker at one moment.

    `resources` is all it offers, with ids; those of `logical` are allocated and shown but never pinned, for its
    machine does not have them. `beats` counts its heartbeats and `silent_s` is seconds since it last sent anything.
    `pid` is the daemon's, `running` the number of jobs that it has started and not ended. `memory_tier` is what holds
    jobs in processes of their own to the memory that they asked for: `cgroup`, `watchdog` or `none`. `shut` is why it
    gets no jobs for now: its link has broken, it is silent, or it is in quarantine; empty for one that does. `shared`
    are cores that another worker of the same machine offers to the same head, too: their jobs share them where too
    few are free. `host` is the name of its machine; `block` is the label of the block that a launcher started it in,
    empty for one that was started by hand. `stored` and `spilled` are bytes of values that stay there, in shared memory
    and on disk; `data` is where it sends such values to others, empty if it does so through its head alone.
    `scratch_lost` is why it writes no more of them to disk, empty while it does. `store` and `scratch` are the bytes
    that it may keep in shared memory and on disk; `store` is negative where it does not say.
    """

    name: str
    resources: Allocation
    logical: tuple[int, ...]
    pid: int
    running: int
    beats: int
    silent_s: float
    memory_tier: str = "none"
    shut: str = ""
    shared: tuple[int, ...] = ()
    block: str = ""
    host: str = ""
    stored: int = 0
    spilled: int = 0
    data: str = ""
    scratch_lost: str = ""
    store: int = -1
    scratch: int = 0
