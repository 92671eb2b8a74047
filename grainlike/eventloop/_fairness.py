"""Fair scheduling of reads, when more has come than one turn of an event loop should take: the kind of link that has
used least of late goes first, among those the cheap reads, and those that wait longest.

A loop passes on a read of every socket before it looks again. So where hundreds report, or shake hands, and each of
them takes a millisecond, a query of one line would wait for all of them, whatever it costs itself.

The cost of a read is known only after it: hundreds whose reads were cheap until now may all be dear in one turn. So
links are of kinds, as workers and clients are, and no kind keeps another waiting, whatever its estimate was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from anyio.lowlevel import checkpoint

from grainlike.eventloop._wakeup import on_asyncio

__all__ = ["FairScheduler", "fairness_of", "yield_turn"]

TURN_S = 0.01
"""Seconds that one turn may take before other reads wait for the next: half of it is for those that go first, half
for those that have waited longest.
"""

_FADES = 0.8
"""Factor by which a kind's usage still counts in the next turn."""

CROWD = 16
"""Number of links from which reads may wait: with fewer each is passed on as it comes, at no extra cost."""


class FairScheduler:
    """Turns of one event loop.

    A caller that finds the turn `over` waits; a caller that does work reports its cost.

    Attributes:
        crowded: True if there are so many links that their order matters.
    """

    __slots__ = ("_last", "_links", "_scheduled", "_spent", "_taken", "_waiting", "crowded")

    def __init__(self) -> None:
        # Without its loop, which `_turns` would keep for ever then.
        self._waiting: dict[int, tuple[str, float, Callable[[], object]]] = {}
        self._taken: dict[str, float] = {}
        self._last = 0
        self._spent = 0.0
        self._scheduled = False
        self._links = 0
        self.crowded: bool = False  # an attribute, not a property: each read of a socket asks for it

    def enter(self, links: int) -> None:
        """Add so many links; a negative number removes some."""
        self._links += links
        self.crowded = self._links >= CROWD

    @property
    def over(self) -> bool:
        """Return True if this turn has used its time."""
        return self._spent >= TURN_S

    @property
    def left(self) -> float:
        """Seconds that this turn has left."""
        return TURN_S - self._spent

    def spend(self, seconds: float, kind: str = "") -> None:
        """Add the cost of work in this turn, for a link of this kind."""
        self._spent += seconds
        self._taken[kind] = self._taken.get(kind, 0.0) + seconds
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def wait(self, call: Callable[[], object], cost: float, kind: str = "") -> None:
        """Call this in a later turn; it is expected to take `cost` seconds. Only when this turn is over."""
        self._last += 1
        self._waiting[self._last] = kind, cost, call

    async def room(self, cost: float) -> None:
        """Wait until there is time for what is expected to take `cost` seconds, which this counts as taken."""
        if self.over:
            mine = asyncio.get_running_loop().create_future()
            self.wait(lambda: self._admit(mine, cost), cost)
            await mine
        else:
            self.spend(cost)

    def _admit(self, waiter: asyncio.Future[None], cost: float) -> None:
        if not waiter.done():
            waiter.set_result(None)
            self.spend(cost)

    def _begin(self) -> None:
        self._spent = 0.0
        self._scheduled = False
        for kind in self._taken:
            self._taken[kind] *= _FADES
        if len(self._waiting) > 1:
            self._call(sorted(self._waiting, key=self._rank), TURN_S / 2)
        self._call(list(self._waiting), TURN_S)
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _rank(self, number: int) -> tuple[float, float]:
        kind, cost, _ = self._waiting[number]
        return self._taken.get(kind, 0.0), cost

    def _call(self, numbers: list[int], until: float) -> None:
        for number in numbers:
            if self._spent >= until:
                return
            _, _, call = self._waiting.pop(number)
            call()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, FairScheduler] = WeakKeyDictionary()


def fairness_of(loop: asyncio.AbstractEventLoop) -> FairScheduler:
    """Return the turns of a loop."""
    fairness = _turns.get(loop)
    if fairness is None:
        fairness = _turns[loop] = FairScheduler()
    return fairness


async def yield_turn(cost: float) -> None:
    """Yield to others where much is to be done: wait for a turn that has `cost` seconds left. Else continue at once.

    Example::

        await yield_turn(0.001)
        session.shake(data)  # about a millisecond of arithmetic, and many shake hands
    """
    if on_asyncio():
        await fairness_of(asyncio.get_running_loop()).room(cost)


_TURNS = 20
"""Turns of a loop until what was ready in it has run: a heartbeat of the embedded worker takes about six."""


async def stays(condition: Callable[[], bool]) -> bool:
    """Return True if `condition()` is still true after all that is ready in this loop has run.

    After a loop was blocked all its timers fire in one turn, in no order that means anything.

    Example::

        if await stays(lambda: time.monotonic() - heard >= LOST_S):
            link.close("silent")  # nothing that was waiting to be read was from there
    """
    for _ in range(_TURNS):
        if not condition():
            return False
        await checkpoint()
    return condition()
