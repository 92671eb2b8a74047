"""Exceptions of jobs: they come back as their own type with their remote traceback, or as `RemoteError`.

The bytes of an exception are a pickled tuple `(parcel, noted)`. A parcel is `(stream, members, causes, type name,
message, traceback)`. `stream` is the exception's own bytes, or None if the exception does not survive them. `members`
are the parcels of a group's members, so that one bad member does not cost the others their types. `causes` are the
parcels of the exception's causes, the nearest first. The rest is text, which always arrives.
"""

import io
import pickle
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from grainlike.errors import RemoteError, SerializationError
from grainlike.payload._explain import describe_error
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._plain_reader import PlainReader
from grainlike.payload._rebuild import Parts, parts_of, rebuild
from grainlike.payload._values import dump_value, load_value, rude_exceptions

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

_DEEPEST_GROUP = 50
"""Groups in one another that travel with their members: packing and unpacking recurse."""

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
    with suppress(*rude_exceptions()):  # a class that raises at every look
        from grainlike._last_words import note_last_words  # few programs fail, and daemons load no module for them

        note_last_words(error)
    try:
        return Payload(pickle.dumps((_Packing(error).pack(error), _is_noted(error)), 5))
    except rude_exceptions() as problem:  # the class raises whatever is asked of it
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
    from grainlike._error_texts import shortened  # as above

    return shortened(_texts(data)[2], most)


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
        known: dict[int, Exception] = {}
        try:
            return _noted(_unpack(parcel, known), note, noted=noted)
        except rude_exceptions():  # the class can be rebuilt, but takes no cause or note
            return _noted(_stand_in(parcel, known), note, noted=noted)
    except rude_exceptions() as problem:
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
    with suppress(*rude_exceptions()):  # a class that raises at every look
        for _ in range(_DEEPEST + 1):  # an exception may be among its own causes
            cause = error.__cause__
            if cause is None or isinstance(cause, RemoteTraceback):
                return cause
            error = cause
    return None


class _Packing:
    """Makes the parcels of an exception and of those that belong to it, each once: they may share causes and members.

    Cycles are cut as in a traceback: what is being packed is no cause of those in it, and among them has no causes.
    """

    def __init__(self, error: BaseException) -> None:
        from grainlike._error_texts import ErrorTexts  # most jobs end without an error

        self._texts = ErrorTexts(error, rude_exceptions())
        self._parcels: dict[int, Parcel] = {}
        self._parts: dict[int, tuple[bytes | None, list[Parcel] | None]] = {}
        self._current: set[int] = set()
        self._kept: list[BaseException] = []
        """Exceptions whose ids are known, for a class may make others each time that it is asked."""

    def pack(self, error: BaseException, depth: int = 0) -> Parcel:
        """Return the parcel of an exception, which stands in `depth` groups."""
        known = self._parcels.get(id(error))
        if known is not None:
            return known
        self._kept.append(error)
        if id(error) in self._current:
            return self._parcel(error, [], depth)
        self._current.add(id(error))
        known = self._parcels[id(error)] = self._parcel(error, self._causes(error, depth), depth)
        self._current.remove(id(error))
        return known

    def _parcel(self, error: BaseException, causes: list[Parcel], depth: int, *, chain: bool = True) -> Parcel:
        stream, members = self._parts_of(error, depth)
        message, text = self._texts.message(error), self._texts.traceback(error, chain=chain)
        return stream, members, causes, _type_name(error), message, text

    def _causes(self, error: BaseException, depth: int) -> list[Parcel]:
        parcels: list[Parcel] = []
        found: list[int] = []
        with suppress(*rude_exceptions()):  # a class that raises at every look
            while len(found) < _DEEPEST:
                cause = error.__cause__
                if cause is None or isinstance(cause, RemoteTraceback) or id(cause) in self._current:
                    break
                self._kept.append(cause)
                self._current.add(id(cause))
                found.append(id(cause))
                parcels.append(self._parcel(cause, [], depth, chain=False))
                error = cause
        self._current.difference_update(found)
        return parcels

    def _parts_of(self, error: BaseException, depth: int) -> tuple[bytes | None, list[Parcel] | None]:
        """Return the exception's own bytes and its members."""
        known = self._parts.get(id(error))
        if known is None:
            known = self._parts[id(error)] = self._parts_made(error, depth)
        return known

    def _parts_made(self, error: BaseException, depth: int) -> tuple[bytes | None, list[Parcel] | None]:
        if not isinstance(error, ExceptionGroup):
            return _stream(error, None), None
        if depth >= _DEEPEST_GROUP:
            return None, None
        members = error.exceptions
        return _stream(error, members), [self.pack(member, depth + 1) for member in members]


def _unpack(parcel: Parcel, known: dict[int, Exception]) -> Exception:
    """Return the exception of a parcel, causes and all; `known` are those of parcels that were unpacked before."""
    if id(parcel) not in known:
        stream, members, causes, *_, text = parcel
        error = _opened(stream, _members(members, known))
        known[id(parcel)] = _stand_in(parcel, known) if error is None else _caused(error, causes, text, known)
    return known[id(parcel)]


def _members(parcels: list[Any] | None, known: dict[int, Exception]) -> list[Exception] | None:
    return None if parcels is None else [_member(parcel, known) for parcel in parcels]


def _member(parcel: Parcel, known: dict[int, Exception]) -> Exception:
    try:
        return _unpack(parcel, known)
    except rude_exceptions():  # the class takes no cause
        known[id(parcel)] = error = _stand_in(parcel, known)
        return error


def _stand_in(parcel: Parcel, known: dict[int, Exception]) -> Exception:
    causes, *_, text = parcel[2:]
    return _caused(_told_of(parcel), causes, text, known)


def _told_of(parcel: Parcel) -> RemoteError:
    *_, type_name, message, text = parcel
    return RemoteError(type_name, message, text)


def _caused(error: Exception, causes: list[Parcel], text: str, known: dict[int, Exception]) -> Exception:
    """Return `error` with its causes; the traceback is the cause of the last one."""
    below: Exception = RemoteTraceback(text)
    for parcel in reversed(causes):
        below = _cause(parcel, below, known)
    error.__cause__ = below
    return error


def _cause(parcel: Parcel, below: Exception, known: dict[int, Exception]) -> Exception:
    error = _opened(parcel[0], _members(parcel[1], known))
    if error is not None:
        with suppress(*rude_exceptions()):  # the class takes no cause
            error.__cause__ = below
            return error
    error = _told_of(parcel)
    error.__cause__ = below
    return error


def _stream(error: BaseException, members: Sequence[Exception] | None) -> bytes | None:
    """Return the exception's own bytes, if it can be rebuilt from them with its type."""
    for parts in parts_of(error):
        try:
            stream = pickle.dumps(dump_value(parts).inside(), 5)
        except rude_exceptions():
            continue
        if type(_opened(stream, members)) is type(error):
            return stream
    return None


def _opened(stream: bytes | None, members: Sequence[Exception] | None) -> Exception | None:
    if stream is None:
        return None
    try:
        parts: Parts = load_value(pickle.loads(stream))  # noqa: S301 -- the only room that unpickles
        error = rebuild(parts, members)
    except rude_exceptions():
        return None
    return error if isinstance(error, Exception) else None


def _type_name(error: BaseException) -> str:
    cls = type(error)
    known = cls.__module__ in ("builtins", "__main__")
    return cls.__qualname__ if known else f"{cls.__module__}.{cls.__qualname__}"
