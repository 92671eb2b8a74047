"""`ResourcePool`: admission control for programs that want just that; the awaitable side of `_queue`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint, checkpoint_if_cancelled

from grainlike.errors import ResourceError, ResourceSpecError, UnsatisfiableError
from grainlike.pool._queue import QueuedRequest, WaitQueue
from grainlike.pool._timeline import Amounts, Timeline
from grainlike.resources import Allocation, Amount, Grant, Request, as_request, number, offer_of, plain, quantity

__all__ = ["ResourcePool"]

Wanted: TypeAlias = "Request | Mapping[str, Amount]"
UsageCallback: TypeAlias = "Callable[[], Awaitable[Request | Mapping[str, Amount]]]"


class ResourcePool:
    """Pool of named amounts with exact accounting: it never gives out more than its capacities.

    Args:
        capacities: amounts by name, or a request or allocation: `{"gpu": 4, "memory": "32Gi"}`, `Cores(16)`,
            `Cores([6, 7])`. Any names; an amount may be zero. `cores` and `gpus` have ids, given out with them, which
            count from 0 where the capacities name none.

    Wherever a method takes a request, a `Request` and a plain mapping of names to amounts mean the same.

    Fairness: requests are served in order of arrival, and one that does not fit lets younger ones that fit go first.
    Among those that wait for some of the same resources, the oldest is passed at most 16 times; then what it asks for
    is kept for it, and others get only what is left beside that. So if nothing is held for longer than T, a request
    with k older ones before it waits at most 17·(k + 1)·T, however many small ones arrive meanwhile. `try_acquire`
    and `reserve` keep to the same rule: they may refuse what would fit.

    A pool belongs to one event loop (asyncio or trio), whose tasks share it; it may be made before the loop starts.
    Like the loop's own locks, it is not for several threads. A cancelled wait leaves nothing taken.

    Raises:
        ResourceSpecError: a malformed name or amount.

    Example:
        >>> pool = ResourcePool({"gpu": 4, "cpu": 16})
        >>> allocation = pool.try_acquire({"gpu": 1, "cpu": 4})
        >>> pool.available
        {'cpu': 12, 'gpu': 3}
        >>> pool.release(allocation)
        >>> pool.allocated
        {'cpu': 0, 'gpu': 0}
    """

    def __init__(self, capacities: Wanted) -> None:
        offer, nothing = _offer(capacities)
        self._zeros: Amounts = dict.fromkeys(sorted(nothing), 0)
        self._line = WaitQueue(offer)
        self._capacities = self._shown(offer.units)
        self._callbacks: list[UsageCallback] = []
        self._due = 0
        self._done = 0
        """Counts of usage: the number of the last that is due, and of the last that was made."""
        self._counting = anyio.Lock()
        self.timeline: Timeline = Timeline(self._capacities, lambda: (self.allocated, self.available))
        """History of allocated and available amounts, one snapshot for each change: see `Timeline`."""

    def __repr__(self) -> str:
        parts = (f"{name}={used}/{self._capacities[name]}" for name, used in self.allocated.items())
        return f"<ResourcePool {' '.join(parts)}>"

    # --- what there is -----------------------------------------------------------------------------------------------

    @property
    def capacities(self) -> Amounts:
        """All there is, by name; a number is an int where it is whole, else a `Decimal`.

        Example:
            >>> ResourcePool({"cpu": "1500m", "memory": "1Ki"}).capacities
            {'cpu': Decimal('1.5'), 'memory': 1024}
        """
        return dict(self._capacities)

    @property
    def allocated(self) -> Amounts:
        """Amounts in use, by name: acquired, reserved, and reported by usage callbacks at the last count.

        Example:
            >>> ResourcePool({"cpu": 2}).allocated
            {'cpu': 0}
        """
        return self._shown(self._line.used())

    @property
    def available(self) -> Amounts:
        """Amounts that are free, by name; never below zero.

        Example:
            >>> ResourcePool({"cpu": 2}).available
            {'cpu': 2}
        """
        return self._shown(self._line.left())

    def can_satisfy(self, request: Wanted) -> bool:
        """Return True if the capacities cover the request, whatever is in use now.

        Raises:
            ResourceSpecError: `request` is malformed.

        Example:
            >>> pool = ResourcePool({"gpu": 4})
            >>> pool.can_satisfy({"gpu": 4}), pool.can_satisfy({"gpu": 5}), pool.can_satisfy({"foo": 1})
            (True, False, False)
        """
        return self._line.fits_ever(_request(request))

    # --- allocations -------------------------------------------------------------------------------------------------

    def try_acquire(self, request: Wanted, *, name: str = "") -> Allocation | None:
        """Take what is asked for if it is free and no older waiter is due to get it; never waits.

        Args:
            request: amounts to take, all or nothing.
            name: name of the acquirer, for the timeline.

        Returns:
            The allocation, which is true even where nothing was asked for; None where it cannot be had now.

        Raises:
            ResourceSpecError: `request` is malformed.
            UnsatisfiableError: the pool will never have so much.
            ResourceError: there are usage callbacks that were never called; `await pool.flush()` does.

        Example:
            >>> pool = ResourcePool({"gpu": 1})
            >>> bool(pool.try_acquire({"gpu": 1})), pool.try_acquire({"gpu": 1})
            (True, None)
        """
        asked = self._possible(request)
        if self._callbacks and not self._done:
            raise ResourceError("the usage callbacks were never asked: `await pool.flush()` before try_acquire")
        grant = self._line.take(asked)
        if grant is None:
            return None
        self.timeline.record("acquire", name)
        return _Held.of(grant, name)

    async def acquire(self, request: Wanted, timeout: float | None = None, *, name: str = "") -> Allocation | None:
        """Take what is asked for, and wait until it is free.

        Args:
            request: amounts to take, all or nothing.
            timeout: seconds to wait at most; None waits as long as it takes, 0 or less does not wait.
            name: name of the acquirer, for the timeline.

        Returns:
            What was given, which is true even where nothing was asked for; None after `timeout`.

        Raises:
            ResourceSpecError: `request` is malformed.
            UnsatisfiableError: the pool will never have so much.
            Exception: error of a usage callback.

        Cancelled, it leaves the line and takes nothing.

        Example::

            allocation = await pool.acquire(Cores(4), timeout=10)
            if allocation:
                try:
                    await work(allocation.cores)
                finally:
                    pool.release(allocation)
        """
        asked = self._possible(request)
        await checkpoint_if_cancelled()
        with anyio.move_on_after(timeout):
            await self._count()
            return await self._wait(asked, name)
        return None

    def release(self, allocation: Allocation) -> None:
        """Give back what was acquired; waiters that fit then are served at once. May be called outside an event loop.

        Raises:
            ResourceError: the allocation was released before, or is not from this pool; nothing changes then.

        Example:
            >>> pool = ResourcePool({"gpu": 1})
            >>> allocation = pool.try_acquire({"gpu": 1})
            >>> pool.release(allocation)
            >>> pool.release(allocation)
            Traceback (most recent call last):
            ...
            grainlike.errors.ResourceError: <Grant 1: gpu=1> cannot be released: it was released before
        """
        if not isinstance(allocation, _Held):
            raise ResourceError(f"{allocation!r} cannot be released: no pool gave it")
        allocation.give_back(self._line)
        self.timeline.record("release", allocation.name)
        self._serve()

    def hold(self, request: Wanted, *, name: str = "") -> AbstractAsyncContextManager[Allocation]:
        """Acquire for the length of an `async with` block, and release however the block ends.

        Raises:
            ResourceSpecError: `request` is malformed.
            UnsatisfiableError: the pool will never have so much.
            Exception: error of a usage callback.

        Example::

            async with pool.hold(GPUs(1), name="train") as allocation:
                await train(device=allocation.gpus[0])
        """
        return self._holding(self._possible(request), name)

    @asynccontextmanager
    async def _holding(self, request: Request, name: str) -> AsyncGenerator[Allocation]:
        allocation = await self.acquire(request, name=name)
        assert allocation is not None
        try:
            yield allocation
        finally:
            self.release(allocation)

    # --- quotas ------------------------------------------------------------------------------------------------------

    async def reserve(self, request: Wanted, *, name: str = "") -> str | None:
        """Count amounts as used, without ids and without waiting for others: all of them, or nothing.

        Returns:
            None where all was taken; else the first name, in order, that stood in the way, and nothing was taken.

        Raises:
            ResourceSpecError: `request` is malformed.
            Exception: error of a usage callback.

        Cancelled, it takes nothing.

        Example::

            limit = await pool.reserve({"launches": 1, "cpu": "500m"})
            if limit is None:
                launch()
            else:
                print("not now: too little", limit)
        """
        asked = _request(request)
        await checkpoint()
        await self._count()  # from here on nothing waits: what is decided is done
        limit = self._line.count(asked)
        if limit is None:
            self.timeline.record("reserve", name)
        return limit

    async def relinquish(self, request: Wanted, *, name: str = "") -> None:
        """Give back amounts that were reserved, in these portions or in others.

        Where a recount is due the callbacks are asked instead, after this call: what is given back is no longer in
        use by now, and taking it off what they report would take it off twice.

        Raises:
            ResourceSpecError: `request` is malformed.
            ResourceError: more is given back than was reserved; nothing changes then.
            Exception: error of a usage callback.

        Cancelled, it gives back all the same: clean-up in a cancelled task must not lose a quota.

        Example::

            await pool.relinquish({"launches": 1})
        """
        asked = _request(request)
        if self._due > self._done:
            self._due += 1  # a count that is under way may have seen what is gone now
            await self._count()
            return
        limit = self._line.discount(asked)
        if limit is not None:
            raise ResourceError(f"{asked} cannot be relinquished: less {limit} is reserved")
        self.timeline.record("relinquish", name)
        self._serve()
        await cancel_shielded_checkpoint()

    def register(self, callback: UsageCallback) -> None:
        """Register `callback`, an async function without arguments that returns how much of what is reserved is in
        use, by any program.

        The next call that waits asks all callbacks, and counts the sum of what they return in place of what was counted
        before. They return mappings of names to amounts; names that the pool does not have are passed over. `reserve`
        and `relinquish` count on from there until the next `flush`. What was acquired the pool counts itself, on top:
        callbacks leave it out. An error in a callback is raised by the call that made it run; nothing is taken then,
        and the next call asks again.

        Example::

            async def running() -> dict[str, int]:
                return {"launches": len(await cluster.list_jobs())}

            pool.register(running)
        """
        self._callbacks.append(callback)
        self._due += 1

    def flush(self) -> Awaitable[None]:
        """Discard the results of the usage callbacks: the next call that waits calls them again; awaited, at once.

        Call it when what was reserved shows in what the callbacks report. Without callbacks it does nothing.

        Raises:
            Exception: awaited, what a usage callback raised.

        Example::

            await pool.flush()
        """
        if self._callbacks:
            self._due += 1
        return _Recount(self._count)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _possible(self, request: Wanted) -> Request:
        asked = _request(request)
        if not self._line.fits_ever(asked):
            lacking = (
                f"{name} (asked {plain(units)}, the pool has {self._capacities.get(name, 'none')})"
                for name, units in asked.units.items()
                if units > quantity(self._capacities.get(name, 0))
            )
            raise UnsatisfiableError(f"{asked} can never be given: too little {', '.join(lacking)}")
        return asked

    async def _wait(self, request: Request, name: str) -> Allocation:
        bell = anyio.Event()
        queued = self._line.join(request, name, bell)
        try:
            if queued.grant is None:
                await bell.wait()
            else:
                self.timeline.record("acquire", name)
                await cancel_shielded_checkpoint()  # others get a turn even where no task ever has to wait
        except BaseException:
            self._withdraw(queued)
            raise
        assert queued.grant is not None
        return _Held.of(queued.grant, name)

    def _withdraw(self, queued: QueuedRequest) -> None:
        """Undo a wait that was cut short, also one that was granted in the same moment."""
        if queued.grant is None:
            self._line.leave(queued)
        else:
            self._line.give(queued.grant)
            self.timeline.record("release", queued.name)
        self._serve()

    def _serve(self) -> None:
        for queued in self._line.serve():
            self.timeline.record("acquire", queued.name)
            queued.bell.set()

    async def _count(self) -> None:
        """Ask the usage callbacks if that is due; who comes meanwhile waits, so that nothing is decided in between."""
        due = self._due
        if self._done >= due:
            return
        async with self._counting:
            if self._done >= due:
                return
            asking = self._due
            total = dict.fromkeys(self._line.counted, 0)
            for callback in tuple(self._callbacks):
                for name, units in _usage(await callback()).items():
                    if name in total:
                        total[name] += units
            self._line.counted.update(total)
            self._done = asking
            self.timeline.record("count")
            self._serve()

    def _shown(self, units: Mapping[str, int]) -> Amounts:
        shown = {name: number(value) for name, value in units.items()}
        return dict(sorted((self._zeros | shown).items())) if self._zeros else shown


class _Held(Allocation):
    """Allocation given by a pool: true even where it is empty, and good for one release. A copy of it is a plain
    allocation.
    """

    __slots__ = ("_grant", "_name")

    _grant: Grant
    _name: str

    @classmethod
    def of(cls, grant: Grant, name: str) -> _Held:
        given = grant.allocation
        held = cls({kind: plain(units) for kind, units in given.units.items()}, given.ids)
        object.__setattr__(held, "_grant", grant)
        object.__setattr__(held, "_name", name)
        return held

    @property
    def name(self) -> str:
        """Name of the acquirer, as in `acquire(name=)`."""
        return self._name

    def give_back(self, line: WaitQueue) -> None:
        """Release it to the line that granted it."""
        line.give(self._grant)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> tuple[object, ...]:
        return self._grant.allocation.__reduce__()


class _Recount:
    """Result of `flush`: the flush is done, and awaiting this makes the recount too."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[], Coroutine[object, object, None]]) -> None:
        self._count = count

    def __await__(self) -> Generator[object, object, None]:
        return self._count().__await__()


def _request(what: Wanted) -> Request:
    return Request(what) if isinstance(what, Mapping) else as_request(what)


def _offer(capacities: Wanted) -> tuple[Allocation, list[str]]:
    """Return the whole capacity, with ids, and the names whose capacity is zero."""
    if not isinstance(capacities, Mapping):
        return offer_of(capacities, own_cores=()), []
    nothing = [name for name, amount in capacities.items() if quantity(amount) == 0]
    for name in nothing:
        Request({name: 1})  # says what is wrong with a name that no resource may have
    some = Request({name: amount for name, amount in capacities.items() if name not in nothing})
    return offer_of(some, own_cores=()), nothing


def _usage(reported: object) -> dict[str, int]:
    """Return a usage callback's result in nano-units; zeros are allowed."""
    if isinstance(reported, Request):
        return dict(reported.units)
    if not isinstance(reported, Mapping):
        raise ResourceSpecError(f"a usage callback returned {reported!r}, not a mapping of names to amounts")
    units = {name: quantity(amount) for name, amount in reported.items()}
    for name, value in units.items():
        if value < 0:
            raise ResourceSpecError(f"a usage callback returned {name}={plain(value)}: usage is not below zero")
    return units
