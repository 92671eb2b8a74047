"""Handshake: the two ends of a new connection check that their roles and versions are compatible.

The connection itself has authenticated the peer: by a certificate, or by the kernel's credentials of a Unix socket.
Then::

    connecting end    Hello (role, versions, name, offer)  ──>
                      <──   Welcome, or Refused with a reason   accepting end

The role in `Hello` must be the certificate's. Incompatible versions are refused with an error that names both, and the
fix.
"""

from __future__ import annotations

import msgspec

from grainlike.errors import (
    AuthenticationError,
    BlockEndedError,
    GrainlikeError,
    HeadLostError,
    ProtocolError,
    SessionError,
    VersionMismatchError,
)
from grainlike.wire._base import Message
from grainlike.wire._connection import Hello, Refused, Welcome

__all__ = ["PROTOCOL", "AcceptingHandshake", "ConnectingHandshake", "Software", "check_software"]

PROTOCOL = 3
"""Version of this protocol; a peer announces the range that it speaks."""

_NAME_LIMIT = 255
"""The most characters in a name that a peer chooses for itself."""

_KINDS: dict[str, type[GrainlikeError]] = {
    kind.__name__: kind
    for kind in (
        AuthenticationError,
        VersionMismatchError,
        ProtocolError,
        HeadLostError,
        SessionError,
        BlockEndedError,
    )
}


class Software(msgspec.Struct, frozen=True):
    """Versions that must agree: Python's minor, and each serializer's major and minor."""

    python: str
    serializers: dict[str, str]

    def unlike(self, other: Software) -> tuple[str, str, str] | None:
        """Return the first name whose versions differ, with the version here and in `other`; None if all agree."""
        pairs = [("Python", self.python, other.python)]
        pairs += [(name, version, other.serializers.get(name, "none")) for name, version in self.serializers.items()]
        return next((pair for pair in pairs if _minor(pair[1]) != _minor(pair[2])), None)


def _check_protocol(hello: Hello) -> None:
    """Raise `VersionMismatchError`, naming both versions and the fix, if a peer speaks another protocol."""
    if not hello.protocol_low <= PROTOCOL <= hello.protocol_high:
        raise VersionMismatchError(
            f"the head speaks protocol {PROTOCOL}, {hello.role} {hello.name!r} speaks {hello.protocol_low} to "
            f"{hello.protocol_high}; install the same grainlike on both"
        )


def check_software(own: Software, hello: Hello) -> None:
    """Raise `VersionMismatchError`, naming both versions and the fix, if a peer cannot load what a head with `own`
    pickles.
    """
    unlike = own.unlike(Software(hello.python, hello.serializers))
    if unlike is not None:
        name, here, there = unlike
        raise VersionMismatchError(
            f"the head has {name} {here}, {hello.role} {hello.name!r} has {there}; functions pickled by one cannot "
            f"be trusted to load in the other: use the same {name} on both"
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _check_names(hello: Hello) -> None:
    """Raise `ProtocolError` for names that must not get into a log, a terminal or an environment variable."""
    optional = [word for word in (hello.process, hello.session, hello.block, hello.host) if word]
    words = [hello.name, hello.incarnation, hello.python, *optional, *hello.serializers, *hello.serializers.values()]
    for word in words:
        if not (word.isprintable() and 0 < len(word) <= _NAME_LIMIT):
            raise ProtocolError(f"{word[:_NAME_LIMIT]!r} is no name: use 1 to {_NAME_LIMIT} printable characters")


class ConnectingHandshake:
    """The connecting end. Send `hello` first; `receive` takes what comes, until `welcome` is set.

    Raises the listener's refusal as its type, and `ProtocolError` for an unexpected message.
    """

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.welcome: Welcome | None = None

    def receive(self, message: Message) -> None:
        """Handle the listener's message."""
        match message:
            case Refused(kind=kind, reason=reason):
                raise _KINDS.get(kind, ProtocolError)(reason)
            case Welcome() if self.welcome is None:
                self.welcome = message
            case _:
                raise ProtocolError(f"{type(message).__name__} was not expected in a handshake")


class AcceptingHandshake:
    """The accepting end, for peers that connect in one of `roles`.

    `proved` is the peer's role by its certificate; None if the connection admits only processes of our own user, which
    may take any role.
    """

    def __init__(self, software: Software, roles: frozenset[str], proved: str | None = None) -> None:
        self._software = software
        self._roles = roles
        self._proved = proved

    def receive(self, message: Message) -> Hello:
        """Check and return the connecting end's `Hello`, to be answered by a `Welcome`.

        Raises `AuthenticationError`, `VersionMismatchError` or `ProtocolError`; `refusal` turns them into the answer.
        """
        if not isinstance(message, Hello):
            raise ProtocolError(f"{type(message).__name__} was not expected in a handshake")
        if self._proved is not None and message.role != self._proved:
            raise AuthenticationError(
                f"the peer connects as {message.role!r}, and its certificate says {self._proved!r}; "
                f"use {self._proved}.json for that role only"
            )
        if message.role not in self._roles:
            raise AuthenticationError(f"no peer may connect as {message.role!r} here")
        _check_names(message)
        _check_protocol(message)
        if not message.only_asks:  # queries and their answers are plain data
            check_software(self._software, message)
        return message

    @staticmethod
    def refusal(error: GrainlikeError) -> Refused:
        """Return the message that tells a refused peer the reason."""
        return Refused(type(error).__name__, str(error))
