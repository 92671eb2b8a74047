"""Judge's records of how runs are ended: not before their time, and soon after they were asked to."""

from __future__ import annotations

from grainlike.scheduler import GRACE_S
from grainlike.simulation import Clock, FunctionPlan, JobPlan
from grainlike.wire import Code

__all__ = ["Endings"]

_DRIFT = 0.02
"""The largest relative error of clocks."""

_SOON_S = 0.5
"""Seconds within which a job that obeys a cancellation has ended, once its node was asked."""

_HEARD_S = 1.2
"""The most seconds that a message travels."""


class _Run:
    __slots__ = ("begun", "ended", "limit", "worker")

    def __init__(self, worker: int, granted: float, limit: float) -> None:
        self.worker = worker
        self.limit = limit
        self.begun = granted
        """Time of the grant, until the job begins."""
        self.ended: float | None = None


class Endings:
    """Records grants, ends, and requests to end, by job and attempt. Workers that stood still are excused."""

    def __init__(self, clock: Clock, plans: dict[int, JobPlan], functions: tuple[FunctionPlan, ...]) -> None:
        self._clock = clock
        self._plans = plans
        self._functions = functions
        self._runs: dict[tuple[int, int], _Run] = {}
        self._unwanted: dict[int, float] = {}
        self._asked: dict[tuple[int, int, int], float] = {}
        self._stopping: dict[int, float] = {}
        self._stalled: set[int] = set()

    # --- requests ----------------------------------------------------------------------------------------------------

    def unwanted(self, job: int) -> None:
        """Record that a job was cancelled at the head."""
        self._unwanted[job] = self._clock.now

    def asked(self, worker: int, jobs: list[int], attempts: list[int]) -> None:
        """Record that a node has received the cancellation of these attempts."""
        for job, attempt in zip(jobs, attempts, strict=True):
            self._asked.setdefault((worker, job, attempt), self._clock.now)

    def stopping(self, worker: int) -> None:
        """Record that a node was asked to stop."""
        self._stopping[worker] = self._clock.now

    def stalled(self, worker: int) -> None:
        """Record that a node, or its link, stands still for a while: it receives nothing, and its timers are late."""
        self._stalled.add(worker)

    # --- runs --------------------------------------------------------------------------------------------------------

    def granted(self, worker: int, job: int, attempt: int, limit: float) -> None:
        """Record that an attempt has its slots, for `limit` seconds at most; check that it was not asked to end
        before.
        """
        assert worker not in self._stopping, f"worker {worker} was asked to stop, and starts job {job}"
        assert (worker, job, attempt) not in self._asked, f"worker {worker} was asked to end job {job}, and starts it"
        self._runs[job, attempt] = _Run(worker, self._clock.now, limit)

    def began(self, job: int, attempt: int) -> None:
        """Record that an attempt runs."""
        self._runs[job, attempt].begun = self._clock.now

    def ended(self, job: int, attempt: int, code: Code) -> None:
        """Record that an attempt runs no more; check that it ended in time."""
        run = self._runs[job, attempt]
        run.ended = self._clock.now
        if run.worker in self._stalled:
            return
        plan, is_async = self._plans[job], self._functions[self._plans[job].fn].is_async
        late = self._late(run, job, attempt)
        if not is_async:
            assert late <= GRACE_S * (1 + _DRIFT) + _SOON_S, f"job {job} was to end {late:.3f} s ago"
        if plan.on_stop == "ends" and (plan.awaits or not is_async) and code in (Code.SUCCEEDED, Code.FAILED):
            assert late <= _SOON_S, f"job {job} was to end {late:.3f} s ago, and came to its own end"
            late = run.ended - max(run.begun, self._unwanted.get(job, run.ended)) - _HEARD_S
            assert late <= _SOON_S, f"job {job} was unwanted for {late:.3f} s, and came to its own end"

    def _late(self, run: _Run, job: int, attempt: int) -> float:
        """Return how many seconds ago the attempt should have begun to end."""
        now = self._clock.now
        asked = min(self._asked.get((run.worker, job, attempt), now), self._stopping.get(run.worker, now))
        over = now - run.begun - run.limit * (1 + _DRIFT)
        return max(now - max(asked, run.begun), over)

    def timed_out(self, job: int, attempt: int) -> None:
        """Check that an attempt that is reported as timed out had its time. The report may come before its end."""
        run = self._runs.get((job, attempt))
        assert run is not None, f"job {job} is reported as timed out, and it never had slots"
        length = (self._clock.now if run.ended is None else run.ended) - run.begun
        assert length >= run.limit * (1 - _DRIFT), f"job {job} timed out after {length:.3f} s of {run.limit:.3f} s"
