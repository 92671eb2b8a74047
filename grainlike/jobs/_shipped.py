"""Functions that the head has from this program: each is sent once, and released at the head when the program drops
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from grainlike.graph import Function

__all__ = ["Shipped"]


class Shipped:
    """Digests that were sent to a head, each for as long as a function of that digest is alive in this program.

    Example::

        shipped.add(digest)
        shipped.note(function, digest)
        del function
        shipped.take_released()     # [digest]: the head may drop it, and it has to be sent again
    """

    __slots__ = ("_collected", "_counts", "_digests", "_released")

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        """Number of functions of each digest."""
        self._digests: dict[ref[Function], bytes] = {}
        self._collected: list[ref[Function]] = []
        """Functions that were collected: any thread may append."""
        self._released: list[bytes] = []

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._counts

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, digest: bytes) -> None:
        """Count a digest that is about to be sent; `note` adds the functions it belongs to."""
        self._counts.setdefault(digest, 0)

    def discard(self, digest: bytes) -> None:
        """Drop a digest that was added and not sent; one that has functions stays."""
        if not self._counts.get(digest, 1):
            del self._counts[digest]

    def note(self, function: Function, digest: bytes) -> None:
        """A function has this digest, for now: another than before, where what it holds was rebound."""
        known = self._digests.get(ref(function))
        if known == digest:
            return
        self._digests[ref(function, self._collected.append) if known is None else ref(function)] = digest
        self._counts[digest] += 1
        if known is not None:
            self._release(known)

    def _release(self, digest: bytes) -> None:
        self._counts[digest] -= 1
        if not self._counts[digest]:
            del self._counts[digest]
            self._released.append(digest)

    def take_released(self) -> list[bytes]:
        """Return the digests of which no function is left since the last time; they are not in here any more."""
        while self._collected:
            digest = self._digests.pop(self._collected.pop(), None)
            if digest is not None:
                self._release(digest)
        released, self._released = self._released, []
        return [digest for digest in released if digest not in self._counts]

    def clear(self) -> None:
        """Forget what was sent: this is another head."""
        self._counts.clear()
        self._digests.clear()
        self._collected.clear()
        self._released.clear()
