"""Operations that a placeholder refuses, as it has no value yet; each error says what to write instead."""

from __future__ import annotations

from typing import Never, NoReturn

from grainlike.errors import SerializationError
from grainlike.graph._placeholder import Placeholder

__all__ = ["Refusals"]


def _refuse(asked: str, instead: str) -> NoReturn:
    raise TypeError(f"{asked} needs the value of a placeholder, which is not there yet: write {instead}")


class NotYetKnown:
    """The truth of a value that is not there yet, to type checkers."""


class Refusals(Placeholder):
    """Everything that Python would answer at once."""

    __slots__ = ()

    # Type checkers go on behind `if r_:`, where `NoReturn` would make the rest unreachable to mypy. Pyright reports the
    # line, for this is no bool.
    def __bool__(self) -> NotYetKnown:  # noqa: PLE0304
        _refuse("the truth of it (if, while, and, or, not, assert)", "`if await r_:`")

    def __contains__(self, item: object) -> NoReturn:
        _refuse("`x in r_`", "`x in await r_`")

    def __int__(self) -> NoReturn:
        _refuse("int(r_)", "`int(await r_)`, or `delayed(int)(r_)`")

    def __float__(self) -> NoReturn:
        _refuse("float(r_), and with it most of `math`,", "`float(await r_)`, or `delayed(math.sqrt)(r_)`")

    def __complex__(self) -> NoReturn:
        _refuse("complex(r_)", "`complex(await r_)`, or `delayed(complex)(r_)`")

    def __index__(self) -> NoReturn:  # noqa: PLE0305
        _refuse("use as an index or a count", "`items[await r_]`, or `delayed_value(items)[r_]`")

    def __format__(self, spec: str) -> str:
        if spec:
            _refuse(f"the format {spec!r}", f"`format(await r_, {spec!r})`")
        return repr(self)

    def __setattr__(self, name: str, value: Never) -> NoReturn:
        raise TypeError(
            f"attribute {name!r} of a placeholder cannot be set, for the value belongs to others too: "
            f"write a delayed function that returns the changed object, `r_ = delayed(with_{name})(r_, value)`"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise TypeError(
            f"attribute {name!r} of a placeholder cannot be deleted, for the value belongs to others too: "
            f"write a delayed function that returns the changed object, `r_ = delayed(without_{name})(r_)`"
        )

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        _refuse("np.array(r_)", "`np.array(await r_)`, or `delayed(np.array)(r_)`")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        name = self._node.function.name
        error = SerializationError(
            f"a placeholder ({name}) in a closure or inside another object cannot travel: "
            "pass it as an argument, alone or in a list, tuple, set, dict, namedtuple or dataclass"
        )
        error._in_result = (
            f"a placeholder ({name}) was returned, which has no value yet: write `result(r_)` in its place, or in "
            "`async def` `await r_`"
        )
        raise error
