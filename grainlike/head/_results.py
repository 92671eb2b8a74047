"""Completion of jobs: outcomes from workers, and from the head itself, delivered to the awaiters.

Items of streams that come from workers, and the credit that goes back.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from grainlike.graph import StreamNode
from grainlike.head._attempts import made_before
from grainlike.head._errors import error_of, name_of, stopped, text_of
from grainlike.head._history import JobHistory
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._nested import RelayedJob
from grainlike.head._peers import WorkerConnection
from grainlike.head._shared_memory import with_buffers
from grainlike.head._state import HeadState
from grainlike.head.values._client_values import ClientValues
from grainlike.jobs import (
    FirstOfChain,
    Job,
    LinkOutcome,
    Observer,
    OutcomeListener,
    Placement,
    close_all,
    outcomes_of,
)
from grainlike.payload import STAY_BYTES, Payload, load_plain_values, load_value, told_of_error
from grainlike.scheduler import FunctionTimed, HeadEvent, LineageDropped, ValuesReleased
from grainlike.wire import Buffer, Code, Completed, Credit, Items, Parcel, nbytes_of, unpack_parcels

if TYPE_CHECKING:
    from grainlike.graph import Node

__all__ = ["ResultHandler", "take_items"]

logger = logging.getLogger("grainlike")


_CODES = tuple(Code)
"""By number: an enumeration's own look-up costs more than all else that is done with an outcome's code."""

_REVIVED_S = 1.0
"""Seconds between two warnings of values that are made again: they are often many, one after another."""


_OUTCOMES = {Code.SUCCEEDED: "succeeded", Code.TIMED_OUT: "timed_out"}


class ResultHandler:
    """Removes jobs from `state` as they end; delivers to `outcomes` those of this program, and to clients theirs.

    `tell` passes events to the scheduler, `now` is the head's clock, `observers` receive the links of chains,
    `history` all jobs as they end, and `values` those of clients that stay.
    """

    def __init__(
        self,
        state: HeadState,
        outcomes: OutcomeListener,
        observers: Sequence[Observer],
        history: JobHistory,
        values: ClientValues,
        tell: Callable[[HeadEvent], object],
        now: Callable[[], float],
    ) -> None:
        self._state = state
        self._outcomes = outcomes
        self._observers = observers
        self._history = history
        self._values = values
        self._tell = tell
        self._now = now
        self.revived: list[RevivedJob] = []
        """Calls that run again for their values, of which programs are to be warned."""
        self._revived_at = -math.inf
        self._failed_internal: list[Node] = []
        """Internal jobs of this program that have failed; the calls that need them are not counted yet."""

    # --- a worker's word ---------------------------------------------------------------------------------------------

    def settle(
        self, peer: WorkerConnection, completed: Completed, rows: list[int], parcels: list[Parcel], skew: float
    ) -> None:
        """Jobs have ended on a worker; `rows` are those of them that count. Its clock is `skew` behind ours."""
        self._state.counters.run_seconds += sum(completed.wall)
        settled = self._settle_plain(peer, completed, skew) if len(rows) == len(completed.jobs) else 0
        if settled < len(rows):
            self._settle_each(peer, completed, rows[settled:], parcels, skew)
        if self.revived:
            self.tell_revived(self._now())

    def _settle_plain(self, peer: WorkerConnection, completed: Completed, skew: float) -> int:
        """Settle a batch of this program's own calls, all of which gave values without buffers, as most do. How many of
        them it has seen to: those before the first whose value cannot be rebuilt so, and none of any other batch.
        """
        if completed.counts or completed.sizes or any(completed.codes):
            return 0
        # One loop without a call of ours: through `_settle_each` a no-op job costs 12.9 Python calls instead of 9.9.
        jobs, numbers = self._state.jobs, completed.jobs
        ended = list(filter(None, map(jobs.get, numbers)))
        if len(ended) < len(numbers) or set(map(type, ended)) != {Job}:
            return 0
        shared = ended[0].placement
        assert shared is not None
        values = load_plain_values(completed.data)
        del ended[len(values) :]
        receipt = peer.receipts.get(completed.lease)
        nodes: list[Node] = []
        for job in ended:
            node = job.node
            assert node is not None
            if not node.finished:  # what a value is rebuilt by may cancel others, which are closed and kept then
                del jobs[job.id]
                nodes.append(node)
        count = len(ended)
        if len(nodes) == count and nodes:
            self._history.succeeded(peer.name, skew, ended, nodes, completed, receipt)
        left: Container[int] = () if len(nodes) == count else jobs
        placements: Iterator[Placement | None] = repeat(None)
        if count > 1:
            from grainlike.jobs import ended_placements  # a head without a program has none

            placements = ended_placements(shared, completed, skew, receipt)
        for row, (job, placement) in enumerate(zip(ended, placements, strict=False)):
            if job.id in left:
                continue
            if placement is not None and job.placement is shared:  # as of all that began together
                job.placement = placement
            else:
                job.ended_in(completed, row, skew, receipt)
        if len(nodes) < count:
            values = [value for job, value in zip(ended, values, strict=True) if job.id not in jobs]
            ended = [job for job in ended if job.id not in jobs]
            for job in ended:
                self._history.ended(job, "succeeded")
        internal = self._state.functions.internal
        counted = [job for job in ended if job.fn not in internal] if internal else ended
        self._state.counters.succeeded += len(counted)
        close_all(ended)
        self._outcomes.all_succeeded(nodes, values)
        return count

    def _settle_each(
        self, peer: WorkerConnection, completed: Completed, rows: list[int], parcels: list[Parcel], skew: float
    ) -> None:
        counters = self._state.counters
        bad, gone, sizes = counters.bad, 0, completed.sizes
        receipt, internal = peer.receipts.get(completed.lease), self._state.functions.internal
        jobs, codes, walls, succeeded = self._state.jobs, completed.codes, completed.wall, self._outcomes.succeeded
        for row in rows:
            job = jobs.pop(completed.jobs[row], None)
            if job is not None and job.node is not None and job.node.finished:
                jobs[job.id], job = job, None  # what a value is rebuilt by may cancel others, which are closed then
            if job is None:
                gone += 1
                if sizes and sizes[row]:
                    self._tell(ValuesReleased([completed.jobs[row]]))
                continue
            node = job.node
            wall = walls[row]
            placement = job.own_placement()
            assert placement is not None
            placement.used = (wall, completed.cpu[row], completed.rss[row])
            placement.receipt = receipt
            placement.began = began = completed.begun[row] + skew
            placement.ended = began + wall
            code = codes[row]
            if job.fn in internal or type(job) is RevivedJob:
                gone += 1
            if type(job) is RevivedJob:
                self._remade(job, _CODES[code], parcels[row])
            elif node is None:
                self._relay(job, _CODES[code], parcels[row], sizes[row] if sizes else 0)
            elif code:
                job.close()
                self._outcome(job, node, _CODES[code], parcels[row])
            elif sizes and sizes[row]:
                self._stays(job, node, sizes[row])
            elif type(job) is FirstOfChain:
                self._settle_chain(job, placement, parcels[row], skew)
            else:
                job.close()
                parcel = parcels[row]
                placement.size = nbytes_of(parcel) if parcel[1] else len(parcel[0])
                try:
                    value = load_value(parcel)
                except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this job's error
                    self._unreadable(job, node, error)
                else:
                    self._history.ended(job, "succeeded", node=node)
                    succeeded(node, value)
        counters.succeeded += len(rows) - gone - (counters.bad - bad)
        self._count_needing()

    def _stays(self, job: Job, node: Node, size: int) -> None:
        """Settle a job whose value stays at its worker, and keep its call."""
        assert job.placement is not None
        job.placement.size = size
        self._state.functions.large.add(job.fn)
        if type(job) is FirstOfChain:
            assert job.placement.used is not None
            for observer in self._observers:
                observer.linked(job, good=True)
            self._tell(FunctionTimed(job.fn, [job.placement.used[0]]))
            job.leave_links()
        again = node.function.options.retry.losses != 0
        given_up = self._state.kept.keep(job, str(node.request or ""), again=again)
        self._history.ended(job, "succeeded", node=node)
        self._outcomes.stayed(node, job.id, size)
        if given_up:
            self._tell(LineageDropped(given_up))

    def _stays_for_client(self, job: RelayedJob, size: int) -> None:
        """Settle a client's job whose value stays at its worker, and keep its call."""
        assert job.placement is not None
        job.placement.size = size
        again = self._state.functions.losses(job.fn) != 0
        given_up = self._state.kept.keep(job, job.request, again=again)
        self._history.ended(job, "succeeded")
        self._state.nested.stayed(job)
        self._values.stayed(job, job.reply_to)
        if given_up:
            self._tell(LineageDropped(given_up))

    def revive(self, numbers: Iterable[int], *, by_copy: bool) -> None:
        """Have calls that have ended run again, or copies read: the scheduler has queued them."""
        for number in numbers:
            job = self._state.kept.revive(number, by_copy=by_copy)
            assert job is not None, "only what is kept is made again"
            self._state.jobs[number] = job
            if not (job.reads_copy or job.fn in self._state.functions.internal):
                self.revived.append(job)
            made = made_before(job.former, self._history.moment()[1])
            if made is not None:
                self._history.tried(number, made)

    def tell_revived(self, now: float) -> None:
        """Warn programs of the calls that run again for their values; of those of a second at once."""
        if now - self._revived_at >= _REVIVED_S:
            self._revived_at = now
            self._values.warn_of_revived(self.revived)
            self.revived = []

    def forget(self, values: Iterable[int]) -> None:
        """Let go of calls whose values nothing needs any more, nor will."""
        self._state.kept.release(values)
        for number in values:
            if type(self._state.jobs.get(number)) is RevivedJob:
                del self._state.jobs[number]
                self._history.dropped(number)

    def _remade(self, job: RevivedJob, code: Code, parcel: Parcel) -> None:
        """Take note of the end of a call that ran again for its value; no program awaits it."""
        good = code is Code.SUCCEEDED
        job.ends(good=good)
        if good:
            self._values.remade(job)
        self._state.counters.recomputed += not (job.reads_copy or job.fn in self._state.functions.internal)
        words = told_of_error(parcel[0]) if code in (Code.FAILED, Code.OUT_OF_MEMORY) else code.name.lower()
        self._history.ended(job, _OUTCOMES.get(code, "failed"), "" if good else words)
        if job.reads_copy and not good:
            said = f"{words.removesuffix('.')}. The value is at no worker, and is made again if it may be"
            logger.warning("%s", said)
            self._values.warn(job.id, said)

    def _relay(self, job: Job, code: Code, parcel: Parcel, size: int) -> None:
        """Deliver the outcome of a job that came over a link to its submitter."""
        assert isinstance(job, RelayedJob)
        nested = self._state.nested
        if size and code is Code.SUCCEEDED:
            self._stays_for_client(job, size)
            return
        if code in (Code.SUCCEEDED, Code.FAILED, Code.OUT_OF_MEMORY):
            good = code is Code.SUCCEEDED
            if not good:
                self._count_failure(job.fn, code)
            self._history.ended(job, _OUTCOMES.get(code, "failed"), "" if good else told_of_error(parcel[0]))
            nested.ended(job, with_buffers(parcel), good=good)
            return
        self._count_failure(job.fn, code)
        error = stopped(job, job.name, job.timeout, code)
        self._history.ended(job, _OUTCOMES.get(code, "failed"), text_of(error))
        nested.ended_by(job, error)

    def _settle_chain(self, first: FirstOfChain, whole: Placement, parcel: Parcel, skew: float) -> None:
        """Give each link of a chain its own outcome; the engine resubmits those that were not run. The links of a
        function are sent alone once one of its values was large.
        """
        walls: dict[int, list[float]] = {}
        attempts: list[int] = []
        rss = whole.used[2] if whole.used is not None else 0
        observers, large = self._observers, self._state.functions.large
        rows = list(zip([first, *first.links], outcomes_of(Payload(parcel[0], tuple(parcel[1]))), strict=False))
        for job, (good, data, buffers, begun, wall, cpu) in rows:
            attempt, earlier = (1, ()) if job.placement is None else (job.placement.attempt, job.placement.earlier)
            attempts.append(attempt)
            began, used = begun + skew, (wall, cpu, rss)
            job.placement = Placement(
                whole.worker, attempt, earlier, whole.slots, began, began + wall, used, whole.receipt
            )
            walls.setdefault(job.fn, []).append(wall)
            for observer in observers:
                observer.linked(job, good=good)
            if good and (buffers or len(data) > STAY_BYTES) and nbytes_of((data, buffers)) > STAY_BYTES:
                large.add(job.fn)
        links, outcomes = zip(*rows, strict=True)
        for job in links:
            if job.node is not None and job.node.finished:  # it was cancelled, and counted, while the chain ran
                self._history.unwanted([job])
                job.close()
        nodes = [job.node for job in links]
        close_all(links)
        self._state.counters.succeeded += len(nodes) - 1 - nodes[1:].count(None)  # the first is counted with its batch
        settled = self._settle_plain_links(whole, skew, links, attempts, nodes, outcomes)
        for job, node, outcome in list(zip(links, nodes, outcomes, strict=True))[settled:]:
            if node is not None:
                good, data, buffers, *_ = outcome
                self._outcome(job, node, Code.SUCCEEDED if good else Code.FAILED, (data, buffers))
        for fn, seconds in walls.items():
            self._tell(FunctionTimed(fn, seconds))

    def _settle_plain_links(
        self,
        whole: Placement,
        skew: float,
        links: Sequence[Job],
        attempts: list[int],
        nodes: Sequence[Node | None],
        outcomes: Sequence[LinkOutcome],
    ) -> int:
        """Settle the links of a chain as a batch, where all of them gave values without buffers, as most do. Return how
        many of them it has seen to, as `_settle_plain` does.
        """
        good, data, buffers, begun, wall, cpu = map(list, zip(*outcomes, strict=True))
        wanted = [node for node in nodes if node is not None]
        if not all(good) or any(buffers) or len(wanted) < len(nodes):
            return 0
        values = load_plain_values(data)
        if values:
            rss = [0 if whole.used is None else whole.used[2]] * len(values)
            numbers = [job.id for job in links]
            completed = Completed(0, numbers, attempts, [], begun, wall, cpu, rss, data, [], 0.0)
            settled, kept = links[: len(values)], wanted[: len(values)]
            self._history.succeeded(whole.worker or "", skew, settled, kept, completed, whole.receipt)
            self._outcomes.all_succeeded(kept, values)
        return len(values)

    def _unreadable(self, job: Job, node: Node, error: Exception) -> None:
        """Fail a job whose value cannot be unpickled here."""
        error.add_note(job.note(node.function.name))
        self._count_failure(job.fn, Code.FAILED, node)
        words = f"{type(error).__name__}: its value cannot be read here"  # the text may be the user's own code
        self._history.ended(job, "failed", words, node)
        self._outcomes.failed(node, error)

    def _outcome(self, job: Job, node: Node, code: Code, parcel: Parcel) -> None:
        if code is Code.SUCCEEDED:
            try:
                value = load_value(parcel)
            except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this job's error
                self._unreadable(job, node, error)
            else:
                self._history.ended(job, "succeeded", node=node)
                self._outcomes.succeeded(node, value)
            return
        self._count_failure(job.fn, code, node)
        told = error_of(job, node, code, Payload(parcel[0], tuple(parcel[1])))
        words = told_of_error(parcel[0]) if code in (Code.FAILED, Code.OUT_OF_MEMORY) else text_of(told)
        self._history.ended(job, _OUTCOMES.get(code, "failed"), words, node)
        if code is Code.OUT_OF_MEMORY and job.last_words is not None:
            told.add_note(job.last_words)
        self._outcomes.failed(node, told)

    def _count_failure(self, fn: int, code: Code, node: Node | None = None) -> None:
        """Count a job of function `fn` that has no value. An internal one is not counted; this program's calls that
        need it are, by `_count_needing`.
        """
        counters = self._state.counters
        if fn in self._state.functions.internal:
            if node is not None:
                self._failed_internal.append(node)
        elif code is Code.TIMED_OUT:
            counters.timed_out += 1
        else:
            counters.failed += 1

    def _count_needing(self) -> None:
        """Count the calls that need internal jobs which have failed."""
        while self._failed_internal:
            self._state.counters.internal_failed(self._failed_internal.pop())

    # --- the head's own ----------------------------------------------------------------------------------------------

    def end(self, numbers: Iterable[int], error_of: Callable[[Job], Exception]) -> None:
        """End jobs that will have no value; those that are wanted no more have ended already."""
        for job in self._ending(numbers):
            self._fail(job, error_of(job))
        self._count_needing()

    def _ending(self, numbers: Iterable[int]) -> Iterator[Job]:
        for number in numbers:
            job = self._state.jobs.pop(number, None)
            if job is not None:
                yield job

    def _fail(self, job: Job, error: Exception) -> None:
        node = job.node
        if type(job) is RevivedJob:  # those that need its value are told by another action
            self._history.ended(job, "failed", text_of(error))
            return
        if job.worker is not None and not isinstance(job, RelayedJob):  # the receiver of that one adds it
            error.add_note(job.note(name_of(job)))
        if job.last_words is not None:
            error.add_note(job.last_words)
        self._count_failure(job.fn, Code.FAILED, node)
        self._history.ended(job, "failed", text_of(error))
        if isinstance(job, RelayedJob):
            job.stopped(self._now())
            self._state.nested.ended_by(job, error)
            return
        job.close()
        if node is not None:
            self._outcomes.failed(node, error)


def take_items(peer: WorkerConnection, job: Job | None, message: Items, buffers: Sequence[Buffer]) -> bool:
    """Hand items to the stream of `job`, if they come from where it runs now. True for the first ones of a job.

    Those of a client's stream go on to the client as they are. Nothing of them is kept here, but what the client has
    not acknowledged: at most a window, for the worker gets credit only when the client's reader has taken items.
    """
    placement = None if job is None else job.placement
    if job is None or placement is None or (placement.worker, placement.attempt) != (peer.name, message.attempt):
        return False
    first = not placement.streamed
    if first:
        placement = job.own_placement()
        assert placement is not None
    if isinstance(job, RelayedJob):
        if job.window is None:
            return False
        for data, outband in unpack_parcels(message.data, message.counts, buffers):
            job.window.sent(Payload(data, tuple(outband)).nbytes)
        job.reply_to.post(Items(job.child, message.attempt, message.data, message.counts), buffers)
    elif isinstance(job.node, StreamNode):
        from grainlike.engine import buffer_of  # a head whose program has no stream does without

        buffer = buffer_of(job.node)
        if not buffer.begun:
            buffer.begin(partial(_credit, peer, job.id, placement.attempt))
        buffer.put_all(message, buffers)
    else:
        return False
    placement.streamed = True
    return first


def _credit(peer: WorkerConnection, job: int, attempt: int, items: int, size: int) -> None:
    peer.post(Credit(job, attempt, items, size))
