"""What a head must do with its jobs, said in the slowest way: lists read from the front, amounts added up anew."""

from __future__ import annotations

from collections import Counter

from grainlike.resources import Request
from grainlike.wire import Code, Completed, LeaseStart

__all__ = ["LATE_S", "MOST_LOSSES", "NaiveHead", "NaiveJob"]

MOST_LOSSES = 3
LATE_S = 0.02
WHOLE = 10**9

Key = tuple[int, Request, int, bool]


class NaiveJob:
    """A live job: in its queue, or at a worker in one of its shapes."""

    def __init__(self, number: int, key: Key, retries: int) -> None:
        self.number = number
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
        self.worker, self.shape, self.ahead, self.leased = 0, None, False, False


class NaiveHead:
    """Is told what the mind is told, and what it answered. `outcome`: how each job ended, once and for all."""

    def __init__(self) -> None:
        self.jobs: dict[int, NaiveJob] = {}
        self.queues: dict[Key, list[int]] = {}
        self.outcome: dict[int, str] = {}
        self.capacity: dict[int, dict[str, int]] = {}
        self.tokens: dict[int, tuple[str, ...]] = {}
        self.leases: dict[int, dict[int, Request]] = {}
        self.leaving: set[int] = set()
        self.launches: dict[str, list[float]] = {}

    # --- what it is told ---------------------------------------------------------------------------------------------

    def submitted(self, key: Key, numbers: list[int], retries: int) -> None:
        """New jobs."""
        for number in numbers:
            self.jobs[number] = NaiveJob(number, key, retries)
        self.queues.setdefault(key, []).extend(numbers)

    def cancelled(self, numbers: list[int]) -> dict[int, list[int]]:
        """Who is to be told, by worker."""
        to_stop: dict[int, list[int]] = {}
        for number in numbers:
            job = self.jobs.get(number)
            if job is None or job.cancelled:
                continue
            job.cancelled = True
            self._end(job, "CANCELLED", gone=not job.worker)
            if job.worker:
                to_stop.setdefault(job.worker, []).append(number)
            else:
                self.queues[job.key].remove(number)
        return to_stop

    def joined(self, worker: int, offer: Request) -> None:
        """A worker."""
        self.capacity[worker], self.tokens[worker] = dict(offer.units), offer.tokens
        self.leases[worker] = {}

    def lost(self, worker: int) -> list[int]:
        """A worker is gone; who is given up for it."""
        del self.capacity[worker], self.leases[worker]
        back: list[NaiveJob] = []
        given_up: list[int] = []
        for job in [job for job in self.jobs.values() if job.worker == worker]:
            counts = job.leased and worker not in self.leaving
            job.leave()
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
                    job.leased, job.ahead = True, False
        for message in completed:
            self._completed(worker, message, settled, given_up)
        for lease in ended:
            self.leases[worker].pop(lease, None)
        return settled, given_up

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
            job.leave()
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
                    job.key = (*job.key[:3], True)
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
        for job in sorted(jobs, key=lambda job: -job.number):
            self.queues.setdefault(job.key, []).insert(0, job.number)

    def _end(self, job: NaiveJob, how: str, *, gone: bool = True) -> None:
        assert job.number not in self.outcome, f"job {job.number} was {self.outcome[job.number]}, and now {how}"
        self.outcome[job.number] = how
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
        free = {worker: self.free(worker) for worker in self.capacity if worker not in kept | self.leaving}
        found: list[tuple[int, int, int]] = []
        for key, queue in self.queues.items():
            if queue and not any(option.limits or option.rates for option in key[1].options):
                found += [
                    (queue[0], worker, at)
                    for at, option in enumerate(key[1].options)
                    for worker in free
                    if self.has_room(free[worker], worker, option)
                ]
        return found

    def has_room(self, free: dict[str, int], worker: int, option: Request) -> bool:
        """Whether an option fits there now."""
        carried = all(token in self.tokens[worker] for token in option.tokens)
        return carried and all(free.get(name, 0) >= units for name, units in option.units.items())
