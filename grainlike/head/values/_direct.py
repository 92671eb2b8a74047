"""Copies of replicas between the data servers of two workers. The head names source and target, and counts the bytes.

The head says once what a copy needs, in a message that is sent again if a link breaks. So a broken link delays no copy.
If a copy fails, its bytes stay at the target. The next copy goes on with them, direct or through the head, until the
value is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from grainlike.errors import ProtocolError
from grainlike.head._peers import Connection
from grainlike.head._state import HeadState
from grainlike.head.values._transfers import DirectTransfer
from grainlike.payload import replica_name
from grainlike.scheduler import HeadEvent, ReplicasArrived, ReplicasFailed
from grainlike.wire import DropReplicas, Fetched, Pulled, PullReplica, StopTransfer, Unsent

__all__ = ["DirectCopies"]

logger = logging.getLogger("grainlike")


class DirectCopies:
    """Copies under way between data servers. `answer` takes events for the scheduler; `relay(value, attempt, size,
    source, target)` begins a copy through the head.

    Example::

        if copies.can(source, target):
            copies.start(7, 1, 200_064, source, target)
    """

    def __init__(
        self,
        state: HeadState,
        answer: Callable[[HeadEvent], object],
        relay: Callable[[int, int, int, int, int], object],
    ) -> None:
        self.moved: int = 0
        """Bytes that have arrived, of all copies."""
        self._state = state
        self._answer = answer
        self._relay = relay
        self._by_target: dict[tuple[int, int], DirectTransfer] = {}
        """Copies by target and value."""
        self._warned: set[int] = set()
        """Workers about which it was logged that another worker cannot reach their data server."""

    # --- actions of the scheduler ------------------------------------------------------------------------------------

    def can(self, source: int, target: int) -> bool:
        """Return True if both workers have data servers."""
        return bool(self._state.peers[source].hello.data and self._state.peers[target].hello.data)

    def start(self, value: int, attempt: int, size: int, source: int, target: int) -> None:
        """Begin a copy, from the byte at which the last copy to that worker stopped."""
        self._state.last_transfer += 1
        at = self.left_off(value, attempt, size, target)
        copy = DirectTransfer(self._state.last_transfer, value, attempt, size, source, target, at)
        self._state.direct[copy.number] = self._by_target[target, value] = copy
        hello = self._state.peers[source].hello
        name = replica_name(hello.data_key, value, attempt)
        self._state.peers[target].post(PullReplica(copy.number, value, attempt, size, at, hello.data, name))

    def left_off(self, value: int, attempt: int, size: int, target: int) -> int:
        """Return the bytes of a replica that a worker has from failed copies, for the next copy to go on with."""
        at = self._state.begun.pop((target, value, attempt), 0)
        return at if at < size else 0

    def find(self, target: int, value: int) -> DirectTransfer | None:
        """Return the copy of a value to a worker that is under way."""
        return self._by_target.get((target, value))

    def restore(self) -> None:
        """Take the copies under way from an image. They go on by themselves: the workers were told what they need."""
        self._by_target = {(one.target, one.value): one for one in self._state.direct.values()}

    def stop(self, copy: DirectTransfer | None) -> None:
        """Stop a copy that is under way; nothing happens with None."""
        if copy is not None:
            self._end(copy)
            self.broke_off(copy.value, copy.attempt, copy.target, copy.written)
            target = self._state.peers.get(copy.target)
            if target is not None:
                target.post(StopTransfer(copy.number))

    def broke_off(self, value: int, attempt: int, target: int, at: int) -> None:
        """Record that a worker may have a file with `at` bytes of a replica; nothing happens for other targets."""
        if target in self._state.peers:
            self._state.begun[target, value, attempt] = at

    def dropped(self, values: Iterable[int], attempts: Iterable[int], target: int) -> None:
        """Record that a worker removes these replicas and what it has of them; let others remove unfinished files."""
        if not self._state.begun:
            return
        dropped = set(zip(values, attempts, strict=True))
        for value, attempt in dropped:
            self._state.begun.pop((target, value, attempt), None)
        self._remove([key for key in self._state.begun if key[1:] in dropped])

    def forget(self, values: Iterable[int]) -> None:
        """Let workers remove the unfinished files of values that nothing needs."""
        values = set(values)
        self._remove([key for key in self._state.begun if key[1] in values])

    def _remove(self, keys: list[tuple[int, int, int]]) -> None:
        for target, value, attempt in keys:
            del self._state.begun[target, value, attempt]
            self._state.peers[target].post(DropReplicas([value], [attempt]))

    def left(self, worker: int) -> None:
        """Stop the copies from and to a lost worker."""
        for copy in [one for one in self._state.direct.values() if worker in (one.source, one.target)]:
            self.stop(copy)
        for key in [key for key in self._state.begun if key[0] == worker]:
            del self._state.begun[key]
        self._warned.discard(worker)

    # --- messages of workers -----------------------------------------------------------------------------------------

    def hear(self, peer: Connection, copy: DirectTransfer, message: object) -> None:
        """Take a worker's message about a copy.

        Raises:
            ProtocolError: the copy is not the worker's, or such a message does not belong to a direct copy.
        """
        if peer.number != copy.target:
            raise ProtocolError(f"transfer {copy.number} is another worker's")
        match message:
            case Fetched():
                self._came(copy, copy.size)
                self._end(copy)
                self._answer(ReplicasArrived(copy.target, [copy.value], [copy.attempt]))
            case Unsent():
                self._unsent(peer, copy, message)
            case _:
                raise ProtocolError(f"transfer {copy.number} does not pass the head")

    def hear_progress(self, peer: Connection, message: Pulled) -> None:
        """Take a worker's report of bytes that have arrived for its copies. Raises `ProtocolError` like `hear`."""
        for number, at in zip(message.transfers, message.at, strict=True):
            copy = self._state.direct.get(number)
            if copy is not None:
                if peer.number != copy.target:
                    raise ProtocolError(f"transfer {number} is another worker's")
                self._came(copy, at)

    def _came(self, copy: DirectTransfer, at: int) -> None:
        if not 0 <= at <= copy.size:
            raise ProtocolError(f"of transfer {copy.number} {at} bytes cannot have come: there are {copy.size}")
        self.moved += max(0, at - copy.written)
        copy.written = at

    def _unsent(self, peer: Connection, copy: DirectTransfer, message: Unsent) -> None:
        self._came(copy, message.at)
        self._end(copy)
        self.broke_off(copy.value, copy.attempt, copy.target, message.at)
        source = self._state.peers[copy.source]
        if message.gone:
            # Only the source itself may say that its replica is gone, so it is asked by a copy through the head.
            self._relay(copy.value, copy.attempt, copy.size, copy.source, copy.target)
            return
        if message.unreachable and copy.source not in self._warned:
            self._warned.add(copy.source)
            words = "worker %s (%s) cannot reach the data server of worker %s at %s, so values go through the head: %s"
            logger.warning(words, peer.name, peer.hello.data, source.name, source.hello.data, message.why)
        why = f"{peer.name}: {message.why}"
        unreachable, rows = message.unreachable, ([copy.value], [copy.attempt])
        self._answer(ReplicasFailed(copy.target, *rows, why, unreachable, refused=not unreachable))

    def _end(self, copy: DirectTransfer) -> None:
        del self._state.direct[copy.number], self._by_target[copy.target, copy.value]
