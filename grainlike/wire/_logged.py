"""Messages with records of `logging` that jobs made, each packed as a `LogEntry`, which no process on the way opens."""

from __future__ import annotations

from grainlike.wire._base import BaseMessage

__all__ = ["RECORD_BYTES", "ClientRecords", "LoggedRecords"]

RECORD_BYTES = 512 * 1024
"""Most bytes of one packed record: the process of a job shortens each to less."""


class LoggedRecords(BaseMessage, frozen=True, tag=150):
    """Worker to head: records of these attempts of jobs, in order, before the `Report` of the ends of those jobs.

    `jobs` are the jobs as the head has assigned them; a record of one that travelled with others names it itself.
    """

    jobs: list[int]
    attempts: list[int]
    records: list[bytes]


class ClientRecords(BaseMessage, frozen=True, tag=151):
    """Head to client: records of the client's jobs on a worker. It belongs to its link, and is never resent.

    `sent` counts the records that the head has sent to this client in all, with these, so that the client can tell how
    many a broken link has lost. `dropped` counts those before these that were not sent, as the client was away or did
    not read.
    """

    worker: str
    records: list[bytes]
    sent: int
    dropped: int
