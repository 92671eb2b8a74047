"""Messages about a connection itself, between any two ends; and its heartbeat and timeouts, in seconds."""

from __future__ import annotations

from grainlike.wire._base import BaseMessage

__all__ = ["HEARTBEAT_S", "LOST_S", "SUSPECT_S", "Ack", "Beat", "Goodbye", "Hello", "Refused", "Welcome"]


class Hello(BaseMessage, frozen=True, tag=1, forbid_unknown_fields=False):
    """The connecting end introduces itself.

    `memory` names the shared memory that it can map, if any; `memory_tier` says how a worker enforces its jobs' memory;
    `process` identifies it to other processes of its machine.

    With `received` at least 0, its messages outlive a link that breaks (`ResendBuffer`): it may connect again with
    `resumes`, and the number of messages that it has received so far. -1: it does not do that.

    `host` is the name of the worker's host. A worker that a launcher has started names its `block` there, and `node` is
    its number in it. `left_s`: seconds in which it can still run jobs; negative if it knows of no end. `replicas`: its
    directory of values that stay, of use to peers with the same `memory`; empty without one. `data`: the address at
    which other workers get its values from its data server, `tcp://HOST:PORT`; empty without one. `data_key`: the
    secret from which the names of its replicas follow there; see `replica_name`. `store` and `scratch`: bytes of values
    that it may keep in shared memory and on disk; a negative `store` if it does not say.

    A client that names a `session` leaves its jobs to that session, and receives what is in it.

    A later protocol may add fields at the end: a peer that speaks it must be understood well enough to be refused with
    a reason.
    """

    role: str
    protocol_low: int
    protocol_high: int
    python: str
    serializers: dict[str, str]
    name: str
    incarnation: str
    pid: int
    offer: str
    logical: list[int]
    memory: str = ""
    memory_tier: str = "none"
    process: str = ""
    received: int = -1
    resumes: bool = False
    session: str = ""
    block: str = ""
    node: int = 0
    host: str = ""
    left_s: float = -1.0
    replicas: str = ""
    data: str = ""
    data_key: bytes = b""
    store: int = -1
    scratch: int = 0

    @property
    def only_asks(self) -> bool:
        """True for a client that sends queries and no calls, as the command line does."""
        return self.role == "client" and self.received < 0 and not self.session


class Welcome(BaseMessage, frozen=True, tag=4):
    """The answer that accepts a worker or client; the connection is open from here on.

    `paths` are the client's import paths, for its runners. `name` is the worker's name from now on, which may differ
    from the one it asked for if that was taken. `store` is the directory of the head's shared memory, for peers that
    can map it. `process` identifies the head's process. `received` is the number of messages received from a peer that
    resumes; -1 if a broken link ends the connection. `returns`: a head that is started again after this one died
    continues with its state. `own_values`: the first of the numbers under which a client may have values of its own; 0
    for a worker.
    """

    cluster: str
    heartbeat_s: float
    paths: list[str]
    name: str
    store: str = ""
    process: str = ""
    received: int = -1
    returns: bool = False
    own_values: int = 0


class Refused(BaseMessage, frozen=True, tag=5):
    """The answer that refuses a peer. `kind` names the exception class; `reason` has the versions or roles of both, and
    the fix.
    """

    kind: str
    reason: str


class Beat(BaseMessage, frozen=True, tag=14):
    """A heartbeat, in both directions. Any message counts as one; this is for links that have nothing else to send."""

    number: int


class Ack(BaseMessage, frozen=True, tag=15):
    """Acknowledgement of the first `received` messages: the other end need not keep them for resending any more."""

    received: int


class Goodbye(BaseMessage, frozen=True, tag=16):
    """The last message of a connection: its sender will not resume it on another link."""

    reason: str


HEARTBEAT_S = 5.0

SUSPECT_S = 15.0
"""Seconds of silence after which a worker gets no more jobs for now."""

LOST_S = 30.0
"""Seconds of silence after which a worker, client or head counts as lost."""
