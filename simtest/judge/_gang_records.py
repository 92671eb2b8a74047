"""Judge's records of gangs: which workers were asked for slots, and which of them hold them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from grainlike.resources import Allocation
from grainlike.scheduler import AssembleGang, AssignJobs, CancelJobs
from grainlike.wire import Completed, LeaseStart

__all__ = ["GangRecords"]


class _Hold:
    __slots__ = ("allocation", "attempt", "job")

    def __init__(self, job: int, attempt: int, allocation: Allocation) -> None:
        self.job = job
        self.attempt = attempt
        self.allocation = allocation


class GangRecords:
    """Attempts of gangs by job and attempt; holds by worker and lease. Raises `AssertionError` for a violation."""

    def __init__(self) -> None:
        self._workers: dict[tuple[int, int], list[int]] = {}
        self._holds: dict[tuple[int, int], _Hold] = {}
        self._dead: set[int] = set()
        self._excused: set[int] = set()
        self._under_way: dict[tuple[int, int], list[int]] = {}
        """Workers of attempts that were assigned, and whose end the head has not received."""
        self._to_stop: set[tuple[int, int]] = set()
        self._stopped: set[tuple[int, int]] = set()

    def asked(self, action: AssembleGang, nodes: int) -> None:
        """Record that the head has placed a gang."""
        workers = action.workers
        assert len(workers) == len(set(workers)) == nodes, f"job {action.job} asks for {nodes} workers, not {workers}"
        assert (action.job, action.attempt) not in self._workers, f"job {action.job} was placed twice"
        self._workers[action.job, action.attempt] = workers

    def held(self, worker: int, start: LeaseStart, allocation: Allocation) -> None:
        """Record that a worker has granted ids."""
        job, attempt = start.jobs[0], start.attempts[0]
        assert worker in self._workers[job, attempt], f"worker {worker} was not asked to hold slots for job {job}"
        self._holds[worker, start.lease] = _Hold(job, attempt, allocation)

    def assigned(self, action: AssignJobs) -> None:
        """Check that all workers hold their slots, as the head has sent to the leader."""
        job, attempt = action.jobs[0], action.attempts[0]
        workers = self._workers[job, attempt]
        assert [worker for worker, _ in action.gang] == workers, f"job {job} is sent other workers than it has"
        assert action.worker == workers[0], f"job {job} was assigned to a worker that does not lead it"
        self._under_way[job, attempt] = workers
        for worker, allocation in action.gang:
            if worker not in self._dead | self._excused:
                held = self._held_by(worker, job, attempt)
                assert held is not None, f"worker {worker} holds nothing for job {job}, which was assigned"
                assert str(held.allocation) == allocation, f"job {job} is sent {allocation} on worker {worker}"

    def leads(self, worker: int, lease: int, allocation: Allocation) -> bool:
        """Return True if a lease that is given to a runner was held for a gang."""
        held = self._holds.pop((worker, lease), None)
        assert held is None or held.allocation == allocation, f"{allocation} is not what was held"
        return held is not None

    def began(self, leader: int, lease: int, job: int, attempt: int) -> None:
        """Check, when a job begins, that all its other workers hold their slots, unless they are dead, or stop."""
        workers = self._workers.get((job, attempt))
        assert workers is not None, f"job {job} began alone in lease {lease}"
        assert workers[0] == leader, f"job {job} began on worker {leader}, which does not lead it"
        for worker in workers[1:]:
            here = worker in self._dead | self._excused or self._held_by(worker, job, attempt) is not None
            assert here, f"job {job} began, and worker {worker} holds nothing for it"

    def release(self, worker: int, lease: int, runs: Callable[[int, int, int], bool]) -> bool:
        """Record that a lease is free; return True if it was a hold. `runs(job, attempt, leader)` says if the gang's
        job still runs, in which case the hold must not end.
        """
        held = self._holds.pop((worker, lease), None)
        if held is None:
            return False
        leader = self._workers[held.job, held.attempt][0]
        stays = worker not in self._excused and runs(held.job, held.attempt, leader)
        assert not stays, f"worker {worker} released the slots of job {held.job}, which runs"
        return True

    def with_member(self, worker: int) -> Iterator[tuple[int, int, int]]:
        """Return job, attempt and leader of all gangs that ever had slots on a worker."""
        return ((*key, workers[0]) for key, workers in self._workers.items() if worker in workers)

    def excused(self, worker: int) -> None:
        """Record that a worker was asked to stop: it releases all that it holds."""
        self._excused.add(worker)

    def died(self, worker: int) -> None:
        """Record that a worker is gone, with all that it held."""
        self._dead.add(worker)
        for key in [key for key in self._holds if key[0] == worker]:
            del self._holds[key]

    def given_up(self, worker: int, outcome: Container[int]) -> None:
        """Record that the head has given up a worker: it has to stop the jobs of gangs that had slots there."""
        for key, workers in list(self._under_way.items()):
            if worker == workers[0]:
                del self._under_way[key]
            elif worker in workers and key[0] not in outcome and key not in self._stopped:
                self._to_stop.add(key)

    def stopping(self, action: CancelJobs) -> None:
        """Record that the head cancels attempts at a worker."""
        keys = [*zip(action.jobs, action.attempts, strict=True)]
        self._to_stop.difference_update(keys)
        self._stopped.update(key for key in keys if self._under_way.get(key, (0,))[0] == action.worker)

    def heard(self, worker: int, completed: Completed) -> None:
        """Record that the head receives the end of attempts, from a worker that it has not given up."""
        for key in zip(completed.jobs, completed.attempts, strict=True):
            if self._under_way.get(key, (0,))[0] == worker:
                del self._under_way[key]

    def head_died(self) -> None:
        """Record that the head is dead: it stops no jobs any more, as workers end all of them."""
        self._to_stop.clear()
        self._under_way.clear()

    def check_empty(self) -> None:
        """Check that nothing is held, and that no job went on without one of its workers."""
        assert not self._to_stop, f"attempts {self._to_stop} were not stopped, and had lost a worker"
        assert not self._holds, f"slots are still held: {list(self._holds)}"

    def _held_by(self, worker: int, job: int, attempt: int) -> _Hold | None:
        holds = (held for (at, _), held in self._holds.items() if at == worker)
        return next((held for held in holds if (held.job, held.attempt) == (job, attempt)), None)
