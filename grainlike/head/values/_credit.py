"""Credit for transfers: how many bytes of them may be under way.

A source sends as many bytes as it has credit for. Credit is given in turns, so that a large value does not delay small
ones. At most 4 MiB of one copy are under way, 8 MiB to one target, and 16 MiB in all. A target with nothing under way
may always have one turn, so targets that read slowly or not at all do not delay the others. Bytes are under way from
their credit until the target has written them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from grainlike.head.values._transfers import LinkTransfer
from grainlike.wire import ReplicaCredit, SendReplica

__all__ = ["CreditPool"]

_TURN_BYTES = 1024 * 1024
_WINDOW_BYTES = 4 * 1024 * 1024
_TARGET_BYTES = 8 * 1024 * 1024
_ALL_BYTES = 16 * 1024 * 1024


class CreditPool:
    """Credit of all transfers together. `ask` sends a message to a transfer's source.

    Example::

        credit = CreditPool(ask)
        credit.start(transfer)                          # asks the source for as many bytes as may be under way
        credit.written(transfer, 1 << 20)               # asks for more
        credit.rewind(transfer, transfer.written)       # pauses until the next start
    """

    def __init__(self, ask: Callable[[LinkTransfer, SendReplica | ReplicaCredit], object]) -> None:
        self._ask = ask
        self._waiting: dict[int, deque[LinkTransfer]] = {}
        """Transfers that wait for their turn, by target; the targets are in the order of their turns."""
        self._to: dict[int, int] = {}
        """Bytes that are under way, by target that has any."""
        self.under_way = 0
        """Bytes of all transfers that are under way."""

    def start(self, transfer: LinkTransfer) -> None:
        """Let the source send the bytes that have not arrived yet, in a new generation."""
        transfer.generation += 1
        transfer.begun = transfer.paused = False
        self._wait(transfer)
        self._give()

    def written(self, transfer: LinkTransfer, count: int) -> None:
        """Record that the target has written this many more bytes, and give credit for others."""
        transfer.written += count
        self._count(transfer, -count)
        self._wait(transfer)
        self._give()

    def rewind(self, transfer: LinkTransfer, at: int) -> None:
        """Pause a transfer. It goes on later from byte `at`: up to there, bytes are written, or at least received."""
        self.rewind_all([(transfer, at)])

    def rewind_all(self, transfers: Iterable[tuple[LinkTransfer, int]]) -> None:
        """Pause transfers that end together, then give credit to others: none of these gets the credit of another."""
        for transfer, at in transfers:
            self._pause(transfer, at)
        self._give()

    def _pause(self, transfer: LinkTransfer, at: int) -> None:
        self._count(transfer, at - transfer.granted)
        transfer.granted = transfer.received = at
        transfer.paused = True
        if transfer.waits:
            transfer.waits = False
            waiting = self._waiting[transfer.target]
            waiting.remove(transfer)
            if not waiting:
                del self._waiting[transfer.target]

    def _wait(self, transfer: LinkTransfer) -> None:
        most = min(transfer.size, transfer.written + _WINDOW_BYTES)
        if transfer.granted < most and not transfer.waits and not transfer.paused:
            transfer.waits = True
            self._waiting.setdefault(transfer.target, deque()).append(transfer)

    def _give(self) -> None:
        while (target := next(filter(self._has_turn, self._waiting), None)) is not None:
            waiting = self._waiting.pop(target)
            transfer = waiting.popleft()
            if waiting:
                self._waiting[target] = waiting  # behind the other targets
            transfer.waits = False
            self._grant(transfer, min(_TURN_BYTES, transfer.size - transfer.granted))
            self._wait(transfer)

    def _has_turn(self, target: int) -> bool:
        transfer, under_way = self._waiting[target][0], self._to.get(target, 0)
        count = min(_TURN_BYTES, transfer.size - transfer.granted)
        return not under_way or (under_way + count <= _TARGET_BYTES and self.under_way + count <= _ALL_BYTES)

    def _grant(self, transfer: LinkTransfer, count: int) -> None:
        at = transfer.granted
        transfer.granted += count
        self._count(transfer, count)
        if transfer.begun:
            self._ask(transfer, ReplicaCredit(transfer.leg, count))
        else:
            transfer.begun = True
            self._ask(transfer, SendReplica(transfer.leg, transfer.value, transfer.attempt, at, count))

    def _count(self, transfer: LinkTransfer, count: int) -> None:
        self.under_way += count
        under_way = self._to.pop(transfer.target, 0) + count
        if under_way:
            self._to[transfer.target] = under_way
