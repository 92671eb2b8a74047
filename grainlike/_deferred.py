"""Records that are made late: very many jobs may queue, and the record of each takes more memory than all else of it.

Of a queue's last jobs only the numbers are kept. Their records are made in order, some at a time, as the queue runs
empty; or all at once, when one of them is asked for by its number, or for all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values
    from collections.abc import Iterator

__all__ = ["CHUNK", "DeferredRecords", "RecordTable"]

CHUNK = 256
"""Records that are made at a time, and of a batch at once."""

T = TypeVar("T")
D = TypeVar("D")
_ID = attrgetter("id")


class _Owner(Protocol):
    """A queue of records, and its tail, `deferred`; the queue is not empty while that is there."""

    id: int
    queue: Any
    deferred: Any


class DeferredRecords(Generic[T]):
    """The tail of `owner`'s queue, without records yet: numbers, in runs of one kind, of which `make` makes records."""

    __slots__ = ("_make", "_owner", "_runs", "_table")

    def __init__(self, owner: _Owner, table: RecordTable[T], make: Callable[[Sequence[int], Any], list[T]]) -> None:
        self._owner = owner
        self._table = table
        self._make = make
        self._runs: deque[tuple[range, object]] = deque()

    def __len__(self) -> int:
        return sum(len(numbers) for numbers, _ in self._runs)

    def __contains__(self, number: object) -> bool:
        return any(number in numbers for numbers, _ in self._runs)

    def append(self, numbers: range, kind: object) -> None:
        """Add a run of numbers."""
        if self._runs and self._runs[-1][1] is kind and self._runs[-1][0].stop == numbers.start:
            numbers = range(self._runs.pop()[0].start, numbers.stop)
        self._runs.append((numbers, kind))

    def make_some(self) -> None:
        """Make the first records, and queue them."""
        numbers, kind = self._runs.popleft()
        if len(numbers) > CHUNK:
            self._runs.appendleft((numbers[CHUNK:], kind))
        records = self._make(numbers[:CHUNK], kind)
        if not self._runs:
            self._owner.deferred = None
        self._table.enter(records, self._owner.id, are_last=not self._runs)
        self._owner.queue.extend(records)

    def make_all(self) -> None:
        """Make all records, and queue them."""
        while self._runs:
            self.make_some()


class RecordTable(dict[int, T]):
    """Records by number. A look-up of one, or of all in order, also finds those that were deferred."""

    __slots__ = ("_in_order", "_tails", "_unmade")

    def __init__(self) -> None:
        super().__init__()
        self._tails: dict[int, DeferredRecords[T]] = {}
        """By the number of the owner."""
        self._unmade = 0
        self._in_order = True

    def defer(self, owner: _Owner, numbers: range, kind: object, make: Callable[[Sequence[int], Any], list[T]]) -> None:
        """Queue what has these numbers behind all else of `owner`, without records for now."""
        if owner.deferred is None:
            owner.deferred = self._tails[owner.id] = DeferredRecords(owner, self, make)
        owner.deferred.append(numbers, kind)
        self._unmade += len(numbers)

    def enter(self, records: Sequence[T], owner: int, *, are_last: bool) -> None:
        """Enter records that were deferred; those of an owner `are_last` if it has no more of them."""
        self.update(zip(map(_ID, records), records, strict=True))
        self._unmade -= len(records)
        self._in_order = False
        if are_last:
            del self._tails[owner]

    def _make_all(self) -> None:
        """Make all records, and put them in the order of their numbers, in which they came."""
        for tail in list(self._tails.values()):
            tail.make_all()
        if not self._in_order:
            found = sorted(super().items(), key=lambda pair: pair[0])
            self.clear()
            self.update(found)
            self._in_order = True

    def __len__(self) -> int:
        return super().__len__() + self._unmade

    def __contains__(self, number: object) -> bool:
        return super().__contains__(number) or (
            self._unmade > 0 and any(number in tail for tail in self._tails.values())
        )

    def __missing__(self, number: int) -> T:
        for tail in self._tails.values():
            if number in tail:
                tail.make_all()
                return self[number]
        raise KeyError(number)

    @overload
    def get(self, number: int, default: None = None, /) -> T | None: ...
    @overload
    def get(self, number: int, default: T, /) -> T: ...
    @overload
    def get(self, number: int, default: D, /) -> T | D: ...
    def get(self, number: int, default: object = None, /) -> object:
        """Return the record with this number; `default` where there is none."""
        found = super().get(number)
        if found is None and self._unmade and number in self:
            found = self[number]
        return default if found is None else found

    def __iter__(self) -> Iterator[int]:
        self._make_all()
        return super().__iter__()

    def keys(self) -> dict_keys[int, T]:
        """Return all numbers, in order."""
        self._make_all()
        return super().keys()

    def values(self) -> dict_values[int, T]:
        """Return all records, in the order of their numbers."""
        self._make_all()
        return super().values()

    def items(self) -> dict_items[int, T]:
        """Return all numbers and records, in order."""
        self._make_all()
        return super().items()
