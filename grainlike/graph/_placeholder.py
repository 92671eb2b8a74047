"""The bare placeholder, and how a call captures the ones among its arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from sys import getrefcount
from typing import Any

from grainlike.errors import GraphError
from grainlike.graph._never_awaited import warn_of
from grainlike.graph._node import Node, Template
from grainlike.graph._state import State

__all__ = ["LEAVES", "SEQUENCES", "Placeholder", "capture", "rebind"]


_LAZY = State.LAZY
_ALONE = 3


class Placeholder:
    """Base of placeholders, without their behaviour: a reference to a node, which may be replaced."""

    __slots__ = ("__weakref__", "_node")

    _node: Node

    def __init__(self, node: Node) -> None:
        rebind(self, node)

    def __del__(self) -> None:
        """Warn if this is the last that knows of a call with resources which has never begun."""
        try:
            node = self._node
        except AttributeError:  # its `__init__` failed
            return
        # Referred to by this placeholder, by the name here, and by the argument: no call has it among its own.
        if node.state is _LAZY and node.request is not None and getrefcount(node) <= _ALONE:
            warn_of(node)


# The descriptor itself, because `Delayed` refuses assignment to attributes.
rebind: Callable[[Placeholder, Node], None] = Placeholder.__dict__["_node"].__set__

LEAVES = frozenset({int, float, str, bytes, bool, complex, type(None), bytearray, memoryview, range})
"""Types whose values cannot hold a placeholder; most arguments, found with one look-up."""

SEQUENCES = frozenset({list, tuple})
"""Types whose values hold what they give when one goes through them, and nothing else."""


def capture(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any] | None, tuple[Node, ...]]:
    """Put nodes in place of placeholders, also inside containers.

    Returns:
        The arguments, and the distinct nodes among them in order. A container is copied only when there is a
        placeholder inside, and then as it is now.

    Raises:
        GraphError: a container with a placeholder inside contains itself.
    """
    if not kwargs:
        if len(args) == 1 and issubclass(type(args[0]), Placeholder):  # as those of a chain
            node = (args[0]._node,)
            return node, None, node
        kinds = set(map(type, args))
        if LEAVES.issuperset(kinds):
            return args, None, ()
        if len(kinds) == 1 and issubclass(kinds.pop(), Placeholder):  # as those of most calls of `gather`
            all_nodes = tuple([item._node for item in args])
            distinct = set(all_nodes)
            return all_nodes, None, all_nodes if len(distinct) == len(all_nodes) else tuple(dict.fromkeys(all_nodes))
    captor = _ArgumentCapture()
    new_args = tuple([captor.take(item) for item in args])
    new_kwargs = {key: captor.take(item) for key, item in kwargs.items()} if kwargs else None
    return new_args, new_kwargs, tuple(captor.nodes)


class _ArgumentCapture:
    """Capture of the arguments of one call."""

    __slots__ = ("_templates", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[Node, None] = {}
        self._templates: dict[int, Template | None] = {}
        """By the container's id; None while that is being captured."""

    def take(self, item: Any) -> Any:
        kind = type(item)
        if kind in LEAVES:
            return item
        # By the type alone: `isinstance` asks the object too, and a class of the user's may raise at that.
        if issubclass(kind, Placeholder):
            self.nodes[item._node] = None
            return item._node
        parts = _parts(item)
        return item if parts is None or not _holds_placeholder(item, parts) else self._template(item, parts)

    def _template(self, container: Any, parts: Sequence[Any]) -> Template:
        key = id(container)
        if key in self._templates:
            known = self._templates[key]
            if known is None:
                raise GraphError(f"a {type(container).__name__} with a placeholder inside contains itself")
            return known
        self._templates[key] = None
        items = [self.take(item) for item in parts]
        template = self._templates[key] = Template(
            _maker(container), items, by_reference=_looks_at_nothing(container, items)
        )
        return template


def _holds_placeholder(container: Any, parts: Sequence[Any]) -> bool:
    """Look into a container to any depth; containers may be large, deep, shared, or contain themselves."""
    seen = {id(container)}
    stack: list[Any] = []
    while True:
        # One pass in C over the types: a list of a million numbers costs milliseconds.
        kinds = set(map(type, parts)) - LEAVES
        for kind in kinds:
            if issubclass(kind, Placeholder):
                return True
        if kinds:
            for part in parts:
                if type(part) not in LEAVES and id(part) not in seen and _is_container(type(part)):
                    seen.add(id(part))
                    stack.append(part)
        if not stack:
            return False
        parts = _parts(stack.pop()) or ()


def _is_container(kind: type) -> bool:
    return kind in _EXACT or hasattr(kind, "__dataclass_fields__") or _is_namedtuple(kind)


_EXACT = frozenset({list, tuple, set, dict, slice})


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _parts(item: Any) -> Sequence[Any] | None:
    """Return the items of a container, in the order that its constructor takes; None for anything else."""
    kind = type(item)
    if kind in SEQUENCES:
        return item  # type: ignore[no-any-return]
    if kind is dict:
        return [*item, *item.values()]
    if kind is set:
        return list(item)
    if kind is slice:
        return (item.start, item.stop, item.step)
    if hasattr(kind, "__dataclass_fields__"):
        return [getattr(item, field.name, None) for field in fields(kind)]
    if _is_namedtuple(kind):
        return item  # type: ignore[no-any-return]
    return None


def _maker(container: Any) -> Callable[[Sequence[Any]], Any]:
    kind: Any = type(container)
    if kind is dict:
        return _make_dict
    if kind is slice:
        return _make_slice
    if kind in _EXACT:
        return kind  # type: ignore[no-any-return]
    if hasattr(kind, "__dataclass_fields__"):
        return _DataclassMaker(container)
    return kind._make  # type: ignore[no-any-return]


def _looks_at_nothing(container: Any, items: Sequence[Any]) -> bool:
    """Return True if a container is built without a look at those of its values that nodes give."""
    kind = type(container)
    if kind is dict:
        return not any(type(key) in (Node, Template) for key in items[: len(items) // 2])
    return kind in SEQUENCES or _is_namedtuple(kind)


def _make_dict(parts: Sequence[Any]) -> dict[Any, Any]:
    half = len(parts) // 2
    return dict(zip(parts[:half], parts[half:], strict=True))


def _make_slice(parts: Sequence[Any]) -> slice:
    return slice(*parts)


class _DataclassMaker:
    """Copies an instance and sets its fields, without `__init__`: what that did is in the copy already."""

    __slots__ = ("_snapshot",)

    def __init__(self, instance: Any) -> None:
        self._snapshot = copy.copy(instance)

    def __call__(self, values: Iterable[Any]) -> Any:
        made = copy.copy(self._snapshot)
        for field, value in zip(fields(made), values, strict=True):
            if hasattr(made, field.name):
                object.__setattr__(made, field.name, value)  # frozen ones too
        return made
