"""Snapshot of a durable head at one moment: its log need not reach back to the beginning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pkgutil import iter_modules

import anyio
import msgspec
from anyio.abc import TaskGroup

from grainlike._version import __version__
from grainlike.errors import JournalError
from grainlike.head import HeadState, LogFollower
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._records import HeadBegan
from grainlike.head.server import ClientRegistry, software
from grainlike.journal import draw_image, read_image
from grainlike.net import ClosedLink, Link

__all__ = ["began_here", "check_version", "classes_of_books", "draw_head", "read_head", "read_title"]

_ROOMS = ("grainlike.resources", "grainlike.wire", "grainlike.scheduler", "grainlike.scheduler.planning")
"""Packages whose classes are plain data."""

_MODULES = (
    "grainlike.head._connection",
    "grainlike.head._functions",
    "grainlike.head._nested",
    "grainlike.head._peers",
    "grainlike.head.durable._records",
    "grainlike.head.server._client",
    "grainlike.head.server._sessions",
    "grainlike.jobs._job",
    "grainlike.jobs._totals",
    "grainlike.net._resumable_session",
)


class _Title(msgspec.Struct, frozen=True, array_like=True):
    """Header of a snapshot: `now` is its moment on the scheduler's clock."""

    now: float
    began: HeadBegan


_decoder = msgspec.msgpack.Decoder(_Title)


@cache
def classes_of_books() -> dict[str, type]:
    """Return all classes that may be in a snapshot, by name."""
    modules = [f"{room}.{module.name}" for room in _ROOMS for module in iter_modules(import_module(room).__path__)]
    modules += _MODULES
    found: dict[str, type] = {}
    for name in modules:
        if not name.endswith("__main__"):
            for thing in vars(import_module(name)).values():
                if isinstance(thing, type) and thing.__module__ == name:
                    found[f"{name}.{thing.__qualname__}"] = thing
    return found


@cache
def _fingerprint() -> str:
    """Differs between two releases in which the same object is not made of the same fields."""
    told = blake2b(digest_size=16)
    for name, cls in sorted(classes_of_books().items()):
        slots = [getattr(base, "__slots__", ()) for base in cls.__mro__]
        told.update(repr((name, slots, getattr(cls, "__annotations__", {}))).encode())
    return told.hexdigest()


def began_here(seed: int, now: float = 0.0) -> HeadBegan:
    """Return the first record of a head of this release, which begins at `now`."""
    return HeadBegan(now, seed, __version__, _fingerprint(), software())


def check_version(began: HeadBegan) -> None:
    """Raise `JournalError` unless this release behaves as the one that wrote a journal, and loads its pickles."""
    if (began.version, began.books) != (__version__, _fingerprint()):
        raise JournalError(
            f"this journal is of grainlike {began.version}, which may decide otherwise than {__version__}, or keep its "
            "books in another way: let that release end its work, or begin a new journal"
        )
    unlike = software().unlike(began.software)
    if unlike is not None:
        name, here, there = unlike
        raise JournalError(
            f"the functions in this journal were pickled with {name} {there}, and cannot be trusted to load in {here}: "
            "go on with the former, or begin a new journal"
        )


def draw_head(head: DurableHead, clients: ClientRegistry, began: HeadBegan, now: float) -> Iterator[bytes]:
    """The image of a head with its clients. It must not be in the middle of anything."""
    title = _Title(now, began)
    yield msgspec.msgpack.encode(title)
    state = [vars(head.state), clients.here, clients.sessions]

    def made(thing: object) -> tuple[str, Sequence[object]] | None:
        match thing:
            case DurableHead():
                return "head", ()
            case HeadState():
                return "books", ()
            case Link():
                return "link", (thing.peer, thing.host)
            case (
                anyio.Event() | LogFollower()
            ):  # who reads a log asks the next head for it; this one has nobody to tell
                return "event", ()
            case memoryview():
                return "bytes", (bytes(thing),)
            case TaskGroup() | anyio.CancelScope():
                return "nobody", ()
        return None

    yield from draw_image(state, classes_of_books(), made)


def read_title(chunk: bytes) -> tuple[HeadBegan, float]:
    """Decode a snapshot's header: the head's first record, and the moment. Raises `JournalError` if this release
    cannot read it.
    """
    try:
        title = _decoder.decode(chunk)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(f"no image of a head: {error}") from None
    check_version(title.began)
    return title.began, title.now


def read_head(chunks: Iterable[bytes], head: DurableHead, clients: ClientRegistry) -> None:
    """Restore a head from its snapshot; `chunks` is everything after the header."""

    given: dict[str, Callable[..., object]] = {
        "head": lambda: head,
        "books": lambda: head.state,
        "link": ClosedLink,
        "event": anyio.Event,
        "bytes": bytes,
        "nobody": lambda: None,
    }
    held, here, sessions = read_image(chunks, classes_of_books(), given)
    if held.keys() != vars(head.state).keys():
        raise JournalError("a damaged image of a head")
    vars(head.state).update(held)
    clients.here, clients.sessions = here, sessions
    for connection in clients.here.values():
        connection.listening = {}  # it asks anew
    # The clock of this process may have begun anew with its machine.
    now = time.monotonic()
    for member in [*head.peers.values(), *clients.here.values()]:
        member.heard = now
    for peer in head.peers.values():
        for observer in head.observers:
            observer.joined(peer)
    head.wake()
