"""Records of `logging` that jobs made, at the head: each goes to the program whose job it is, unopened."""

from __future__ import annotations

import time
from collections.abc import Callable

from grainlike.head._peers import WorkerConnection
from grainlike.head._state import HeadState
from grainlike.joblogging import WORKER_RATE, Rate, RateGate
from grainlike.wire import LoggedRecords

__all__ = ["RecordRouter"]

HEAD_RATE = Rate(2 * WORKER_RATE.records, 2 * WORKER_RATE.size, WORKER_RATE.burst_s)
"""Of one worker, whatever that says of itself: twice of what it lets pass, so that no honest one gets there."""

ToClient = Callable[[int, str, list[bytes]], object]
"""Sends a client or a session, by its number, packed records of its jobs on a worker."""


class RecordRouter:
    """Routes for records of one head's jobs: to its own program (`own`), and to its clients (`clients`). Where there
    is no route, records are dropped.
    """

    def __init__(self, head_state: HeadState) -> None:
        self.own: Callable[[str, list[bytes]], object] | None = None
        self.clients: ToClient | None = None
        self.lost: Callable[[int, str], object] | None = None
        """Called in the head's own program with the number of records that a worker had sent beyond its rate."""
        self._state = head_state
        self._gates: dict[int, RateGate] = {}
        self._over: dict[int, int] = {}

    def hear(self, peer: WorkerConnection, message: LoggedRecords) -> None:
        """Pass on records from a worker, of jobs that it holds, in their present attempts. Others are passed over."""
        gate = self._gates.get(peer.number)
        if gate is None:
            gate = self._gates[peer.number] = RateGate(HEAD_RATE)
        now = time.monotonic()  # no state of the head depends on it, so a replay need not see the same
        live = self._state.scheduler.jobs
        whose: dict[int, list[bytes]] = {}
        for job, attempt, record in zip(message.jobs, message.attempts, message.records, strict=True):
            holder = live.get(job)
            if holder is None or holder.worker != peer.number or holder.attempt != attempt:
                continue
            if gate.allows(len(record), now):
                whose.setdefault(holder.cls.client, []).append(record)
            else:
                self._over[peer.number] = self._over.get(peer.number, 0) + 1
        for client, records in whose.items():
            self._send(client, peer.name, records)

    def left(self, peer: WorkerConnection) -> None:
        """Forget a worker that has left."""
        self._gates.pop(peer.number, None)
        count = self._over.pop(peer.number, 0)
        if count and self.lost is not None:
            self.lost(count, f"worker {peer.name} sent more than it may")

    def _send(self, client: int, worker: str, records: list[bytes]) -> None:
        if client and self.clients is not None:
            self.clients(client, worker, records)
        elif not client and self.own is not None:
            self.own(worker, records)
