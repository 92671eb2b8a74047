"""The placeholder that users hold."""

from __future__ import annotations

import copy
import operator
import sys
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, Generic, TypeVar, cast, final

from grainlike._tracebacks import fold
from grainlike.graph._function import Function, operation
from grainlike.graph._misspelled import attribute_hint, coroutine_hint, hint_at_future, refuse_called_request
from grainlike.graph._node import Node, current_resolver, fetched
from grainlike.graph._numpy import NumpyProtocols
from grainlike.graph._operators import Operators, binary, operate
from grainlike.graph._placeholder import Placeholder, rebind
from grainlike.graph._refusals import Refusals, note_keys, refuse_mapping
from grainlike.graph._remote_value import UNFETCHED, RemoteList
from grainlike.graph._serial import hint_at_serial_loop
from grainlike.graph._shown import shown_call
from grainlike.graph._state import RunsIn, State

__all__ = ["PICK", "Delayed", "node_of"]

T_co = TypeVar("T_co", covariant=True)

_LAZY, _INLINE = State.LAZY, RunsIn.INLINE


def _pick(value: Any, index: int, nout: int) -> Any:
    """Return one of the `nout` values that were promised."""
    values = value if isinstance(value, tuple | list | RemoteList) else tuple(value)
    if len(values) != nout:
        raise ValueError(f"nout={nout} was promised, but there are {len(values)} values")
    return values[index]


def _with_item(value: Any, index: Any, item: Any) -> Any:
    changed = copy.copy(value)
    changed[index] = item
    return changed


def _without_item(value: Any, index: Any) -> Any:
    changed = copy.copy(value)
    del changed[index]
    return changed


_NO_FUTURE = (
    "a placeholder is no future, and has no 'add_done_callback': write `await gather(a_, b_)` or "
    "`async for r_ in as_completed([a_, b_])`; for asyncio.wait make a task of it, `asyncio.ensure_future(r_)`"
)

_CALL = operation(operator.call, "call")
_GETATTR = operation(getattr, "getattr")
_GETITEM = operation(operator.getitem, "getitem", picks=True)
PICK = operation(_pick, "getitem", picks=True)
"""Operator that takes a part of a value, by its index and `nout`."""
_SETITEM = operation(_with_item, "setitem")
_DELITEM = operation(_without_item, "delitem")


@final
class Delayed(Operators["Delayed[Any]"], NumpyProtocols, Refusals, Generic[T_co]):
    """A placeholder for a value of type `T`: a node of a lazy graph. Calls of delayed functions make placeholders.

    Nothing runs until the placeholder is awaited, or `start`ed. `await r_` returns the value, or raises the job's
    exception. A placeholder may be awaited again, and by many tasks at once; its call runs at most once. A finished
    placeholder gives its outcome anywhere. Cancelling the last awaiter cancels the call.

    Operators, indexing, attributes, method calls and NumPy functions give further placeholders. `a_[i] = v`, `del
    a_[i]` and NumPy's `out=a_` make `a_` stand for a shallow copy with the change; placeholders that were derived from
    `a_` before do not change. A placeholder has no public names of its own: `r_.cancel()`, `r_.done()` and
    `r_.result()` are calls of the value's methods, so write `cancel(r_)` and `info(r_)`. The first such call of each
    name causes a warning. A placeholder hashes by identity, and a copy of it stands for the same value.

    Raises:
        AttributeError: the placeholder is used as a future (`asyncio.wait([a_])`): it has no `add_done_callback`.
        TypeError: Python needs the value at once (`if a_:`, `len(a_)` without `nout`, `a_.x = 1`, ...).

    Example::

        r_ = (fn @ Cores(4))(x)
        mean = await (r_[0] + 1).mean()
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T_co]:
        __tracebackhide__ = True  # pytest and IPython's debugger leave out frames that have this
        node = self._node
        try:
            if node.finished:
                if type(node._outcome) in UNFETCHED:
                    return cast("T_co", (yield from fetched(node).__await__()))
                return cast("T_co", node.result())
            if node.state is _LAZY and node.place is not _INLINE:
                hint_at_serial_loop(self, sys._getframe(1))
            value: T_co = yield from current_resolver(node).wait(node).__await__()
            return value
        except BaseException as error:
            if not node.finished:
                raise  # an error of ours: all frames tell where it comes from
            raise fold(error)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Delayed[Any]:
        refuse_called_request(self._node)
        hint_at_future(self._node)
        return Delayed(operate(_CALL, self, *args, **kwargs))

    def __getattr__(self, name: str) -> Delayed[Any]:
        if name.startswith("_"):
            # Such names are how tools probe objects: a placeholder as an answer would mislead them.
            raise AttributeError(f"a placeholder has no {name!r}; write `(await r_).{name}`")
        if name == "add_done_callback":  # as an attribute of the value it would be called, and never call back
            raise AttributeError(_NO_FUTURE)
        if name == "keys":
            note_keys(sys._getframe(1))
        return binary(_GETATTR, self, name)

    def __getitem__(self, index: Any) -> Delayed[Any]:
        return binary(_GETITEM, self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        rebind(self, operate(self._keeping_nout(_SETITEM), self, index, value))

    def __delitem__(self, index: Any) -> None:
        rebind(self, operate(_DELITEM, self, index))

    def _keeping_nout(self, function: Function) -> Function:
        nout = self._node.function.options.nout
        return function if nout is None else operation(function.callable, function.name, nout)

    def __len__(self) -> int:
        nout = self._node.function.options.nout
        if nout is None:
            raise TypeError(
                "how many values a placeholder holds is not known: write `len(await r_)`, or @delayed(nout=3)"
            )
        return nout

    def __iter__(self) -> Iterator[Delayed[Any]]:
        nout = self._node.function.options.nout
        if nout is None:
            refuse_mapping(sys._getframe(1))
            raise TypeError(
                "a placeholder is iterable only when it is known for how many values: "
                "write `for x in await r_:`, or @delayed(nout=3) to unpack three"
            )
        return iter([Delayed(operate(PICK, self, index, nout)) for index in range(nout)])

    def __copy__(self) -> Delayed[T_co]:
        return Delayed(self._node)

    def __deepcopy__(self, memo: object) -> Delayed[T_co]:
        return Delayed(self._node)

    def __repr__(self) -> str:
        node = self._node
        request = f", {node.request}" if node.request else ""
        shown = f"<Delayed {shown_call(node)}: {node.state.label}{request}>"
        return shown + (coroutine_hint(sys._getframe(1)) or attribute_hint(node))

    def _ipython_display_(self) -> None:
        """Show it in a notebook, in place of `_repr_html_`, while its call has not ended."""
        node = self._node
        if node.finished or node.owner is None or not node.owner.show_live(node):
            raise NotImplementedError("IPython shows what it has otherwise")

    def _repr_html_(self) -> str:
        from grainlike.graph.drawing._html import html_of

        return html_of(self._node)


def node_of(placeholder: object) -> Node:
    """Return the node that a placeholder stands for now.

    Raises:
        TypeError: it is not a placeholder.
    """
    if isinstance(placeholder, Placeholder):
        return placeholder._node
    what = type(placeholder).__name__
    if isinstance(placeholder, Coroutine):
        what += ": await it, or run it as a task of the event loop (`asyncio.create_task`, a task group)"
    raise TypeError(f"expected a placeholder, such as `fn(x)` gives, not {what}")
