"""Tracebacks of calls without the frames of what carried them: users look for their own lines."""

from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

__all__ = ["fold", "folded_below", "is_ours", "traceback_of", "users_part"]

E = TypeVar("E", bound=BaseException)

_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
"""An exception's own slot: the attribute of that name may be a property of the user's class, and raise."""


def is_ours(frame: FrameType) -> bool:
    """Return True if code of grainlike, or of its worker, runs in the frame."""
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.startswith(("grainlike.", "grainlike_worker."))


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception, whatever its class makes of that attribute."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    return trace


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from its first frame on that is not grainlike's; None if all are."""
    while trace is not None and is_ours(trace.tb_frame):
        trace = trace.tb_next
    return trace


def fold(error: E) -> E:
    """Return an exception, whose traceback has the frames of grainlike no more."""
    BaseException.with_traceback(error, _folded(traceback_of(error)))  # its class may have a method of that name
    return error


def folded_below(trace: TracebackType | None, code: CodeType) -> TracebackType | None:
    """Return, folded, the part of a traceback that the function of this code called; all of it, where that is not the
    user's.
    """
    part = trace
    while part is not None and part.tb_frame.f_code is not code:
        part = part.tb_next
    if part is None or part.tb_next is None or is_ours(part.tb_next.tb_frame):
        return trace
    return _folded(part.tb_next)


def _folded(trace: TracebackType | None) -> TracebackType | None:
    """Return a copy of a traceback that leaves out the frames of grainlike."""
    kept: list[TracebackType] = []
    while trace := users_part(trace):
        kept.append(trace)
        trace = trace.tb_next
    copy = None
    for one in reversed(kept):
        copy = TracebackType(copy, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return copy
