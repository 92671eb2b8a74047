"""A node of the graph: one call or one operation, what it waits for, its outcome, and the interface of who runs it.

Users never see nodes; a placeholder points at one. Executors see nothing else, and the graph knows no executor: one
registers a function that finds the resolver of the current context. In a job on a worker no code has had a reason to
load one: there it is loaded, by name, when a placeholder is awaited.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from importlib import import_module
from operator import getitem
from typing import TYPE_CHECKING, Any, Protocol

from grainlike._tracebacks import traceback_of
from grainlike.errors import JobCancelledError, SessionError
from grainlike.graph._function import Function
from grainlike.graph._remote_value import UNFETCHED, RemoteExpression, RemoteList, RemoteValue, ValueFetcher
from grainlike.graph._state import RunsIn, State

if TYPE_CHECKING:
    from types import TracebackType

    from grainlike.graph._record import Record
    from grainlike.resources import Request

__all__ = [
    "Node",
    "Resolver",
    "RetrievalObserver",
    "StreamNode",
    "Template",
    "current_resolver",
    "fetched",
    "positional_arguments",
    "register",
]

_LAZY = State.LAZY
_SUCCEEDED = State.SUCCEEDED
_FAILED = State.FAILED
_CANCELLED = State.CANCELLED


class RetrievalObserver(Protocol):
    """Somebody who wants to know whether an error is ever seen."""

    def seen(self) -> None:
        """Record that somebody has seen the error."""


class Node:
    """Call of a function, or operation on placeholders.

    What is to be done is fixed when the node is made: `function`, `request` (None unless `place` is
    `REMOTE`), `place`, and `deps`, the distinct nodes whose values it needs, in the order of the arguments.
    `state` is lazy until an executor changes it. The outcome is set once, by `succeed`, `fail` or `cancel`; from then
    on the node is `finished`, and arguments and dependencies are let go. A value that stays at workers is a reference
    until it is fetched (`stays`); then the object takes its place, and jobs that need it are still sent the reference.

    `owner`, `dependents`, `missing`, `interest`, `record`, `waiters` and `age` belong to the executor that runs the
    node; here they are only given room. `age` is the number of the oldest job among this one and all that it needed;
    0 while there is none.
    """

    # Slots, and no `Struct`: that is made in a third of the time, but each of the twenty attributes that are set in a
    # node's life takes 35 ns there, and 3 here.
    __slots__ = (
        "_args",
        "_outcome",
        "age",
        "dependents",
        "deps",
        "finished",
        "function",
        "interest",
        "missing",
        "owner",
        "place",
        "record",
        "request",
        "state",
        "waiters",
    )

    def __init__(
        self,
        function: Function,
        request: Request | None,
        place: RunsIn,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        deps: tuple[Node, ...],
    ) -> None:
        self.function: Function = function
        self.request: Request | None = request
        self.place: RunsIn = place
        self._args: tuple[Any, ...] = args
        """Once it has finished: the reference to a value that was fetched, if it is one."""
        self._outcome: Any = kwargs
        """Until there is an outcome, what it is called with by keyword: very many nodes may wait."""
        self.deps: tuple[Node, ...] = deps
        self.state: State = _LAZY
        self.finished: bool = False
        self.owner: Resolver | None = None
        self.dependents: Sequence[Node] | None = None
        self.missing: int = 0
        self.interest: int = 0
        self.record: Record | None = None
        self.waiters: list[Callable[[], object]] | None = None
        self.age: int = 0

    def __repr__(self) -> str:
        return f"<Node {self.function.name} {self.state.label}>"

    def label(self) -> str:
        """Return what the node does, in a few letters: the function's name, `.shape`, `[0]`, `+`."""
        done = self.function.callable
        if self.finished:
            return self.function.name
        if self._args and done is getattr:
            return f".{self._args[1]}"
        if self._args and done is getitem and type(self._args[1]) in (int, str):
            return f"[{self._args[1]!r}]"
        return self.function.name

    @property
    def value(self) -> Any:
        """The value of a node that succeeded; None before that, for other outcomes, and while it stays at workers."""
        return self._outcome if self.state == _SUCCEEDED and type(self._outcome) not in UNFETCHED else None

    @property
    def stays(self) -> bool:
        """True if its value is at workers, and not in the program."""
        return type(self._outcome) in UNFETCHED

    @property
    def reference(self) -> RemoteValue | RemoteList | RemoteExpression | None:
        """The reference to its value, fetched or not; None where that has never been at workers alone."""
        found = self._outcome if type(self._outcome) in UNFETCHED else self._args[0] if self._args else None
        return found if self.finished else None

    def refer(self, reference: RemoteValue) -> None:
        """Let jobs be sent a reference to the value of a node that has succeeded, which is in the program."""
        self._args = (reference,)

    def unwrap(self) -> None:
        """Put the value that was fetched in place of its reference, which is kept for jobs. An operator that is applied
        only now may fail, and with it the node.
        """
        reference = self._outcome
        if type(reference) in UNFETCHED and reference.fetched:
            try:
                self._outcome = reference.value
            except BaseException as error:  # noqa: BLE001 - an operator's own error is its awaiters'
                self.state, self._outcome = _FAILED, (error, traceback_of(error))
            else:
                self._args = (reference,)

    @property
    def error(self) -> BaseException | None:
        """Why there is no value: the exception of a node that failed or was cancelled, else None."""
        return self._failure()[0] if self.state > _SUCCEEDED else None

    def result(self) -> Any:
        """Return the value, or raise the exception again, with the traceback it first came with.

        Raises:
            RuntimeError: the node has not finished, or its value was not fetched.
        """
        if self.state == _SUCCEEDED:
            if type(self._outcome) in UNFETCHED:
                raise RuntimeError(f"the value of {self!r} was not fetched")
            return self._outcome
        if self.state < _SUCCEEDED:
            raise RuntimeError(f"{self!r} has not finished")
        error, trace = self._failure()
        try:
            # Raising adds to the traceback an exception has: without this, each awaiter would see all before.
            raise BaseException.with_traceback(error, trace)
        finally:
            del error, trace

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for the function: values in place of the dependencies, all of which succeeded.

        A function that accepts errors is given the exceptions of those that did not.
        """
        kwargs = self._outcome
        if not self.deps:
            return self._args, kwargs or {}
        built: dict[Template, Any] = {}
        if self.function.accepts_errors:
            return tuple(_settled(self._args, built)), {}
        args = tuple(_filled(self._args, built))
        if not kwargs:
            return args, {}
        return args, dict(zip(kwargs, _filled(kwargs.values(), built), strict=True))

    def take_arguments(self, fetcher: ValueFetcher | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, for who keeps them from now on: the node lets go of them.

        Values of `fetcher` are given as references, fetched or not, wherever no container looks at them.
        """
        if self.deps and fetcher is not None:
            taken = self._arguments_by_reference(fetcher)
        else:
            taken = self.arguments() if self.deps else (self._args, self._outcome or {})
        self._args = ()
        self._outcome = None
        return taken

    def _arguments_by_reference(self, fetcher: ValueFetcher) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kwargs = self._outcome or {}
        built: dict[Template, Any] = {}
        args = tuple(_referring(self._args, built, fetcher))
        return args, dict(zip(kwargs, _referring(kwargs.values(), built, fetcher), strict=True))

    def unfetched_inputs(self, fetcher: ValueFetcher | None) -> list[Node]:
        """Return the dependencies whose values have to be fetched before it can be done: jobs of the executor of
        `fetcher`, and what only collects, take references.
        """
        staying = [dep for dep in self.deps if type(dep._outcome) in UNFETCHED]
        if not staying or (self.function.collects and not any(type(item) is Template for item in self._args)):
            return []
        if self.function.picks:
            return [dep for dep in staying if dep is not self._args[0] or type(dep._outcome) is not RemoteList]
        if fetcher is None or self.request is None or self.function.options.cache is not None:
            return staying
        looked_at: set[Node] = set()
        _find_looked_at((*self._args, *(self._outcome or {}).values()), looked_at, by_reference=True)
        return [dep for dep in staying if dep in looked_at or dep._outcome.fetcher is not fetcher]

    def apply_by_reference(self) -> Any:
        """Return what `apply` returns; where it only collects, or picks of what was collected, with references where
        there are some.
        """
        function, first = self.function, self._args[0] if self._args else None
        if function.picks and type(first) is Node and type(first.reference) is RemoteList:
            return function.callable(first.reference, *self.arguments()[0][1:])
        return self._collected(self.apply()) if function.collects else self.apply()

    def expression(self, fetcher: ValueFetcher) -> RemoteExpression | None:
        """Return an operation as what a job applies to values of `fetcher`, which stay where they are; None where it
        cannot be: it collects, a container looks at one of the values, or one is another executor's.
        """
        args, kwargs = self.given
        if self.function.collects or any(type(item) is Template for item in (*args, *kwargs.values())):
            return None
        staying = [dep.reference for dep in self.deps if dep.stays]
        if any(reference is None or reference.fetcher is not fetcher for reference in staying):
            return None
        given = self._arguments_by_reference(fetcher)
        leaves = [leaf for item in (*given[0], *given[1].values()) if type(item) in UNFETCHED for leaf in item.leaves()]
        return RemoteExpression(self.function.callable, *given, fetcher, leaves)

    def _collected(self, values: list[Any]) -> Any:
        items = [
            item._args[0] if type(item) is Node and item.state == _SUCCEEDED and item._args else value
            for item, value in zip(self._args, values, strict=True)
        ]
        return values if UNFETCHED.isdisjoint(map(type, items)) else RemoteList(items)

    def drop_arguments(self) -> None:
        """Let go of what somebody else keeps from now on."""
        self._args = ()
        self._outcome = None

    def call_with(self, function: Function, first: str) -> None:
        """Call `function` instead, with `first` before the other arguments: before the call is sent."""
        self.function = function
        self._args = (first, *self._args)

    @property
    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node that has not finished, as they are: nodes and templates in place of values."""
        return self._args, self._outcome or {}

    def arguments_before(self, dep: Node, stand_in: object) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments for the function once `dep`, the only dependency to come, is there: `stand_in` in its
        place.

        None where it is not an argument by itself: a container may look at what it is made of.
        """
        if not self._outcome and len(self._args) == 1 and self._args[0] is dep:
            return (stand_in,), {}
        args, kwargs = self.given
        if any(type(item) is Template for item in (*args, *kwargs.values())):
            return None
        before, dep._outcome = dep._outcome, stand_in
        try:
            return self.arguments()
        finally:
            dep._outcome = before

    def apply(self) -> Any:
        """Do the operation of an `INLINE` node, and return its value. What it raises is the node's error."""
        args, kwargs = self.arguments()
        return self.function.callable(*args, **kwargs)

    def succeed(self, value: Any) -> bool:
        """Finish with a value. False, and no change, if the node had finished already."""
        if self.finished:
            return False
        # As `_finish` does: most nodes end here, and a call less for each is worth the lines.
        self.state = _SUCCEEDED
        self.finished = True
        self._outcome = value
        self._args = self.deps = ()
        return True

    def fail(self, error: BaseException) -> bool:
        """Finish with an exception. False, and no change, if the node had finished already."""
        return self._finish(_FAILED, (error, traceback_of(error)))

    def witness(self, witness: RetrievalObserver) -> None:
        """Tell `witness`, which is kept as long as the error of this node that failed, when somebody takes that."""
        error, trace = self._failure()
        self._outcome = (error, trace, witness)

    def _failure(self) -> tuple[BaseException, TracebackType | None]:
        """Return the error, which somebody takes, and the traceback that it first came with."""
        error, trace, *witnesses = self._outcome
        for witness in witnesses:
            witness.seen()
        return error, trace

    def cancel(self, why: str = "was cancelled") -> bool:
        """Finish without a value. False, and no change, if the node had finished already."""
        if self.finished:
            return False
        return self._finish(_CANCELLED, (JobCancelledError(f"{self.function.name} {why}"), None))

    def leave(self) -> bool:
        """Finish without a value, as its job goes on in a session that the program leaves. False if it had finished."""
        words = f"{self.function.name} goes on in its session, which this program has left"
        return self._finish(_CANCELLED, (SessionError(words), None))

    def _finish(self, state: State, outcome: object) -> bool:
        if self.finished:
            return False
        self.state = state
        self.finished = True
        self._outcome = outcome
        self._args = self.deps = ()
        return True


def positional_arguments(nodes: Sequence[Node]) -> list[tuple[Any, ...]] | None:
    """Return the arguments of each of these nodes, if none has keywords, with values in place of the dependencies, all
    of which succeeded; else None. A container with nodes inside stays a `Template`, but for a tuple.
    """
    has_inputs = has_containers = False
    for node in nodes:
        if node._outcome:
            return None
        if node.deps:
            has_inputs = True
            has_containers = has_containers or Template in map(type, node._args)
    if not has_inputs:
        return [node._args for node in nodes]
    if has_containers:
        return [tuple(_with_tuples(node._args, {})) for node in nodes]
    return [tuple([item._outcome if type(item) is Node else item for item in node._args]) for node in nodes]


def fetched(node: Node) -> Awaitable[Any]:
    """Return an awaitable of the value of a node that has finished, and whose value stays at workers: it is fetched."""
    reference = node.reference
    assert reference is not None
    return next(reference.leaves()).fetcher.wait(node)


class StreamNode(Node):
    """The call of an asynchronous generator function. It succeeds, with None, when the generator has ended.

    `buffer`, where items wait for their reader, belongs to the executor that runs the node; here it is only given room.
    """

    buffer: Any = None
    read: bool = False
    """Whether somebody reads it, or did."""


class Resolver(Protocol):
    """Interface of an executor, as far as the graph uses it."""

    def wait(self, node: Node) -> Coroutine[Any, Any, Any]:
        """Start what is not started, wait for the node, and return its value or raise its error."""
        ...

    def start(self, nodes: Sequence[Node]) -> None:
        """Start the nodes and what they need, without waiting."""

    def cancel(self, node: Node) -> None:
        """End the work of a node that this resolver owns."""

    def read(self, node: StreamNode) -> AsyncIterator[Any]:
        """Start a stream at the first step, and yield its items. Dropping the iterator ends the stream."""
        ...

    def show_live(self, node: Node) -> bool:
        """Show an unfinished node in a notebook, and keep that up to date; False where that is impossible."""
        ...

    def drop(self, node: Node) -> None:
        """A stream that this resolver owns has no reference any more: end it. From any thread, and in a destructor."""


_USUAL = "grainlike.executor"
"""What registers itself when it is imported."""

_finders: list[Callable[[Node], Resolver]] = []


def register(find: Callable[[Node], Resolver]) -> None:
    """Let `find` say who resolves a node in the current context. The last one registered is asked."""
    _finders[:] = [find]


def current_resolver(node: Node) -> Resolver:
    """Return the resolver of a node in the current context.

    Raises:
        RuntimeError: none is registered; or whatever `find` raises when it has none to give.
    """
    if not _finders:
        import_module(_USUAL)
    if not _finders:
        raise RuntimeError("nothing runs placeholders here: open an Executor, or call run(main)")
    return _finders[0](node)


class Template:
    """A container with nodes inside, as it was when the call was made.

    `items` are what the container holds: plain values, nodes, further templates. `make` builds a container of
    the same type from the values. With `by_reference` that looks at none of those that nodes give.
    """

    __slots__ = ("by_reference", "items", "make")

    def __init__(
        self, make: Callable[[Sequence[Any]], Any], items: Sequence[Any], *, by_reference: bool = False
    ) -> None:
        self.make: Callable[[Sequence[Any]], Any] = make
        self.items: Sequence[Any] = items
        self.by_reference: bool = by_reference


def _filled(items: Sequence[Any] | Any, built: dict[Template, Any]) -> list[Any]:
    return [
        item._outcome if type(item) is Node else _build(item, built) if type(item) is Template else item
        for item in items
    ]


def _with_values(items: Sequence[Any], _: object) -> list[Any]:
    """Return the items with values in place of nodes; templates stay."""
    return [item._outcome if type(item) is Node else item for item in items]


def _with_tuples(items: Sequence[Any], built: dict[Template, Any]) -> list[Any]:
    """Return the items with values in place of nodes, and tuples of templates of tuples; those inside them stay."""
    return [
        item._outcome
        if type(item) is Node
        else _build(item, built, _with_values)
        if type(item) is Template and item.make is tuple
        else item
        for item in items
    ]


def _referring(items: Iterable[Any], built: dict[Template, Any], fetcher: ValueFetcher) -> list[Any]:
    """Return the items with values in place of nodes, and references to those of `fetcher` where no container looks."""
    return [
        item._args[0]
        if type(item) is Node and item._args and item._args[0].fetcher is fetcher
        else item._outcome
        if type(item) is Node
        else _build(item, built, partial(_referring, fetcher=fetcher) if item.by_reference else _filled)
        if type(item) is Template
        else item
        for item in items
    ]


def _find_looked_at(items: Iterable[Any], found: set[Node], *, by_reference: bool) -> None:
    """Add the nodes whose values a container looks at as it is built."""
    for item in items:
        if type(item) is Template:
            _find_looked_at(item.items, found, by_reference=by_reference and item.by_reference)
        elif type(item) is Node and not by_reference:
            found.add(item)


def _settled(items: Sequence[Any], built: dict[Template, Any]) -> list[Any]:
    """Return the items with values in place of nodes; exceptions for nodes that have failed."""
    return [
        (item.error if item.state > _SUCCEEDED else item._outcome)
        if type(item) is Node
        else _build(item, built, _settled)
        if type(item) is Template
        else item
        for item in items
    ]


def _build(
    template: Template,
    built: dict[Template, Any],
    fill: Callable[[Sequence[Any], dict[Template, Any]], list[Any]] = _filled,
) -> Any:
    """Return the container itself. One that is passed twice is built once, so that it stays one object."""
    if template not in built:
        built[template] = template.make(fill(template.items, built))
    return built[template]
