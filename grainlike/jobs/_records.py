"""Record of a worker that programs are shown."""

from __future__ import annotations

from dataclasses import dataclass

from grainlike.resources import Allocation

__all__ = ["WorkerInfo"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker at one moment.

    Attributes:
        name: its name.
        resources: all that it offers, with ids.
        logical: ids of cores that are allocated and shown but never pinned, for its machine does not have them.
        pid: process id of its daemon.
        running: number of jobs that it has started and not ended.
        beats: number of its heartbeats.
        silent_s: seconds since it last sent anything.
        memory_tier: what holds jobs in processes of their own to the memory that they asked for: `cgroup`, `watchdog`
            or `none`.
        shut: why it gets no jobs for now: its link has broken, it is silent, or it is in quarantine; empty for one that
            does.
        shared: cores that another worker of the same machine offers to the same head, too: their jobs share them where
            too few are free.
        block: the label of the block that a launcher started it in; empty for one that was started by hand.
        host: the name of its machine.
        stored: bytes of values that stay there in shared memory.
        spilled: bytes of values that stay there on disk.
        data: where it sends such values to others; empty if it does so through its head alone.
        scratch_lost: why it writes no more of them to disk; empty while it does.
        store: bytes that it may keep in shared memory; negative where it does not say.
        scratch: bytes that it may keep on disk.
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
