"""Events that the fleet scheduler is given, and the actions that it answers."""

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
    """A pool was made, or has other numbers now. It ends a pause."""

    pool: FleetPool


@dataclass(frozen=True, slots=True)
class PoolGone:
    """A pool is not wanted any more. `at_once`: its jobs are not waited for."""

    name: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class BlockDismissed:
    """A block is to end, whatever its pool wants. `at_once`: its jobs are not waited for."""

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
    """Count of workers of each pool that would be of use beside those that have joined, blocks on their way included.

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
    """A submission was taken, under this id."""

    label: str
    native: str


@dataclass(frozen=True, slots=True)
class SubmissionRefused:
    """A submission was refused. `waits`: by a limit that another hour may lift.

    `elsewhere`: by one machine of several, and another is there that may take the next block.
    """

    label: str
    words: str
    waits: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class SubmissionUnclear:
    """A submission had no clear answer: it may have been taken."""

    label: str
    words: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A batch system told all blocks of this cluster that it knows. `asked`: the time at which it was asked."""

    system: str
    rows: tuple[ListedBlock, ...]
    asked: float


@dataclass(frozen=True, slots=True)
class ListingFailed:
    """A batch system did not tell its blocks."""

    system: str
    words: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker of a block has connected, for the first time or again. `cores`: those that it offers.

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
    """A worker of a block has a job now, or (`idle`) has none any more."""

    label: str
    node: int
    idle: bool = False


@dataclass(frozen=True, slots=True)
class LogRead:
    """Last lines of a block's log, which is at `path`; None: there is no log."""

    label: str
    tail: str | None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """The books come from a journal: no worker is connected yet, and answers that were on their way are lost."""


@dataclass(frozen=True, slots=True)
class StraysGone:
    """Blocks of this cluster that are in no books are to be ended."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, as `Wake` asked for."""


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
    """Submit a block, which is in the books: `SubmissionAccepted`, `...Refused` or `...Unclear` is the answer."""

    label: str
    pool: str
    number: int


@dataclass(frozen=True, slots=True)
class ListBlocks:
    """Ask a batch system for all blocks of this cluster: `Listed` or `ListingFailed` is the answer."""

    system: str


@dataclass(frozen=True, slots=True)
class EndBlocks:
    """Tell a batch system to end jobs by their ids. Only a listing says that they are gone."""

    system: str
    natives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Tell a worker to leave: when its jobs have ended, or `at_once`."""

    label: str
    node: int
    reason: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the end of a block's log: `LogRead` is the answer."""

    label: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A pool submits nothing any more: people are to be told why."""

    pool: str
    why: str


@dataclass(frozen=True, slots=True)
class TellTimeLeft:
    """Tell the workers of a block how many seconds it has left: its batch system says other than before."""

    label: str
    left_s: float


@dataclass(frozen=True, slots=True)
class Wake:
    """Give a `Tick` at this time, if nothing happens before."""

    at: float = field(default=0.0)


FleetAction = SubmitBlock | ListBlocks | EndBlocks | Leave | ReadLog | Pause | TellTimeLeft | Wake
