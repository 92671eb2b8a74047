"""Classes that no module holds (of `__main__`, a notebook, a function's body) keep their identity on journeys.

cloudpickle sends such a class by value with an identifier, and a receiver that knows the identifier takes its
own class again, so that `except MyError` catches what came back. But cloudpickle then sets every attribute of
that class anew from what arrived, which at home would replace the user's methods by copies over other globals.
The law here: **the process in which a class was written is its authority**; there, nothing that arrives changes
it. Elsewhere the newest arrival wins, so that a method redefined in a notebook reaches the workers.

dill knows no such identity; its pickler asks here for classes too.
"""

from collections.abc import Callable
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
    return make, args, (setter, state), None, None, _fill


def _fill(cls: type, filling: tuple[Setter, object]) -> object:
    if cls in _written_here:
        return cls
    _arrived.add(cls)
    setter, state = filling
    return setter(cls, state)
