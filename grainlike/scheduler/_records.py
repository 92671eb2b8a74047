"""The head's records: jobs, shapes, leases, workers. Amounts only; concrete ids are the workers' business.

Amounts are integers of one billionth (see `grainlike.resources`), so that books that were balanced stay balanced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from grainlike.resources import Allocation, Request
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import RunTimes

if TYPE_CHECKING:
    from grainlike.scheduler._events import FunctionDefined
    from grainlike.scheduler._job_tree import ChildJobs
    from grainlike.scheduler._queues import RequestClass

__all__ = ["ChangeLog", "GangHold", "HeadFunction", "HeadJob", "LeaseState", "Shape", "WorkerState"]


_UNIT = 10**9

AHEAD_QUICK_S = 0.1
"""Functions whose jobs take longer than this on average are not sent ahead: a round trip is nothing to them."""

_QUEUED, _AHEAD = JobState.QUEUED, JobState.AHEAD


class HeadFunction:
    """What the head knows of a function: how long its jobs take, and when a failed or lost one is tried again."""

    __slots__ = ("backoff", "id", "losses", "on_timeout", "retries", "times")

    def __init__(self, told: FunctionDefined) -> None:
        self.id = told.fn
        self.retries = told.retries
        self.losses = told.losses
        self.backoff = told.backoff
        self.on_timeout = told.on_timeout
        self.times = RunTimes()

    @property
    def is_quick(self) -> bool:
        """Whether its jobs are known to take so little that a round trip matters."""
        return self.times.known and self.times.mean <= AHEAD_QUICK_S


class HeadJob:
    """One live job. `worker` and `shape` say where it is; 0 and None while it is nowhere but in its queue.

    Very many may queue, so what few jobs have is in a record beside: those that jobs submit, or that have submitted
    some, and those whose attempts went wrong.
    """

    __slots__ = (
        "attempt",
        "cancelled",
        "cls",
        "fn",
        "id",
        "rare",
        "sent",
        "shape",
        "state",
        "worker",
    )

    def __init__(self, job: int, cls: RequestClass, fn: HeadFunction, parent: HeadJob | None = None) -> None:
        self.id = job
        self.rare: ExtraState | None = None if parent is None else ExtraState(parent, parent.root, parent.depth + 1)
        self.cls = cls
        self.fn = fn
        self.attempt = 1
        self.state = _QUEUED
        self.shape: Shape | None = None
        self.worker = 0
        self.cancelled = False
        self.sent = 0.0
        """When it was planned; of one that was sent ahead, how many seconds it was expected to take."""

    @property
    def parent(self) -> HeadJob | None:
        """The job that submitted it; None for one of the user's program."""
        return None if self.rare is None else self.rare.parent

    @property
    def root(self) -> int:
        """The number of the oldest job of its tree, itself perhaps."""
        return self.id if self.rare is None else self.rare.root

    @property
    def depth(self) -> int:
        """How many jobs are above it in its tree."""
        return 0 if self.rare is None else self.rare.depth

    @property
    def family(self) -> ChildJobs | None:
        """What it has submitted, once it has submitted something."""
        return None if self.rare is None else self.rare.family

    @family.setter
    def family(self, family: ChildJobs | None) -> None:
        self.remembered().family = family

    @property
    def retries(self) -> int:
        """How many more attempts it has that fail."""
        return self.fn.retries - self.failures

    @property
    def failures(self) -> int:
        """How many of its attempts have failed."""
        return 0 if self.rare is None else self.rare.failures

    @property
    def losses(self) -> int:
        """How often it was running when it was lost."""
        return 0 if self.rare is None else self.rare.losses

    @property
    def again_at(self) -> float:
        """When its next attempt may begin, while it waits for that."""
        return 0.0 if self.rare is None else self.rare.again_at

    @property
    def cancelled_at(self) -> float:
        """When it was cancelled."""
        return 0.0 if self.rare is None else self.rare.cancelled_at

    @property
    def committed(self) -> bool:
        """A part of what it gives has been handed on: this attempt is its last."""
        return self.rare is not None and self.rare.committed

    def remembered(self) -> ExtraState:
        """Its record of what few jobs have, to write into."""
        if self.rare is None:
            self.rare = ExtraState(None, self.id, 0)
        return self.rare


class ExtraState:
    """A job's place among those that jobs submit, and what few jobs go through; see the properties of `HeadJob`."""

    __slots__ = (
        "again_at", "cancelled_at", "committed", "depth", "failures", "family", "losses", "parent", "root",
    )  # fmt: skip

    def __init__(self, parent: HeadJob | None, root: int, depth: int) -> None:
        self.parent = parent
        self.root = root
        self.depth = depth
        self.family: ChildJobs | None = None
        self.failures = 0
        self.losses = 0
        self.again_at = 0.0
        self.cancelled_at = 0.0
        self.committed = False


class Shape:
    """One way to satisfy a request: what a job takes on one worker. Numbered, because it travels to workers by number.

    A request `a | b` has two shapes, in the order of preference; most requests have one. A gang's shape is what it
    takes on each of its `nodes` workers; limits and rates count once for all of them.
    """

    __slots__ = (
        "group",
        "id",
        "isolate",
        "limits",
        "may_be_ahead",
        "nodes",
        "plain",
        "rates",
        "rationed",
        "request",
        "share",
        "tokens",
        "units",
        "users",
        "walltime",
        "walltime_soft",
    )

    def __init__(self, shape: int, request: Request, group: RunTimes | None, *, isolate: bool) -> None:
        self.id = shape
        self.request = request.each
        self.nodes = request.nodes
        self.isolate = isolate
        self.users: dict[int, WorkerState] = {}
        """The workers on which planned jobs or leases of it count now."""
        self.units = tuple(request.units.items())
        self.share = request.units.get("cores", _UNIT)
        """What one job of it counts in the books of fair shares: its cores, one where it asks for none."""
        self.tokens = frozenset(request.tokens)
        self.limits = tuple(request.limits.items())
        self.rates = tuple(request.rates.items())
        self.rationed = bool(self.limits or self.rates)
        """Whether a cluster-wide limit or rate is part of it: such jobs are never sent ahead."""
        self.plain = not (self.rationed or self.nodes > 1 or group is not None)
        """Whether the end of a job of it concerns nothing but its worker."""
        self.walltime = request.walltime
        self.walltime_soft = request.walltime_soft
        self.group = group
        """The run times of its walltime group, from which limits are learned; None without one."""
        self.may_be_ahead = not (self.rationed or self.nodes > 1 or group is not None or request.walltime is not None)
        """Whether jobs of it may wait at a worker that is full."""

    @property
    def soft_s(self) -> float | None:
        """How long a job may be expected to run at most: its group's mean + 2σ, until it is known what was declared."""
        return self.group.upper if self.group is not None and self.group.known else self.walltime_soft

    @property
    def hard_s(self) -> float | None:
        """When a job is ended: its group's mean + 5σ, until it is known what was declared; None if nobody said."""
        return self.group.over(5.0) if self.group is not None and self.group.known else self.walltime


class LeaseState:
    """One lease on a worker, as the head sees it."""

    __slots__ = ("begun", "client", "fn", "id", "lent", "root", "shape")

    def __init__(self, lease: int, shape: Shape, first: HeadJob | None, begun: float) -> None:
        self.id = lease
        self.root = 0 if first is None else first.root
        self.lent = 0
        """How much of its cores is lent."""
        self.client = 0 if first is None else first.cls.client
        self.shape = shape
        self.fn = None if first is None else first.fn
        self.begun = begun


class GangHold:
    """What one worker holds for a gang, from when it is asked to until it has said that it does no more.

    `lease` and `allocation` come with its answer; until then the amounts are counted like a planned job's. `released`:
    it was told to let go, or has itself.
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
    """Which workers' free amounts changed, in order: whoever keeps an index reads on from where it stopped.

    An entry costs an append; a reader that never comes costs nothing. When the log has grown long against the number
    of workers, `epoch` changes and readers start anew.
    """

    __slots__ = ("entries", "epoch")

    def __init__(self) -> None:
        self.entries: list[WorkerState] = []
        self.epoch = 0

    def compact(self, workers: int) -> None:
        """Forget entries that are more trouble to read than all workers are."""
        if len(self.entries) > 8 * workers + 1024:
            self.entries.clear()
            self.epoch += 1


class WorkerState:
    """One worker: what it offers, what is free by the head's books, what it holds.

    `until` is the end of its life on the clock of `now`, infinite for one that has no walltime.
    """

    __slots__ = (
        "_fits",
        "_log",
        "ahead",
        "ahead_in",
        "ahead_of",
        "ahead_s",
        "capacity",
        "draining",
        "free",
        "gone",
        "held",
        "holds",
        "id",
        "kind",
        "leases",
        "leaving",
        "lenders",
        "lent",
        "name",
        "offer",
        "recalled",
        "shut",
        "tokens",
        "until",
        "using",
        "version",
    )

    def __init__(self, worker: int, name: str, offer: Allocation, now: float, log: ChangeLog) -> None:
        self.id = worker
        self.name = name
        self.offer = offer
        self.tokens = frozenset(offer.tokens)
        self.until = float("inf") if offer.walltime is None else now + offer.walltime
        self.capacity = dict(offer.units)
        self.kind = 0
        """Which other workers offer as much (`planning._kinds`)."""
        self.free = dict(self.capacity)
        self.gone = False
        self.version = 0
        """Grows with each change of `free`."""
        self.held: dict[int, HeadJob] = {}
        """Every job that is at this worker, by number, in the order of arrival."""
        self.ahead: dict[int, HeadJob] = {}
        """Those of `held` that were sent ahead and have not started."""
        self.leases: dict[int, LeaseState] = {}
        self.lent = 0
        """How much of what is free are cores that jobs have lent, which wait for jobs of their own."""
        self.lenders: dict[int, int] = {}
        """How many leases of each tree have lent their cores."""
        self.holds: dict[tuple[int, int], GangHold] = {}
        """What it was asked to hold for gangs, by job and attempt, until it has said that it lets go."""
        self.ahead_s = 0.0
        """How many seconds of work `ahead` is expected to be."""
        self.ahead_of: dict[int, int] = {}
        """How many of `ahead` each shape has."""
        self.ahead_in: dict[int, int] = {}
        """How many of `ahead` each class has."""
        self.recalled: set[int] = set()
        """Those of `ahead` that the worker was asked to give back."""
        self.using: dict[int, int] = {}
        """How many planned jobs and leases of each shape count against `free`."""
        self.leaving = False
        """It said that it stops, or was asked to: nothing fits any more."""
        self.draining = False
        """It was asked to, and has not said so yet: what runs there goes on."""
        self.shut: dict[str, str] = {}
        """Why it gets no jobs for now: by `"suspect"` or `"quarantine"`, in words."""
        self._fits: dict[int, bool] = {}
        self._log = log
        log.entries.append(self)

    def refuse(self, shape: Shape) -> None:
        """The node itself says that it can never grant the shape."""
        self._fits[shape.id] = False
        self._changed()

    def forget(self, shapes: Iterable[int]) -> None:
        """No job asks for these any more."""
        for number in shapes:
            self._fits.pop(number, None)

    def leave(self) -> None:
        """It stops: from now on nothing fits."""
        self.leaving, self.draining = True, False
        self._fits.clear()
        self._changed()

    def drain(self) -> None:
        """It is to stop when what runs here has ended: from now on nothing fits."""
        self.leaving = self.draining = True
        self._fits.clear()
        self._changed()

    @property
    def stops(self) -> bool:
        """Whether it ends its jobs itself, so that none of those that it ends is lost."""
        return self.leaving and not self.draining

    def shut_for(self, kind: str, why: str) -> None:
        """From now on nothing fits for the time being; what is here goes on."""
        self.shut[kind] = why
        self._changed()

    def open_again(self, kind: str) -> None:
        """This one reason is gone."""
        if self.shut.pop(kind, None) is not None:
            self._changed()

    def heard_again(self, now: float) -> None:
        """It is under suspicion no more, and may hear only now of what it was sent."""
        for job in self.held.values():
            if job.state is not _AHEAD:
                job.sent = now
        self.open_again("suspect")

    def fits_ever(self, shape: Shape) -> bool:
        """Whether this worker, empty and with all its time before it, could run a job of the shape."""
        if self.leaving:
            return False
        fits = self._fits.get(shape.id)
        if fits is None:
            fits = self._fits[shape.id] = self._could_fit(shape)
        return fits

    def _could_fit(self, shape: Shape) -> bool:
        if not shape.tokens <= self.tokens:
            return False
        if shape.walltime_soft is not None and shape.walltime_soft > (self.offer.walltime or float("inf")):
            return False
        return all(self.capacity.get(name, 0) >= amount for name, amount in shape.units)

    def fits_now(self, shape: Shape) -> bool:
        """Whether a job of the shape may start here, in what is free."""
        return not self.shut and self.has_room(shape)

    def has_room(self, shape: Shape) -> bool:
        """Whether a job of the shape fits into what is free."""
        if not (self._fits.get(shape.id) or self.fits_ever(shape)):
            return False
        free = self.free
        for name, amount in shape.units:
            if free[name] < amount:
                return False
        return True

    def fits_after(self, shape: Shape, ended: Shape) -> bool:
        """Whether a job of the shape would fit here once a job of another one has ended."""
        if not self.fits_ever(shape):
            return False
        free, back = self.free, ended.request.units
        return all(free[name] + back.get(name, 0) >= amount for name, amount in shape.units)

    def take(self, shape: Shape) -> None:
        """Count one job of the shape as using its amounts."""
        free = self.free
        for name, amount in shape.units:
            free[name] -= amount
        used = self.using.get(shape.id, 0)
        self.using[shape.id] = used + 1
        if not used:
            shape.users[self.id] = self
        self._changed()

    def give(self, shape: Shape) -> None:
        """Count the amounts of one job of the shape as free again."""
        free = self.free
        for name, amount in shape.units:
            free[name] += amount
        used = self.using[shape.id] - 1
        if used:
            self.using[shape.id] = used
        else:  # shapes may be very many, and most of them of one job
            del self.using[shape.id]
            shape.users.pop(self.id, None)
        self._changed()

    def lend(self, lease: LeaseState) -> None:
        """Count the cores of a lease as free, for its job waits."""
        lease.lent = lease.shape.request.units["cores"]
        self.free["cores"] += lease.lent
        self.lent += lease.lent
        self.lenders[lease.root] = self.lenders.get(lease.root, 0) + 1
        self._changed()

    def reclaim(self, lease: LeaseState) -> None:
        """Count them as its own again. The head may have promised them to others: then less than nothing is free."""
        self.free["cores"] -= lease.lent
        self.lent -= lease.lent
        lease.lent = 0
        self.lenders[lease.root] -= 1
        if not self.lenders[lease.root]:
            del self.lenders[lease.root]
        self._changed()

    def own_is_enough(self, shape: Shape) -> bool:
        """Whether a job of the shape, which fits, needs nothing of what is lent."""
        cores = shape.request.units.get("cores", 0)
        return not (self.lent and cores) or self.free["cores"] - self.lent >= cores

    def _changed(self) -> None:
        self.version += 1
        self._log.entries.append(self)

    def fill_ahead(self, cls: RequestClass, shape: Shape, seconds: float, most: int) -> list[HeadJob]:
        """Let quick jobs of a class, the first first, wait at this worker: until what waits here is expected to take so
        many seconds, or is so many.
        """
        jobs: list[HeadJob] = []
        ahead, held, ahead_s = self.ahead, self.held, self.ahead_s
        fn: HeadFunction | None = None
        expected = 0.0
        queue = cls.queue
        while len(ahead) < most and ahead_s < seconds and queue:
            job = queue[0]
            if job.cancelled:
                queue.popleft()
                continue
            if job.fn is not fn:
                fn = job.fn
                if not fn.is_quick:
                    break
                expected = fn.times.mean
            queue.popleft()
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
        """Count these as waiting here no more."""
        ahead, ahead_of, ahead_in, recalled = self.ahead, self.ahead_of, self.ahead_in, self.recalled
        ahead_s = self.ahead_s
        for job in jobs:
            assert job.shape is not None
            del ahead[job.id]
            ahead_of[job.shape.id] -= 1
            ahead_in[job.cls.id] -= 1
            recalled.discard(job.id)
            ahead_s = ahead_s - job.sent if ahead else 0.0
        self.ahead_s = ahead_s
        if not ahead:  # of shapes and classes there may be very many in the course of time
            ahead_of.clear()
            ahead_in.clear()

    def room_left(self, shape: Shape) -> int:
        """What would be left of the scarcest resource of the shape: small is a tight fit."""
        free = self.free
        left = [free[name] - amount for name, amount in shape.units]
        return min(left) if left else 0

    def is_wide(self, shape: Shape) -> bool:
        """Whether the shape asks for more than half of some resource of this worker."""
        capacity = self.capacity
        return any(2 * amount > capacity.get(name, 0) for name, amount in shape.units)
