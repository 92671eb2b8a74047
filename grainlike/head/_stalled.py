"""Jobs that stand still, though they run as far as the scheduler knows, as their workers say.

Nothing of it is in a journal: after a break of its link a worker tells of halted processes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from grainlike.head._peers import WorkerConnection
from grainlike.head._state import HeadState
from grainlike.wire import HALTS, Blocked, Halted, HaltedProcess

__all__ = ["StalledJobs"]

logger = logging.getLogger("grainlike")

_MOST_NAMED = 5
"""Most jobs of one process that are named in the log."""


class _Told(NamedTuple):
    """A process, and since when it does not go on, on the head's clock."""

    process: HaltedProcess
    since: float


class StalledJobs:
    """Jobs that block an event loop which they share, or whose processes are halted. `now` is the head's clock."""

    def __init__(self, head_state: HeadState, now: Callable[[], float]) -> None:
        self._state = head_state
        self._now = now
        self._halted: WeakKeyDictionary[WorkerConnection, dict[int, _Told]] = WeakKeyDictionary()
        """By the number of the job, for each worker that is here."""

    def hear(self, peer: WorkerConnection, message: Blocked | Halted) -> None:
        """Take what a worker says; the log tells of each job that blocks, and of each halted process, once."""
        if isinstance(message, Blocked):
            self._hear_blocked(peer, message)
        else:
            self._hear_halted(peer, message)

    def _hear_blocked(self, peer: WorkerConnection, message: Blocked) -> None:
        job = self._state.jobs.get(message.job)
        placement = None if job is None else job.own_placement()
        if job is None or placement is None or placement.worker != peer.name:
            return
        name = job.node.function.name if job.node is not None else "a job"
        if message.seconds:
            placement.blocks_since = self._now() - message.seconds
            words = "job %d, %s, has blocked the event loop of the coroutines on worker %s for %g s:\n%s"
            logger.warning(words, job.id, name, peer.name, message.seconds, message.stack)
        else:
            placement.blocks_since = None
            logger.info("job %d, %s, no longer blocks the event loop on worker %s", job.id, name, peer.name)

    def _hear_halted(self, peer: WorkerConnection, message: Halted) -> None:
        before = {told.process.pid for told in self._halted.pop(peer, {}).values()}
        for process in message.processes:
            if process.pid not in before:
                jobs = ", ".join(map(str, process.jobs[:_MOST_NAMED]))
                words = "job %s does not go on: its process, %d on worker %s, is %s"
                logger.warning(words, jobs, process.pid, peer.name, HALTS[process.state])
        for pid in before.difference(process.pid for process in message.processes):
            logger.info("process %d on worker %s is not halted any more", pid, peer.name)
        now = self._now()
        rows = {job: _Told(one, now - one.seconds) for one in message.processes for job in one.jobs}
        if rows:
            self._halted[peer] = rows

    def halt_of(self, worker: int, job: int) -> str:
        """Return in words what halts the process of a job on a worker; empty if it goes on, as far as is known."""
        told = self._told(worker, job)
        return "" if told is None else HALTS[told.process.state]

    def sentence(self, worker: int, job: int) -> str:
        """Return that in a sentence, with the process, and for how long; empty as `halt_of`."""
        told = self._told(worker, job)
        if told is None:
            return ""
        lets_go_on = f"; `kill -CONT {told.process.pid}` lets it go on" if told.process.state == "T" else ""
        how, seconds = HALTS[told.process.state], self._now() - told.since
        return f"Its process, {told.process.pid}, is {how}, for {seconds:.0f} s so far{lets_go_on}."

    def _told(self, worker: int, job: int) -> _Told | None:
        peer = self._state.peers.get(worker)
        jobs = None if peer is None else self._halted.get(peer)
        return None if jobs is None else jobs.get(job)
