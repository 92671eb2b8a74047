"""Lookup of the results of calls: the key of a call, and what is kept for it, or why nothing is."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from grainlike.cache._store import DamagedError, Key, ResultStore, StoredResult, results_directory
from grainlike.graph import Function, main_file

__all__ = ["Lookup", "find", "key_of"]

logger = logging.getLogger("grainlike")


class Lookup:
    """State of one call with a cache: looked up, then (not found) run, then (successful) stored."""

    __slots__ = ("kept", "key", "words")

    def __init__(self) -> None:
        self.key: Key | None = None
        self.kept = False
        self.words = "Its result is being looked for."


def find(search: Lookup) -> tuple[StoredResult, object] | None:
    """Return the stored result; where there is none, set the reason in `search` and return None."""
    assert search.key is not None
    version = f"version {search.key.version!r}"
    results = ResultStore(results_directory())
    try:
        found = results.find(search.key)
    except PermissionError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged, or of classes that are no more: it runs again
        search.words = f"It runs: its kept result, {version}, cannot be opened: {error}."
        level = logging.WARNING if isinstance(error, DamagedError) else logging.INFO
        logger.log(level, "a kept result of %s cannot be opened: %s", search.key.function, error)
        return None
    if found is None:
        others = results.versions_with(search.key)
        but = f", only {', '.join(map(repr, others))}" if others else ""
        search.words = f"It runs: no result of {version} is kept for these arguments{but}."
    return found


def key_of(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Key | None:
    """Return the key of a call's result; None for arguments with which it cannot be called, as its own error will
    show.
    """
    try:
        bound = inspect.signature(function.callable).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    version = function.options.cache
    assert version is not None
    from grainlike.payload import identity_of  # knows many types of the standard library, by importing them

    return Key(_name_of(function.callable), version, identity_of(bound.arguments, what=function.name))


def _name_of(function: Callable[..., Any]) -> str:
    """`module:name`; for a function of the main script, the path of that."""
    module = function.__module__
    if module == "__main__":
        module = str(main_file(function) or module)
    return f"{module}:{function.__qualname__}"
