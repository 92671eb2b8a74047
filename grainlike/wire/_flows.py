"""Messages while a job runs: the items of a stream, credit for more of them, and what the job prints."""

from __future__ import annotations

from enum import IntEnum

from grainlike.wire._base import BaseMessage

__all__ = [
    "Credit",
    "Follow",
    "Items",
    "Output",
    "OutputStream",
]


class Items(BaseMessage, frozen=True, tag=50):
    """Items that the generator of a stream yielded, in order, after the earlier ones. `data` and `counts` are packed
    parcels.

    A sender keeps to its `Window`. All items of an attempt come before the `Completed` that ends it. The head passes
    those of a client's stream on: there `job` is the client's number of the call, and they come before its `Outcomes`.
    """

    job: int
    attempt: int
    data: list[bytes]
    counts: list[int]


class Credit(BaseMessage, frozen=True, tag=51):
    """The reader of a stream has taken `items` items of `size` bytes together: as many more may be sent.

    From a client to the head, `job` is the client's number of the call; the head passes it on to the worker.
    """

    job: int
    attempt: int
    items: int
    size: int


class OutputStream(IntEnum):
    """The origin of a piece of output."""

    STDOUT = 0
    STDERR = 1
    NOTE = 2  # not written by the job: a note about its output, such as how much of it is left out
    RUNNER = 3  # in a process that the job shares with others: the writer is not known
    LOG = 4  # a record of `logging`, as a line
    TRACEBACK = 5  # not written by the job: the traceback of the exception that ended it


class Follow(BaseMessage, frozen=True, tag=60):
    """Head to worker: send a follower what this job has written and writes, in all its attempts; stop if `on` is
    False.
    """

    job: int
    follower: int
    on: bool


class Output(BaseMessage, frozen=True, tag=61):
    """Runner to worker, worker to head: pieces of what an attempt wrote, in order; `streams` has an `OutputStream`
    for each.

    All that a job wrote comes before the `Report` of its end. With a `follower`, this is output from before that one's
    `Follow`, and `caught_up` marks the last of it; without, it is for all followers that have caught up. `last_words`:
    sent without a follower, because the attempt ended with its process.
    """

    job: int
    attempt: int
    streams: list[int]
    data: list[bytes]
    follower: int = 0
    caught_up: bool = False
    last_words: bool = False
