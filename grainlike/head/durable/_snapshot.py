"""Snapshot of a durable head at one moment: its log need not reach back to the beginning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio
import msgspec
from anyio.abc import TaskGroup

from grainlike._version import __version__
from grainlike.errors import JournalError
from grainlike.head import HeadState, LogFollower
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._records import HeadBegan
from grainlike.head.durable._schema import METHODS, SCHEMA, check_schema, conversions_from, records
from grainlike.head.server import ClientRegistry
from grainlike.journal import draw_image, read_image
from grainlike.net import ClosedLink, Link, software

__all__ = ["began_here", "by_this_release", "check_version", "draw_head", "read_head", "read_title"]


class _Title(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=False):
    """Header of a snapshot: `now` is its moment on the scheduler's clock, which is `calendar` behind `time.time()`; 0
    if it was not said. `history` has the jobs that have ended, as `JobHistory` packs them.

    A last field with a default may be added without another schema.
    """

    now: float
    began: HeadBegan
    calendar: float = 0.0
    history: bytes = b""


_decoder = msgspec.msgpack.Decoder(_Title)


def began_here(seed: int, now: float = 0.0) -> HeadBegan:
    """Return the first record of a head of this release, which begins at `now`."""
    return HeadBegan(now, seed, __version__, SCHEMA, software())


def by_this_release(began: HeadBegan) -> HeadBegan:
    """Return the first record of a head as this release writes it from now on."""
    return msgspec.structs.replace(began, version=__version__, schema=SCHEMA)


def check_version(began: HeadBegan) -> None:
    """Raise `JournalError` unless this release reads the schema of a journal, and loads its pickles."""
    check_schema(began.schema, began.version)
    unlike = software().unlike(began.software)
    if unlike is not None:
        name, here, there = unlike
        raise JournalError(
            f"the functions in this journal were pickled with {name} {there}, and cannot be trusted to load in {here}: "
            "go on with the former, or begin a new journal"
        )


def draw_head(head: DurableHead, clients: ClientRegistry, began: HeadBegan, now: float) -> Iterator[bytes]:
    """Iterate over the pieces of the image of a head with its clients. It must not be in the middle of anything."""
    title = _Title(now, by_this_release(began), head.calendar, head.history.packed())
    yield msgspec.msgpack.encode(title)
    fields = records()["HeadState"]
    held = {name: getattr(head.state, of) for name, of in zip(fields.names, fields.attributes, strict=True)}
    state = [held, clients.here, clients.sessions]

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
            ):  # who reads a log asks the next head for it; this one has no reader to tell
                return "event", ()
            case memoryview():
                return "bytes", (bytes(thing),)
            case TaskGroup() | anyio.CancelScope():
                return "nobody", ()
        return None

    yield from draw_image(state, records(), made, METHODS)


def read_title(chunk: bytes) -> _Title:
    """Decode a snapshot's header. Raises `JournalError` if this release cannot read it."""
    try:
        title = _decoder.decode(chunk)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(f"no image of a head: {error}") from None
    check_version(title.began)
    return title


def read_head(chunks: Iterable[bytes], head: DurableHead, clients: ClientRegistry, schema: int | str = SCHEMA) -> None:
    """Restore a head from its snapshot of this schema; `chunks` is everything after the header.

    Raises:
        JournalError: the image is damaged, or has not the fields that its schema says.
    """

    given: dict[str, Callable[..., object]] = {
        "head": lambda: head,
        "books": lambda: head.state,
        "link": ClosedLink,
        "event": anyio.Event,
        "bytes": bytes,
        "nobody": lambda: None,
    }
    assert isinstance(schema, int), "a journal that was not checked"
    steps = [step.image for step in conversions_from(schema)]
    held, here, sessions = read_image(chunks, records(), given, METHODS, steps)
    for step in steps:
        step.fields.get("HeadState", _keep)(held)
    fields = records()["HeadState"]
    if held.keys() != set(fields.names):
        raise JournalError("a damaged image of a head")
    for name, attribute in zip(fields.names, fields.attributes, strict=True):
        setattr(head.state, attribute, held[name])
    head.values.restore()
    clients.here, clients.sessions = here, sessions
    for connection in clients.here.values():
        connection.listening = {}  # it asks again
    # The clock of this process may have started again with its machine.
    now = time.monotonic()
    for member in [*head.peers.values(), *clients.here.values()]:
        member.heard = now
    for peer in head.peers.values():
        for observer in head.observers:
            observer.joined(peer)
    head.wake()


def _keep(fields: dict[str, object]) -> None:
    """Change nothing."""
