"""Judge's records of stores with limits, and of who waits for room in them.

Raises `AssertionError` when one of these promises is broken:

1. Nothing is copied to a worker that has more than it may keep, for all that the head has heard.
2. The oldest job whose inputs some store could hold begins within the time of what runs there and of its transfers.
   A store could hold them beside what is not spare there. (Checked until the first fault, of a job that is older than
   all others that wait: of several that are as old as one input none has to make way.)
3. A job takes values of the client's own along only where the store of no worker that could run it could hold all that
   it needs, if nothing else was there, or beside what jobs need, as no job was assigned, and nothing copied, for 5 s;
   and is then as others are. (Checked until the first fault.)
4. A job whose value found no room at a worker is not assigned to that one again, nor given up, as long as another is
   there that could run it and hold its value beside its inputs, and at which it was not tried. (Checked until the first
   fault.) It may be tried once more at each worker while no such other one has room for its inputs and its value. If
   its function allows no loss, it is tried again only as often as that allows failures.
5. A job is given up for an overdraft only if a worker that could run it exceeds what it may keep, and no job was
   assigned, and nothing copied, for 5 s. No worker that could run it has room for its inputs beside what jobs need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from grainlike.resources import fits_tiers
from grainlike.simulation import Clock, FunctionPlan, JobPlan
from simtest.judge._value_records import ValueRecords

__all__ = ["StoreRecords"]

_PAYBACK_S = 5.0
"""Seconds for which a job waits at the least for an overdraft."""

_MOMENT_S = 2.0
"""Seconds for messages, processes to start, and a refusal."""


class StoreRecords:
    """Records of the workers with limits. `values` are the judge's records of values; `could_run(worker, job)` returns
    True if a worker has what a job asks for; `is_spare(worker, value)` if it was told so. `is_calm` returns True until
    the first fault. A copy has `slowest` bytes in a second, at the least.
    """

    def __init__(
        self,
        clock: Clock,
        plans: Mapping[int, JobPlan],
        functions: Sequence[FunctionPlan],
        values: ValueRecords,
        could_run: Callable[[int, int], bool],
        is_spare: Callable[[int, int], bool],
        is_calm: Callable[[], bool],
        slowest: float,
    ) -> None:
        self._clock = clock
        self._plans = plans
        self._functions = functions
        self._lacked: dict[int, list[int]] = {}
        """The workers at which the value of a job found no room, in order."""
        self._were_over: dict[int, set[int]] = {}
        """Workers that had more than they may keep at some time since the value of a job found no room."""
        self._values = values
        self._could_run = could_run
        self._is_spare = is_spare
        self._is_calm = is_calm
        self._slowest = slowest
        self._limits: dict[int, tuple[int, int]] = {}
        """Bytes that each worker may keep in memory and on disk."""
        self._own: dict[int, int] = {}
        """Bytes of the values of the client's own."""
        self._stirred_at = 0.0
        """Time of the last assignment or copy."""
        self.over: set[int] = set()
        """Workers that have more than they may keep, for all that the head has heard."""
        self._waiting: dict[int, tuple[int, int, int]] = {}
        """Jobs with inputs that were never assigned, and their order."""
        self._until: dict[tuple[int, int], float] = {}
        """When the oldest job begins at the latest, by job and a worker that could hold its inputs."""

    def limited(self, worker: int, store: int, scratch: int = 0) -> None:
        """Record how much a worker may keep in memory and on disk."""
        self._limits[worker] = store, scratch

    def added(self, value: int, size: int) -> None:
        """Record a value of the client's own."""
        self._own[value] = size

    def could_keep(self, worker: int, value: int) -> bool:
        """Return True if a worker could have a value, if nothing else was there."""
        return worker not in self._limits or self._fits(worker, [value])

    def _fits(self, worker: int, values: Iterable[int], beside: tuple[int, ...] = ()) -> bool:
        """Return True if the empty store of a worker could hold values, and others of sizes `beside`."""
        return fits_tiers([*beside, *map(self._size_of, values)], *self._limits[worker])

    def _surely_fits(self, worker: int, values: Iterable[int]) -> bool:
        """Return True if a worker can have these values at once, wherever the first of them are. A worker with a disk
        may have room in two parts.
        """
        memory, scratch = self._limits[worker]
        return not scratch and sum(map(self._size_of, values)) <= memory

    def has_room(self, worker: int, value: int, kept_for: Iterable[int] = ()) -> bool:
        """Return True if a worker could have a value beside all that it has and is sent, for all that the head has
        heard, and what room is kept for.
        """
        there = {value, *self._values.at(worker), *self._values.coming_to(worker), *kept_for}
        there.update(self._values.gone_unheard(worker))
        return worker not in self._limits or self._surely_fits(worker, there)

    def takes_along(self, job: int) -> None:
        """Check that no store could hold what a job needs, which takes a part of it along."""
        needed = self._values.inputs(job)
        for worker in [worker for worker in self._limits if self._is_calm() and self._could_run(worker, job)]:
            words = f"job {job} takes along what worker {worker} could hold"
            assert not self._fits(worker, needed) or self._is_stuck(worker, job), words
            assert not all(worker in self._values.holders(value) for value in needed), words
        self._waiting.pop(job, None)

    def _size_of(self, value: int) -> int:
        own = self._own.get(value)
        return self._plans[value].size if own is None else own

    def lacked(self, worker: int, job: int) -> None:
        """Record that the value of a job found no room at a worker."""
        self._lacked.setdefault(job, []).append(worker)
        self._were_over[job] = set(self.over)

    def assigned(self, worker: int, job: int) -> None:
        """Check that a job may run again, and is not tried where its value found no room while it may have some."""
        self._stirred_at = self._clock.now
        tried = self._lacked.get(job)
        if not tried:
            return
        function = self._functions[self._plans[job].fn]
        if not function.losses:
            assert len(tried) <= function.retries, f"job {job} runs again, which its function does not allow"
        if worker in tried:
            again = f"job {job} is tried at worker {worker} again"
            self._check_nowhere(job, again, or_full=tried.count(worker) == 1)

    def homeless(self, job: int) -> None:
        """Check that the value of a job has room nowhere, or that it may not run again."""
        if self._functions[self._plans[job].fn].losses:
            self._check_nowhere(job, f"job {job} is given up")

    def unpaid(self, job: int) -> None:
        """Check that a job that is given up waited for a worker with an overdraft, long enough, and in vain."""
        over = [worker for worker in self.over if self._could_run(worker, job)]
        assert over, f"job {job} is given up for an overdraft, and no worker has one that could run it"
        for worker in [worker for worker in self._limits if self._could_run(worker, job)]:
            words = f"job {job} is given up for an overdraft, and worker {worker} could have room if the client let go"
            assert self._is_stuck(worker, job), words

    def _is_stuck(self, worker: int, job: int) -> bool:
        """Return True if nothing has moved for long, and a worker has no room for the inputs of a job even if the
        client lets go of what no job needs.
        """
        here = {value for value in self._values.at(worker) if not self._is_spare(worker, value)}
        kept = {*filter(self._values.is_used, here), *self._values.inputs(job)}
        is_full = sum(map(self._size_of, kept)) > sum(self._limits[worker])
        return is_full and self._clock.now - self._stirred_at >= _PAYBACK_S

    def _check_nowhere(self, job: int, what: str, *, or_full: bool = False) -> None:
        """Check that no worker could hold the value of a job, beside its inputs, at which it was not tried; with
        `or_full`, that none which could has room for both now. Another one may have got room for the inputs alone since
        the head let the job run once more: the job goes where its value has room. Or it had more than it may keep then.
        """
        inputs = self._values.inputs(job)
        beside = (self._plans[job].size,)
        for worker in [worker for worker in self._limits if self._is_calm() and self._could_run(worker, job)]:
            untried = worker not in self._lacked[job] and self._fits(worker, inputs, beside)
            if untried and or_full and inputs:
                room_for = [*inputs, *self._values.dropped_now(worker)]
                untried = worker not in self._were_over[job] and self.has_room(worker, job, room_for)
            assert not untried, f"{what}, and worker {worker} could hold its value"

    def gone(self, worker: int) -> None:
        """Record that the head has given up a worker."""
        self._limits.pop(worker, None)
        self.over.discard(worker)

    def exceeds(self, worker: int, over: int) -> None:
        """Record that the head hears by how much a worker exceeds what it may keep."""
        if over:
            self.over.add(worker)
            for were in self._were_over.values():
                were.add(worker)
        else:
            self.over.discard(worker)

    def copying(self, target: int, value: int) -> None:
        """Check that a worker is not sent more while it exceeds what it may keep."""
        self._stirred_at = self._clock.now
        assert target not in self.over, f"value {value} is copied to worker {target}, which has more than it may keep"

    def waited_for(self, worker: int, value: int) -> list[tuple[int, ...]]:
        """Return the inputs of each waiting job for which a worker may keep room, as it could have all; of jobs that do
        not need this value.
        """
        needed = [self._values.inputs(job) for job in self._waiting if self._could_hold(worker, job)]
        return [inputs for inputs in needed if value not in inputs]

    def submitted(self, job: int, age: int) -> None:
        """Record a job that needs values."""
        self._waiting[job] = (-self._plans[job].priority, age, job)

    def settled(self, job: int) -> None:
        """Record that a job was assigned, or has ended."""
        self._waiting.pop(job, None)

    def decided(self) -> None:
        """Check that the oldest job has not waited for too long."""
        oldest = self._oldest() if self._limits and self._is_calm() else None
        if oldest is None:
            self._until.clear()
            return
        able = {(oldest, worker) for worker in self._limits if self._could_hold(worker, oldest)}
        now = self._clock.now
        self._until = {key: self._until.get(key) or now + self._seconds(*key) for key in sorted(able)}
        for (job, worker), until in self._until.items():
            assert now <= until, f"job {job} has not begun, and worker {worker} could have had its inputs for long"

    def _oldest(self) -> int | None:
        """Return the job that goes before all others that wait; None if several do."""
        first = min(self._waiting.values(), default=None)
        ties = [job for job, order in self._waiting.items() if first is not None and order[:2] == first[:2]]
        return ties[0] if len(ties) == 1 else None

    def _could_hold(self, worker: int, job: int) -> bool:
        """Return True if a worker could have all inputs of a job beside what it has to keep."""
        inputs = self._values.inputs(job)
        if worker in self.over or not self._could_run(worker, job) or not all(map(self._values.is_counted, inputs)):
            return False
        kept = {value for value in self._values.at(worker) if not self._is_spare(worker, value)}
        return self._surely_fits(worker, kept.union(inputs))

    def _seconds(self, job: int, worker: int) -> float:
        """Return how long it may take until a job begins: what runs ends, and once more as others were in its place."""
        longest = max(plan.seconds for plan in self._plans.values())
        sizes = map(self._size_of, self._values.inputs(job))
        coming = map(self._size_of, self._values.coming_to(worker))
        most = max(plan.size for plan in self._plans.values())
        return 2 * longest + (sum(sizes) + sum(coming) + 2 * most) / self._slowest + _MOMENT_S
