"""Placeholders from placeholders and from ready values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import CoroutineType
from typing import Any, Literal, NoReturn, TypeVar, overload

from grainlike.graph._delayed import Delayed
from grainlike.graph._delayed_fn import DelayedFn
from grainlike.graph._function import operation
from grainlike.graph._node import Node
from grainlike.graph._operators import operate
from grainlike.graph._placeholder import Placeholder
from grainlike.graph._state import RunsIn

__all__ = ["LOOKED_AT", "READY", "delayed_value", "gather", "later"]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


def _collect(*values: Any) -> list[Any]:
    return list(values)


def _nothing() -> None:
    return None


READY = operation(_nothing, "value")
"""Function of the node of a ready value; it is never called."""

LOOKED_AT = operation(_nothing, "value")
"""Function of the node of one that was found to be small, and travels in the arguments of each job."""


@overload
def gather(first: Delayed[A], /, *, return_exceptions: Literal[True]) -> Delayed[list[A | BaseException]]: ...
@overload
def gather(  # pyright: ignore[reportOverlappingOverload]
    first: Delayed[A], second: Delayed[B], /, *, return_exceptions: Literal[True]
) -> Delayed[tuple[A | BaseException, B | BaseException]]: ...
@overload
def gather(
    first: Delayed[A], second: Delayed[B], third: Delayed[C], /, *, return_exceptions: Literal[True]
) -> Delayed[tuple[A | BaseException, B | BaseException, C | BaseException]]: ...
@overload
def gather(
    first: Delayed[A], second: Delayed[B], third: Delayed[C], fourth: Delayed[D], /, *, return_exceptions: Literal[True]
) -> Delayed[tuple[A | BaseException, B | BaseException, C | BaseException, D | BaseException]]: ...
@overload
def gather(
    first: Delayed[A],
    second: Delayed[B],
    third: Delayed[C],
    fourth: Delayed[D],
    fifth: Delayed[E],
    /,
    *,
    return_exceptions: Literal[True],
) -> Delayed[tuple[A | BaseException, B | BaseException, C | BaseException, D | BaseException, E | BaseException]]: ...
@overload
def gather(*placeholders: Delayed[A], return_exceptions: Literal[True]) -> Delayed[list[A | BaseException]]: ...
@overload
def gather(
    placeholders: Iterable[Delayed[A]], /, *, return_exceptions: Literal[True]
) -> Delayed[list[A | BaseException]]: ...
@overload
def gather(first: Delayed[A], /, *, return_exceptions: Literal[False] = ...) -> Delayed[list[A]]: ...
@overload
def gather(  # pyright: ignore[reportOverlappingOverload]
    first: Delayed[A], second: Delayed[B], /, *, return_exceptions: Literal[False] = ...
) -> Delayed[tuple[A, B]]: ...
@overload
def gather(
    first: Delayed[A], second: Delayed[B], third: Delayed[C], /, *, return_exceptions: Literal[False] = ...
) -> Delayed[tuple[A, B, C]]: ...
@overload
def gather(
    first: Delayed[A],
    second: Delayed[B],
    third: Delayed[C],
    fourth: Delayed[D],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> Delayed[tuple[A, B, C, D]]: ...
@overload
def gather(
    first: Delayed[A],
    second: Delayed[B],
    third: Delayed[C],
    fourth: Delayed[D],
    fifth: Delayed[E],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> Delayed[tuple[A, B, C, D, E]]: ...
@overload
def gather(*placeholders: Delayed[A], return_exceptions: Literal[False] = ...) -> Delayed[list[A]]: ...
@overload
def gather(placeholders: Iterable[Delayed[A]], /, *, return_exceptions: Literal[False] = ...) -> Delayed[list[A]]: ...
@overload
def gather(*items: Any, return_exceptions: bool = ...) -> Delayed[list[Any]]: ...
def gather(*items: Any, return_exceptions: bool = False) -> Delayed[Any]:
    """Return a placeholder for all of these, given as arguments or as one iterable: a list of values, in order.

    They run at the same time. Arguments that are no placeholders are passed on unchanged. The result knows its length
    and can be unpacked. If one fails, the result fails with its error. (For two to five arguments the type is a tuple,
    like that of `asyncio.gather`; the value is a list.)

    With `return_exceptions=True`, the result comes when all have finished. It has the exceptions of calls that failed,
    or were cancelled (`JobCancelledError`), in the places of their values. Cancelling the result cancels the calls that
    no other code awaits, in any case.

    Raises:
        TypeError: the one argument is neither a placeholder nor iterable; or one of them is a coroutine, or a delayed
            function that was not called.

    Example::

        a, b = await gather(fn(1), fn(2))
        values = await gather(fn(x) for x in data)
        outcomes = await gather((fn(x) for x in data), return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    """
    if len(items) == 1 and not isinstance(items[0], Placeholder):
        items = _listed(items[0])
    kinds = set(map(type, items))  # in C: there may be very many
    if CoroutineType in kinds:
        _refuse_coroutines(items)
    if DelayedFn in kinds:
        _refuse_functions(items)
    collect = operation(_collect, "gather", nout=len(items), accepts_errors=bool(return_exceptions), collects=True)
    return Delayed(operate(collect, *items))


def _refuse_coroutines(items: Iterable[object]) -> NoReturn:
    coroutines = [item for item in items if isinstance(item, CoroutineType)]
    for coroutine in coroutines:
        coroutine.close()  # it would be reported as never awaited, beside this error
    name = coroutines[0].__name__
    raise TypeError(
        f"gather takes placeholders, not the coroutine {name}(): write `delayed({name})(...)`, or use asyncio.gather, "
        "which takes both"
    )


def _refuse_functions(items: Iterable[object]) -> NoReturn:
    fn = next(item for item in items if isinstance(item, DelayedFn))
    name = fn.function.name
    call = f"{name}(...)" if fn.request is None else f"({name} @ {fn.request!r})(...)"
    raise TypeError(f"gather takes placeholders, and {name} is a delayed function: call it, `{call}`")


def _listed(items: Any) -> tuple[Any, ...]:
    if isinstance(items, DelayedFn):
        _refuse_functions([items])
    if isinstance(items, Mapping | str | bytes) or not isinstance(items, Iterable):
        raise TypeError(
            f"gather takes placeholders, or one iterable of them, not {type(items).__name__}; "
            "for a mapping write `gather(d.values())`"
        )
    return tuple(items)


def delayed_value(value: A) -> Delayed[A]:
    """A placeholder for a value that is already there. The placeholder is finished; it and operators on it need no
    executor.

    Example::

        total_ = delayed_value(0)
    """
    node = Node(READY, None, RunsIn.INLINE, (), None, ())
    node.succeed(value)
    return Delayed(node)


def later(placeholder: Delayed[A]) -> A:
    """Return the placeholder itself, typed as its value, for keyword and nested arguments that a type checker would
    refuse.

    Example::

        y_ = fn(x, weights=later(w_))
    """
    return placeholder  # type: ignore[return-value]
