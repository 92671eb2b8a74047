"""Delayed functions, and the decorator that makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from functools import WRAPPER_ASSIGNMENTS
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    final,
    overload,
)

from grainlike.graph._delayed import Delayed
from grainlike.graph._function import Function, Options, is_generator, main_file
from grainlike.graph._misspelled import refuse_attribute, refuse_options, refuse_request
from grainlike.graph._never_awaited import note_origin, origins
from grainlike.graph._node import Node, StreamNode
from grainlike.graph._placeholder import LEAVES, SEQUENCES, Placeholder, capture, rebind
from grainlike.graph._retry import Retry
from grainlike.graph._signature import check_arguments
from grainlike.graph._state import RunsIn
from grainlike.graph._stream import Stream
from grainlike.resources import Request, as_request

__all__ = ["DelayedFn", "StreamFn", "delayed"]

P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")

_LOCAL = RunsIn.LOCAL
_REMOTE = RunsIn.REMOTE


class _Wrapper(Generic[P, T_co]):
    """Base of delayed functions, whatever their calls return: a function, a request, and how they behave."""

    # One dictionary, of the function's name, documentation and so on, serves all copies.
    __slots__ = ("__dict__", "__weakref__", "_bound", "_place", "function", "request")

    function: Function
    request: Request | None
    _bound: tuple[Any, ...]
    _place: RunsIn

    if TYPE_CHECKING:  # else it is in the dictionary, where `inspect` looks for it

        @property
        def __wrapped__(self) -> Callable[P, Any]:
            """The function itself. What it returns is what it is written to return: of `async def` a coroutine."""
            raise NotImplementedError

    def __init__(
        self,
        function: Function,
        request: Request | None = None,
        bound: tuple[Any, ...] = (),
        metadata: dict[str, Any] | None = None,
    ) -> None:
        _set_function(self, function)
        _set_request(self, request)
        _set_bound(self, bound)
        _set_place(self, _REMOTE if request is not None else _LOCAL)
        object.__setattr__(self, "__dict__", _metadata(function) if metadata is None else metadata)

    def __matmul__(self, request: Request) -> Self:
        """Return a new delayed function that asks for `request`.

        Raises:
            TypeError: it is not a request, or a request that this one already has would be lost.
            ResourceSpecError: it names concrete ids, which only offers do.
        """
        if type(request) is not Request:
            request = _checked(request)
        if self.request is not None:
            _refuse_loss(self.request, request)
        return type(self)(self.function, request or None, self._bound, self.__dict__)

    def __rmatmul__(self, other: object) -> NoReturn:
        raise TypeError("the request comes second: write `fn @ request`")

    def __and__(self, other: object) -> NoReturn:
        _refuse_precedence("&")

    __rand__ = __and__

    def __or__(self, other: object) -> NoReturn:
        _refuse_precedence("|")

    __ror__ = __or__

    def __add__(self, other: object) -> NoReturn:
        _refuse_precedence("+")

    __radd__ = __add__

    def __sub__(self, other: object) -> NoReturn:
        _refuse_precedence("-")

    __rsub__ = __sub__

    if not TYPE_CHECKING:  # to a type checker, awaiting a function is wrong, and so are other names

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse what neither it nor its function has."""
            request = "" if self.request is None else f" @ {self.request!r}"
            fn = self.function.name
            refuse_attribute(type(self).__name__, name, f"({fn}{request})" if request else fn)

        def __await__(self) -> NoReturn:
            name = self.function.name
            raise TypeError(
                f"{name} is a delayed function: call it first, `await {name}(...)`; with resources "
                f"`await ({name} @ Cores(1))(...)`"
            )

    def _bind(self, instance: Any) -> Any:
        """Bind as a function does: the instance becomes the first argument. What is bound stays so."""
        if instance is None or self._bound:
            return self
        return type(self)(self.function, self.request, (instance,), self.__dict__)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a delayed function is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a delayed function is immutable: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.request, self._bound)

    @property
    def __grainlike_constant__(self) -> bool:
        """Return True if nothing but the function inside can change: what a bound instance holds may."""
        return not self._bound

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        request = f" @ {self.request}" if self.request else ""
        return f"<{type(self).__name__} {self.function.name}{request}>"


@final
class DelayedFn(_Wrapper[P, T_co]):
    """A function whose calls give placeholders. `delayed` makes it; it is immutable and picklable.

    `fn @ request` is a new delayed function whose calls run on a worker, with exactly those resources. Without a
    request, a call runs in the caller's process. A delayed function has the name, documentation and signature of its
    function, and binds like a method.

    Attributes:
        function: the callable and its options, shared with every `@` copy.
        request: the resources that a call asks for, or None.
        __wrapped__: the function itself, to call it without a job.

    Example::

        fn = delayed(simulate)
        value = await (fn @ (Cores(4) & Memory("8Gi")))(x)
    """

    __slots__ = ()

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Delayed[T_co]: ...
    @overload
    def __call__(self, first: Delayed[Any], /, *args: Any, **kwargs: Any) -> Delayed[T_co]: ...
    @overload
    def __call__(self, first: Any, second: Delayed[Any], /, *args: Any, **kwargs: Any) -> Delayed[T_co]: ...
    @overload
    def __call__(self, first: Any, second: Any, third: Delayed[Any], /, *args: Any, **kwargs: Any) -> Delayed[T_co]: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Delayed[T_co]:
        """Return a placeholder for the value of the call. Placeholders in the arguments become dependencies.

        Raises:
            TypeError: the function, written in Python, cannot be called with so many arguments, or with these keywords.
        """
        if self._bound:
            args = self._bound + args
        function = self.function
        if kwargs or not function.least <= len(args) <= function.most:
            check_arguments(function.name, function.callable, args, kwargs)
        made: Delayed[T_co] = _new(Delayed)  # as its class does, in fewer steps
        simple = not kwargs
        for item in args:  # one by one: most calls have few arguments, for which a set takes longer
            kind = type(item)
            if kind not in LEAVES and not (kind in SEQUENCES and LEAVES.issuperset(map(type, item))):
                simple = False
                break
        if simple:  # as `capture` finds; most calls are such
            rebind(made, Node(function, self.request, self._place, args, None, ()))
        else:
            rebind(made, Node(function, self.request, self._place, *capture(args, kwargs)))
        if origins:
            note_origin(made._node)
        return made

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> DelayedFn[P, T_co]: ...
    @overload
    def __get__(
        self: DelayedFn[Concatenate[S, Q], T_co], instance: S, owner: type | None = None
    ) -> DelayedFn[Q, T_co]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> DelayedFn[Any, T_co]:
        return cast("DelayedFn[Any, T_co]", self._bind(instance))


@final
class StreamFn(_Wrapper[P, T_co]):
    """An asynchronous generator function whose calls give streams. Made by `delayed`; immutable, picklable.

    All that is said of `DelayedFn` holds: `fn @ request` is a new one, whose generators run on a worker.

    Attributes:
        function: the callable and its options, shared with every `@` copy.
        request: what a call asks for, or None.

    Example::

        fn = delayed(frames)
        async for frame in (fn @ Cores(1))(path): ...
    """

    __slots__ = ()

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Stream[T_co]: ...
    @overload
    def __call__(self, first: Delayed[Any], /, *args: Any, **kwargs: Any) -> Stream[T_co]: ...
    @overload
    def __call__(self, first: Any, second: Delayed[Any], /, *args: Any, **kwargs: Any) -> Stream[T_co]: ...
    @overload
    def __call__(self, first: Any, second: Any, third: Delayed[Any], /, *args: Any, **kwargs: Any) -> Stream[T_co]: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Stream[T_co]:
        """Return the stream of what the generator yields. Placeholders in the arguments become dependencies.

        Raises:
            TypeError: the function cannot be called with these arguments.
        """
        args = self._bound + args
        check_arguments(self.function.name, self.function.callable, args, kwargs)
        return Stream(StreamNode(self.function, self.request, self._place, *capture(args, kwargs)))

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> StreamFn[P, T_co]: ...
    @overload
    def __get__(
        self: StreamFn[Concatenate[S, Q], T_co], instance: S, owner: type | None = None
    ) -> StreamFn[Q, T_co]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> StreamFn[Any, T_co]:
        return cast("StreamFn[Any, T_co]", self._bind(instance))


_new = object.__new__
# The descriptors themselves: `__setattr__` is refused, and `object.__setattr__` is slower.
_set_function = _Wrapper.__dict__["function"].__set__
_set_request = _Wrapper.__dict__["request"].__set__
_set_bound = _Wrapper.__dict__["_bound"].__set__
_set_place = _Wrapper.__dict__["_place"].__set__


def _metadata(function: Function) -> dict[str, Any]:
    wrapped = function.callable
    metadata = dict(getattr(wrapped, "__dict__", {})) if not isinstance(wrapped, type) else {}
    metadata.update({name: getattr(wrapped, name) for name in WRAPPER_ASSIGNMENTS if hasattr(wrapped, name)})
    metadata["__wrapped__"] = wrapped
    return metadata


def _checked(request: object) -> Request:
    if not isinstance(request, Request):
        hint = f": write parse({request!r})" if isinstance(request, str) else ""
        raise TypeError(f"`fn @ request` takes a request such as Cores(4), not {type(request).__name__}{hint}")
    return as_request(request)


def _refuse_loss(old: Request, new: Request) -> None:
    lost = sorted(set(old.parts) - set(new.parts))
    if lost:
        raise TypeError(f"`fn @ a @ b` would drop {', '.join(lost)} of the first request: write `fn @ (a & b)`")


def _refuse_precedence(symbol: str) -> NoReturn:
    raise TypeError(f"`fn @ a {symbol} b` means `(fn @ a) {symbol} b`: write `fn @ (a {symbol} b)`")


class _Decorator(Protocol):
    """Decorator that `@delayed(...)` with options returns."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> DelayedFn[P, T]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap] # pyright: ignore[reportOverlappingOverload]
        self, fn: Callable[P, AsyncIterator[T]], /
    ) -> StreamFn[P, T]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> DelayedFn[P, T]: ...


@overload
def delayed(
    fn: Callable[P, Coroutine[Any, Any, T]],
    /,
    *,
    nout: int | None = ...,
    name: str | None = ...,
    retries: int | Retry = ...,
    timeout: float | None = ...,
    priority: int = ...,
    keep: bool = ...,
    isolate: bool = ...,
    cache: str | None = ...,
) -> DelayedFn[P, T]: ...
# To a type checker, any function that returns an asynchronous iterator is one with `yield`: it cannot tell them apart.
@overload
def delayed(  # type: ignore[overload-overlap] # pyright: ignore[reportOverlappingOverload]
    fn: Callable[P, AsyncIterator[T]],
    /,
    *,
    name: str | None = ...,
    retries: int | Retry = ...,
    timeout: float | None = ...,
    priority: int = ...,
    keep: bool = ...,
    isolate: bool = ...,
    cache: str | None = ...,
) -> StreamFn[P, T]: ...
@overload
def delayed(
    fn: Callable[P, T],
    /,
    *,
    nout: int | None = ...,
    name: str | None = ...,
    retries: int | Retry = ...,
    timeout: float | None = ...,
    priority: int = ...,
    keep: bool = ...,
    isolate: bool = ...,
    cache: str | None = ...,
) -> DelayedFn[P, T]: ...
@overload
def delayed(
    fn: None = None,
    /,
    *,
    nout: int | None = ...,
    name: str | None = ...,
    retries: int | Retry = ...,
    timeout: float | None = ...,
    priority: int = ...,
    keep: bool = ...,
    isolate: bool = ...,
    cache: str | None = ...,
) -> _Decorator: ...
def delayed(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    nout: int | None = None,
    name: str | None = None,
    retries: int | Retry = 0,
    timeout: float | None = None,
    priority: int = 0,
    keep: bool = False,
    isolate: bool = False,
    cache: str | None = None,
    **unknown: object,
) -> Any:
    """Make a function whose calls give placeholders; also a decorator, with options or without.

    Takes `async def` and plain functions, callables, `functools.partial` and bound methods. A call of an `async def`
    with `yield` gives a `Stream`, to be read with `async for`; `isolate=True` gives it a process that is pinned to its
    cores.

    If no import finds a job's function, the function travels as a copy, with its globals and closure as they are when
    the call is submitted. In a copy of more than 64 KiB, later calls notice only names that were assigned again, not
    objects that have changed in place (docs/functions.md).

    Args:
        fn: the function.
        nout: how many values a call gives; its placeholder can then be unpacked, and has a `len`.
        name: a name for listings, instead of the function's own.
        retries: how many more attempts a failed call gets; or a `Retry`, which also says after which errors, and after
            which waits.
        timeout: seconds after which a running attempt is ended. They count from the moment at which the attempt gets
            its slots. If a process must be started for it first, they count from the moment at which that process has
            read the function. In a process that is there already, reading the function, with all its imports, is part
            of them. A plain function without resources runs in a thread, which nothing can end: its awaiters get their
            `JobTimeoutError`, and the thread runs to its end.
        priority: jobs with a higher priority start earlier.
        keep: keep the cores while the call awaits other placeholders. By default other jobs may have the cores
            meanwhile; memory and devices are kept in any case.
        isolate: run a coroutine in a process of its own.
        cache: a version, such as `"v1"`. Results are kept on disk under the function's name, this version and the
            content of the arguments, and a call whose result is there does not run. Write another version when the
            function changes, because its code is not compared. Inside a job nothing is looked up. docs/caching.md says
            which arguments are possible.

    Raises:
        TypeError: `fn` is not a function that can be delayed, an option has a wrong type, or there is no such option.
            Resources are not given here, but with `@` at the call.
        ValueError: an option is out of range; or `cache=` is given for a function without a name by which it can be
            found again.

    Example::

        @delayed(retries=2)
        async def fetch(url): ...

        page = await (fetch @ Cores(1))(url)
    """
    if unknown:
        refuse_options(unknown)
    options = Options(nout, name, retries, timeout, priority, keep, isolate, cache)
    if fn is None:
        return cast("_Decorator", lambda fn: _delay(fn, options))
    return _delay(fn, options)


def _delay(fn: Any, options: Options) -> DelayedFn[..., Any] | StreamFn[..., Any]:
    if isinstance(fn, DelayedFn | StreamFn):
        if options == Options():
            return fn
        raise TypeError("the function is delayed already: give the options where it was, or delay `fn.__wrapped__`")
    _check_function(fn)
    function = Function(fn, options)
    if options.cache is not None:
        _check_cacheable(function)
    if not function.is_stream:
        return DelayedFn(function)
    if options.nout is not None:
        raise TypeError(f"{function.name} is a stream, which has no nout=: how many items it has shows as they come")
    return StreamFn(function)


def _check_cacheable(function: Function) -> None:
    """A result is found again by the function's name, so the name must say all that the function is."""
    if function.is_stream:
        raise TypeError(f"{function.name} is a stream, and only single values are kept: leave out cache=")
    name = getattr(function.callable, "__qualname__", None)
    if not isinstance(name, str) or not isinstance(getattr(function.callable, "__module__", None), str):
        raise ValueError(f"cache= goes by a function's name, and {function.name} has none: write a function with `def`")
    if "<" in name or getattr(function.callable, "__self__", None) is not None:
        raise ValueError(
            f"cache= goes by a function's name, and {name} holds more than that says: write it at the top of a module, "
            "with all that it depends on as arguments"
        )
    if function.callable.__module__ == "__main__" and main_file(function.callable) is None:
        raise ValueError(
            f"cache= goes by a function's name, and {name} was typed where others have that name too, at a prompt or "
            "in a notebook: write it at the top of a module, with all that it depends on as arguments, and import it"
        )


def _check_function(fn: Any) -> None:
    if isinstance(fn, staticmethod | classmethod):
        raise TypeError(f"write @{type(fn).__name__} above @delayed, not below")
    if isinstance(fn, Request):
        refuse_request(fn)
    if isinstance(fn, Placeholder | Stream) or not callable(fn):
        raise TypeError(
            f"delayed takes a function, not {type(fn).__name__}; for a ready value write `delayed_value(v)`"
        )
    if is_generator(fn):
        raise TypeError(
            "a plain generator function cannot be delayed: write `async def` with `yield`, which makes a stream "
            "(isolate=True gives it a process of its own, as plain functions have), or return a list"
        )
