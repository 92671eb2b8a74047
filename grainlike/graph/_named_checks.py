"""Checks of the jobs and edges of a named graph; each error names the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from inspect import signature
from math import isfinite

from grainlike.errors import GraphError
from grainlike.resources import Request

__all__ = ["check_cost", "check_keywords", "check_timeout", "in_order", "nearest", "pair"]

_OPTIONS = ("request", "cost", "timeout", "after")


def check_cost(name: str, cost: object) -> None:
    """Refuse a cost that is none."""
    if cost is not None and not (_is_number(cost) and cost >= 0 and isfinite(cost)):  # type: ignore[operator, arg-type]
        raise GraphError(f"{name}: cost= is a number that is not negative, not {cost!r}")


def check_timeout(name: str, timeout: object) -> None:
    """Refuse a timeout that is none."""
    if timeout is not None and not (_is_number(timeout) and timeout > 0 and isfinite(timeout)):  # type: ignore[operator, arg-type]
        raise GraphError(f"{name}: timeout= is a positive number of seconds, not {timeout!r}")


def check_keywords(name: str, fn: Callable[..., object], kwargs: Mapping[str, object]) -> None:
    """Refuse what was meant for `add`, and would go to the function: a misspelt option, or a request.

    A parameter that the function has by that name is the function's.
    """
    meant = {key: option for key, value in kwargs.items() if (option := _option_meant(key, value)) is not None}
    for key in _parameters(fn) if meant else ():
        meant.pop(key, None)
    for key, option in meant.items():
        raise TypeError(f"{name}: {key}= would go to the function: did you mean {option}=?")


def _option_meant(key: str, value: object) -> str | None:
    if isinstance(value, Request):
        return "request"
    return next(iter(get_close_matches(key, _OPTIONS, 1, 0.75)), None)


def _parameters(fn: Callable[..., object]) -> Iterable[str]:
    try:
        return [key for key, one in signature(fn).parameters.items() if one.kind is not one.VAR_KEYWORD]
    except (TypeError, ValueError):  # it does not tell
        return ()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def pair(edge: object) -> tuple[str, str]:
    """Return an edge, (earlier, later)."""
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
        raise GraphError(f"an edge is a pair of names, (earlier, later), not {edge!r}")
    return edge[0], edge[1]


def in_order(before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names, each after those that it waits for."""
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise GraphError(f"these wait for each other: {' -> '.join(map(repr, error.args[1]))}") from None


def nearest(name: object, known: Iterable[str]) -> str:
    """Return the name that was probably meant, as the end of a sentence; empty if nothing is near."""
    near = get_close_matches(str(name), known, n=1)
    return f"; the nearest is {near[0]!r}" if near else ""
