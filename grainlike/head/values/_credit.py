"""Credit for transfers: how many bytes of them may be under way.

A worker sends as far as it has credit, which is given in turns, so that a large value holds up no small one: at most
4 MiB of one copy are under way, and 16 MiB of all. Bytes are under way from the credit for them until they are written
where they are to be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from grainlike.head.values._transfers import LinkTransfer
from grainlike.wire import ReplicaCredit, SendReplica

__all__ = ["CreditPool"]

_TURN_BYTES = 1024 * 1024
_WINDOW_BYTES = 4 * 1024 * 1024
_ALL_BYTES = 16 * 1024 * 1024


class CreditPool:
    """Credit of all transfers together. `ask` sends a message to a transfer's source.

    Example::

        credit = CreditPool(ask)
        credit.start(transfer)                          # asks the source for as much as may be under way
        credit.written(transfer, 1 << 20)               # and for more
        credit.rewind(transfer, transfer.written)       # until it starts again
    """

    def __init__(self, ask: Callable[[LinkTransfer, SendReplica | ReplicaCredit], object]) -> None:
        self._ask = ask
        self._waiting: deque[LinkTransfer] = deque()
        self.under_way = 0
        """Bytes of all transfers that are under way."""

    def start(self, transfer: LinkTransfer) -> None:
        """Have the source send what has not come yet, in a new generation."""
        transfer.generation += 1
        transfer.begun = transfer.paused = False
        self._wait(transfer)
        self._give()

    def written(self, transfer: LinkTransfer, count: int) -> None:
        """Record that so many more bytes are written, and give credit for others."""
        transfer.written += count
        self.under_way -= count
        self._wait(transfer)
        self._give()

    def rewind(self, transfer: LinkTransfer, at: int) -> None:
        """Pause a transfer, which is to go on from byte `at`: what it has written, or what it has received."""
        self.under_way -= transfer.granted - at
        transfer.granted = transfer.received = at
        transfer.paused = True
        if transfer.waits:
            transfer.waits = False
            self._waiting.remove(transfer)
        self._give()

    def _wait(self, transfer: LinkTransfer) -> None:
        most = min(transfer.size, transfer.written + _WINDOW_BYTES)
        if transfer.granted < most and not transfer.waits and not transfer.paused:
            transfer.waits = True
            self._waiting.append(transfer)

    def _give(self) -> None:
        while self._waiting:
            transfer = self._waiting[0]
            at, count = transfer.granted, min(_TURN_BYTES, transfer.size - transfer.granted)
            if self.under_way + count > _ALL_BYTES:
                return
            self._waiting.popleft()
            transfer.waits = False
            transfer.granted += count
            self.under_way += count
            if transfer.begun:
                self._ask(transfer, ReplicaCredit(transfer.leg, count))
            else:
                transfer.begun = True
                self._ask(transfer, SendReplica(transfer.leg, transfer.value, transfer.attempt, at, count))
            self._wait(transfer)
