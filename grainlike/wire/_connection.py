"""What two ends say about the connection between them, whoever they are.

How often two ends say that they live, and how long each believes the other when it is silent; in seconds.
"""

from __future__ import annotations

from grainlike.wire._base import BaseMessage

__all__ = ["HEARTBEAT_S", "LOST_S", "SUSPECT_S", "Ack", "Beat", "Goodbye", "Hello", "Refused", "Welcome"]


class Hello(BaseMessage, frozen=True, tag=1, forbid_unknown_fields=False):
    """The dialling end introduces itself. `memory` names the shared memory that it can map, if any, and `process` the
    process that it is to others of its machine; `memory_tier` says what holds a worker's jobs to theirs.

    With `received`, its side of the conversation outlives a link that breaks (`ResendBuffer`): it may dial anew, with
    `resumes` and how many messages have come to it so far. -1 is for who does not do that.

    A client that names a `session` leaves its jobs to that, and gets what is there.

    A later protocol may add fields at the end: who speaks it must be understood well enough to be refused by name.
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


class Welcome(BaseMessage, frozen=True, tag=4):
    """The worker, or client, is connected from here on.

    `paths` are the client's import paths, for its runners. `name` is what the worker is called from now on: another may
    have come with the name that it wished for. `store` is the directory of the head's shared memory, for those who can
    map it. `process` is the head's, and `received` how many messages have come from one that goes on; -1 where a link
    that breaks is the end. `returns`: when this process has died, another may go on with all that it knew.
    """

    cluster: str
    heartbeat_s: float
    paths: list[str]
    name: str
    store: str = ""
    process: str = ""
    received: int = -1
    returns: bool = False


class Refused(BaseMessage, frozen=True, tag=5):
    """The listening end will not have this peer; `kind` names the exception class, `reason` both sides and the fix."""

    kind: str
    reason: str


class Beat(BaseMessage, frozen=True, tag=14):
    """A heartbeat, both ways. Any message proves life; this one is for links that have nothing else to say."""

    number: int


class Ack(BaseMessage, frozen=True, tag=15):
    """So many messages of yours have come, in all: whoever keeps them for the case that the link breaks need not any
    more.
    """

    received: int


class Goodbye(BaseMessage, frozen=True, tag=16):
    """The last word: whoever says it ends the conversation, and will not go on with it on another link."""

    reason: str


HEARTBEAT_S = 5.0

SUSPECT_S = 15.0
"""A worker that has been silent for this long gets no more jobs for now."""

LOST_S = 30.0
"""Whoever has been silent for this long is lost to the other end: a worker, a client, or a head."""
