"""Classes that no module holds keep their identity when they travel: those of `__main__`, notebooks and function
bodies.

cloudpickle sends such a class by value with an identifier. A receiver that knows the identifier takes its own class
again, so `except MyError` catches an exception that came back. But cloudpickle then sets every attribute of that class
from the bytes, which at home would replace the user's methods by copies with other globals. So **the process in which a
class was written is its authority**: nothing that arrives changes the class there. In other processes the newest
arrival wins, so that a method that is redefined in a notebook reaches the workers.

dill has no such identity, so its pickler uses this module for classes, too.

A class with `__slots__` keeps them. cloudpickle's copy of the class has no slots, so its objects have a `__dict__`, and
pickle it as their state. An object of the class at home has no place for that state.
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
    """Return cloudpickle's reduction of a class by value, with `_fill` as the function that sets attributes."""
    make, args, state, _, _, setter = reduction
    if cls not in _arrived:
        _written_here.add(cls)
    if "__slots__" in cls.__dict__ and not issubclass(cls, tuple):  # named tuples make their slots themselves
        args, state = _with_slots(cls, args, state)
    return make, args, (setter, state), None, None, _fill


def _with_slots(cls: type, args: tuple[Any, ...], state: Any) -> tuple[tuple[Any, ...], Any]:
    """Make the copy with the slots of the class. Slots make their own descriptors, so these are left out of the state.

    Source: `_make_skeleton_class(constructor, name, bases, namespace, tracker, extra)` and `_class_getstate` of
    cloudpickle 3; the first ignores slots.
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
