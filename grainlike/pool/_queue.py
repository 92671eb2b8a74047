"""Wait queue of a pool: which requests wait for its resources, and which is served next. It never waits itself.

Laws:

1. Oldest first. A request that does not fit lets younger ones that do fit pass: nothing that fits waits behind
   something that does not.
2. A waiting request is *in front* when no older one asks for any resource that it asks for. So unrelated resources
   have fronts of their own, and requests in front never compete with each other.
3. A request in front is passed at most `PASSES` times by younger requests that take what it asks for. From then on
   what it asks for is kept back for it: others get only the rest. Nothing else can be taken from it then, so it is
   served as soon as those who hold what it lacks have given it back.

Keeping back for every request that waits, at once, would be fairer still, and leave much idle; never keeping back would
let a stream of small requests starve a wide one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from grainlike.resources import Allocation, Grant, Ledger, Request

__all__ = ["PASSES", "QueuedRequest", "WaitQueue", "WaiterEvent"]

PASSES = 16
"""Number of younger requests that may pass one that is in front."""

_SHARED = "gpus"
"""Resource of which fractions may be taken. A fraction may break the whole device that another waits for, and amounts
do not show that, so all devices are kept back.
"""


class WaiterEvent(Protocol):
    """Wake-up of a waiter, as an event loop's `Event`."""

    def set(self) -> object: ...


class QueuedRequest:
    """Waiter: one request in the queue; `grant` is None until it is served."""

    __slots__ = ("bell", "grant", "name", "number", "passed", "request")

    def __init__(self, number: int, request: Request, name: str, bell: WaiterEvent) -> None:
        self.number = number
        self.request = request
        self.name = name
        self.bell = bell
        self.grant: Grant | None = None
        self.passed = 0

    def shares(self, request: Request) -> bool:
        """Return True if both requests name some of the same resources."""
        return any(name in self.request for name in request.units)


class WaitQueue:
    """Wait queue: the pool's accounting and the requests that wait; amounts are nano-units.

    Requests that are alike stand in one queue, of which only the head is looked at: serving costs the number of
    different requests, not of waiters.
    """

    def __init__(self, offer: Allocation) -> None:
        self._ledger = Ledger(offer)
        self.counted: dict[str, int] = dict.fromkeys(offer.units, 0)
        """Amounts in use without a grant, in nano-units; may exceed the capacity where others report it."""
        self._queues: dict[Request, OrderedDict[int, QueuedRequest]] = {}
        self._last = 0
        self._front: list[QueuedRequest] = []
        self._claimed: set[str] = set()
        """Names of all resources that waiting requests ask for."""

    # --- what there is -----------------------------------------------------------------------------------------------

    def fits_ever(self, request: Request) -> bool:
        """Return True if an idle pool could serve the request."""
        return self._ledger.fits_ever(request)

    def used(self) -> dict[str, int]:
        """Return the nano-units in use of each resource; more than the capacity where others report so."""
        free = self._ledger.free
        return {name: units - free[name] + self.counted[name] for name, units in self._ledger.capacity.units.items()}

    def left(self) -> dict[str, int]:
        """Return the nano-units that are free of each resource, including those kept back."""
        counted = self.counted
        return {name: max(0, free - counted[name]) for name, free in self._ledger.free.items()}

    # --- taking and giving back --------------------------------------------------------------------------------------

    def take(self, request: Request) -> Grant | None:
        """Serve a newcomer if that is fair; None where it would have to wait."""
        if not request.fits_units(self._open()):
            return None
        grant = self._ledger.grant(request)
        if grant is not None:
            self._pass(request)
        return grant

    def give(self, grant: Grant) -> None:
        """Take a grant back; `serve` does the rest."""
        self._ledger.release(grant)

    def count(self, request: Request) -> str | None:
        """Note a newcomer's amounts as used; None, or the first name that stands in the way, and nothing noted."""
        available = self._open()
        for name, units in request.units.items():
            if units > available.get(name, 0):
                return name
        for name, units in request.units.items():
            self.counted[name] += units
        self._pass(request)
        return None

    def discount(self, request: Request) -> str | None:
        """Forget amounts that were noted; None, or the first name of which less is noted, and nothing forgotten."""
        for name, units in request.units.items():
            if units > self.counted.get(name, 0):
                return name
        for name, units in request.units.items():
            self.counted[name] -= units
        return None

    # --- the line ----------------------------------------------------------------------------------------------------

    def join(self, request: Request, name: str, bell: WaiterEvent) -> QueuedRequest:
        """Serve a request at once if that is fair, else let it wait at the end of the line."""
        self._last += 1
        queued = QueuedRequest(self._last, request, name, bell)
        queued.grant = self.take(request)
        if queued.grant is None:
            self._queues.setdefault(request, OrderedDict())[queued.number] = queued
            self._stand(queued)
        return queued

    def leave(self, queued: QueuedRequest) -> None:
        """Let a waiting request go; `serve` does the rest."""
        queue = self._queues[queued.request]
        del queue[queued.number]
        if not queue:
            del self._queues[queued.request]

    def serve(self) -> Iterator[QueuedRequest]:
        """Grant whatever can be granted now, oldest first: one ticket a step, so that each grant can be looked at."""
        self._front, self._claimed = [], set()
        heads = [(next(iter(queue)), request) for request, queue in self._queues.items()]
        heapify(heads)
        while heads:
            number, request = heads[0]
            queue = self._queues[request]
            queued = queue[number]
            queued.grant = self.take(request)
            if queued.grant is None:
                self._stand(queued)  # and so do all that are like it
                heappop(heads)
                continue
            self.leave(queued)
            if queue:
                heapreplace(heads, (next(iter(queue)), request))
            else:
                heappop(heads)
            yield queued

    def _stand(self, queued: QueuedRequest) -> None:
        if self._claimed.isdisjoint(queued.request.units):
            self._front.append(queued)
        self._claimed.update(queued.request.units)

    def _pass(self, request: Request) -> None:
        for queued in self._front:
            if queued.shares(request):
                queued.passed += 1

    def _open(self) -> Mapping[str, int]:
        """Return the amounts that a request younger than all in front may take: all that is free, except what is kept
        back.
        """
        left = self.left()
        for queued in self._front:
            if queued.passed >= PASSES:
                for name, units in queued.request.units.items():
                    left[name] = 0 if name == _SHARED else max(0, left[name] - units)
        return left
