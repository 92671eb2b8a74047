"""Calls of a session that stay in this program until workers have their large arguments.

From its submission on, a call of a session goes on without its program. So it is submitted when workers have the bytes
that only the program had: two workers, or one, if no other can have them. A call that needs a held one is held, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

import anyio

from grainlike.eventloop import Changes
from grainlike.jobs import JobCall, repacked
from grainlike.payload import Payload

__all__ = ["COPIES", "HELD_S", "HeldCalls", "OwnValueSource"]

COPIES = 2
"""Workers that are to have a large argument before its call is submitted."""

HELD_S = 10.0
"""Seconds without a sign that bytes move, as when no store has room, after which calls are held no longer."""

LOOK_S = 0.25
"""Seconds between two looks at what is held."""


class OwnValueSource(Protocol):
    """Own values of a program, as calls that are held need them."""

    progress: int
    """A number that grows when a byte of an own value has left, or workers have a value."""
    has_workers: bool
    """True if the head has workers, whether or not they are silent now."""
    reached: Callable[[int], object]
    """Called when there are as many replicas of a value as were asked for, or as there can be; or when it is lost."""

    @property
    def linked(self) -> bool:
        """True while there is a link to the head, so that bytes can move."""
        ...

    def is_own(self, value: int) -> bool:
        """Return True if a value is one of the program's own."""
        ...

    def hold(self, values: Iterable[int]) -> None:
        """Keep the program's references to values, whatever is released, until `unhold`."""
        ...

    def unhold(self, values: Iterable[int]) -> None:
        """Release the values that were to be released meanwhile."""
        ...

    def replicate(self, values: Sequence[int], copies: int) -> None:
        """Keep at least this many replicas of each of these values; each is answered by `reached`."""
        ...

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica."""
        ...

    def payloads(self, values: Sequence[int]) -> dict[int, Payload]:
        """Return the payloads of own values. Raises `ValueLostError` if one is not kept any more."""
        ...


class HeldCallSender(Protocol):
    """Sender of calls to the head."""

    def send_in_order(self, calls: list[JobCall], goes_on: bool) -> None:
        """Submit calls, each of which needs only earlier ones."""
        ...

    def refuse_held(self, call: JobCall, error: Exception) -> None:
        """Fail a call that cannot be submitted."""
        ...

    def tell_heard(self, children: Iterable[int]) -> None:
        """Tell the head that no later call refers to these calls."""
        ...


class _HeldCall:
    """Call with its own values, and those of them that not enough workers have."""

    __slots__ = ("call", "goes_on", "lacking", "values")

    def __init__(self, call: JobCall, values: list[int], *, goes_on: bool) -> None:
        self.call = call
        self.goes_on = goes_on
        self.values = values
        self.lacking = set(values)


class HeldCalls:
    """Calls that are held, by their numbers, until `sender` sends them. `start_watch(self)` starts a task that runs
    `watch`.

    Example::

        held = HeldCalls(values, sender, lambda held: tasks.start_soon(held.watch))
        calls = held.take(calls, goes_on=False)     # those that can be submitted at once
        await held.all_sent()
    """

    def __init__(
        self,
        values: OwnValueSource,
        sender: HeldCallSender,
        start_watch: Callable[[HeldCalls], object],
    ) -> None:
        self._values = values
        values.reached = self._reached
        self._sender = sender
        self._start_watch = start_watch
        self._is_watched = False
        self._calls: dict[int, _HeldCall] = {}
        self._users: _Held = {}
        """Held calls that need a value, by that value: a step for one of them must not look at all that are held."""
        self._needed: _Held = {}
        """Held calls that need the value of a call, by the number of that call."""
        self._ended: set[int] = set()
        """Calls that have ended, and that held calls need."""
        self._nowhere: set[int] = set()
        """Values that no worker has, though the head has workers: all were silent, or about to end."""
        self._leaves = False
        self._changes = Changes()

    def __contains__(self, child: int) -> bool:
        return child in self._calls

    def take(self, calls: Iterable[JobCall], *, goes_on: bool = False) -> list[JobCall]:
        """Hold the calls among these that need own values, or a call that is held; return the others."""
        free: list[JobCall] = []
        for call in calls:
            own = [value for value in call.inputs if self._values.is_own(value)]
            if own or not self._calls.keys().isdisjoint(call.needs or ()):
                self._hold(_HeldCall(call, own, goes_on=goes_on))
            else:
                free.append(call)
        return free

    def _hold(self, held: _HeldCall) -> None:
        child = held.call.child
        self._calls[child] = held
        fresh = [value for value in held.values if value not in self._users]
        for value in held.values:
            self._users.setdefault(value, {})[child] = held
        for need in held.call.needs or ():
            self._needed.setdefault(need, {})[child] = held
        if fresh:
            self._values.hold(fresh)
            self._values.replicate(fresh, COPIES)
        if not self._is_watched:
            self._is_watched = True
            self._start_watch(self)

    def hear(self, ended: set[int]) -> set[int]:
        """Return the calls among these that no held call needs; of the others the head is told later that they were
        reported.
        """
        if not self._needed:
            return ended
        needed = ended & self._needed.keys()
        self._ended |= needed
        return ended - needed

    def drop(self, child: int) -> bool:
        """Forget a call that is not wanted any more; return False if it is not held."""
        held = self._calls.pop(child, None)
        if held is not None:
            self._let_go([held])
        return held is not None

    def clear(self) -> None:
        """Forget all calls: their head is lost."""
        for known in (self._calls, self._users, self._needed, self._ended, self._nowhere):
            known.clear()
        self._changes.notify()

    def _let_go(self, gone: Iterable[_HeldCall]) -> None:
        """Release what only calls needed that are not held any more."""
        for held in gone:
            child = held.call.child
            self._values.unhold([value for value in held.values if _taken_off(self._users, value, child)])
            needs = {need for need in held.call.needs or () if _taken_off(self._needed, need, child)}
            self._sender.tell_heard(self._ended & needs)
            self._ended -= needs
        self._changes.notify()

    def _reached(self, value: int) -> None:
        if value in self._users and self._values.has_workers and not self._values.where(value):
            self._nowhere.add(value)
        elif value in self._users:
            users = self._users[value]
            for held in users.values():
                held.lacking.discard(value)
            self._send_ready(users)

    def _send_ready(self, calls: Iterable[int]) -> None:
        """Submit those of these calls that lack nothing, and what waits only for them, in the order of their numbers:
        no call needs a later one.
        """
        ready: dict[int, _HeldCall] = {}
        looked_at = list(calls)
        heapify(looked_at)
        while looked_at:
            child = heappop(looked_at)
            held = self._calls[child]
            behind = any(need in self._calls and need not in ready for need in held.call.needs or ())
            if not (held.lacking or behind or child in ready):
                ready[child] = held
                for after in self._needed.get(child, ()):
                    heappush(looked_at, after)
        for child in ready:
            del self._calls[child]
        for goes_on in (False, True):
            whole = [self._with_bytes(held.call) for held in ready.values() if held.goes_on is goes_on]
            self._sender.send_in_order([call for call in whole if call is not None], goes_on)
        self._let_go(ready.values())  # not before: the head has calls now that refer to values and other calls

    def _with_bytes(self, call: JobCall) -> JobCall | None:
        """Return a call that has the bytes of its own values in its arguments, of those that are at no worker; None
        if it was refused.
        """
        values = self._values
        absent = [value for value in call.inputs if values.is_own(value) and not values.where(value)]
        if not absent:
            return call
        try:
            whole = repacked(call.node, call.parcel, values.payloads(absent))
        except Exception as error:  # noqa: BLE001 - the error is for those who await the call
            self._sender.refuse_held(call, error)
            return None
        inputs = [value for value in call.inputs if value not in absent]
        return whole._replace(child=call.child, inputs=inputs, needs=call.needs)

    async def watch(self) -> None:
        """Ask again for replicas of values that no worker has, and submit all calls that are held if nothing has moved
        for `HELD_S`; return when none is held. The time without a link to the head does not count, unless the program
        leaves: all arguments would go into the journal of a head that was started again a little later.
        """
        idle_s = 0.0
        while self._calls:
            before = self._values.progress
            with anyio.move_on_after(LOOK_S):
                await self.all_sent()
            stands = self._values.progress == before and (self._values.linked or self._leaves)
            idle_s = idle_s + LOOK_S if stands else 0.0
            if idle_s >= HELD_S:
                for held in self._calls.values():
                    held.lacking.clear()
                self._send_ready(self._calls)
            else:
                self._ask_again()
        self._is_watched = False

    def _ask_again(self) -> None:
        nowhere, self._nowhere = self._nowhere & self._users.keys(), set()
        if nowhere and self._values.has_workers:
            self._values.replicate(sorted(nowhere), COPIES)
        for value in () if self._values.has_workers else nowhere:
            self._reached(value)

    async def all_sent(self) -> None:
        """Wait until no call is held."""
        await self._changes.until(lambda: not self._calls)

    async def leave(self) -> None:
        """Wait until no call is held, for a program that does not wait for a head that is away."""
        self._leaves = True
        await self.all_sent()


_Held = dict[int, dict[int, _HeldCall]]
"""Held calls by their numbers, by what they need."""


def _taken_off(held: _Held, number: int, child: int) -> bool:
    """Remove a call from those that need something; return True if it was the last."""
    left = held.get(number, {})
    left.pop(child, None)
    return not left and held.pop(number, None) is not None
