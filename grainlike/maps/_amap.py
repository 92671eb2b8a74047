"""`amap`: a function over a source of any length, with a bounded number of items on their way.

Base of iterators that are read with `async for` alone: a plain `for` or an `await` raises, and names the right
form.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from grainlike._tracebacks import fold
from grainlike.graph import DelayedFn, StreamFn
from grainlike.maps._in_flight import MapState

__all__ = ["MapIterator", "OnlyAsync", "amap"]


class OnlyAsync:
    """An asynchronous iterator that `made_by` gives."""

    __slots__ = ()

    made_by: ClassVar[str]

    if not TYPE_CHECKING:  # to a type checker, both are wrong

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"what {self.made_by} gives comes as it is ready: write `async for x in {self.made_by}(...)`"
            )

        def __await__(self) -> NoReturn:
            raise TypeError(f"what {self.made_by} gives is many values: write `async for x in {self.made_by}(...)`")


T = TypeVar("T")


def amap(
    fn: DelayedFn[..., T],
    source: Iterable[Any] | AsyncIterable[Any],
    *,
    in_flight: int = 64,
    ordered: bool = True,
) -> MapIterator[T]:
    """Yield `fn(item)` for each item of `source`, many at the same time, as an asynchronous iterator.

    Args:
        fn: a delayed function of one argument, usually with a request.
        source: iterable of the items: a list, a generator, an asynchronous generator, a stream, another `amap`. It may
            be endless. It is read when there is room, in the event loop, so put a plain iterator whose steps take long
            into an `async def` with `yield`.
        in_flight: most items that were taken from the source and whose values were not yielded yet. So a slow consumer
            slows the source down, and memory does not grow with the number of items.
        ordered: yield in the order of the source; otherwise as the calls finish.

    The first failure, of a call or of the source, ends the iterator. With `ordered`, the values before it are yielded
    first. The other calls are cancelled, and the error is raised unchanged. Leaving the loop (`break`, an exception,
    cancellation, or dropping the iterator) cancels the running calls and closes an asynchronous source. `aclose` does
    the same at once.

    Calls of a plain function that take well under a millisecond are sent together, many in one job. They all see this
    job as `GVAR.job`, but each runs in its own context. A function with options for one call (`retries`, `timeout`), or
    with a request for devices or for more than amounts, has one job for each call.

    Raises:
        TypeError: `fn` is no delayed function, or `source` cannot be iterated.
        ValueError: `in_flight` is less than 1.

    Example::

        async for page in amap(fetch @ Cores(1), urls, in_flight=100):
            print(len(page))
    """
    if not isinstance(fn, DelayedFn):
        what = "a stream, which has many values" if isinstance(fn, StreamFn) else type(fn).__name__
        raise TypeError(f"amap takes a delayed function, such as `delayed(f) @ Cores(1)`, not {what}")
    if not isinstance(in_flight, int) or isinstance(in_flight, bool):
        raise TypeError(f"in_flight= takes an integer, not {in_flight!r}")
    if in_flight < 1:
        raise ValueError(f"in_flight= must be at least 1, not {in_flight}")
    if not isinstance(source, AsyncIterable):
        source = iter(source)
    return MapIterator(MapState(fn, source, in_flight, ordered=bool(ordered)))


class MapIterator(OnlyAsync, AsyncIterator[T], Generic[T]):
    """The iterator of `amap`. Nothing starts before its first step; when it is dropped, what is left is cancelled."""

    __slots__ = ("__weakref__", "_flight")

    made_by = "amap"

    def __init__(self, flight: MapState) -> None:
        self._flight = flight

    async def __anext__(self) -> T:
        __tracebackhide__ = True  # pytest and IPython's debugger leave out frames that have this
        flight = self._flight
        if not flight.values:
            try:
                await flight.arrival()
            except Exception as error:
                if not flight.failed:
                    raise  # the end; or an error of ours: all frames tell where it comes from
                raise fold(error)
        value: T = flight.take()
        return value

    async def aclose(self) -> None:
        """Cancel what is left. Does not wait until that has ended, so there is nothing to cancel in it.

        Example::

            async with aclosing(amap(fetch @ Cores(1), urls)) as pages:
                async for page in pages:
                    break
        """
        self._flight.stop()

    def __del__(self) -> None:
        self._flight.stop_soon()
