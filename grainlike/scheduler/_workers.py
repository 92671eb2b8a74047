"""Records of the head's workers: what each offers, what is free there by the head's counts, and what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grainlike.resources import Allocation
from grainlike.scheduler._records import HeadFunction, HeadJob, LeaseState, RequestClass, Shape, order
from grainlike.scheduler._states import JobState

__all__ = ["UNLIMITED", "ChangeLog", "GangHold", "WorkerState", "times_in"]

_AHEAD = JobState.AHEAD
_FOREVER = float("inf")

AHEAD_BYTES = 64 * 1024 * 1024
"""The most bytes of large arguments that one worker holds ahead."""

UNLIMITED = 1 << 62
"""Bytes of the store of a worker that has not said how large it is."""

_SAME_S = 1.0
"""Difference between two ends below which they are the same: clocks and listings are not more exact."""


class GangHold:
    """Slots of a gang on one worker, from the moment it is asked to hold them until it has confirmed their release.

    `lease` and `allocation` come with its answer; until then the amounts are counted like a planned job's. `released`:
    it was asked to release them, or did so by itself.
    """

    __slots__ = ("allocation", "job", "lease", "planned_at", "released", "shape", "worker")

    def __init__(self, job: HeadJob, worker: WorkerState, shape: Shape, planned_at: float) -> None:
        self.job = job
        self.worker = worker
        self.shape = shape
        self.planned_at = planned_at
        self.lease = 0
        self.allocation = ""
        self.released = False


class ChangeLog:
    """Log of the workers whose free amounts changed, in order; a reader that keeps an index goes on from where it
    stopped. `shifts` grows when one is shut, or opens again.

    An entry costs an append; a reader that never reads costs nothing. When the log has become much longer than the
    number of workers, it is emptied, `epoch` changes, and readers look at all workers again.
    """

    __slots__ = ("entries", "epoch", "shifts")

    def __init__(self) -> None:
        self.entries: list[WorkerState] = []
        self.epoch: int = 0
        self.shifts: int = 0

    def compact(self, workers: int) -> None:
        """Empty the log if reading it costs more than a look at all workers."""
        if len(self.entries) > 8 * workers + 1024:
            self.entries.clear()
            self.epoch += 1


class WorkerState:
    """Record of a worker: what it offers, what is free by the head's counts, and the jobs that it holds.

    `until` is the end of its walltime on the clock of `now`, infinite for one that has none, and `lasts` how many
    seconds that is from the moment it joined.
    """

    __slots__ = (
        "_fits", "_log", "ahead", "ahead_bytes", "ahead_in", "ahead_last", "ahead_of", "ahead_s", "capacity", "crowded",
        "draining", "free", "gone", "has_data", "held", "holds", "id", "kind", "lasts", "leases", "leaving", "lenders",
        "lent", "name", "offer", "over", "recalled", "shut", "store", "store_left", "tokens", "until", "using",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        worker: int,
        name: str,
        offer: Allocation,
        now: float,
        log: ChangeLog,
        left_s: float = -1.0,
        *,
        has_data: bool = False,
        store: tuple[int, int] | None = None,
    ) -> None:
        self.id: int = worker
        self.name: str = name
        self.offer: Allocation = offer
        self.tokens: frozenset[str] = frozenset(offer.tokens)
        offered = _FOREVER if offer.walltime is None else offer.walltime
        self.lasts: float = min(offered, left_s) if left_s >= 0 else offered
        self.until: float = _FOREVER if self.lasts == _FOREVER else now + self.lasts
        self.capacity: dict[str, int] = dict(offer.units)
        self.kind: int = 0
        """Which other workers offer as much (`planning._kinds`)."""
        self.free: dict[str, int] = dict(self.capacity)
        self.gone: bool = False
        self.has_data: bool = has_data
        """Others can get its values from its data server."""
        self.store: tuple[int, int] | None = store
        """Bytes of values that it may keep in shared memory, and on disk; None if it was not said."""
        self.store_left: int = UNLIMITED if store is None else sum(store)
        """Bytes of that beside all that it keeps."""
        self.over: int = 0
        """Bytes of values that it keeps beyond that."""
        self.crowded: bool = False
        """True if it has nearly as many of them as it may keep (`values._table`)."""
        self.version: int = 0
        """A counter that grows with each change of `free`."""
        self.held: dict[int, HeadJob] = {}
        """All jobs that are at this worker, by number, in the order of arrival."""
        self.ahead: dict[int, HeadJob] = {}
        """Those of `held` that were sent ahead and have not started."""
        self.leases: dict[int, LeaseState] = {}
        self.lent: int = 0
        """Amount of free cores that belong to jobs which wait for jobs of their own."""
        self.lenders: dict[int, int] = {}
        """Number of leases of each tree that have lent their cores."""
        self.holds: dict[tuple[int, int], GangHold] = {}
        """Slots that it was asked to hold for gangs, by job and attempt, until it has confirmed their release."""
        self.ahead_s: float = 0.0
        """Seconds of work that `ahead` is expected to be."""
        self.ahead_bytes: int = 0
        """Bytes of the large arguments of `ahead`."""
        self.ahead_of: dict[int, int] = {}
        """Number of jobs in `ahead`, by shape."""
        self.ahead_in: dict[int, int] = {}
        """Number of jobs in `ahead`, by class."""
        self.ahead_last: tuple[int, int] = (0, 0)
        """Order (`_records.order`) of the last job that was added to `ahead` since that was last empty."""
        self.recalled: set[int] = set()
        """Those of `ahead` that the worker was asked to return."""
        self.using: dict[int, int] = {}
        """Number of planned jobs and leases of each shape that are counted against `free`."""
        self.leaving: bool = False
        """True once it has announced that it stops, or was asked to: nothing fits any more."""
        self.draining: bool = False
        """True while it was asked to stop and has not announced it yet: its running jobs continue."""
        self.shut: dict[str, str] = {}
        """Reasons why it gets no jobs for now, in words, by `"suspect"` or `"quarantine"`."""
        self._fits: dict[int, bool] = {}
        self._log = log
        log.entries.append(self)

    def refuse(self, shape: Shape) -> None:
        """Record that the node has reported that it can never grant the shape."""
        self._fits[shape.id] = False
        self._changed()

    def forget(self, shapes: Iterable[int]) -> None:
        """Drop what is known of shapes that no job asks for any more."""
        for number in shapes:
            self._fits.pop(number, None)

    def leave(self, *, draining: bool) -> None:
        """Record that it stops, or is to when its running jobs have ended: from now on nothing fits."""
        self.leaving, self.draining = True, draining
        self._fits.clear()
        self._changed()

    @property
    def lasting_offer(self) -> Allocation:
        """Return the offer, with the time that it has by its batch job."""
        return self.offer if self.lasts == _FOREVER else self.offer.lasting(self.lasts)

    @property
    def stops(self) -> bool:
        """True if it has announced that it stops: it then ends its jobs in good order, and none of them counts as
        lost.
        """
        return self.leaving and not self.draining

    def retime(self, left_s: float, now: float) -> bool:
        """Record how many seconds it has left from now on; return False if that is as was known."""
        until = now + left_s
        if abs(until - self.until) < _SAME_S:
            return False
        self.lasts = left_s if self.until == _FOREVER else max(0.0, self.lasts + until - self.until)
        self.until = until
        self._fits.clear()
        self._changed()
        return True

    def in_time(self, fn: HeadFunction, shape: Shape, start: float) -> bool:
        """Return True if a job that starts then would end in time, by what it has declared or its function has taken.

        What a function has taken binds only workers that last for so long: elsewhere its jobs have to try.
        """
        if self.until == _FOREVER:
            return True
        seconds = self._expected(fn, shape)
        return seconds is None or start + seconds <= self.until

    def too_late_from(self, fn: HeadFunction, shape: Shape) -> float | None:
        """Return from when on a job would not end in time, for all that is known; None if that does not matter."""
        seconds = None if self.until == _FOREVER else self._expected(fn, shape)
        return None if seconds is None else self.until - seconds

    def _expected(self, fn: HeadFunction, shape: Shape) -> float | None:
        """Return how many seconds a job is expected to take; None if that binds this worker not."""
        seconds = shape.soft_s
        if seconds is None and fn.times.known and fn.times.upper <= self.lasts:
            seconds = fn.times.upper
        return seconds

    def shut_for(self, kind: str, why: str) -> None:
        """Give it no jobs for now; those that it has continue."""
        self.shut[kind] = why
        self._log.shifts += 1
        self._changed()

    def open_again(self, kind: str) -> None:
        """Remove one reason for which it gets no jobs."""
        if self.shut.pop(kind, None) is not None:
            self._log.shifts += 1
            self._changed()

    def note_crowded(self, crowded: bool) -> bool:
        """Record whether it has nearly as many values as it may keep, and return that."""
        if crowded != self.crowded:
            self.crowded = crowded
            self._changed()
        return crowded

    def heard_again(self, now: float) -> None:
        """End its suspicion; as it may receive its jobs only now, their waiting time begins again."""
        for job in self.held.values():
            if job.state is not _AHEAD:
                job.sent = now
        self.open_again("suspect")

    @property
    def is_idle(self) -> bool:
        """True if it has no job, and holds no slots for one."""
        return not self.held and not self.holds

    def fits_ever(self, shape: Shape) -> bool:
        """Return True if this worker, when empty and with all of its walltime left, could run a job of the shape."""
        if self.leaving:
            return False
        fits = self._fits.get(shape.id)
        if fits is None:
            fits = self._fits[shape.id] = self._could_fit(shape)
        return fits

    def _could_fit(self, shape: Shape) -> bool:
        if not shape.tokens <= self.tokens:
            return False
        if shape.walltime_soft is not None and shape.walltime_soft > self.lasts:
            return False
        capacity = self.capacity
        for name, amount in shape.units:
            if capacity.get(name, 0) < amount:
                return False
        return True

    def fits_now(self, shape: Shape) -> bool:
        """Return True if it gets jobs, and one of the shape fits into what is free."""
        return not self.shut and self.has_room(shape)

    def has_room(self, shape: Shape) -> bool:
        """Return True if a job of the shape fits into what is free."""
        free = self.free
        for name, amount in shape.units:
            if free.get(name, 0) < amount:
                return False  # before anything is kept of the shape: there may be very many, and little is free
        return self._fits.get(shape.id) or self.fits_ever(shape)

    def fits_after(self, shape: Shape, ended: Shape) -> bool:
        """Return True if a job of the shape would fit here once a job of the shape `ended` has ended."""
        if not self.fits_ever(shape):
            return False
        free, back = self.free, ended.request.units
        return all(free[name] + back.get(name, 0) >= amount for name, amount in shape.units)

    def take(self, shape: Shape) -> None:
        """Count a job of the shape against the free amounts."""
        free = self.free
        for name, amount in shape.units:
            free[name] -= amount
        used = self.using.get(shape.id, 0)
        self.using[shape.id] = used + 1
        if not used:
            shape.users[self.id] = None
        self._changed()

    def give(self, shape: Shape) -> None:
        """Count the amounts of a job of the shape as free again."""
        free = self.free
        for name, amount in shape.units:
            free[name] += amount
        used = self.using[shape.id] - 1
        if used:
            self.using[shape.id] = used
        else:  # there may be very many shapes, most of them with one job
            del self.using[shape.id]
            shape.users.pop(self.id, None)
        self._changed()

    def lend(self, lease: LeaseState) -> None:
        """Count the cores of a lease as free, because its job waits."""
        lease.lent = lease.shape.request.units["cores"]
        self.free["cores"] += lease.lent
        self.lent += lease.lent
        self.lenders[lease.root] = self.lenders.get(lease.root, 0) + 1
        self._changed()

    def reclaim(self, lease: LeaseState) -> None:
        """Count lent cores as the lease's own again. If the head has planned others on them, less than nothing is free
        then.
        """
        self.free["cores"] -= lease.lent
        self.lent -= lease.lent
        lease.lent = 0
        self.lenders[lease.root] -= 1
        if not self.lenders[lease.root]:
            del self.lenders[lease.root]
        self._changed()

    def own_is_enough(self, shape: Shape) -> bool:
        """Return True if a job of the shape, which fits, needs no cores that are lent."""
        cores = shape.request.units.get("cores", 0)
        return not (self.lent and cores) or self.free["cores"] - self.lent >= cores

    def _changed(self) -> None:
        self.version += 1
        self._log.entries.append(self)

    def fill_ahead(
        self, cls: RequestClass, shape: Shape, seconds: float, most: int, before: tuple[int, int] | None = None
    ) -> list[HeadJob]:
        """Move quick jobs of a class from its queue to this worker, in order, until the jobs that wait here are
        expected to take `seconds`, are `most`, or have arguments of `AHEAD_BYTES`; only those that go `before`
        something, if that is given.

        One loop over local variables, without calls for each job, as thousands may be moved at once.
        """
        jobs: list[HeadJob] = []
        ahead, held, ahead_s = self.ahead, self.held, self.ahead_s
        fn: HeadFunction | None = None
        expected = 0.0
        queue, early = cls.queue, cls.early
        while len(ahead) < most and ahead_s < seconds and (queue or early):
            if early:
                cls.merge()
            job = queue[0]
            if job.cancelled:
                cls.head()  # which is the next
                continue
            if job.fn is not fn:
                fn = job.fn
                if not fn.is_quick:
                    break
                expected = fn.times.mean
            if before is not None and order(job) >= before:
                break
            if job.rare is not None and job.rare.tried is not None:
                break  # it is not for all workers
            if job.rare is not None and job.rare.size:
                if self.ahead_bytes + job.rare.size > AHEAD_BYTES:
                    break
                self.ahead_bytes += job.rare.size
            queue.popleft()
            if not queue and cls.deferred is not None:
                cls.deferred.make_some()
            job.state, job.worker, job.shape, job.sent = _AHEAD, self.id, shape, expected
            ahead_s += expected
            held[job.id] = ahead[job.id] = job
            jobs.append(job)
        if jobs:
            self.ahead_s = ahead_s
            self.ahead_of[shape.id] = self.ahead_of.get(shape.id, 0) + len(jobs)
            self.ahead_in[cls.id] = self.ahead_in.get(cls.id, 0) + len(jobs)
        return jobs

    def leave_ahead(self, jobs: Iterable[HeadJob]) -> None:
        """Remove jobs from those that were sent ahead."""
        ahead, ahead_of, ahead_in, recalled = self.ahead, self.ahead_of, self.ahead_in, self.recalled
        ahead_s = self.ahead_s
        for job in jobs:
            assert job.shape is not None
            del ahead[job.id]
            ahead_of[job.shape.id] -= 1
            ahead_in[job.cls.id] -= 1
            recalled.discard(job.id)
            if job.rare is not None:
                self.ahead_bytes -= job.rare.size
            ahead_s = ahead_s - job.sent if ahead else 0.0
        self.ahead_s = ahead_s
        if not ahead:  # in the course of time there may be very many shapes and classes
            ahead_of.clear()
            ahead_in.clear()

    def room_left(self, shape: Shape) -> int:
        """Return what would be left of the scarcest resource of the shape: a small number is a tight fit."""
        free = self.free
        left = [free[name] - amount for name, amount in shape.units]
        return min(left) if left else 0

    def is_wide(self, shape: Shape) -> bool:
        """Return True if the shape asks for more than half of some resource of this worker."""
        capacity = self.capacity
        return any(2 * amount > capacity.get(name, 0) for name, amount in shape.units)


def times_in(amounts: Mapping[str, int], shape: Shape) -> int:
    """Return how many jobs of the shape have room in these amounts at once; 0 if it asks for none."""
    return min((amounts.get(name, 0) // amount for name, amount in shape.units if amount), default=0)
