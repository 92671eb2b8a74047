"""Large values of a client's jobs: they stay at workers of a head elsewhere, and come here when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grainlike._memory import mapped_memory
from grainlike.engine import Fetcher
from grainlike.errors import SerializationError, ValueLostError
from grainlike.jobs import Job, JobCounters
from grainlike.net import Link
from grainlike.payload import Payload, is_shared_directory, map_replica, replica_path, replica_payload, stand_in
from grainlike.wire import (
    Buffer,
    Fetched,
    Frame,
    ReplicaCredit,
    ReplicaPart,
    Unsent,
    ValueComes,
    ValueInterest,
    ValuesAt,
    ValuesGone,
    split_by_count,
)

__all__ = ["RemoteValues"]


class _Arrival:
    """Value on its way: the transfer that brings it, and the memory that takes it."""

    __slots__ = ("memory", "told")

    def __init__(self, told: ValueComes, memory: memoryview | bytearray) -> None:
        self.told = told
        self.memory = memory


class RemoteValues:
    """Source of a program's `Fetcher` over the `link` to a head, as of `ValueSource`; recomputed jobs are counted in
    `counters`.

    A link that breaks changes nothing: the head goes on with what it had sent, from a byte that is here.
    """

    def __init__(self, fetcher: Fetcher, link: Link, counters: JobCounters) -> None:
        self.fetcher = fetcher
        fetcher.source = self
        self.fetched = 0
        """Bytes that came over the link."""
        self.present: frozenset[str] = frozenset()
        """Names of the workers that are there."""
        self._link = link
        self._counters = counters
        self._jobs: dict[int, Job] = {}
        self._workers: dict[int, Sequence[str]] = {}
        """Workers that have each value, as the head told last."""
        self._lost: dict[int, str] = {}
        """Why values are lost for good, as the head has told."""
        self._wanted: set[int] = set()
        self._coming: dict[int, _Arrival] = {}

    # --- from the fetcher --------------------------------------------------------------------------------------------

    def stayed(self, job: Job) -> None:
        """Record that the value of a job stays at its worker."""
        self._jobs[job.id] = job
        self._workers[job.id] = (job.worker or "",)

    def want(self, values: Sequence[int]) -> None:
        """Get the bytes of these values; each is answered by `Fetcher.given` or `Fetcher.lost`."""
        self._wanted.update(values)
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest(part, [], []))

    def unwant(self, values: Sequence[int]) -> None:
        """Give these up: nobody waits for them any more."""
        for value in values:
            self._wanted.discard(value)
            self._coming.pop(value, None)
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest([], part, []))

    def release(self, values: Sequence[int]) -> None:
        """Give up the program's references to these."""
        for value in values:
            self._jobs.pop(value, None)
            self._workers.pop(value, None)
            self._lost.pop(value, None)
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest([], [], part))

    def replicate(self, values: Sequence[int], copies: int) -> None:
        """Keep at least so many replicas of each of these, 0 for one at every worker; each is answered by
        `Fetcher.replicated` or `Fetcher.lost`.
        """
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest([], [], [], part, copies))

    def why_lost(self, value: int) -> str:
        """Return why a value can never be made again, as far as the head has told: to whoever needed it."""
        return self._lost.get(value, "")

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica, sorted, as far as the head has told."""
        return tuple(sorted(self.present.intersection(self._workers.get(value, ()))))

    # --- from the head -----------------------------------------------------------------------------------------------

    def hear(self, frame: Frame) -> None:
        """Handle a message of the head about values."""
        message, buffers = frame
        match message:
            case ValueComes():
                self._comes(message)
            case ReplicaPart():
                self._take(message, buffers)
            case ValuesGone():
                for value, words in zip(message.values, message.words, strict=True):
                    self._wanted.discard(value)
                    self._coming.pop(value, None)
                    self._lost[value] = words
                    self.fetcher.lost(value, ValueLostError(words))
            case ValuesAt():
                self._moved(message)

    def _comes(self, told: ValueComes) -> None:
        self._coming.pop(told.value, None)
        if told.value not in self._wanted:  # it has come by a transfer that the head had begun before
            self.unwant([told.value])
        elif told.directory:
            self._map(told)
        else:
            self._receive(told)

    def _map(self, told: ValueComes) -> None:
        """Map the file of a worker; where that cannot be, the bytes are sent."""
        file = replica_path(Path(told.directory), told.value, told.attempt)
        try:
            payload = map_replica(file) if is_shared_directory(told.directory) and file.exists() else None
        except SerializationError as error:
            self._link.post(Unsent(told.transfer, str(error), gone=True))
            return
        if payload is None:
            self._link.post(Unsent(told.transfer, f"{file} cannot be mapped"))
        else:
            self._given(told, payload)

    def _receive(self, told: ValueComes) -> None:
        try:
            memory = mapped_memory(told.size) or bytearray(told.size)
        except (MemoryError, OverflowError):
            self.unwant([told.value])
            self.fetcher.given(told.value, Payload(stand_in(told.size, 0)))
            return
        self._coming[told.value] = _Arrival(told, memory)

    def _take(self, part: ReplicaPart, buffers: Sequence[Buffer]) -> None:
        arrival = self._coming.get(part.value)
        if arrival is None or arrival.told.transfer != part.transfer:
            return  # it is wanted no more, or comes anew
        count = memoryview(buffers[0]).nbytes
        arrival.memory[part.at : part.at + count] = memoryview(buffers[0]).cast("B")
        self.fetched += count
        self._link.post(ReplicaCredit(part.transfer, count))
        if part.at + count == part.size:  # parts come in order, from a byte that is here
            del self._coming[part.value]
            self._whole(arrival)

    def _whole(self, arrival: _Arrival) -> None:
        try:
            payload = replica_payload(arrival.memory)
        except SerializationError as error:
            self._link.post(Unsent(arrival.told.transfer, str(error), gone=True))
        else:
            self._given(arrival.told, payload)

    def _given(self, told: ValueComes, payload: Payload) -> None:
        self._wanted.discard(told.value)
        self._link.post(Fetched(told.transfer, told.value, told.attempt))
        self.fetcher.given(told.value, payload)

    def _moved(self, told: ValuesAt) -> None:
        for value, workers in zip(told.values, told.workers, strict=True):
            if value in self._workers:
                self._workers[value] = workers
        for value in told.reached:
            self.fetcher.replicated(value)
        for value, recomputed, attempt in zip(told.values, told.recomputed, told.attempts, strict=False):
            job = self._jobs.get(value)
            if job is not None and job.placement is not None:
                self._counters.recomputed += max(0, recomputed - job.recomputed)
                job.placement.recomputed, job.placement.attempt = recomputed, attempt
