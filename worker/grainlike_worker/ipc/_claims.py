"""Page of memory that a runner shares with those who watch it while it is too busy to answer.

A runner that runs a plain function cannot confirm that the next job "has not started". So daemon and runner both look
here: the runner writes `started` before it reads `barrier`, the daemon writes `barrier` before it reads `started`.
Whichever comes first, they never both believe that a job is theirs.

The same way the runner and its keeper agree on memory: the runner writes its `limit` before it reads `watched`, and the
keeper takes `watched` back before it looks for limits a last time. So no limit stands unseen.
"""

from typing import Self

from grainlike_worker.ipc._page import Page

__all__ = ["BARRIER", "CALLED", "IDLE", "LEASE", "LINK", "NO_BARRIER", "SINCE", "STARTED", "ClaimPage"]

IDLE = -1
"""`started` between two leases."""

NO_BARRIER = 2**31 - 1
"""`barrier` while every job of the run-list may start."""

STARTED, BARRIER, _LIMIT, _BASE, _LEASES, _WATCHED, _TAKEN, LINK, _KERNEL, _TOLD, LEASE, SINCE, CALLED = range(13)
"""Places in `ClaimPage.words`. A runner writes and reads those six there: the attributes of their names take a call
each, for every job."""


class _Word:
    """Number of the page; written and read whole, as the processor does with aligned words."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, claims: "ClaimPage", _: type["ClaimPage"]) -> int:
        return claims.words[self._index]

    def __set__(self, claims: "ClaimPage", value: int) -> None:
        claims.words[self._index] = value


class ClaimPage(Page[int]):
    """The page of a runner of its own: made by the daemon, mapped by the runner and the keeper.

    Attributes:
        started: index in the run-list of the job that the runner has begun last; `IDLE` between leases.
        barrier: index of the first job of the run-list that must not start.
        limit: bytes that the process and its descendants may hold while the lease runs; 0 without a limit.
        base: bytes that the process held when the lease began.
        leases: how often a limit was set: who has just measured can tell whether it is still the same lease.
        kernel: 1 while it is the kernel that keeps the limit, and no process has to look.
        watched: 1 while somebody looks whether the limit is kept.
        link: the job of which the runner does a part now, where what it was given are several calls in a chain; else 0.
        told: the `StopReason` once the daemon asks the runner to end: a SIGTERM before that is a batch system's, to all
            processes.
        taken: bytes that were found when the process was killed for going beyond its limit; else 0.
        lease: number of the lease that `started` is about. The runner changes it while that is `IDLE`.
        since: nanoseconds of the system's monotonic clock when the job of `started` began, in a run-list whose jobs
            have a time limit; 0 while none runs. One that is claimed waits until the outcomes before it are told, for
            which the daemon has to read; so does one that is interrupted to tell them, which is no time of its own.
        called: index of the job of that lease that was called last; `IDLE` for none. One that is claimed has not begun
            before: its function may have to be loaded, and the outcomes before it be told.

    Example::

        claims = Claims.create()
        claims.barrier = 3               # the jobs 3, 4, ... of the run-list are taken back
        first = max(3, claims.started + 1)   # but those up to `started` have begun
    """

    __slots__ = ()

    typecode = "q"
    label = "grainlike-claims"

    started = _Word(STARTED)
    barrier = _Word(BARRIER)
    limit = _Word(_LIMIT)
    base = _Word(_BASE)
    leases = _Word(_LEASES)
    watched = _Word(_WATCHED)
    taken = _Word(_TAKEN)
    link = _Word(LINK)
    kernel = _Word(_KERNEL)
    told = _Word(_TOLD)
    lease = _Word(LEASE)
    since = _Word(SINCE)
    called = _Word(CALLED)

    @classmethod
    def create(cls) -> Self:
        claims = super().create()
        claims.started = claims.called = IDLE
        claims.barrier = NO_BARRIER
        return claims

    def begun(self, lease: int) -> int:
        """Return the index of the job of a lease that was begun last; `IDLE` while that cannot be known from here.

        A runner that is held up between telling of its last outcomes and `IDLE` still shows what was begun of the lease
        before, when the next one has been sent.
        """
        return self.started if self.lease == lease else IDLE  # in this order: `started` may be of a later lease by now
