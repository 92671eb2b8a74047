"""The judge's books of how runs are brought to an end: not before their time, and soon after somebody asked for it."""

from __future__ import annotations

from grainlike.scheduler import GRACE_S
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import FunctionPlan, JobPlan
from grainlike.wire import Code

__all__ = ["Endings"]

_DRIFT = 0.02
"""How wrong clocks may be."""

_SOON_S = 0.5
"""How long it may take until a job that heeds a cancellation has ended, once its node was asked."""

_HEARD_S = 1.2
"""How long a message may travel."""


class _Run:
    __slots__ = ("begun", "ended", "limit", "worker")

    def __init__(self, worker: int, granted: float, limit: float) -> None:
        self.worker = worker
        self.limit = limit
        self.begun = granted
        """Or granted, as long as it does not run."""
        self.ended: float | None = None


class Endings:
    """Takes note of grants, ends, and requests to end; by job and attempt. Workers that stood still are excused."""

    def __init__(self, clock: Clock, plans: dict[int, JobPlan], functions: tuple[FunctionPlan, ...]) -> None:
        self._clock = clock
        self._plans = plans
        self._functions = functions
        self._runs: dict[tuple[int, int], _Run] = {}
        self._unwanted: dict[int, float] = {}
        self._asked: dict[tuple[int, int, int], float] = {}
        self._stopping: dict[int, float] = {}
        self._stalled: set[int] = set()

    # --- what is asked for -------------------------------------------------------------------------------------------

    def unwanted(self, job: int) -> None:
        """Nobody wants a job any more; the head knows it."""
        self._unwanted[job] = self._clock.now

    def asked(self, worker: int, jobs: list[int], attempts: list[int]) -> None:
        """A node has heard that these are to end."""
        for job, attempt in zip(jobs, attempts, strict=True):
            self._asked.setdefault((worker, job, attempt), self._clock.now)

    def stopping(self, worker: int) -> None:
        """A node was told to stop."""
        self._stopping[worker] = self._clock.now

    def stalled(self, worker: int) -> None:
        """A node, or its link, stands still for a while: it hears nothing and rings no alarm in time."""
        self._stalled.add(worker)

    # --- what comes of it --------------------------------------------------------------------------------------------

    def granted(self, worker: int, job: int, attempt: int, limit: float) -> None:
        """An attempt has its slots, for so many seconds at most."""
        assert worker not in self._stopping, f"worker {worker} was told to stop, and starts job {job}"
        assert (worker, job, attempt) not in self._asked, f"worker {worker} was told to end job {job}, and starts it"
        self._runs[job, attempt] = _Run(worker, self._clock.now, limit)

    def began(self, job: int, attempt: int) -> None:
        """It runs."""
        self._runs[job, attempt].begun = self._clock.now

    def ended(self, job: int, attempt: int, code: Code) -> None:
        """It runs no more."""
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
        """How long ago it was to end."""
        now = self._clock.now
        asked = min(self._asked.get((run.worker, job, attempt), now), self._stopping.get(run.worker, now))
        over = now - run.begun - run.limit * (1 + _DRIFT)
        return max(now - max(asked, run.begun), over)

    def timed_out(self, job: int, attempt: int) -> None:
        """It is said to have run for longer than it may. Who waits for one that will not end need not wait for that."""
        run = self._runs.get((job, attempt))
        assert run is not None, f"job {job} is said to have timed out, and it never had slots"
        length = (self._clock.now if run.ended is None else run.ended) - run.begun
        assert length >= run.limit * (1 - _DRIFT), f"job {job} timed out after {length:.3f} s of {run.limit:.3f} s"
