"""Outcomes of jobs, gathered into columns until it is time to send them."""

import time
from collections.abc import Sequence
from itertools import repeat
from operator import mul, sub
from typing import NamedTuple, cast

from grainlike.payload import Payload
from grainlike.wire import Buffer, Code, Completed, ReceiptSpec, fit_together, pack_parcels

__all__ = ["FLUSH_S", "OutcomeBatch", "Stays"]

FLUSH_S = 0.001
"""The longest that an outcome waits for company."""

_ROWS = 512
_NOTHING = Payload(b"")
_SUCCEEDED = [int(Code.SUCCEEDED)]


class Stays(NamedTuple):
    """Stands for the payload of a value that stays at this worker: a replica of `size` bytes, which is written."""

    size: int
    buffers: tuple[()] = ()


class OutcomeBatch:
    """The outcomes of one lease that have not been sent yet, in the order in which its jobs ended.

    `receipt` goes with the next batch, once; `awaited` with all from now on. `gone` takes values that jobs have missed,
    `wanted` the bytes of those for which there was no room, by job.
    """

    __slots__ = (
        "_apart", "_attempts", "_begun", "_codes", "_cpu", "_data", "_final", "_jobs", "_rss", "_sizes", "_wall",
        "awaited", "due_at", "gone", "lease", "receipt", "wanted",
    )  # fmt: skip

    def __init__(self, lease: int, now: float) -> None:
        self.lease = lease
        self.awaited = False
        self.receipt: ReceiptSpec | None = None
        self._clear(now)

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def ran(
        self,
        job: int,
        attempt: int,
        code: Code,
        payload: bytes | Payload | Stays,
        begun: float,
        wall: float,
        cpu: float,
    ) -> None:
        """Add a job that began, with its value or its exception."""
        # By the type: `isinstance` is a call.
        data = payload if type(payload) is bytes else self._without_buffers(cast("Payload | Stays", payload))
        self._jobs.append(job)
        self._attempts.append(attempt)
        self._codes.append(code)
        self._begun.append(begun)
        self._wall.append(wall)
        self._cpu.append(cpu)
        self._data.append(data)
        if len(self._jobs) >= _ROWS:
            self.due_at = 0.0

    def _without_buffers(self, payload: Payload | Stays) -> bytes:
        """Return what travels in the column of the job to be added; buffers, and the size of a value that stays, are
        noted.
        """
        data, buffers = payload
        if buffers:
            self._apart[len(self._jobs)] = buffers
            self.due_at = 0.0  # they are the memory of an object that the next job may change
        if isinstance(data, int):
            self._sizes[len(self._jobs)] = data
            return b""
        return bytes(data)

    def succeeded(
        self, jobs: list[int], attempts: list[int], values: list[bytes], begun: float, ends: list[float], busy: float
    ) -> None:
        """Add jobs that ran one after another, the first from `begun`, and gave these values at these times. `busy` is
        their CPU time in each second.
        """
        begins = [begun, *ends]
        begins.pop()
        walls = list(map(sub, ends, begins))
        self._jobs += jobs
        self._attempts += attempts
        self._codes += _SUCCEEDED * len(jobs)
        self._begun += begins
        self._wall += walls
        self._cpu += map(mul, walls, repeat(busy))
        self._data += values
        if len(self._jobs) >= _ROWS:
            self.due_at = 0.0

    def never_ran(self, job: int, attempt: int, code: Code) -> None:
        """Add a job that did not begin: `CANCELLED` or `RETURNED`."""
        self.ran(job, attempt, code, _NOTHING, 0.0, 0.0, 0.0)

    def held(self, rss: int) -> None:
        """Note the peak of memory of the job to be added next, where it has one of its own."""
        self._rss[len(self._jobs)] = rss

    def all_held(self, rss: int) -> None:
        """Note the peak of memory of the jobs that were added since this was last done: the next one has its own."""
        self._rss.update(dict.fromkeys(range(len(self._rss), len(self._jobs)), rss))

    def is_final(self, job: int) -> None:
        """The job that was added last failed by an exception after which it is not to be tried again."""
        self._final.append(job)

    @property
    def last_has_failed(self) -> bool:
        """True if the job that was added last has failed, and that was not reported."""
        return bool(self._codes) and self._codes[-1] == Code.FAILED

    def take(self, rss: int) -> tuple[Completed, list[Buffer]]:
        """Return everything so far as one message and its buffers; the columns are empty then."""
        data = self._data
        counts: list[int] = []
        buffers: list[Buffer] = []
        if self._apart or not fit_together(data):
            apart = [self._apart.get(row, ()) for row in range(len(data))]
            data, counts, buffers = pack_parcels(zip(data, apart, strict=True))
        now = time.monotonic()
        peaks = [self._rss.get(row, rss) for row in range(len(data))] if self._rss else [rss] * len(data)
        message = Completed(  # the columns without their names, which would take four times as long
            self.lease,
            self._jobs,
            self._attempts,
            self._codes,
            self._begun,
            self._wall,
            self._cpu,
            peaks,
            data,
            counts,
            now,
            self.awaited,
            self.receipt,
            final=self._final,
            sizes=[self._sizes.get(row, 0) for row in range(len(data))] if self._sizes else [],
            gone=self.gone,
            wanted=self.wanted,
        )
        self.receipt = None
        self._clear(now)
        return message, buffers

    def _clear(self, now: float) -> None:
        self.due_at = now + FLUSH_S
        """When the outcomes are to be sent before the next job starts: now where that may not wait."""
        self._jobs: list[int] = []
        self._attempts: list[int] = []
        self._codes: list[int] = []
        self._begun: list[float] = []
        self._wall: list[float] = []
        self._cpu: list[float] = []
        self._data: list[bytes] = []
        self._apart: dict[int, Sequence[Buffer]] = {}
        """The buffers of those rows that have some."""
        self._final: list[int] = []
        self._rss: dict[int, int] = {}
        """The peaks of those rows that have their own."""
        self._sizes: dict[int, int] = {}
        """The sizes of those rows whose values stay."""
        self.gone: list[int] = []
        self.wanted: dict[int, int] = {}
