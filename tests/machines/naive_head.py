"""What a head must do with its jobs, said in the slowest way: lists read from the front, amounts added up anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grainlike.resources import Request
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait, Wait

__all__ = ["LATE_S", "MOST_LOSSES", "NaiveHead", "NaiveJob"]

MOST_LOSSES = 3
LATE_S = 0.02
WHOLE = 10**9

Key = tuple[int, Request, int, bool, int]
"""Client, request, priority, whether alone in its process, and the oldest job of the tree, 0 for a job of a program."""


class NaiveJob:
    """A live job: in its queue, or at a worker in one of its shapes."""

    def __init__(self, number: int, key: Key, retries: int, parent: NaiveJob | None) -> None:
        self.number = self.age = number
        self.parent = parent
        self.root: int = number if parent is None else parent.root
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: set[int] = set()
        """What this attempt has submitted, wants, and has not had."""
        self.waits = False
        self.lease = 0
        self.key = key
        self.retries = retries
        self.attempt = 1
        self.losses = 0
        self.cancelled = False
        self.worker = 0
        self.shape: Request | None = None
        self.ahead = self.leased = False

    def leave(self) -> None:
        """It is at no worker."""
        self.worker, self.shape, self.ahead, self.leased, self.waits = 0, None, False, False, False


class NaiveHead:
    """Is told what the scheduler is told, and what it answered. `outcome`: how each job ended, once and for all."""

    def __init__(self) -> None:
        self.jobs: dict[int, NaiveJob] = {}
        self.queues: dict[Key, list[int]] = {}
        self.aged: set[Key] = set()
        """The queues that had a job that is as old as one of its inputs."""
        self.outcome: dict[int, str] = {}
        self.capacity: dict[int, dict[str, int]] = {}
        self.tokens: dict[int, tuple[str, ...]] = {}
        self.leases: dict[int, dict[int, Request]] = {}
        self.lends: dict[int, dict[int, int]] = {}
        """The leases that lend their cores, by worker, with the tree of who lends."""
        self.orphans: list[int] = []
        """Whose parents' attempts have ended."""
        self.ended_with_parents: list[int] = []
        """Those of them that were cancelled for that in this step."""
        self.leaving: set[int] = set()
        self.launches: dict[str, list[float]] = {}

    # --- what it is told ---------------------------------------------------------------------------------------------

    def submitted(
        self, key: Key, numbers: list[int], retries: int, parent: NaiveJob | None = None, ages: Sequence[int] = ()
    ) -> None:
        """New jobs. Those of a tree stand with the deepest first."""
        for number, age in zip(numbers, ages or [0] * len(numbers), strict=True):
            self.jobs[number] = job = NaiveJob(number, key, retries, parent)
            if age:
                job.age = age
                self.aged.add(key)
            if parent is not None:
                parent.children.add(number)
        self.queues.setdefault(key, []).extend(numbers)
        self._sort(key)

    def _sort(self, key: Key) -> None:
        if key[4]:
            self.queues[key].sort(key=lambda number: (-self.jobs[number].depth, number))
        elif key in self.aged:
            self.queues[key].sort(key=lambda number: (self.jobs[number].age, number))

    def parent(self, number: int, attempt: int) -> NaiveJob | None:
        """The job that submits, if its attempt is still under way."""
        job = self.jobs.get(number)
        return job if job is not None and job.attempt == attempt and job.leased else None

    def cancelled(self, numbers: list[int]) -> dict[int, list[int]]:
        """Who is to be told, by worker."""
        to_stop: dict[int, list[int]] = {}
        for number in numbers:
            job = self.jobs.get(number)
            if job is None or job.cancelled:
                continue
            job.cancelled = True
            if job.parent is not None:
                job.parent.children.discard(number)
            self._end(job, "CANCELLED", gone=not job.worker)
            if job.worker:
                to_stop.setdefault(job.worker, []).append(number)
            else:
                self.queues[job.key].remove(number)
        return to_stop

    def joined(self, worker: int, offer: Request) -> None:
        """A worker."""
        self.capacity[worker], self.tokens[worker] = dict(offer.units), offer.tokens
        self.leases[worker], self.lends[worker] = {}, {}

    def lost(self, worker: int) -> list[int]:
        """A worker is gone; who is given up for it."""
        del self.capacity[worker], self.leases[worker], self.lends[worker]
        back: list[NaiveJob] = []
        given_up: list[int] = []
        here = [job for job in self.jobs.values() if job.worker == worker]
        for job in sorted(here, key=lambda job: -job.depth):
            counts = job.leased and worker not in self.leaving
            self._leave(job)
            if job.cancelled:
                del self.jobs[job.number]
                continue
            job.attempt += 1
            job.losses += counts
            if counts and job.losses >= MOST_LOSSES:
                self._end(job, "LOST")
                given_up.append(job.number)
            else:
                back.append(job)
        self._put_back(back)
        return given_up

    def reported(
        self,
        worker: int,
        started: list[LeaseStart],
        completed: list[Completed],
        ended: list[int],
        waits: list[LeaseWait],
        shapes: dict[int, Request],
    ) -> tuple[list[int], list[int]]:
        """A report; who is settled, and who is given up for it."""
        settled: list[int] = []
        given_up: list[int] = []
        if worker not in self.capacity:
            return settled, given_up
        for start in started:
            self.leases[worker][start.lease] = shapes[start.cls]
            for job in self._current(worker, start.jobs, start.attempts):
                if job is not None:
                    job.leased, job.ahead, job.lease = True, False, start.lease
        for message in completed:
            self._completed(worker, message, settled, given_up)
            self._end_orphans()
        for lease in ended:
            self.leases[worker].pop(lease, None)
            self.lends[worker].pop(lease, None)
        for wait in waits:
            self._waits(worker, wait)
        return settled, given_up

    def _waits(self, worker: int, wait: LeaseWait) -> None:
        if wait.lease not in self.leases[worker]:
            return
        (job,) = self._current(worker, [wait.job], [wait.attempt])
        if not wait.lent:
            self.lends[worker].pop(wait.lease, None)
        elif job is not None:
            self.lends[worker][wait.lease] = job.root
        else:
            self.lends[worker].setdefault(wait.lease, 0)
        if job is not None:
            job.waits = wait.waits != Wait.NOTHING

    def gave_up(self, number: int) -> None:
        """A job is failed for a circle: it would not fit on any worker, whatever ends that does not wait."""
        job = self.jobs[number]
        assert job.parent is not None or job.worker, "nobody waits for it, and it holds nothing"
        if not job.worker:
            for worker in self.capacity:
                left = self._left_by_waiting(worker)
                fits = [option for option in job.key[1].options if self.has_room(left, worker, option)]
                assert not fits or worker in self.leaving, (
                    f"job {number} was given up, and worker {worker} will have room"
                )
            self.queues[job.key].remove(number)
        job.cancelled = True
        self._end(job, "STUCK", gone=not job.worker)

    def _left_by_waiting(self, worker: int) -> dict[int, int]:
        """What is not held by jobs that wait, or that could not start beside them."""
        left = dict(self.capacity[worker])
        for job in self.jobs.values():
            stays = job.waits or not (job.ahead or job.leased)
            if job.worker == worker and stays and job.shape is not None:
                lends = job.waits and job.lease in self.lends[worker]
                for name, units in job.shape.units.items():
                    left[name] -= 0 if lends and name == "cores" else units
        return left

    def take_orphans(self) -> list[int]:
        """Who was cancelled in this step because the attempt has ended that submitted him."""
        self._end_orphans()
        ended, self.ended_with_parents = self.ended_with_parents, []
        return ended

    def _end_orphans(self) -> None:
        orphans, self.orphans = [number for number in self.orphans if number in self.jobs], []
        self.cancelled(orphans)
        self.ended_with_parents += orphans

    def _leave(self, job: NaiveJob) -> None:
        """Its attempt is over."""
        self.orphans += job.children
        job.children = set()
        job.leave()

    def _current(self, worker: int, numbers: list[int], attempts: list[int]) -> list[NaiveJob | None]:
        found = [self.jobs.get(number) for number in numbers]
        return [
            job if job is not None and (job.worker, job.attempt) == (worker, attempt) else None
            for job, attempt in zip(found, attempts, strict=True)
        ]

    def _completed(self, worker: int, message: Completed, settled: list[int], given_up: list[int]) -> None:
        back: list[NaiveJob] = []
        for number, attempt, code in zip(message.jobs, message.attempts, message.codes, strict=True):
            (job,) = self._current(worker, [number], [attempt])
            if job is None:
                continue
            self._leave(job)
            if job.cancelled:
                del self.jobs[number]
            elif code == Code.RETURNED:
                back.append(job)
            elif code == Code.STOPPED:
                job.attempt += 1
                back.append(job)
            elif code == Code.CRASHED:
                job.attempt += 1
                job.losses += 1
                if job.losses >= MOST_LOSSES:
                    self._end(job, "LOST")
                    given_up.append(number)
                else:
                    job.key = (*job.key[:3], True, job.key[4])
                    back.append(job)
            elif code in (Code.FAILED, Code.TIMED_OUT) and job.retries:
                job.attempt += 1
                job.retries -= 1
                back.append(job)
            else:
                self._end(job, Code(code).name)
                settled.append(number)
        self._put_back(back)

    def _put_back(self, jobs: list[NaiveJob]) -> None:
        for job in sorted(jobs, key=lambda job: (job.age, job.number), reverse=True):
            self.queues.setdefault(job.key, []).insert(0, job.number)
            self._sort(job.key)

    def _end(self, job: NaiveJob, how: str, *, gone: bool = True) -> None:
        assert job.number not in self.outcome, f"job {job.number} was {self.outcome[job.number]}, and now {how}"
        self.outcome[job.number] = how
        if job.parent is not None:
            job.parent.children.discard(job.number)
        if gone:
            del self.jobs[job.number]

    # --- what it answered --------------------------------------------------------------------------------------------

    def assigned(
        self, worker: int, shape: Request, numbers: list[int], attempts: list[int], now: float, *, ahead: bool
    ) -> None:
        """Jobs are sent to a worker. Whether they were the first is for `leave_queues` to see."""
        assert worker in self.capacity, "it is not here"
        assert worker not in self.leaving, "it said that it stops"
        for number, attempt in zip(numbers, attempts, strict=True):
            job = self.jobs[number]
            assert not job.cancelled
            assert not job.worker, f"job {number} is at a worker"
            assert job.attempt == attempt
            assert shape in job.key[1].options
            job.worker, job.shape, job.ahead = worker, shape, ahead
            for name in shape.rates:
                self.launches.setdefault(name, []).append(now)

    def leave_queues(self, numbers: list[int]) -> None:
        """All that was assigned in one step: of each queue the first ones, and nobody out of the middle."""
        by_key: dict[Key, list[int]] = {}
        for number in numbers:
            by_key.setdefault(self.jobs[number].key, []).append(number)
        for key, taken in by_key.items():
            queue = self.queues[key]
            assert sorted(taken) == sorted(queue[: len(taken)]), f"{taken} were assigned, first are {queue[:9]}"
            del queue[: len(taken)]

    # --- what must be true -------------------------------------------------------------------------------------------

    def free(self, worker: int) -> dict[str, int]:
        """What is not taken by planned jobs and leases."""
        free = dict(self.capacity[worker])
        taken = [job.shape for job in self.jobs.values() if job.worker == worker and not job.ahead and not job.leased]
        for shape in [*taken, *self.leases[worker].values()]:
            assert shape is not None
            for name, units in shape.units.items():
                free[name] -= units
        if self.lends[worker]:
            free["cores"] += self._lent(worker)
        return free

    def _lent(self, worker: int) -> int:
        return sum(self.leases[worker][lease].units["cores"] for lease in self.lends[worker])

    def open_to(self, job: NaiveJob, worker: int) -> dict[str, int]:
        """What of the free amounts a job has a right to: of the cores that are lent, those of its own tree."""
        free = self.free(worker)
        if self.lends[worker] and not (job.parent is not None and job.root in self.lends[worker].values()):
            free["cores"] -= self._lent(worker)
        return free

    def check_rations(self) -> None:
        """No more under a limit than it allows; launches evenly spaced."""
        running: Counter[str] = Counter()
        most: dict[str, int] = {}
        for job in self.jobs.values():
            if job.shape is not None:
                running.update([*job.shape.limits])
                most.update(job.shape.limits)
        assert all(count * WHOLE <= most[name] for name, count in running.items()), running
        rates = {name: rate for key in self.queues for option in key[1].options for name, rate in option.rates.items()}
        for name, times in self.launches.items():
            for at, first in enumerate(times):
                launches, stretch = len(times) - at - 1, times[-1] - first + LATE_S
                assert launches <= rates[name] / WHOLE * stretch + 1e-6, f"{launches} launches in {stretch} s"

    def may_start(self, kept: set[int]) -> list[tuple[int, int, int]]:
        """The first jobs of queues, each with a worker that is not kept for anybody and has room, and the option."""
        workers = [worker for worker in self.capacity if worker not in kept | self.leaving]
        found: list[tuple[int, int, int]] = []
        for key, queue in self.queues.items():
            if queue and not any(option.limits or option.rates for option in key[1].options):
                found += [
                    (queue[0], worker, at)
                    for at, option in enumerate(key[1].options)
                    for worker in workers
                    if self.has_room(self.open_to(self.jobs[queue[0]], worker), worker, option)
                ]
        return found

    def has_room(self, free: dict[str, int], worker: int, option: Request) -> bool:
        """Whether an option fits there now."""
        carried = all(token in self.tokens[worker] for token in option.tokens)
        return carried and all(free.get(name, 0) >= units for name, units in option.units.items())
