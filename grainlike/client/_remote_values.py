"""Large values of a client's jobs: they stay at workers of a head elsewhere, and come here when they are needed.

The client's own values are in this process, and go to one worker when jobs need them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from grainlike.engine import Fetcher
from grainlike.errors import SerializationError, ValueLostError
from grainlike.jobs import Job, JobCounters, OwnValueStore, WorkerInfo
from grainlike.net import Link
from grainlike.payload import (
    ArrivingReplica,
    Payload,
    SharedDirectory,
    arriving_replica,
    is_shared_directory,
    map_replica,
    replica_path,
)
from grainlike.wire import (
    GENERATION,
    Buffer,
    DropOwnValues,
    DurableCopy,
    Fetched,
    Frame,
    OwnValues,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    StopTransfer,
    Unsent,
    ValueComes,
    ValueInterest,
    ValuesAt,
    ValuesGone,
    split_by_count,
)

__all__ = ["RemoteValues"]


class _Arrival:
    """Value on its way: the transfer that brings it, and the memory for its bytes."""

    __slots__ = ("memory", "told")

    def __init__(self, told: ValueComes, memory: ArrivingReplica) -> None:
        self.told = told
        self.memory = memory


_PART_BYTES = 1024 * 1024
"""Most bytes that are sent in one message."""


_UNLIMITED = 1 << 62
"""Bytes of the store of a worker that has not reported its size."""


def _room_of(worker: WorkerInfo) -> int:
    """Return the bytes of the largest value that a worker could keep."""
    return _UNLIMITED if worker.store < 0 else max(worker.store, worker.scratch)


class _OwnSend:
    """Own value on its way to a worker: the transfer, the size, and how many bytes are sent."""

    __slots__ = ("at", "order", "size")

    def __init__(self, order: SendReplica, size: int) -> None:
        self.order = order
        self.at = order.at
        self.size = size


class RemoteValues:
    """Source of a program's `Fetcher` over the `link` to a head (`ValueSource`). Recomputed jobs are counted in
    `counters`.

    A broken link changes nothing: the head goes on with the first byte that has not arrived here.
    """

    def __init__(self, fetcher: Fetcher, link: Link, counters: JobCounters) -> None:
        self.fetcher = fetcher
        fetcher.source = self
        self.fetched: int = 0
        """Bytes that arrived over the link."""
        self._host = socket.gethostname()
        self._is_near = False
        self._largest = _UNLIMITED
        self._smallest = 0
        self.has_workers: bool = False
        """True if the head has workers, whether or not they are silent now."""
        self.lasting: bool = False
        """True if own values are to outlive this program: each must fit into the store of every worker."""
        self.progress: int = 0
        """Number that grows when a byte of an own value has left, or workers have a value."""
        self.reached: Callable[[int], object] = _ignore
        """Called when a value has the replicas that were asked for, or is lost."""
        self._link = link
        self._counters = counters
        self._jobs: dict[int, Job] = {}
        self._internal: set[int] = set()
        """Values of internal jobs."""
        self._workers: dict[int, Sequence[str]] = {}
        """Workers that have each value, by the head's last message."""
        self._lost: dict[int, str] = {}
        """Why values are lost for good, by the head's messages."""
        self.few: dict[int, str] = {}
        """Why the value of the last explanation has fewer replicas than it is to have, by its number."""
        self._wanted: set[int] = set()
        self._coming: dict[int, _Arrival] = {}
        self.first = 0
        """First number for own values of this program; 0 if it may have none."""
        self._added = 0
        self._own = OwnValueStore(self._files)
        self._directory: SharedDirectory | None = None
        self._sends: dict[int, _OwnSend] = {}
        self._held: dict[int, bool] = {}
        """Values to which calls refer that are held, and whether they were to be released meanwhile."""

    def see(self, workers: Sequence[WorkerInfo]) -> None:
        """Record what the largest and the smallest store hold, and whether a worker may map files of this program."""
        self._is_near = any(worker.host == self._host for worker in workers)
        self._largest = max(map(_room_of, workers), default=_UNLIMITED)
        self._smallest = min(map(_room_of, workers), default=0)
        self.has_workers = bool(workers)

    # --- from the fetcher --------------------------------------------------------------------------------------------

    def stayed(self, job: Job, *, internal: bool) -> None:
        """Record that the value of a job stays at its worker."""
        self._jobs[job.id] = job
        if internal:
            self._internal.add(job.id)
        self._workers[job.id] = (job.worker or "",)

    def want(self, values: Sequence[int]) -> None:
        """Get the bytes of these values; each is answered by `Fetcher.given` or `Fetcher.lost`."""
        self._wanted.update(values)
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest(part, [], []))

    def unwant(self, values: Sequence[int]) -> None:
        """Stop getting these values, because no call waits for them any more."""
        for value in values:
            self._wanted.discard(value)
            self._coming.pop(value, None)
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest([], part, []))

    def release(self, values: Sequence[int]) -> None:
        """Give up the program's references to these values; to held ones later."""
        if self._held:
            self._held.update(dict.fromkeys(self._held.keys() & set(values), True))
            values = [value for value in values if value not in self._held]
        for value in values:
            self._jobs.pop(value, None)
            self._internal.discard(value)
            self._workers.pop(value, None)
            self._lost.pop(value, None)
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest([], [], part))

    def replicate(self, values: Sequence[int], copies: int) -> None:
        """Keep at least this many replicas of each of these values, 0 for one at every worker; each is answered by
        `Fetcher.replicated` or `Fetcher.lost`.
        """
        for part in split_by_count(list(values)):
            self._link.post(ValueInterest([], [], [], part, copies))

    def copied(self, value: int, reader: int) -> None:
        """Let the call that made value `reader` read the durable copy of `value`, if `value` is lost."""
        self._link.post(DurableCopy(value, reader))

    @property
    def own_most(self) -> int:
        """Bytes of the largest argument that may become an own value; 0 if none may."""
        if not self.first:
            return 0
        return self._smallest if self.lasting else self._largest

    @property
    def linked(self) -> bool:
        """True while there is a link to the head, so that bytes can move."""
        return not self._link.broken

    def is_own(self, value: int) -> bool:
        """Return True if a value is one of the program's own."""
        return value in self._own.sizes

    def hold(self, values: Iterable[int]) -> None:
        """Keep the program's references to values, whatever is released, until `unhold`."""
        self._held.update(dict.fromkeys(values, False))

    def unhold(self, values: Iterable[int]) -> None:
        """Release the values that were to be released meanwhile."""
        released = [value for value in values if self._held.pop(value, False)]
        if released:
            self.release(released)

    def add_own(self, payload: Payload) -> tuple[int, int]:
        """Keep a copy of a payload as an own value until it is released and no job needs it; return its number, and the
        size of its replicas.
        """
        value = self.first + self._added
        size = self._own.add(value, payload)
        self._added += 1
        self._workers[value] = ()
        self._link.post(OwnValues([value], [size], self._own.place(value)))
        return value, size

    def _files(self) -> Path | None:
        """Return the directory for files of own values, if workers may map them; it is made at the first call."""
        if self._directory is None and self._is_near:
            self._directory = SharedDirectory.make()
        return self._directory.path if self._directory is not None and self._is_near else None

    def close(self) -> None:
        """Remove the files of own values, because the head is gone, or nothing needs them."""
        if self._directory is not None:
            self._directory.remove()

    def own_payload(self, value: int) -> Payload | None:
        """Return the payload of an own value; None if it is not kept any more."""
        return self._own.payload(value)

    def payloads(self, values: Sequence[int]) -> dict[int, Payload]:
        """Return the payloads of own values.

        Raises:
            ValueLostError: a value is not kept any more.
        """
        found = self._own.payloads(values)
        if len(found) < len(values):
            raise ValueLostError("a value of the program's own is kept no more, as nobody needed it")
        return found

    def why_lost(self, value: int) -> str:
        """Return why a value can never be made again, if the head has told; it tells only those that needed it."""
        return self._lost.get(value, "")

    def why_few(self, value: int) -> str:
        """Return why a value has fewer replicas than it is to have, if the head's last answer was about this value."""
        return self.few.get(value, "")

    def where(self, value: int) -> tuple[str, ...]:
        """Return the names of the workers that have a whole replica, sorted, by the head's last message."""
        return tuple(sorted(self._workers.get(value, ())))

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
                    self.reached(value)
            case ValuesAt():
                self._moved(message)
            case SendReplica():
                self._begin(message)
            case ReplicaCredit(transfer=transfer, credit=credit):
                send = self._sends.get(transfer % GENERATION)
                if send is not None and send.order.transfer == transfer:
                    self._send(send, credit)
            case StopTransfer(transfer=transfer):
                self._sends.pop(transfer % GENERATION, None)
            case DropOwnValues():
                self._own.free(message.values)

    def _begin(self, order: SendReplica) -> None:
        """Send an own value, as far as there is credit."""
        size = self._own.sizes.get(order.value, 0)
        send = self._sends[order.transfer % GENERATION] = _OwnSend(order, size)
        if size:
            self._send(send, order.credit)
        else:
            self._fail(send)

    def _send(self, send: _OwnSend, credit: int) -> None:
        order, until = send.order, min(send.at + credit, send.size)
        try:
            while send.at < until:
                end = min(send.at + _PART_BYTES, until)
                data = self._own.read(order.value, send.at, end)
                self._link.post(ReplicaPart(order.transfer, order.value, order.attempt, send.at, send.size), [data])
                self._counters.sent += end - send.at
                self.progress += 1
                send.at = end
        except (KeyError, OSError):
            self._fail(send)
            return
        if send.at == send.size:
            del self._sends[order.transfer % GENERATION]

    def _fail(self, send: _OwnSend) -> None:
        """Tell the head that an own value is gone: the head has said that nothing needs it, or its file is gone."""
        del self._sends[send.order.transfer % GENERATION]
        self._link.post(Unsent(send.order.transfer, "the program has it no more", gone=True))

    def _comes(self, told: ValueComes) -> None:
        self._coming.pop(told.value, None)
        if told.value not in self._wanted:  # the value has arrived by an earlier transfer
            self.unwant([told.value])
        elif told.directory:
            self._map(told)
        else:
            self._receive(told)

    def _map(self, told: ValueComes) -> None:
        """Map the file of a worker; if that is not possible, the bytes are sent."""
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
        arriving = arriving_replica(told.size)
        if isinstance(arriving, Payload):
            self.unwant([told.value])
            self.fetcher.given(told.value, arriving)
        else:
            self._coming[told.value] = _Arrival(told, arriving)

    def _take(self, part: ReplicaPart, buffers: Sequence[Buffer]) -> None:
        arrival = self._coming.get(part.value)
        if arrival is None or arrival.told.transfer != part.transfer:
            return  # the value is not wanted any more, or is sent again
        count = arrival.memory.take(part.at, buffers)
        self.fetched += count
        self._link.post(ReplicaCredit(part.transfer, count))
        if part.at + count == part.size:  # parts arrive in order and without gaps
            del self._coming[part.value]
            self._whole(arrival)

    def _whole(self, arrival: _Arrival) -> None:
        try:
            payload = arrival.memory.payload()
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
                self.progress += tuple(workers) != tuple(self._workers[value])
                self._workers[value] = workers
        for value in told.reached:
            self.fetcher.replicated(value)
            self.reached(value)
        rows = zip(told.values, told.workers, told.recomputed, told.attempts, strict=False)
        for value, workers, recomputed, attempt in rows:
            job = self._jobs.get(value)
            if job is not None and job.placement is not None:
                if value not in self._internal:
                    self._counters.recomputed += max(0, recomputed - job.recomputed)
                job.made_again(recomputed, attempt, workers[0] if workers else None)


def _ignore(value: int) -> None:
    """Ignore it: only a session holds calls."""
