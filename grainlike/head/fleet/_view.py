"""View of a fleet: its pools and blocks as people look at them, and which pool would help a job."""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.fleet import Block, EndedBlock
from grainlike.head import Head, WorkerConnection
from grainlike.head.fleet._rows import block_row, in_one_line, pool_row, stray_row
from grainlike.head.fleet._state import FleetState
from grainlike.launch import Kubernetes
from grainlike.scheduler import HeadJob, JobState, lacks
from grainlike.wire import BlockRow, PoolRow

__all__ = ["FleetView", "place_of"]

_SHOWN_BLOCKS = 2


class FleetView:
    """View of a fleet, whose jobs are those of `head`."""

    def __init__(self, state: FleetState, head: Head) -> None:
        self._state = state
        self._scheduler = state.scheduler
        self._records = state.scheduler.records
        self._head = head

    def pool_rows(self) -> list[PoolRow]:
        """Return the pools."""
        rows = []
        for name, state in self._records.pools.items():
            pool = self._state.pools[name]
            offer = str(pool.offer) if pool.offer is not None else self._state.offers.get(name, "")
            # A system that is silent is of interest before a job wants a block: `up` has said so, and goes by this.
            why = self._scheduler.why(name, self._state.time()) or self._scheduler.silence(name)
            rows.append(pool_row(state, self._records.blocks_of(name), pool, offer, why))
        return rows

    def block_rows(self, *, ended: bool = False) -> list[BlockRow]:
        """Return the blocks, the oldest first; those that have ended, too, if asked for."""
        now = self._state.time()
        over = list(self._records.ended.values()) if ended else []
        live = list(self._records.blocks.values())
        both: list[Block | EndedBlock] = [*over, *live]
        found = sorted(both, key=lambda block: block.number)
        hosts = self._hosts(live)
        rows = [
            block_row(block, self._kind(block.pool), self._log_of(block), now, hosts.get(block.label, ""))
            for block in found
        ]
        strays = self._records.strays.items()
        return [*rows, *(stray_row(row, system) for system, found in strays for row in found)]

    def _hosts(self, blocks: Iterable[Block]) -> dict[str, str]:
        """Return the hosts of the workers of blocks that run, of whose nodes no listing has told yet.

        The host name of a pod is no node's.
        """
        untold = {block.label for block in blocks if block.running and not block.place and not self._has_pods(block)}
        if not untold:
            return {}
        found: dict[str, dict[int, str]] = {}
        for peer in self._head.peers.values():
            place = place_of(peer)
            if place is not None and place[0] in untold:
                found.setdefault(place[0], {})[place[1]] = peer.hello.host
        return {label: ",".join(hosts[node] for node in sorted(hosts)) for label, hosts in found.items()}

    def _has_pods(self, block: Block) -> bool:
        return self._kind(block.pool) == Kubernetes.kind

    def _kind(self, pool: str) -> str:
        return self._state.pools[pool].kind if pool in self._state.pools else ""

    def _log_of(self, block: Block | EndedBlock) -> str:
        if block.pool not in self._state.pools:
            return ""
        return self._state.client(block.pool).log(self._state.name_of(block))

    def explain(self, job: int) -> str:
        """Return which pool would help a job that is queued, and what its blocks wait for; empty for other jobs."""
        record = self._head.state.scheduler.jobs.get(job)
        if record is None or record.state is not JobState.QUEUED:
            return ""
        name, words = self._nearest(record)
        return f"Pool {name} would help: {in_one_line(self._progress(name))}." if name and not words else words

    def shortfall(self, job: int) -> str | None:
        """Return what the nearest pool lacks for a job; None: one would serve it; empty: there is no pool."""
        name, words = self._nearest(self._head.state.scheduler.jobs[job])
        return None if name and not words else words

    def nearest(self, record: HeadJob) -> str:
        """Return the pool that could serve a job; empty if none could."""
        name, words = self._nearest(record)
        return "" if words else name

    def _nearest(self, record: HeadJob) -> tuple[str, str]:
        """Return the pool that could serve a job, or the one that lacks least, with the words for that."""
        nearest: tuple[int, str, str] | None = None
        for name, state in self._records.pools.items():
            usable = self._state.usable(name)
            short = () if usable is None else lacks(record.cls, usable, state.pool.max)
            if state.going:
                continue
            if not short:
                return name, ""
            words = f"No pool could run it: the nearest is {name}, short of {', '.join(short)}."
            nearest = min(nearest or (len(short), name, words), (len(short), name, words))
        return nearest[1:] if nearest is not None else ("", "")

    def _progress(self, name: str) -> str:
        """Return what a pool's blocks wait for, or what keeps it from submitting one."""
        why = self._scheduler.hindrance(name, self._state.time())
        if self._records.pools[name].paused:
            return f"it is {why}"
        titles = {"intent": "being submitted to", "pending": "pending at", "starting": "starting at"}
        rows = [row for row in self.block_rows() if row.pool == name and row.state in titles]
        title = self._state.client(name).title
        if rows:
            return "; ".join(
                f"block {row.label} is {titles[row.state]} {title}: {row.reason}" for row in rows[:_SHOWN_BLOCKS]
            )
        return why or "its next block is about to be submitted"

    def refusal_of(self, label: str) -> str | None:
        """Return why a worker of a block is not let in; None if it is."""
        ended = self._records.ended.get(label)
        return None if ended is None else f"block {label} has ended: {ended.reason}"


def place_of(peer: WorkerConnection) -> tuple[str, int] | None:
    """Return label and node of a worker that belongs to a block."""
    label, _, node = peer.hello.name.rpartition(".")
    if not peer.hello.block or label != peer.hello.block or not node.isdecimal():
        return None
    return label, int(node)
