"""Classes that no module holds (of `__main__`, a notebook, a function's body) keep their identity on journeys.

cloudpickle sends such a class by value with an identifier, and a receiver that knows the identifier takes its
own class again, so that `except MyError` catches what came back. But cloudpickle then sets every attribute of
that class anew from what arrived, which at home would replace the user's methods by copies over other globals.
The law here: **the process in which a class was written is its authority**; there, nothing that arrives changes
it. Elsewhere the newest arrival wins, so that a method redefined in a notebook reaches the workers.

dill knows no such identity; its pickler asks here for classes too.

A class with `__slots__` keeps them. cloudpickle makes its copy without them: objects of that have a `__dict__`, and
pickle it as their state, which an object of the class itself, at home, has no place for.
"""

from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any
from weakref import WeakSet

__all__ = ["guarded"]

Setter = Callable[[type, object], object]
Reduction = tuple[Any, ...]

_written_here: "WeakSet[type]" = WeakSet()
_arrived: "WeakSet[type]" = WeakSet()


def guarded(cls: type, reduction: Reduction) -> Reduction:
    """cloudpickle's reduction of a class by value, with `_fill` for its own setter of attributes."""
    make, args, state, _, _, setter = reduction
    if cls not in _arrived:
        _written_here.add(cls)
    if "__slots__" in cls.__dict__ and not issubclass(cls, tuple):  # named tuples give themselves theirs
        args, state = _with_slots(cls, args, state)
    return make, args, (setter, state), None, None, _fill


def _with_slots(cls: type, args: tuple[Any, ...], state: Any) -> tuple[tuple[Any, ...], Any]:
    """Let the copy be made with the slots of the class, which make their descriptors and are no part of its state.

    Source: `_make_skeleton_class(constructor, name, bases, namespace, tracker, extra)` and `_class_getstate` of
    cloudpickle 3, of which the first knows no slots.
    """
    constructor, name, bases, namespace, *rest = args
    slots = cls.__dict__["__slots__"]
    kept = slots if isinstance(slots, str | dict) else tuple(slots)
    attributes, extra = state
    attributes = {
        key: value
        for key, value in attributes.items()
        if key != "__slots__" and not (isinstance(value, MemberDescriptorType) and value.__objclass__ is cls)
    }
    return (constructor, name, bases, {**namespace, "__slots__": kept}, *rest), (attributes, extra)


def _fill(cls: type, filling: tuple[Setter, object]) -> object:
    if cls in _written_here:
        return cls
    _arrived.add(cls)
    setter, state = filling
    return setter(cls, state)
