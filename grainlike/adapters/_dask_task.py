"""Runner of one task of a Dask graph on a worker, which brings its warnings back. Dask itself is not loaded for it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

__all__ = ["WarningRecord", "cautions_of", "fulfil", "say_again", "without_warnings"]


class WarningRecord(NamedTuple):
    """Warning on the wire."""

    text: str
    category: type[Warning]
    file: str
    line: int


class ValueWithWarnings(NamedTuple):
    """The value of a task, and the warnings of it and of the tasks that it needs."""

    value: Any
    cautions: tuple[WarningRecord, ...]


def fulfil(task: Callable[[dict[Any, Any]], Any], names: Sequence[Any], *values: Any) -> Any:
    """Run a task with the values of those that it needs; return its value, as `ValueWithWarnings` if there were
    warnings.

    Beside the main thread warnings are the process's own, and are shown where they are raised, as are those of a task
    that fails: there is no value for them to come with.
    """
    before = [one for value in values for one in cautions_of(value)]
    needed = dict(zip(names, map(without_warnings, values), strict=True))
    if threading.current_thread() is not threading.main_thread():
        value, cautions = task(needed), before
    else:
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("default")  # the filters that count are those of the caller
                value = task(needed)
        except BaseException:
            for one in caught:
                warnings.showwarning(one.message, one.category, one.filename, one.lineno)
            raise
        cautions = before + [_caution(one) for one in caught]
    return ValueWithWarnings(value, tuple(dict.fromkeys(cautions))) if cautions else value


def without_warnings(value: Any) -> Any:
    """Return the value itself, of one that came with warnings."""
    return value.value if isinstance(value, ValueWithWarnings) else value


def cautions_of(value: Any) -> tuple[WarningRecord, ...]:
    """Return the warnings that a value came with."""
    return value.cautions if isinstance(value, ValueWithWarnings) else ()


def say_again(cautions: Iterable[WarningRecord]) -> None:
    """Repeat the warnings of tasks at the caller, by its own filters; those of several values once.

    Raises:
        Warning: where a filter of the caller makes it an error.
    """
    for text, category, file, line in dict.fromkeys(cautions):
        warnings.warn_explicit(text, category, file, line)


def _caution(one: warnings.WarningMessage) -> WarningRecord:
    """Return a warning as `warn_explicit` takes it; a category that a text alone does not make is replaced by a
    standard base.
    """
    text, category = str(one.message), one.category
    for category in one.category.__mro__:
        try:
            category(text)
        except Exception:  # noqa: BLE001, S112 - the user's own: it may raise anything
            continue
        break
    return WarningRecord(text, category, one.filename, one.lineno)
