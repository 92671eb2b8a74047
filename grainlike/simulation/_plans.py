"""What a world is made of, as plain data: the jobs and how they will go, the nodes, what breaks, how slow links are."""

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
    """A function: as the head will hear of it. What raises is of a kind to be tried again, but for `JobPlan.final`."""

    name: str
    is_async: bool = False
    retries: int = 0
    timeout: float | None = None
    keep: bool = False
    losses: int = MAX_LOSSES - 1
    backoff: tuple[float, float, float] | None = None
    on_timeout: bool = True


class JobPlan(msgspec.Struct, frozen=True, gc=False):
    """How one job will go. `fn` and `after` are positions in the workload. One whose request is empty never reaches the
    head: it passes on, in no time, that all it came after is done.

    Attributes:
        seconds: how long it runs, on a true clock.
        at: when it is submitted, if nothing in `after` ends later.
        after: the jobs whose values it needs. If one of them fails, it is never submitted.
        accepts_failures: whether it goes on when all in `after` have ended, failed or not; only of empty requests.
        awaits: whether its coroutine suspends; only functions that are `is_async`.
        raises: how many of its first attempts raise an exception.
        final: whether what it raises is of a kind after which it is not tried again.
        kills: how many of its first attempts kill their process, at their end.
        on_stop: what it does when it is cancelled: ends at once, returns a value all the same, or takes no notice.
        cancel_at: when nobody wants it any more.
        calls: jobs of its own that it awaits, one batch after another, all of a batch at once. Between the batches, and
            before and after, it runs for equal parts of `seconds`. If one of them fails, so does it. Needs `awaits`.
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


class Workload(msgspec.Struct, frozen=True):
    """Functions and jobs, with a name to print."""

    name: str
    functions: tuple[FunctionPlan, ...]
    jobs: tuple[JobPlan, ...]


class NodePlan(msgspec.Struct, frozen=True):
    """A machine. Its clock shows `offset + rate * true time`; it joins at `joins_at`.

    `stops_after` seconds it is told to stop, as by a queue system whose walltime is over, and does not come back.
    """

    offer: Allocation
    rate: float = 1.0
    offset: float = 0.0
    joins_at: float = 0.0
    stops_after: float | None = None


class Network(msgspec.Struct, frozen=True):
    """How long messages travel, and how long processes take to come up, in seconds."""

    link: Delay = Delay(0.0001, 0.0005)
    pipe: Delay = Delay(0.00002, 0.0001)
    spawn: Delay = Delay(0.03, 0.08)
    rest: Delay = Delay(0.0, 0.0003)
    """From a runner's last answer for a run-list until it has taken its claim back."""
    stop: Delay = Delay(0.0, 0.05)
    """From a cancellation that a job heeds until the job has ended."""


QUICK = Network(Delay(0.0002, 0.0002), Delay(0.00005, 0.00005), Delay(0.05, 0.05), Delay())
"""Links without chance: for measurements."""


class Faults(msgspec.Struct, frozen=True):
    """What breaks: the mean time between two faults of a kind, in seconds; 0 for never. Nothing breaks after `until`.

    Attributes:
        runner_kill: SIGKILL to a process that runs jobs.
        node_kill: SIGKILL to a worker. It comes back as a new incarnation, unless the world is closed.
        freeze: SIGSTOP to a worker for up to 45 s: beyond 30 s of silence it is lost.
        partition: a link that is silent for up to 45 s, both ways.
        spawn_fails: the probability that a process does not come up.
        until: when it ends.
        stop: SIGTERM to a worker: it says that it leaves, ends what it has, and goes; some are killed over it.
        blink: a link that breaks, and is made anew by the same incarnation within 10 s.
        reset: RST to a connection: what was under way is lost. The worker ends and comes back as after `node_kill`.
        head_crash: the head dies, once, up to twice as many seconds after the beginning (whatever `until` says), and
            all that it knew with it: its process, so that links end, or its machine, so that they are silent.
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


CALM = Faults()
"""Nothing breaks."""
