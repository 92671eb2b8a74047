"""How two ends of a new connection come to trust each other, before either believes a byte of the other's.

Both know a secret that travels by access file, never by wire. Four messages::

    dialer    Hello(nonce d, versions, who I am)          ──>
              <──   Challenge(nonce l, HMAC(secret, "listener" | d | l | Hello))    listener
    dialer    Proof(HMAC(secret, "dialer" | d | l | Hello))                         ──>
              <──   Welcome, or Refused with a reason     listener

Each side proves itself over both nonces and the whole introduction, so nothing can be replayed, reflected or altered.
A version that does not go together is refused before any proof, naming both sides and the fix.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum, auto

import msgspec

from grainlike.errors import AuthenticationError, GrainlikeError, ProtocolError, VersionMismatchError
from grainlike.wire._messages import Challenge, Hello, Message, Proof, Refused, Welcome

__all__ = ["PROTOCOL", "Dialer", "Listener", "Software"]

PROTOCOL = 1
"""The version of this protocol; a peer announces the range that it speaks."""

_KINDS: dict[str, type[GrainlikeError]] = {
    kind.__name__: kind for kind in (AuthenticationError, VersionMismatchError, ProtocolError)
}


class Software(msgspec.Struct, frozen=True):
    """The versions that must go together: Python's minor, and each serializer's major and minor."""

    python: str
    serializers: dict[str, str]


def _check_versions(own: Software, hello: Hello) -> None:
    """Raise `VersionMismatchError`, naming both versions and the fix, if `hello` cannot work with `own`."""
    if not hello.protocol_low <= PROTOCOL <= hello.protocol_high:
        raise VersionMismatchError(
            f"the head speaks protocol {PROTOCOL}, {hello.role} {hello.name!r} speaks {hello.protocol_low} to "
            f"{hello.protocol_high}; install the same grainlike on both"
        )
    pairs = [("Python", own.python, hello.python)]
    pairs += [(name, version, hello.serializers.get(name, "none")) for name, version in own.serializers.items()]
    for name, here, there in pairs:
        if _minor(here) != _minor(there):
            raise VersionMismatchError(
                f"the head has {name} {here}, {hello.role} {hello.name!r} has {there}; functions pickled by one cannot "
                f"be trusted to load in the other: use the same {name} on both"
            )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _proof(secret: bytes, side: str, hello: Hello, nonce: bytes) -> bytes:
    message = b"|".join([b"grainlike/1", side.encode(), nonce, msgspec.msgpack.encode(hello)])
    return hmac.new(secret, message, hashlib.sha256).digest()


class _State(Enum):
    START = auto()
    AWAIT_HELLO = auto()
    AWAIT_CHALLENGE = auto()
    AWAIT_PROOF = auto()
    AWAIT_WELCOME = auto()
    DONE = auto()


class Dialer:
    """The end that dials. `start()` gives the first message; `receive` answers each that comes, until `welcome` is set.

    Raises `AuthenticationError` when the listener does not know the secret, the listener's own refusal as its type,
    and `ProtocolError` for a message out of turn.
    """

    def __init__(self, secret: bytes, hello: Hello) -> None:
        self._secret = secret
        self._hello = hello
        self._state = _State.START
        self.welcome: Welcome | None = None

    @property
    def proved(self) -> bool:
        """Whether the listener has proved that it knows the secret. What follows its welcome may come in one read with
        it, so this, not `welcome`, is the moment to take frames of any kind."""
        return self._state in (_State.AWAIT_WELCOME, _State.DONE)

    def start(self) -> Hello:
        """The introduction to send first."""
        self._state = _State.AWAIT_CHALLENGE
        return self._hello

    def receive(self, message: Message) -> list[Message]:
        """Take the listener's message; return what to send back."""
        match self._state, message:
            case _, Refused(kind=kind, reason=reason):
                raise _KINDS.get(kind, ProtocolError)(reason)
            case _State.AWAIT_CHALLENGE, Challenge(nonce=nonce, proof=proof):
                if not hmac.compare_digest(proof, _proof(self._secret, "listener", self._hello, nonce)):
                    raise AuthenticationError(
                        "the head at this address does not know the secret of this access file: the file is stale, or "
                        "something else listens there"
                    )
                self._state = _State.AWAIT_WELCOME
                return [Proof(_proof(self._secret, "dialer", self._hello, nonce))]
            case _State.AWAIT_WELCOME, Welcome():
                self._state = _State.DONE
                self.welcome = message
                return []
            case _:
                raise ProtocolError(f"{type(message).__name__} is out of turn in a handshake")


class Listener:
    """The end that listens. `receive` returns what to send back; `hello` is set once the peer has proved itself.

    Raises `AuthenticationError`, `VersionMismatchError` or `ProtocolError`; `refusal(error)` is what to tell the peer.
    """

    def __init__(self, secret: bytes, nonce: bytes, software: Software, roles: frozenset[str]) -> None:
        self._secret = secret
        self._nonce = nonce
        self._software = software
        self._roles = roles
        self._state = _State.AWAIT_HELLO
        self._claimed: Hello | None = None
        self.hello: Hello | None = None

    def receive(self, message: Message) -> list[Message]:
        """Take the dialer's message; return what to send back (the caller sends `Welcome` once `hello` is set)."""
        match self._state, message:
            case _State.AWAIT_HELLO, Hello():
                if message.role not in self._roles:
                    raise AuthenticationError(f"nobody may dial in as {message.role!r} here")
                _check_versions(self._software, message)
                self._claimed = message
                self._state = _State.AWAIT_PROOF
                return [Challenge(self._nonce, _proof(self._secret, "listener", message, self._nonce))]
            case _State.AWAIT_PROOF, Proof(proof=proof):
                assert self._claimed is not None
                if not hmac.compare_digest(proof, _proof(self._secret, "dialer", self._claimed, self._nonce)):
                    raise AuthenticationError(
                        f"{self._claimed.role} {self._claimed.name!r} does not know this cluster's secret; start it "
                        "with the access file of this head"
                    )
                self._state = _State.DONE
                self.hello = self._claimed
                return []
            case _:
                raise ProtocolError(f"{type(message).__name__} is out of turn in a handshake")

    @staticmethod
    def refusal(error: GrainlikeError) -> Refused:
        """The message that tells a refused peer why."""
        return Refused(type(error).__name__, str(error))
