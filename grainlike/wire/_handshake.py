"""How two ends of a new connection find out whether they go together, once each knows who the other is.

Who it is, the connection itself has shown: a certificate, or the kernel's word for the user at a Unix socket. Then::

    dialer    Hello (role, versions, name, offer)     ──>
              <──   Welcome, or Refused with a reason     listener

The introduction's role must be the certificate's. Versions that do not go together are refused, naming both sides and
the fix.
"""

from __future__ import annotations

import msgspec

from grainlike.errors import (
    AuthenticationError,
    GrainlikeError,
    HeadLostError,
    ProtocolError,
    SessionError,
    VersionMismatchError,
)
from grainlike.wire._connection import Hello, Refused, Welcome
from grainlike.wire._messages import Message

__all__ = ["PROTOCOL", "AcceptingHandshake", "ConnectingHandshake", "Software"]

PROTOCOL = 2
"""The version of this protocol; a peer announces the range that it speaks."""

_NAME_LIMIT = 255
"""The most characters in a name that a peer gives itself."""

_KINDS: dict[str, type[GrainlikeError]] = {
    kind.__name__: kind
    for kind in (AuthenticationError, VersionMismatchError, ProtocolError, HeadLostError, SessionError)
}


class Software(msgspec.Struct, frozen=True):
    """The versions that must go together: Python's minor, and each serializer's major and minor."""

    python: str
    serializers: dict[str, str]

    def unlike(self, other: Software) -> tuple[str, str, str] | None:
        """What does not go together, with its version here and in `other`; None if all does."""
        pairs = [("Python", self.python, other.python)]
        pairs += [(name, version, other.serializers.get(name, "none")) for name, version in self.serializers.items()]
        return next((pair for pair in pairs if _minor(pair[1]) != _minor(pair[2])), None)


def _check_versions(own: Software, hello: Hello) -> None:
    """Raise `VersionMismatchError`, naming both versions and the fix, if `hello` cannot work with `own`."""
    if not hello.protocol_low <= PROTOCOL <= hello.protocol_high:
        raise VersionMismatchError(
            f"the head speaks protocol {PROTOCOL}, {hello.role} {hello.name!r} speaks {hello.protocol_low} to "
            f"{hello.protocol_high}; install the same grainlike on both"
        )
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
    """Raise `ProtocolError` for words that must not get into a log, a terminal or an environment variable."""
    optional = [word for word in (hello.process, hello.session) if word]
    words = [hello.name, hello.incarnation, hello.python, *optional, *hello.serializers, *hello.serializers.values()]
    for word in words:
        if not (word.isprintable() and 0 < len(word) <= _NAME_LIMIT):
            raise ProtocolError(f"{word[:_NAME_LIMIT]!r} is no name: it takes 1 to {_NAME_LIMIT} printable characters")


class ConnectingHandshake:
    """The end that dials. Send `hello` first; `receive` takes what comes, until `welcome` is set.

    Raises the listener's refusal as its type, and `ProtocolError` for a message out of turn.
    """

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.welcome: Welcome | None = None

    def receive(self, message: Message) -> None:
        """Take the listener's message."""
        match message:
            case Refused(kind=kind, reason=reason):
                raise _KINDS.get(kind, ProtocolError)(reason)
            case Welcome() if self.welcome is None:
                self.welcome = message
            case _:
                raise ProtocolError(f"{type(message).__name__} is out of turn in a handshake")


class AcceptingHandshake:
    """The end that listens, for those who come as one of `roles`.

    `proved` is the peer's role by its certificate; None where the connection itself lets in nobody but processes of
    our own user, which may be whatever they say.
    """

    def __init__(self, software: Software, roles: frozenset[str], proved: str | None = None) -> None:
        self._software = software
        self._roles = roles
        self._proved = proved

    def receive(self, message: Message) -> Hello:
        """Take the dialer's introduction and return it, to be answered by a `Welcome`.

        Raises `AuthenticationError`, `VersionMismatchError` or `ProtocolError`; `refusal` makes the answer of them.
        """
        if not isinstance(message, Hello):
            raise ProtocolError(f"{type(message).__name__} is out of turn in a handshake")
        if self._proved is not None and message.role != self._proved:
            raise AuthenticationError(
                f"it says that it is a {message.role!r}, and its certificate says {self._proved!r}; "
                f"use {self._proved}.json for that alone"
            )
        if message.role not in self._roles:
            raise AuthenticationError(f"nobody may dial in as {message.role!r} here")
        _check_names(message)
        _check_versions(self._software, message)
        return message

    @staticmethod
    def refusal(error: GrainlikeError) -> Refused:
        """The message that tells a refused peer why."""
        return Refused(type(error).__name__, str(error))
