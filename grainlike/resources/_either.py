"""`a | b`: a request with several options, of which the first that fits is granted."""

from typing import ClassVar, NoReturn

from grainlike.errors import ResourceSpecError
from grainlike.resources._request import Request


class Either(Request):
    """A request with at least two different options, each a simple request; made by `either` alone."""

    __slots__ = ("_options",)
    _several: ClassVar[bool] = True

    _options: tuple[Request, ...]

    @property
    def options(self) -> tuple[Request, ...]:
        return self._options

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(sorted({part for option in self._options for part in option.parts}))

    def grown(self) -> Request | None:
        """Let every option grow that can; None if none can."""
        grown = [option.grown() for option in self._options]
        if not any(grown):
            return None
        return either(tuple(more or option for more, option in zip(grown, self._options, strict=True)))

    def __and__(self, other: Request) -> Request:  # type: ignore[override]  # never an allocation: that is refused
        if not isinstance(other, Request):
            return NotImplemented
        return either(tuple(mine & theirs for mine in self._options for theirs in other.options))

    def __rand__(self, other: Request) -> Request:
        return either(tuple(other & mine for mine in self._options))

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._options == other.options

    def __hash__(self) -> int:
        return hash(self._options)

    def __str__(self) -> str:
        return " | ".join(map(str, self._options))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self._options))

    def __getattr__(self, name: str) -> NoReturn:
        """Everything that belongs to each option: the slots of `Request` stay unset here."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{self} has several options: ask each of its .options for {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return either, (self._options,)


MOST_OPTIONS = 64  # each of them is looked at whenever something is free

_set_options = Either.__dict__["_options"].__set__


def either(options: tuple[Request, ...]) -> Request:
    """Give a request for any of the options, in this order; the same one twice counts once."""
    distinct = tuple(dict.fromkeys(options))
    if len(distinct) > MOST_OPTIONS:
        raise ResourceSpecError(f"a request with {len(distinct)} options is no request: there may be {MOST_OPTIONS}")
    for option in distinct:
        if type(option) is not Request:
            raise ResourceSpecError(f"{option!r}: a choice is for requests, and ids belong to offers")
        if not option:
            raise ResourceSpecError("a | b: an empty request is no choice, for it always fits")
    if len(distinct) == 1:
        return distinct[0]
    made = Either.__new__(Either)
    _set_options(made, distinct)
    return made
