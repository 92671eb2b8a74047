"""Outcomes of nodes whose values stay at workers: references, until somebody needs the bytes in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["UNFETCHED", "RemoteExpression", "RemoteList", "RemoteValue", "ValueFetcher"]


class ValueFetcher(Protocol):
    """Interface of what brings the values of one executor into the program, as far as the graph uses it."""

    used: bool
    """True once it has a value."""

    @property
    def is_open(self) -> bool:
        """True until its executor has closed."""
        ...

    def release(self, value: int) -> None:
        """Record that the program refers to a value no more. From any thread, and in a destructor."""

    def reference(self, value: int) -> tuple[Any, ...]:
        """Return what a value is pickled to, as `__reduce__` returns it."""
        ...

    def applied(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what an operator on values is pickled to, as `__reduce__` returns it: it is applied where that is
        unpickled.
        """
        ...

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica, sorted."""
        ...

    def why_lost(self, value: int) -> str:
        """Return why a value is at no worker and can never be made again; empty where it is, or can be."""
        ...

    def why_few(self, value: int) -> str:
        """Return for which replicas of a value there is no room; empty where it has those that it is to have."""
        ...

    async def wait(self, node: Any) -> Any:
        """Fetch the outcome of a node that has finished, and return it."""


class RemoteValue:
    """Value of job `id` that stays at workers: `size` bytes, which `fetcher` brings here when they are needed.

    Once they were, it is `fetched`: callers in the program have `value`, and jobs still have the reference.
    When the program refers to it no more, its workers may drop it. `copy` is the URL to which the program had a copy
    written last.
    """

    __slots__ = ("copy", "fetched", "fetcher", "id", "size", "value")

    def __init__(self, fetcher: ValueFetcher, job: int, size: int) -> None:
        self.fetcher: ValueFetcher = fetcher
        self.id: int = job
        self.size: int = size
        self.copy: str = ""
        self.fetched: bool = False
        self.value: Any = None

    def __del__(self) -> None:
        self.fetcher.release(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.fetcher.reference(self.id)

    def __repr__(self) -> str:
        return f"<RemoteValue {self.id}: {self.size} bytes>"

    def leaves(self) -> Iterator[RemoteValue]:
        """Give the values that have to be fetched for this one: itself."""
        yield self


class RemoteList:
    """List of values some of which stay at workers: what `gather` gives. It is pickled as a list of references."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items: list[Any] = list(items)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.items,)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, index: Any) -> Any:
        """Return an item, or some: as references where they stay at workers."""
        found = self.items[index]
        some = isinstance(index, slice) and not UNFETCHED.isdisjoint(map(type, found))
        return RemoteList(found) if some else found

    def leaves(self) -> Iterator[RemoteValue]:
        """Give the values that have to be fetched for this one: those of its items."""
        for item in self.items:
            if type(item) in UNFETCHED:
                yield from item.leaves()

    @property
    def fetched(self) -> bool:
        """True if all of it is in the program."""
        return all(leaf.fetched for leaf in self.leaves())

    @property
    def value(self) -> list[Any]:
        """The values themselves, once they are fetched."""
        return [item.value if type(item) in UNFETCHED else item for item in self.items]

    @property
    def fetcher(self) -> ValueFetcher | None:
        """The one fetcher of all its values; None if there are several."""
        fetchers = {id(leaf.fetcher): leaf.fetcher for leaf in self.leaves()}
        return next(iter(fetchers.values())) if len(fetchers) == 1 else None


class RemoteExpression:
    """Operator on values of `fetcher` that stay at workers (`leaves`), which one job needs: it is applied there, or in
    the program, if its value is needed here after all, once they are fetched.
    """

    __slots__ = ("_args", "_function", "_kwargs", "_leaves", "fetcher")

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        fetcher: ValueFetcher,
        leaves: Sequence[RemoteValue],
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._leaves = leaves
        self.fetcher: ValueFetcher = fetcher

    def __reduce__(self) -> tuple[Any, ...]:
        return self.fetcher.applied(self._function, self._args, self._kwargs)

    def leaves(self) -> Iterator[RemoteValue]:
        """Give the values that have to be fetched for it."""
        yield from self._leaves

    @property
    def fetched(self) -> bool:
        """True if all that it needs is in the program."""
        return all(leaf.fetched for leaf in self._leaves)

    @property
    def value(self) -> Any:
        """The result of the operator here, once all that it needs is fetched. Raises what that raises."""
        args = [item.value if type(item) in UNFETCHED else item for item in self._args]
        kwargs = {key: item.value if type(item) in UNFETCHED else item for key, item in self._kwargs.items()}
        return self._function(*args, **kwargs)


UNFETCHED = frozenset({RemoteValue, RemoteList, RemoteExpression})
"""Types of outcomes that are references; a type is looked up without a call."""
