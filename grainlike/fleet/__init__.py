"""Fleet: pure decisions over plain data about how many blocks of workers each pool has.

`FleetScheduler` is `handle(event, now) -> list[action]`, like the schedulers of jobs. Events tell it which workers
would be of use, what batch systems answer, and which workers join and leave. Actions submit, list and end blocks.
Nothing here waits, runs a command or reads a clock.
"""

from grainlike.fleet._block import Block, BlockPhase, EndedBlock
from grainlike.fleet._events import (
    BlockDismissed,
    EndBlocks,
    FleetAction,
    FleetEvent,
    Joined,
    Leave,
    Left,
    ListBlocks,
    Listed,
    ListingFailed,
    LogRead,
    Pause,
    PoolGone,
    PoolPaused,
    PoolResumed,
    PoolSet,
    ReadLog,
    Restored,
    StraysGone,
    SubmissionAccepted,
    SubmissionRefused,
    SubmissionUnclear,
    SubmitBlock,
    TellTimeLeft,
    Tick,
    Wake,
    Wanted,
    Working,
)
from grainlike.fleet._fleet import FleetScheduler
from grainlike.fleet._pool import FleetPool, PoolState
from grainlike.fleet._records import FleetRecords

__all__ = [
    "Block",
    "BlockDismissed",
    "BlockPhase",
    "EndBlocks",
    "EndedBlock",
    "FleetAction",
    "FleetEvent",
    "FleetPool",
    "FleetRecords",
    "FleetScheduler",
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
    "PoolState",
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
