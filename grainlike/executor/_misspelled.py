"""Options and methods of other executors, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from grainlike.resources import KINDS

__all__ = ["refuse_attribute", "refuse_options"]

_NUMBERS = ("max_workers", "n_workers", "num_workers", "num_cpus", "n_jobs", "processes")
"""Options of others that say how many calls run at the same time."""

_METHODS = {
    "map": "`await gather((fn @ Cores(1))(x) for x in xs)`, or `amap(fn @ Cores(1), xs)`",
    "shutdown": "`await ex.aclose()`; `async with` does it",
    "close": "`await ex.aclose()`; `async with` does it",
    "gather": "`await gather(placeholders)`",
    "compute": "`await r_`",
    "persist": "`start(r_)`",
}


def refuse_options(unknown: Mapping[str, object]) -> NoReturn:
    """Refuse `Executor(max_workers=2)`, and every other option that there is not.

    Raises:
        TypeError: always; with the right spelling where cores or another resource was meant.
    """
    name, value = next(iter(unknown.items()))
    kind = KINDS.get(name)
    word = "Cores" if name in _NUMBERS else kind and kind.word
    hint = f": write Executor(local={word}({value!r}))" if word else ""
    raise TypeError(f"Executor() got an unexpected keyword argument {name!r}{hint}")


def refuse_attribute(executor: object, name: str) -> NoReturn:
    """Refuse `ex.map(fn, xs)`, and every other attribute that there is not.

    Raises:
        AttributeError: always; with the right spelling for methods of other executors.
    """
    hint = f": write {_METHODS[name]}" if name in _METHODS else ""
    raise AttributeError(f"{type(executor).__name__!r} object has no attribute {name!r}{hint}")
