"""What flows while a job runs: the items of a stream with the credit for more, and what the job prints."""

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
    """What the generator of a stream yielded, in order, after what came before. `data` and `counts` are packed parcels.

    A sender keeps to its `Window`. All items of an attempt come before the `Completed` that ends it.
    """

    job: int
    attempt: int
    data: list[bytes]
    counts: list[int]


class Credit(BaseMessage, frozen=True, tag=51):
    """The reader of a stream took so many items, of so many bytes together: as many more may come."""

    job: int
    attempt: int
    items: int
    size: int


class OutputStream(IntEnum):
    """Where a piece of output was written."""

    STDOUT = 0
    STDERR = 1
    NOTE = 2  # by nobody: words about the output, such as how much of it is left out
    RUNNER = 3  # in the job's process, which it shared with others: whose it is nobody can tell


class Follow(BaseMessage, frozen=True, tag=60):
    """Head to worker: tell a follower what this job has written and writes, all its attempts; `on` false: no more."""

    job: int
    follower: int
    on: bool


class Output(BaseMessage, frozen=True, tag=61):
    """Runner to worker, worker to head: pieces of what an attempt wrote, in order; `streams` has an `OutputStream`
    for each.

    Everything that a job wrote comes before the `Report` of its end. With a `follower`, it is what was written before
    that one's `Follow`, and `caught_up` says that this is all of it; without, it is for those who have caught up.
    `last_words`: nobody asked, but the attempt ended with its process.
    """

    job: int
    attempt: int
    streams: list[int]
    data: list[bytes]
    follower: int = 0
    caught_up: bool = False
    last_words: bool = False
