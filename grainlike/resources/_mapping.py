"""Requests from plain mappings: names to amounts, and the two names that are no amounts."""

from collections.abc import Iterable, Mapping

from grainlike.errors import ResourceSpecError
from grainlike.resources._kinds import amount, checked_name, checked_word
from grainlike.resources._quantity import Amount
from grainlike.resources._terms import Terms
from grainlike.resources._time import duration

TIME = "walltime"
TOKEN = "token"  # noqa: S105 -- the name of a kind, no password


def split(said: "Mapping[str, Amount | Iterable[str]]") -> tuple[dict[str, int], Terms]:
    """Give the amounts of a mapping, checked, and the terms that are in it under `walltime` and `token`."""
    units: dict[str, int] = {}
    terms = Terms()
    for name, value in said.items():
        if name == TIME:
            terms = terms._replace(walltime=duration(value))  # type: ignore[arg-type]  # refused if it is none
        elif name == TOKEN:
            terms = terms._replace(tokens=tags(value))
        else:
            units[checked_name(name)] = amount(name, value)  # type: ignore[arg-type]  # likewise
    return units, terms


def tags(value: object) -> tuple[str, ...]:
    """Give one tag, or several of them, sorted; each must be a word."""
    if isinstance(value, str):
        return (checked_word(TOKEN, value),)
    if not isinstance(value, Iterable):
        raise ResourceSpecError(f"token={value!r}: a token is text")
    return tuple(sorted({checked_word(TOKEN, item) for item in value}))
