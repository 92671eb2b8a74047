"""Requests of a client about pools of workers and their blocks, and the answers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._rows import BaseAnswer

__all__ = [
    "AskBlockFile",
    "AskDown",
    "AskEndBlock",
    "AskFleet",
    "AskPause",
    "AskScale",
    "AskUp",
    "BlockFileIs",
    "BlockRow",
    "FleetIs",
    "LaunchRefused",
    "PoolRow",
    "UpIs",
]

_Workers = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class AskUp(BaseMessage, frozen=True, tag=125):
    """Ask for a pool: `pool` is its keys as JSON, as in settings. Answered by `UpIs` or `LaunchRefused`."""

    ask: int
    name: str
    pool: str


class AskScale(BaseMessage, frozen=True, tag=126):
    """Change how many workers a pool has."""

    ask: int
    name: str
    least: _Workers
    most: _Workers


class AskDown(BaseMessage, frozen=True, tag=127):
    """Take pools down, all of them without names; `at_once`: their jobs run elsewhere. Answered by `Matched`."""

    ask: int
    names: list[str]
    at_once: bool


class AskPause(BaseMessage, frozen=True, tag=128):
    """Pause a pool, or with `on` false resume it."""

    ask: int
    name: str
    on: bool


class AskEndBlock(BaseMessage, frozen=True, tag=129):
    """End a block; `at_once`: its jobs run elsewhere."""

    ask: int
    label: str
    at_once: bool


class AskFleet(BaseMessage, frozen=True, tag=130):
    """Ask for pools and blocks, with `ended` those too that have ended; answered by `FleetIs`."""

    ask: int
    ended: bool


class AskBlockFile(BaseMessage, frozen=True, tag=155):
    """Ask for the log of a block, or for its `script`, from a place in bytes on; answered by `BlockFileIs`."""

    ask: int
    label: str
    script: bool
    start: Annotated[int, msgspec.Meta(ge=0)]


class BlockFileIs(BaseAnswer, frozen=True, tag=156):
    """Part of a file of a block, from `start` to `end`: the end of a rest that is long."""

    ask: int
    text: str
    start: int
    end: int


class PoolRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pool of workers, as its head has it.

    Attributes:
        pool: its name.
        kind: the word for its batch system in settings.
        offer: what each worker offers, as text; empty: not known yet.
        min: workers at least.
        max: workers at most.
        wanted: workers that would be of use now beside those that have joined, as far as `max` has room for them.
        pending: workers of blocks in the batch queue.
        up: connected workers.
        paused: why nothing is submitted until somebody says otherwise; else empty.
        spent_core_hours: core-hours that the blocks which have ended have taken.
        why: why nothing is submitted now; empty: nothing keeps it from that.
        settings: its keys as JSON, those that are not as by default.
    """

    pool: str
    kind: str
    offer: str
    min: int
    max: int
    wanted: int
    pending: int
    up: int
    paused: str
    spent_core_hours: float
    why: str = ""
    settings: str = ""


class BlockRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A block: a job of a batch system with a worker on each of its nodes.

    Attributes:
        label: its name.
        pool: name of its pool.
        kind: the word for its batch system in settings.
        native: its id there; empty: not known.
        state: `intent`, `pending`, `starting`, `up`, `leaving` or `ended`.
        reason: why it is so; empty for `up` alone.
        nodes: the nodes that it has, as its batch system writes them.
        workers: how many of its workers are connected.
        submitted_s: seconds since its submission.
        started_s: seconds since it is known to run; None: it does not.
        left_s: seconds until its batch system ends it; None: it does not say.
        log: path of its log, as its nodes see it.
    """

    label: str
    pool: str
    kind: str
    native: str
    state: str
    reason: str
    nodes: str
    workers: int
    submitted_s: float
    started_s: float | None
    left_s: float | None
    log: str


class UpIs(BaseAnswer, frozen=True, tag=131):
    """A pool is in the records, and its first block was taken; label and id are empty where none is to be submitted.

    `silent` says in one line that the batch system does not answer, and what its command says to that; empty where it
    does.
    """

    ask: int
    label: str
    native: str
    silent: str = ""


class LaunchRefused(BaseAnswer, frozen=True, tag=132):
    """The batch system refused the first block of a pool: its words, the command and the script. The pool is paused."""

    ask: int
    words: str
    command: list[str]
    script: str


class FleetIs(BaseAnswer, frozen=True, tag=133):
    """Pools and blocks. With `ask` 0 it comes unasked, when something has changed."""

    ask: int
    pools: list[PoolRow]
    blocks: list[BlockRow]
