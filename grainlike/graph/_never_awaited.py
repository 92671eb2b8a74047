"""Warnings of calls that were never awaited, as Python gives them of coroutines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grainlike.graph._node import Node

__all__ = ["excuse", "note_origin", "origins", "remember_origins", "warn_of"]

_OURS = "grainlike."

_NO_USERS = (_OURS, "grainlike_worker.", "asyncio.", "anyio.", "trio.", "uvloop.")
"""Modules in which calls are let go of whose variables end with the coroutine of a program, or by the collector."""

origins: dict[int, tuple[str, int]] = {}
"""Files and lines of the calls of nodes, by their `id`, once `remember_origins` was called."""

_USED = -1
"""Number of missing inputs of a lazy node of which nothing is to be said. A start counts them again."""


def remember_origins() -> None:
    """Remember from now on where each call was made, which costs a microsecond each: for Python's development mode."""
    origins.setdefault(0, ("", 0))  # no longer empty, which is all that a call looks at


def note_origin(node: Node) -> None:
    """Remember the caller's file and line as those of a call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_OURS):
        frame = frame.f_back
    origins[id(node)] = frame.f_code.co_filename, frame.f_lineno


def excuse(nodes: Iterable[Node]) -> None:
    """Say nothing of these if they are never awaited: they were used in another way."""
    for node in nodes:
        if not node.finished and node.owner is None:
            node.missing = _USED


def warn_of(node: Node) -> None:
    """Warn that a call whose placeholder is let go of has never begun."""
    origin = origins.pop(id(node), None) if origins else None
    if sys.is_finalizing() or node.missing == _USED:
        return
    message = f"call of {node.function.name!r} was never awaited"
    if origin is None:
        dropper = sys._getframe(1).f_back
        if dropper is not None and str(dropper.f_globals.get("__name__", "")).startswith(_NO_USERS):
            message += "; `python -X dev` says where the call is made"  # the line of the warning is none of the user's
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    else:
        file, line = origin
        warnings.warn_explicit(f"{message}\nCall made at {file}:{line}", RuntimeWarning, file, line)
