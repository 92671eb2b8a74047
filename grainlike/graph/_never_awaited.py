"""Warnings of calls that were never awaited, as Python gives them of coroutines."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from functools import partial
from types import FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING

from grainlike._tracebacks import is_ours

if TYPE_CHECKING:
    from grainlike.graph._node import Node

__all__ = ["excuse", "note_origin", "origins", "remember_origins", "warn_of"]

_LOOPS = ("asyncio.", "anyio.", "trio.", "uvloop.", "selectors", "threading")
"""Modules of event loops: there, as in ours, calls are let go of whose variables end with a program's coroutine."""

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
    while frame.f_back is not None and is_ours(frame):
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
    if origin is not None:
        file, line = origin
        warnings.warn_explicit(f"{message}\nCall made at {file}:{line}", RuntimeWarning, file, line)
        return
    dropper = sys._getframe(1).f_back
    if dropper is None or not _is_no_users(dropper):
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return
    # The line that drops it is none of the user's: that of the function is.
    message += "; `python -X dev` says where the call is made"
    function = _python_function(node.function.callable)
    if function is None:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return
    code, known = function.__code__, function.__globals__.setdefault("__warningregistry__", {})
    words = f"{message}, this is its function"
    warnings.warn_explicit(words, RuntimeWarning, code.co_filename, code.co_firstlineno, registry=known)


def _python_function(called: object) -> FunctionType | None:
    """Return the Python function that a call of this object makes; None for others, as those in C."""
    while type(called) in (partial, MethodType):
        called = called.func if type(called) is partial else called.__func__  # type: ignore[attr-defined]
    return called if type(called) is FunctionType else None


def _is_no_users(frame: FrameType) -> bool:
    return is_ours(frame) or str(frame.f_globals.get("__name__", "")).startswith(_LOOPS)
