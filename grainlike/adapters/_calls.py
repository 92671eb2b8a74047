"""What travels to workers in place of the user's own functions. Nothing but this module is loaded there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["call", "call_each", "fulfil"]


def call(work: Callable[[], Any]) -> Any:
    """Call what was sent as an argument: it is large, and used once, which functions are not."""
    return work()


def call_each(function: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """One piece of a `map`."""
    return [function(*row) for row in rows]


def fulfil(task: Callable[[dict[Any, Any]], Any], names: Sequence[Any], *values: Any) -> Any:
    """Run a task of a Dask graph, with the values of those that it needs."""
    return task(dict(zip(names, values, strict=True)))
