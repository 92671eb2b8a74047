"""Owners of values: which client or named session refers to which values, and for which of them it waits.

A client can ask for the values that it owns, and for no others: values of another owner are as unknown to it as values
that never were. All its values are released when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from grainlike.head._peers import Connection
from grainlike.jobs import CallGraph
from grainlike.wire import Buffer, Message

__all__ = ["UNKNOWN", "ValueOwner", "ValueOwners"]

UNKNOWN = "the head knows no such value of this program"


class ValueOwner(Protocol):
    """Submitter of jobs: a client or a named session. Jobs of a job own no values."""

    number: int
    name: str

    @property
    def receiver(self) -> Connection | None:
        """Connection that receives the bytes of the owner's values; None while there is none."""
        ...

    def keeps(self, child: int) -> int:
        """Return how many names and graphs of the owner keep the value of a call."""
        ...

    @property
    def graph(self) -> CallGraph | None:
        """Calls of the owner's graphs; None for an owner without graphs, as all but sessions are."""
        ...

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send the owner a message."""


class ValueOwners:
    """Values of clients, by owner.

    Example::

        owners.add(7, client)
        owners.owned(client.number, [7, 8])         # [7]
        owners.release(client.number, [7])
    """

    __slots__ = ("_owners", "_values", "pins", "replicating", "unreferred", "wanted")

    def __init__(self) -> None:
        self._owners: dict[int, ValueOwner] = {}
        """Owners by value."""
        self._values: dict[int, dict[int, None]] = {}
        """Values by number of the owner."""
        self.wanted: dict[int, None] = {}
        """Values for whose bytes a client waits."""
        self.replicating: dict[int, None] = {}
        """Values for whose replicas a client waits."""
        self.pins: dict[int, int] = {}
        """Number of names and waiting calls of a session that keep a value if no program refers to it, by value."""
        self.unreferred: dict[int, None] = {}
        """Pinned values to which no program refers."""

    def add(self, value: int, owner: ValueOwner) -> None:
        """Record that a value stays at a worker for an owner."""
        self._owners[value] = owner
        self._values.setdefault(owner.number, {})[value] = None

    def known(self) -> list[int]:
        """Return all values that clients own."""
        return list(self._owners)

    def of(self, value: int) -> ValueOwner | None:
        """Return the owner of a value; None for one that no client owns."""
        return self._owners.get(value)

    def split(self, values: Iterable[int]) -> tuple[list[tuple[int, ValueOwner]], list[int]]:
        """Return the values that clients own, with their owners, and the others."""
        owned, others = list[tuple[int, ValueOwner]](), list[int]()
        for value in values:
            owner = self._owners.get(value)
            if owner is None:
                others.append(value)
            else:
                owned.append((value, owner))
        return owned, others

    def owned(self, owner: int, values: Iterable[int]) -> list[int]:
        """Return the values among these that the owner has, each once."""
        known = self._values.get(owner, {})
        return [value for value in dict.fromkeys(values) if value in known]

    def all_of(self, owner: int) -> list[int]:
        """Return all values of an owner."""
        return list(self._values.get(owner, ()))

    def pin(self, value: int) -> None:
        """Keep a value for a name or a waiting call of its session."""
        self.pins[value] = self.pins.get(value, 0) + 1

    def unpin(self, value: int) -> bool:
        """Take back one `pin`; return True if nothing keeps the value any more, so that it is to be released."""
        self.pins[value] -= 1
        if self.pins[value]:
            return False
        del self.pins[value]
        return _removed(self.unreferred, value)

    def unrefer(self, values: Iterable[int]) -> list[int]:
        """Record that programs do not refer to values any more; return the values that nothing else keeps."""
        values = list(values)
        self.unreferred.update(dict.fromkeys(value for value in values if value in self.pins))
        return [value for value in values if value not in self.pins]

    def refer(self, values: Iterable[int]) -> None:
        """Record that a program refers to pinned values again."""
        for value in values:
            self.unreferred.pop(value, None)

    def end_wait(self, value: int) -> bool:
        """Record that no client waits for the bytes of a value any more; return True if one did."""
        return _removed(self.wanted, value)

    def end_replication(self, value: int) -> bool:
        """Record that no client waits for replicas of a value any more; return True if one did."""
        return _removed(self.replicating, value)

    def release(self, owner: int, values: Iterable[int]) -> None:
        """Record that an owner does not refer to its own values any more."""
        known = self._values.get(owner, {})
        for value in values:
            del known[value], self._owners[value]
            self.end_wait(value)
            self.end_replication(value)
        if not known:
            self._values.pop(owner, None)


def _removed(values: dict[int, None], value: int) -> bool:
    """Remove a value; return True if it was there."""
    found = value in values
    values.pop(value, None)
    return found
