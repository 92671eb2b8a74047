"""Exceptions that are rebuilt without calling their `__init__` again.

Pickle rebuilds an exception as `cls(*exc.args)`. If the class has an `__init__` with other arguments than it passes to
`super().__init__`, that fails, or gives another text. This is the commonest reason why an exception does not pickle. If
the class changes nothing about pickling, the exception is rebuilt here from class, arguments and attributes, with the
`__init__` of the interpreter's own class beneath.
"""

import copyreg
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Parts", "parts_of", "rebuild"]

Parts = tuple[Any, ...]
"""`(exception,)`, or `(class, args, attributes)`."""

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set for classes made at run time, not for the interpreter's own
_HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


def parts_of(error: BaseException) -> Iterator[Parts]:
    """Iterate over the ways to send `error`, the best first. Members of a group travel separately."""
    if not _pickles_its_own_way(type(error)):
        args, state = _arguments_and_state(error)
        yield type(error), args[:1] if isinstance(error, ExceptionGroup) else args, state
    yield (error,)


def rebuild(parts: Parts, members: Sequence[Exception] | None) -> BaseException:
    """Return the exception of `parts`; `members` are the members of a group."""
    if len(parts) == 1:
        whole: BaseException = parts[0]
        return whole
    cls, args, state = parts
    args = args if members is None else (*args, members)
    native = _native(cls)
    error: BaseException = native.__new__(cls, *args)
    native.__init__(error, *args)
    if state is not None:
        error.__setstate__(state)
    return error


def _arguments_and_state(error: BaseException) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
    reduction = error.__reduce__()
    if not isinstance(reduction, tuple):
        return error.args, None
    _, args, *state = reduction
    return args, state[0] if state else None


def _pickles_its_own_way(cls: type[BaseException]) -> bool:
    native = _native(cls)
    changed = any(getattr(cls, hook, None) is not getattr(native, hook, None) for hook in _HOOKS)
    return changed or _is_of_somebody(copyreg.dispatch_table.get(cls))


def _is_of_somebody(reducer: object) -> bool:
    """Return True if a reducer was registered for its class on purpose. `tblib`, which comes with `import distributed`,
    registers its own for every exception; a receiver needs it, too, and it fails for some classes.
    """
    return reducer is not None and not str(getattr(reducer, "__module__", None)).startswith("tblib.")


def _native(cls: type[BaseException]) -> type[BaseException]:
    """Return the interpreter's own class whose `__new__` can make a `cls`. Memory layout decides, not order: a class of
    `(MyError, MemoryError)` is made as an `Exception`, and one of `(MyError, OSError)` as an `OSError`.
    """
    while cls.__flags__ & _HEAP_TYPE:
        cls = cls.__base__  # type: ignore[assignment]
    return cls
