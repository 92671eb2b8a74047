"""Operations that a placeholder refuses, as it has no value yet; each error says what to write instead."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Never, NoReturn

from grainlike.errors import GraphError, SerializationError
from grainlike.graph._placeholder import Placeholder

__all__ = ["Refusals", "note_keys", "refuse_mapping"]


def _refuse(asked: str, instead: str) -> NoReturn:
    raise TypeError(f"{asked} needs the value of a placeholder, which is not there yet: write {instead}")


_keys_site: list[tuple[int, int]] = [(0, 0)]
"""Frame and instruction that asked last for a placeholder's `keys`."""


def note_keys(frame: FrameType) -> None:
    """Remember which instruction asks for `r_.keys`: `refuse_mapping` compares."""
    _keys_site[0] = id(frame), frame.f_lasti


def refuse_mapping(frame: FrameType) -> None:
    """Refuse an iteration that is of `dict(r_)`: the one instruction that has asked for `r_.keys` goes through them.

    Raises:
        GraphError: it is. Python would put an error of its own in the place of a `TypeError`.
    """
    if _keys_site[0] == (id(frame), frame.f_lasti):
        raise GraphError(
            "dict(r_) and **r_ need the value of a placeholder, which is not there yet: write `dict(await r_)`; a "
            "function of a web framework returns `await r_`"
        )


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

    if not TYPE_CHECKING:  # a type checker refuses both by itself, as there is no such method

        def __bytes__(self) -> NoReturn:  # noqa: PLE0308
            _refuse("bytes(r_)", "`bytes(await r_)`, or `delayed(bytes)(r_)`")

        def __fspath__(self) -> NoReturn:
            _refuse("open(r_), and whatever takes a path,", "`open(await r_)`, or `delayed(Path)(r_)`")

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
