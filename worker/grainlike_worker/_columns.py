"""Outcomes of jobs, gathered into columns until it is time to send them."""

import time

from grainlike.payload import Payload
from grainlike.wire import Buffer, Code, Completed, Parcel, ReceiptSpec, pack_parcels

__all__ = ["FLUSH_S", "Columns"]

FLUSH_S = 0.001
"""The longest that an outcome waits for company."""

_ROWS = 512
_NOTHING = Payload(b"")


class Columns:
    """The outcomes of one lease that have not been sent yet, in the order in which its jobs ended.

    `receipt` goes with the next batch, once; `awaited` with all from now on.
    """

    __slots__ = (
        "_attempts", "_begun", "_codes", "_cpu", "_final", "_jobs", "_parcels", "_urgent", "_wall",
        "awaited", "lease", "receipt", "taken_at",
    )  # fmt: skip

    def __init__(self, lease: int, now: float) -> None:
        self.lease = lease
        self.awaited = False
        self.receipt: ReceiptSpec | None = None
        self.taken_at = now
        self._clear()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def ran(self, job: int, attempt: int, code: Code, payload: Payload, begun: float, wall: float, cpu: float) -> None:
        """Add a job that began, with its value or its exception."""
        data, buffers = payload
        if buffers:
            # They are the memory of an object that the next job may change: they must leave before it starts.
            self._urgent = True
        self._jobs.append(job)
        self._attempts.append(attempt)
        self._codes.append(code)
        self._begun.append(begun)
        self._wall.append(wall)
        self._cpu.append(cpu)
        self._parcels.append((data if type(data) is bytes else bytes(data), buffers))

    def never_ran(self, job: int, attempt: int, code: Code) -> None:
        """Add a job that did not begin: `CANCELLED` or `RETURNED`."""
        self.ran(job, attempt, code, _NOTHING, 0.0, 0.0, 0.0)

    def is_final(self, job: int) -> None:
        """The job that was added last failed by an exception after which it is not to be tried again."""
        self._final.append(job)

    def due(self, now: float) -> bool:
        """Whether to send before the next job starts."""
        return now - self.taken_at >= FLUSH_S or self._urgent or len(self._jobs) >= _ROWS

    def take(self, rss: int) -> tuple[Completed, list[Buffer]]:
        """Everything so far as one message and its buffers; the columns are empty then."""
        data, counts, buffers = pack_parcels(self._parcels)
        self.taken_at = time.monotonic()
        message = Completed(
            lease=self.lease,
            jobs=self._jobs,
            attempts=self._attempts,
            codes=self._codes,
            begun=self._begun,
            wall=self._wall,
            cpu=self._cpu,
            rss=[rss] * len(self._jobs),
            data=data,
            counts=counts,
            sent_at=self.taken_at,
            awaited=self.awaited,
            receipt=self.receipt,
            final=self._final,
        )
        self.receipt = None
        self._clear()
        return message, buffers

    def _clear(self) -> None:
        self._jobs: list[int] = []
        self._attempts: list[int] = []
        self._codes: list[int] = []
        self._begun: list[float] = []
        self._wall: list[float] = []
        self._cpu: list[float] = []
        self._parcels: list[Parcel] = []
        self._final: list[int] = []
        self._urgent = False
