"""Plans of a world, as plain data: jobs and how they will run, nodes, faults, and delays of links."""

from __future__ import annotations

from typing import Literal

import msgspec

from grainlike.resources import Allocation, Request
from grainlike.scheduler import MAX_LOSSES
from grainlike.simulation._channel import Delay

__all__ = ["CALM", "FOREVER", "QUICK", "Faults", "FunctionPlan", "JobPlan", "Network", "NodePlan", "Workload"]

FOREVER = 1 << 30
"""A number of attempts that is never reached."""


class FunctionPlan(msgspec.Struct, frozen=True):
    """A function, as it is defined at the head. Its exceptions are covered by its retries, except for
    `JobPlan.final`.
    """

    name: str
    is_async: bool = False
    retries: int = 0
    timeout: float | None = None
    keep: bool = False
    losses: int = MAX_LOSSES - 1
    backoff: tuple[float, float, float] | None = None
    on_timeout: bool = True


class JobPlan(msgspec.Struct, frozen=True, gc=False):
    """Plan of one job. `fn` and `after` are positions in the workload. A job with an empty request is never sent to the
    head: it is done as soon as all jobs in `after` are.

    Attributes:
        seconds: how long it runs, on a true clock.
        at: when it is submitted, if nothing in `after` ends later.
        after: the jobs whose values it needs. If one of them fails, it is never submitted.
        sends: bytes of its arguments, if they are large.
        accepts_failures: True if it is done when all in `after` have ended, failed or not; for empty requests only.
        awaits: True if its coroutine suspends; for functions that are `is_async` only.
        raises: how many of its first attempts raise an exception.
        final: True if its exceptions are of a kind after which it is not tried again.
        kills: how many of its first attempts kill their process, at their end.
        on_stop: its reaction to cancellation: ends at once, returns a value all the same, or ignores it.
        cancel_at: when the client cancels it.
        calls: jobs of its own that it awaits, one batch after another, all of a batch at once. Between the batches, and
            before and after, it runs for equal parts of `seconds`. If one of them fails, so does it. Needs `awaits`.
        size: bytes of its value, which stays at its worker; 0 for one that goes to the client. Of a job with an empty
            request that needs none: bytes of a value of the client's own.
        wants: True if the client fetches such a value.
        copies: how many replicas of such a value the client asks for, 0 for one at every worker; None if it asks for
            none. It refers to the value for `holds` seconds more when they are there.
    """

    fn: int
    request: Request
    seconds: float
    at: float = 0.0
    after: tuple[int, ...] = ()
    priority: int = 0
    isolate: bool = False
    awaits: bool = False
    raises: int = 0
    kills: int = 0
    on_stop: Literal["ends", "returns", "goes on"] = "ends"
    cancel_at: float | None = None
    calls: tuple[tuple[JobPlan, ...], ...] = ()
    final: bool = False
    accepts_failures: bool = False
    size: int = 0
    wants: bool = False
    sends: int = 0
    copies: int | None = None
    holds: float = 0.0


class Workload(msgspec.Struct, frozen=True):
    """Functions and jobs, with a name to print."""

    name: str
    functions: tuple[FunctionPlan, ...]
    jobs: tuple[JobPlan, ...]


class NodePlan(msgspec.Struct, frozen=True):
    """A machine. Its clock shows `offset + rate * true time`; it joins at `joins_at`.

    After `stops_after` seconds it is asked to stop, as by a batch system at the end of its walltime, and does not
    return. With `has_data` others can get its values directly. `store`: bytes of values that it may keep, beside what
    jobs give beyond that; None for any number. `overdraft`: bytes that they may give beyond that; None for any number.
    `scratch`: bytes of values that it may keep on disk, 0 for none; then its store has the real scheduler.
    """

    offer: Allocation
    rate: float = 1.0
    offset: float = 0.0
    joins_at: float = 0.0
    stops_after: float | None = None
    has_data: bool = False
    store: int | None = None
    overdraft: int | None = None
    scratch: int | None = None


class Network(msgspec.Struct, frozen=True):
    """Travel times of messages, and start times of processes, in seconds."""

    link: Delay = Delay(0.0001, 0.0005)
    pipe: Delay = Delay(0.00002, 0.0001)
    spawn: Delay = Delay(0.03, 0.08)
    rest: Delay = Delay(0.0, 0.0003)
    """Time from a runner's last outcome of a run-list until it has withdrawn its claim."""
    stop: Delay = Delay(0.0, 0.05)
    """Time from a cancellation that a job obeys until the job has ended."""
    bytes_per_s: float = 100e6
    """Bytes of values that a node sends, and receives, at most."""
    relayed_bytes_per_s: float | None = None
    """Bytes of values that go through the head for one copy at most; None for as many as a node sends."""


QUICK = Network(Delay(0.0002, 0.0002), Delay(0.00005, 0.00005), Delay(0.05, 0.05), Delay())
"""Links with fixed delays, for measurements."""


class Faults(msgspec.Struct, frozen=True):
    """Faults: the mean time between two of a kind, in seconds; 0 for never. There are none after `until`.

    Attributes:
        runner_kill: SIGKILL to a process that runs jobs.
        node_kill: SIGKILL to a worker. A new daemon is started in its place, unless the world is closed.
        freeze: SIGSTOP to a worker for up to 45 s: beyond 30 s of silence it is lost.
        partition: a link that is silent for up to 45 s, both ways.
        spawn_fails: the probability that a process does not come up.
        until: the time of the last fault, in seconds.
        stop: SIGTERM to a worker: it announces that it leaves, ends its jobs, and exits; some are killed meanwhile.
        blink: a link that breaks, and is opened again by the same daemon within 10 s.
        reset: RST to a connection: messages under way are lost. The worker ends and comes back as after `node_kill`.
        head_crash: the head dies, once, up to twice as many seconds after the beginning (whatever `until` says), with
            all its state: either its process, so that links end, or its machine, so that they are silent.
        blocked: the probability that of two workers one cannot get values from the other, for five seconds at a time:
            directly, or of those that have no data servers at all.
        damage: a value in the store of a worker is damaged.
        evict: a worker gives up a spare replica for room.
        drain: a worker is to end when its jobs have, and what only it has is elsewhere.
    """

    runner_kill: float = 0.0
    node_kill: float = 0.0
    freeze: float = 0.0
    partition: float = 0.0
    spawn_fails: float = 0.0
    until: float = 0.0
    stop: float = 0.0
    reset: float = 0.0
    head_crash: float = 0.0
    blink: float = 0.0
    blocked: float = 0.0
    damage: float = 0.0
    drain: float = 0.0
    evict: float = 0.0


CALM = Faults()
"""No faults."""
