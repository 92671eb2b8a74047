"""Exceptions of jobs: they come back as their own type with their remote traceback, or as `RemoteError`.

The bytes of an exception are a pickled tuple `(parcel, noted)`. A parcel is `(stream, members, causes, type name,
message, traceback)`. `stream` is the exception's own bytes, or None if the exception does not survive them. `members`
are the parcels of a group's members, so that one bad member does not cost the others their types. `causes` are the
parcels of the exception's causes, the nearest first. The rest is text, which always arrives.
"""

import io
import pickle
import traceback
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from grainlike.errors import GrainlikeError, RemoteError, SerializationError
from grainlike.payload._explain import describe_error
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._plain_reader import PlainReader
from grainlike.payload._rebuild import Parts, parts_of, rebuild
from grainlike.payload._values import HOSTILE, dump_value, load_value

__all__ = [
    "RemoteTraceback",
    "dump_error",
    "load_error",
    "message_of_error",
    "noted_error",
    "told_of_error",
    "traceback_of_error",
]

Parcel = tuple[bytes | None, list[Any] | None, list[Any], str, str, str]

_HEADING = "Traceback (most recent call last):\n"
_BEGINS = "(most recent call last)"
"""Beginning of a remote traceback as text; Python prints the words before it itself."""

_OURS = "grainlike.errors."

_LONGEST = 64 * 1024
_DEEPEST = 16
"""Most causes that travel: `raise X from Y` gives X a cause, and Y may have another."""


class RemoteTraceback(Exception):  # noqa: N818 -- not an error itself but the cause of one
    """Cause of an exception that a job raised elsewhere; `text` is the traceback there."""

    __module__ = "grainlike.payload"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.noted = False

    def __str__(self) -> str:
        return f"{_BEGINS}\n{self.text.removeprefix(_HEADING).rstrip()}"


def dump_error(error: BaseException) -> Payload:
    """Return the bytes of an exception with its traceback. Never raises.

    An exception travels as `RemoteError` if handlers of ordinary errors must not catch it (SystemExit,
    KeyboardInterrupt, an event loop's cancellation, or a group with one of them), or if it does not survive the way
    there and back. Exceptions of `subprocess` get notes of what the program wrote last.
    """
    with suppress(*HOSTILE):  # a class that raises at every look
        from grainlike._last_words import note_last_words  # few programs fail, and daemons load no module for them

        note_last_words(error)
    try:
        return Payload(pickle.dumps((_pack(error), _is_noted(error)), 5))
    except HOSTILE as problem:  # the class raises whatever is asked of it
        parcel: Parcel = (
            None,
            None,
            [],
            type.__getattribute__(type(error), "__name__"),
            "",
            describe_error(problem),
        )
        return Payload(pickle.dumps((parcel, False), 5))


_OF_PROGRAMS = ("CalledProcessError", "TimeoutExpired")

_LONGEST_PROGRAM = 100
"""Most characters of a message with a program's command where its last words follow: one line is to have both."""

_LONGEST_TOLD = 1 << 20
"""Most bytes of an exception in which its text is looked for, because the asking process has other work."""


def told_of_error(data: Buffer) -> str:
    """Return type and message of an exception from the bytes of `dump_error`; an empty text if the bytes have none.
    Nothing is rebuilt, and no code of the user runs. With an exception of `subprocess` goes the last line that the
    program wrote: the exit status alone does not say why it failed.
    """
    type_name, message, text = _texts(data)
    type_name = type_name.removeprefix(_OURS)  # as those that the head itself raises are told
    told = f"{type_name}: {message}" if message else type_name
    if type_name.rpartition(".")[2] not in _OF_PROGRAMS:
        return told
    from grainlike._last_words import last_line_in  # few programs fail, as above

    last = last_line_in(text)
    return f"{_without_middle(' '.join(told.split()))} It wrote last: {last}" if last else told


def _without_middle(text: str) -> str:
    """Return a line whose end says how a program ended, without most of a long command."""
    half = _LONGEST_PROGRAM // 2
    return text if len(text) <= _LONGEST_PROGRAM else f"{text[: half - 3]}...{text[-half:]}"


def message_of_error(data: Buffer) -> str:
    """Return the message of an exception from `dump_error`'s bytes, as `told_of_error` does."""
    return _texts(data)[1]


def noted_error(data: Buffer, note: str) -> bytes:
    """Return the bytes of `dump_error` with a note for the exception, unless they have one; nothing is rebuilt."""
    try:
        parcel, noted = PlainReader(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 - they may be of any library
        return bytes(data)
    return bytes(data) if noted else pickle.dumps((parcel, note), 5)


def traceback_of_error(data: Buffer, most: int) -> str:
    """Return the traceback of an exception from the bytes of `dump_error`, like `told_of_error`; only its beginning and
    end if it has more than `most` characters.
    """
    return _shortened(_texts(data)[2], most)


def _texts(data: Buffer) -> tuple[str, str, str]:
    """Return type, message and traceback; empty texts if the bytes have none."""
    if len(data) > _LONGEST_TOLD:
        return "", "", ""
    try:
        (*_, type_name, message, text), _ = PlainReader(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 - they may be of any library
        return "", "", ""
    return str(type_name), str(message), str(text)


def load_error(payload: Payload, note: str | None = None) -> Exception:
    """Return the exception of the bytes of `dump_error`, to be raised. Never raises itself.

    Its cause is a `RemoteTraceback`. If it was raised from another exception, its cause is that one, and the traceback
    is the cause of the last. `note` is added once: an exception that comes through several jobs keeps the note of the
    first, in which it happened.
    """
    try:
        parcel, noted = pickle.loads(payload.data)  # noqa: S301 -- the only room that unpickles
        if isinstance(noted, str):
            note, noted = noted, False
        try:
            return _noted(_unpack(parcel), note, noted=noted)
        except HOSTILE:  # the class can be rebuilt, but takes no cause or note
            return _noted(_stand_in(parcel), note, noted=noted)
    except HOSTILE as problem:
        return SerializationError(f"the job's exception cannot be rebuilt here: {describe_error(problem)}")


def _noted(error: Exception, note: str | None, *, noted: bool) -> Exception:
    trace = _remote_traceback(error)
    if trace is not None:
        trace.noted = noted or note is not None
    if note is not None and not noted:
        error.add_note(note)
    return error


def _is_noted(error: BaseException) -> bool:
    trace = _remote_traceback(error)
    return trace is not None and trace.noted


def _remote_traceback(error: BaseException) -> RemoteTraceback | None:
    with suppress(*HOSTILE):  # a class that raises at every look
        for _ in range(_DEEPEST + 1):  # an exception may be among its own causes
            cause = error.__cause__
            if cause is None or isinstance(cause, RemoteTraceback):
                return cause
            error = cause
    return None


def _pack(error: BaseException) -> Parcel:
    return _pack_alone(error, list(_packed_causes(error)), _traceback(error))


def _pack_alone(error: BaseException, causes: list[Parcel], text: str) -> Parcel:
    members = [_pack(member) for member in error.exceptions] if isinstance(error, ExceptionGroup) else None
    return _stream(error, members), members, causes, _type_name(error), _message(error), text


def _packed_causes(error: BaseException) -> Iterator[Parcel]:
    seen = {id(error)}
    with suppress(*HOSTILE):  # a class that raises at every look
        while len(seen) <= _DEEPEST:
            cause = error.__cause__
            if cause is None or isinstance(cause, RemoteTraceback) or id(cause) in seen:
                return
            seen.add(id(cause))
            yield _pack_alone(cause, [], _traceback(cause, chain=False))
            error = cause


def _unpack(parcel: Parcel) -> Exception:
    stream, members, causes, *_, text = parcel
    error = _opened(stream, members)
    return _stand_in(parcel) if error is None else _caused(error, causes, text)


def _stand_in(parcel: Parcel) -> Exception:
    causes, *_, text = parcel[2:]
    return _caused(_told_of(parcel), causes, text)


def _told_of(parcel: Parcel) -> RemoteError:
    *_, type_name, message, text = parcel
    return RemoteError(type_name, message, text)


def _caused(error: Exception, causes: list[Parcel], text: str) -> Exception:
    """Return `error` with its causes; the traceback is the cause of the last one."""
    below: Exception = RemoteTraceback(text)
    for parcel in reversed(causes):
        below = _cause(parcel, below)
    error.__cause__ = below
    return error


def _cause(parcel: Parcel, below: Exception) -> Exception:
    error = _opened(*parcel[:2])
    if error is not None:
        with suppress(*HOSTILE):  # the class takes no cause
            error.__cause__ = below
            return error
    error = _told_of(parcel)
    error.__cause__ = below
    return error


def _stream(error: BaseException, members: list[Parcel] | None) -> bytes | None:
    """Return the exception's own bytes, if it can be rebuilt from them with its type."""
    for parts in parts_of(error):
        try:
            stream = pickle.dumps(dump_value(parts).inside(), 5)
        except HOSTILE:
            continue
        if type(_opened(stream, members)) is type(error):
            return stream
    return None


def _opened(stream: bytes | None, members: list[Parcel] | None) -> Exception | None:
    if stream is None:
        return None
    try:
        parts: Parts = load_value(pickle.loads(stream))  # noqa: S301 -- the only room that unpickles
        error = rebuild(parts, None if members is None else [_unpack(member) for member in members])
    except HOSTILE:
        return None
    return error if isinstance(error, Exception) else None


def _type_name(error: BaseException) -> str:
    cls = type(error)
    known = cls.__module__ in ("builtins", "__main__")
    return cls.__qualname__ if known else f"{cls.__module__}.{cls.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str.__str__(str(error))  # an exact string, because a user's subclass would not travel as text
    except HOSTILE:
        return "<its text cannot be made>"


def _traceback(error: BaseException, *, chain: bool = True) -> str:
    try:
        lines = traceback.format_exception(type(error), error, _shown_part(error), chain=chain)
        text = "".join(lines)
    except HOSTILE as problem:
        return f"<the traceback cannot be made: {type(problem).__name__}>\n"
    return _shortened(text, _LONGEST)


def _shortened(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n[... left out ...]\n{text[-half:]}"


def _shown_part(error: BaseException) -> TracebackType | None:
    """Return the traceback without the frames of grainlike that called the user's code. An error that grainlike raises
    on purpose, beside the user's code, has none: its words say it all.
    """
    from grainlike._tracebacks import users_part  # most jobs end without an error

    part = users_part(error.__traceback__)
    return part if part or isinstance(error, GrainlikeError) else error.__traceback__
