"""Events and actions of the fleet scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grainlike.dialects import ListedBlock
from grainlike.fleet._pool import FleetPool

__all__ = [
    "BlockDismissed",
    "EndBlocks",
    "FleetAction",
    "FleetEvent",
    "Joined",
    "Leave",
    "Left",
    "ListBlocks",
    "Listed",
    "ListingFailed",
    "LogRead",
    "Pause",
    "PoolGone",
    "PoolPaused",
    "PoolResumed",
    "PoolSet",
    "ReadLog",
    "Restored",
    "StraysGone",
    "SubmissionAccepted",
    "SubmissionRefused",
    "SubmissionUnclear",
    "SubmitBlock",
    "TellTimeLeft",
    "Tick",
    "Wake",
    "Wanted",
    "Working",
]


@dataclass(frozen=True, slots=True)
class PoolSet:
    """A pool was made, or its numbers have changed. This ends a pause."""

    pool: FleetPool


@dataclass(frozen=True, slots=True)
class PoolGone:
    """A pool is not wanted any more. `at_once`: its jobs are not waited for."""

    name: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class BlockDismissed:
    """A block is to end, whatever its pool needs. `at_once`: its jobs are not waited for."""

    label: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class PoolPaused:
    """A pool is to submit nothing."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class PoolResumed:
    """A pause is over."""

    name: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Number of workers that would be of use to each pool besides those that have joined; it includes blocks on their
    way.

    Attributes:
        workers: how many, by pool.
        version: `FleetScheduler.version` when they were counted.
        kept: labels of blocks whose idle workers a gang waits for.
    """

    workers: Mapping[str, int]
    version: int
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SubmissionAccepted:
    """A submission was accepted, under this id."""

    label: str
    native: str


@dataclass(frozen=True, slots=True)
class SubmissionRefused:
    """A submission was refused. `waits`: the reason is a limit, which may be over in an hour.

    `elsewhere`: one machine of several refused, and another may take the next block.
    """

    label: str
    words: str
    waits: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class SubmissionUnclear:
    """A submission had no clear answer: it may have been accepted."""

    label: str
    words: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A batch system listed all blocks of this cluster that it knows. `asked`: the time at which it was asked."""

    system: str
    rows: tuple[ListedBlock, ...]
    asked: float


@dataclass(frozen=True, slots=True)
class ListingFailed:
    """A batch system could not list its blocks."""

    system: str
    words: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker of a block has connected, for the first time or again. `cores`: the cores that it offers.

    `idle`: it has no job.
    """

    label: str
    node: int
    cores: int = 0
    idle: bool = True


@dataclass(frozen=True, slots=True)
class Left:
    """A worker of a block is gone."""

    label: str
    node: int
    how: str = ""


@dataclass(frozen=True, slots=True)
class Working:
    """A worker of a block has a job now, or (`idle`) has no job any more."""

    label: str
    node: int
    idle: bool = False


@dataclass(frozen=True, slots=True)
class LogRead:
    """Last lines of a block's log at `path`; None if there is no log."""

    label: str
    tail: str | None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """The records come from a journal: no worker is connected yet, and answers that were on their way are lost."""


@dataclass(frozen=True, slots=True)
class StraysGone:
    """Blocks of this cluster without a record are to be ended."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of a `Wake` has come."""


FleetEvent = (
    PoolSet
    | PoolGone
    | BlockDismissed
    | PoolPaused
    | PoolResumed
    | Wanted
    | SubmissionAccepted
    | SubmissionRefused
    | SubmissionUnclear
    | Listed
    | ListingFailed
    | Joined
    | Left
    | Working
    | LogRead
    | Restored
    | StraysGone
    | Tick
)


@dataclass(frozen=True, slots=True)
class SubmitBlock:
    """Submit a block, whose record exists already; answered by `SubmissionAccepted`, `...Refused` or `...Unclear`."""

    label: str
    pool: str
    number: int


@dataclass(frozen=True, slots=True)
class ListBlocks:
    """Ask a batch system for all blocks of this cluster; answered by `Listed` or `ListingFailed`."""

    system: str


@dataclass(frozen=True, slots=True)
class EndBlocks:
    """Tell a batch system to end jobs by their ids. Only a listing shows that they are gone."""

    system: str
    natives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Tell a worker to leave when its jobs have ended, or `at_once`."""

    label: str
    node: int
    reason: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the end of a block's log; answered by `LogRead`."""

    label: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Tell people why a pool submits nothing any more."""

    pool: str
    why: str


@dataclass(frozen=True, slots=True)
class TellTimeLeft:
    """Tell the workers of a block how many seconds it has left, because its batch system has changed that."""

    label: str
    left_s: float


@dataclass(frozen=True, slots=True)
class Wake:
    """Send a `Tick` at this time, if no event comes before."""

    at: float = field(default=0.0)


FleetAction = SubmitBlock | ListBlocks | EndBlocks | Leave | ReadLog | Pause | TellTimeLeft | Wake
