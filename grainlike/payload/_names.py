"""Functions by name, also where a decorator's object stands under that name.

`@delayed def f` in an importable module leaves a wrapper under the name `f`. Pickle looks the name up, finds another
object than the function and gives up; dill and cloudpickle then copy the function with its module's globals. But the
function can be named: "what `module.f` wraps". That is what travels here: module, qualified name, and how many
`__wrapped__` lie between.
"""

import importlib
import sys
from types import FunctionType

__all__ = ["MAIN_NAMES", "Reference", "reference_behind_wrapper", "resolve"]

MAIN_NAMES = frozenset({"__main__", "__mp_main__"})
_DEEPEST = 64

Reference = tuple[str, str, int]


def reference_behind_wrapper(function: FunctionType) -> Reference | None:
    """Module, qualified name and depth of wrapping under which `function` is found again; None where it is not.

    A function that stands under its own name has no wrapper and gives None: pickle names it by itself.
    """
    module, qualname = getattr(function, "__module__", None), function.__qualname__
    if module is None or module in MAIN_NAMES or module not in sys.modules:
        return None
    try:
        found = _attribute(sys.modules[module], qualname)
    except AttributeError:
        return None
    for depth in range(_DEEPEST):
        if found is function:
            return (module, qualname, depth) if depth else None
        found = getattr(found, "__wrapped__", None)
    return None


def resolve(module: str, qualname: str, depth: int) -> object:
    """The function that `reference_behind_wrapper` named, in this process; imports its module."""
    found = _attribute(importlib.import_module(module), qualname)
    for _ in range(depth):
        found = getattr(found, "__wrapped__")  # noqa: B009 -- the checker knows no such attribute on object
    return found


def _attribute(holder: object, qualname: str) -> object:
    """Like `operator.attrgetter`, but without binding: a decorator's object in a class may be a descriptor."""
    for name in qualname.split("."):
        holder = _static(holder, name) if isinstance(holder, type) else getattr(holder, name)
    return holder


def _static(cls: type, name: str) -> object:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise AttributeError(name)
