"""Exceptions without calling their `__init__` again.

Pickle rebuilds an exception as `cls(*exc.args)`. A class whose `__init__` takes something else than what it hands to
`super().__init__` fails there, or comes back with another text: the most common reason for which an exception does not
pickle. Where the class changes nothing about pickling itself, it is rebuilt here from its parts.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["Portable", "portable"]

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set for classes made at run time, not for the interpreter's own


class Portable:
    """What travels for an exception; called on the other side, it gives the exception."""

    __slots__ = ("parts",)

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    def __call__(self) -> Any:
        return self.parts


class Rebuilt(Portable):
    """An exception in parts: class, arguments, attributes."""

    __slots__ = ()

    def __call__(self) -> BaseException:
        cls, args, state = self.parts
        return _rebuild(cls, args, state)


def portable(error: Exception) -> Portable:
    """`error` itself where its class decides how it is pickled, or has no `__init__` to avoid; else in parts."""
    cls = type(error)
    native = _native(cls)
    if cls is native or any(
        getattr(cls, name, None) is not getattr(native, name, None)
        for name in (
            "__reduce__",
            "__reduce_ex__",
            "__getstate__",
            "__setstate__",
            "__getnewargs__",
            "__getnewargs_ex__",
        )
    ):
        return Portable(error)
    _, args, *rest = error.__reduce__()  # type: ignore[misc]
    return Rebuilt((cls, args, rest[0] if rest else None))


def _native(cls: type[BaseException]) -> type[BaseException]:
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)


def _rebuild(cls: type[BaseException], args: tuple[Any, ...], state: Mapping[str, Any] | None) -> BaseException:
    native = _native(cls)
    error = native.__new__(cls, *args)
    native.__init__(error, *args)
    if state is not None:
        error.__setstate__(dict(state))
    return error
