"""Exceptions of jobs: back as their own type, told where they come from; or as `RemoteError`."""

import pickle
import traceback
from types import TracebackType

from ..errors import RemoteError
from ._payload import Payload
from ._values import HOSTILE, dump_value, load_value

__all__ = ["RemoteTraceback", "dump_error", "load_error"]

_LONGEST = 64 * 1024


class RemoteTraceback(Exception):  # noqa: N818 -- it is the cause of an error, not one itself; the field's name for it
    """The cause of an exception that a job raised elsewhere: the traceback as it stood there, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.noted = False

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def dump_error(error: BaseException) -> Payload:
    """The bytes of an exception with its traceback. Never raises.

    Exceptions that no handler of ordinary errors should let through (SystemExit, KeyboardInterrupt, an event loop's
    cancellation) and those that do not survive the way there and back travel as `RemoteError`.
    """
    noted = isinstance(error.__cause__, RemoteTraceback) and error.__cause__.noted
    envelope = (_stream(error), _type_name(error), _message(error), _traceback(error), noted)
    return Payload(pickle.dumps(envelope, 5))


def load_error(payload: Payload, note: str | None = None) -> Exception:
    """The exception of `dump_error`'s bytes, to be raised. Never raises itself.

    Its cause is a `RemoteTraceback`. `note` is added once: one that came through several jobs keeps the first's note,
    since that is where it failed.
    """
    stream, type_name, message, text, noted = pickle.loads(payload.data)
    error = _own(stream)
    if error is None:
        error = RemoteError(type_name, message, text)
    cause = RemoteTraceback(text)
    cause.noted = noted or note is not None
    error.__cause__ = cause
    if note is not None and not noted:
        error.add_note(note)
    return error


def _stream(error: BaseException) -> bytes | None:
    """The exception's own bytes, if they give it back."""
    if not isinstance(error, Exception):
        return None
    try:
        from ._rebuild import portable

        payload = dump_value(portable(error)).detached()
        stream = pickle.dumps(payload, 5)
        again = _own(stream)
        return stream if type(again) is type(error) else None
    except HOSTILE:
        return None


def _own(stream: bytes | None) -> Exception | None:
    if stream is None:
        return None
    try:
        error = load_value(pickle.loads(stream))()
    except HOSTILE:
        return None
    return error if isinstance(error, Exception) else None


def _type_name(error: BaseException) -> str:
    cls = type(error)
    return (
        cls.__qualname__
        if cls.__module__ in ("builtins", "__main__")
        else f"{cls.__module__}.{cls.__qualname__}"
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except HOSTILE:
        return "<its text cannot be made>"


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(type(error), error, _users_part(error.__traceback__)))
    except HOSTILE as problem:
        return f"<the traceback cannot be made: {type(problem).__name__}>\n"
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}\n[... {len(text) - _LONGEST} characters left out ...]\n{text[-_LONGEST // 2 :]}"


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of ours that called the user's code."""
    part = trace
    while part is not None and part.tb_frame.f_globals.get("__name__", "").startswith(
        ("grainlike.", "grainlike_worker")
    ):
        part = part.tb_next
    return part or trace
