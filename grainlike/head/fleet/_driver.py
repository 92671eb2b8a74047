"""Driver of the fleet scheduler: passes events to it, and its actions to batch systems and workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from grainlike.dialects import native_name
from grainlike.errors import LaunchError
from grainlike.eventloop import Changes
from grainlike.fleet import (
    BlockDismissed,
    EndBlocks,
    FleetAction,
    FleetEvent,
    Joined,
    Leave,
    Left,
    ListBlocks,
    Listed,
    ListingFailed,
    LogRead,
    Pause,
    PoolGone,
    PoolPaused,
    PoolResumed,
    PoolSet,
    ReadLog,
    Restored,
    StraysGone,
    SubmissionAccepted,
    SubmissionRefused,
    SubmissionUnclear,
    SubmitBlock,
    TellTimeLeft,
    Tick,
    Wanted,
    Working,
)
from grainlike.head import Head
from grainlike.head.fleet._pool_warnings import PoolWarnings
from grainlike.head.fleet._records_file import RecordsFile
from grainlike.head.fleet._rows import in_one_line
from grainlike.head.fleet._state import FleetState
from grainlike.head.fleet._view import FleetView, place_of
from grainlike.launch import POOL_NAME, FilePart, Submission, WorkerPool, sweep_blocks, system_key
from grainlike.net import state_directory
from grainlike.resources import UNIT, Allocation
from grainlike.scheduler import PoolOffer, Trials, wanted_in_pools

__all__ = ["FleetDriver"]

logger = logging.getLogger("grainlike")

LOOK_S = 1.0
"""Seconds between two looks at what waits and who is idle."""

WITHIN_S = 60.0
"""Seconds in which short jobs are to be finished: they want no more workers than that takes."""

ASK_S = 10.0
"""Seconds for which `up` waits for a batch system that has not taken a block yet: for what it says to one, and for its
listing.
"""

_KILL_S = 60.0
"""Seconds after which a block that was to end is ended by force, where there is no batch system to do it."""

_FAILED = "the head has failed to ask: its log has the error"

CLOSE_S = 60.0
"""Seconds for which a head that closes waits until nothing is left of its blocks."""


class FirstBlock(NamedTuple):
    """First submission of a pool that was set: label and id of its block, which are empty where nothing is to be
    submitted. `silent` says that the batch system does not answer; empty where it does.
    """

    label: str
    native: str
    silent: str


class FleetDriver:
    """Fleet of `head`, whose workers connect with the access file `access`.

    `file` keeps the records for the next head; None where they end with this one. `changes` is notified when a block or
    a pool has changed, and `shown` is called then, at most once a second.

    Raises:
        JournalError: the records in the file are damaged.
    """

    def __init__(
        self,
        head: Head,
        access: Path,
        changes: Changes,
        file: RecordsFile | None = None,
        shown: Callable[[], None] = lambda: None,
    ) -> None:
        self._head = head
        self._shown = shown
        self._last_shown: object = None
        self._changes = changes
        self._state = FleetState(access, file)
        self._scheduler = self._state.scheduler
        self._records = self._scheduler.records
        self.view: FleetView = FleetView(self._state, head)
        self._pool_warnings = PoolWarnings(self._state, head, self.view, head.ask_pools(self.view.shortfall))
        self._known: dict[tuple[str, int], tuple[int, bool]] = {}
        """Workers of blocks that the scheduler knows of: number at the head, and whether it has no job."""
        self._submissions: dict[str, Submission] = {}
        """Last submission, by label: who asked for the pool is told what was said."""
        self._trials = Trials()
        self._outbox: list[FleetAction] = []
        self._waiting = anyio.Event()
        self._drives = False
        """True while actions are performed."""
        if self._state.is_restored:
            self._tell(Restored())

    def start(self, tasks: TaskGroup) -> None:
        """Drive the fleet in `tasks` from now on."""
        self._tasks = tasks
        self._state.context.tunnels.start(tasks)
        tasks.start_soon(self._sweep)
        tasks.start_soon(self._act)
        tasks.start_soon(self._look)

    async def _sweep(self) -> None:
        """Remove what blocks of long ago have left, of this head and others."""
        await anyio.to_thread.run_sync(sweep_blocks, state_directory())

    # --- what people ask for -----------------------------------------------------------------------------------------

    async def up(
        self, name: str, pool: WorkerPool, *, asks: bool = True, stays: Callable[[], bool] = lambda: False
    ) -> FirstBlock:
        """Set a pool; return what became of its first submission.

        Where nothing is to be submitted, with `asks` the batch system is asked whether it would take a block, if that
        costs it nothing. A system that is silent is told, and is no reason against a pool. Cancelled before the answer,
        the pool goes down, unless it was up before, as its blocks may run jobs, or `stays()` says that it is asked for
        again.

        Raises:
            ValueError: the name is none.
            LaunchError: the submission was refused. The pool stays, paused.
        """
        if not POOL_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a pool: letters, digits and _ . - make up to 40")
        old = self._state.pools.get(name)
        if old is None or type(old) is not type(pool) or old.scaled(pool.min, pool.max) != pool:
            self._state.offers.pop(name, None)  # what its workers offered says nothing of those to come
        self._state.pools[name] = pool
        before = self._records.last_number
        known = self._records.pools.get(name)
        was_up = known is not None and not known.going
        self._tell(PoolSet(self._state.numbers(name, pool)))
        silent = ""
        try:
            self._count()
            await self._changes.until(lambda: self._first_answer(name, before) is not None)
            _, native, refusal = self._first_answer(name, before) or ("", "", "")
            if asks and not native and not refusal:
                silent = await self._ask(name, pool, before)
        except LaunchError:
            raise
        except BaseException:
            if not was_up and not stays():
                self._tell(PoolGone(name, at_once=True))
            raise
        label, native, refusal = self._first_answer(name, before) or ("", "", "")
        if refusal:
            said = self._submissions.get(label)
            raise LaunchError(refusal, said.command if said else (), said.script if said else "")
        if silent:
            logger.warning("pool %s is set, but %s", name, silent)
        return FirstBlock(label, native, silent)

    async def _ask(self, name: str, pool: WorkerPool, before: int) -> str:
        """Ask the batch system of a pool whether it would take a block, if none was submitted since number `before`,
        and wait for its listing. Return that it is silent; empty where it is not.

        Raises:
            LaunchError: it never would take one. The pool is paused.
        """
        refusal = None
        system = self._records.system(system_key(pool, name))
        with anyio.move_on_after(ASK_S):  # it may be silent now, which is no reason against a pool
            if self._first_answer(name, before) == ("", "", ""):
                refusal = await pool.hopeless()
            if refusal is None and pool.has_one_server:
                await self._changes.until(lambda: not system.waiting)
        if refusal is not None:
            self._tell(PoolPaused(name, refusal.words))
            raise refusal
        if not pool.has_one_server:
            return ""
        title = pool.dialect_class.title
        if system.failing:
            return f"{title} does not answer: {in_one_line(system.failing)}"
        return f"{title} has not answered for {ASK_S:g} s" if system.waiting else ""

    def _first_answer(self, name: str, before: int) -> tuple[str, str, str] | None:
        """Return label, id and refusal of the first submission of a pool since number `before`; None: not answered."""
        records = self._records
        for block in records.blocks.values():
            if block.pool == name and block.number > before:
                answered = block.native or block.joined or block.answered_at is not None
                return (block.label, block.native, "") if answered else None
        for ended in reversed(records.ended.values()):
            if ended.pool == name and ended.number > before:
                if not ended.native and self._scheduler.submits_soon(name, self._state.time()):
                    return None  # one machine refused it, and another is about to be asked
                refused = not ended.native and name in records.pools and records.pools[name].paused
                return ended.label, ended.native, ended.reason if refused else ""
        if self._scheduler.submits_soon(name, self._state.time()):
            return None
        return "", "", records.pools[name].paused if name in records.pools else "it was taken down"

    def scale(self, name: str, least: int, most: int) -> None:
        """Change how many workers a pool has.

        Raises:
            LookupError: there is no such pool.
            ValueError: the numbers do not go together.
        """
        pool = self._pool(name)
        self._state.pools[name] = changed = pool.scaled(least, most)
        self._tell(PoolSet(self._state.numbers(name, changed)))

    def down(self, names: Iterable[str], *, at_once: bool = False) -> list[str]:
        """Take pools down; without names, all of them, and the jobs of this cluster without a record."""
        chosen = list(names)
        unknown = [name for name in chosen if name not in self._records.pools]
        if unknown:
            raise LookupError(self._no_pool(unknown[0]))
        if not chosen:
            chosen = list(self._records.pools)
            self._tell(StraysGone())
        for name in chosen:
            self._tell(PoolGone(name, at_once))
        return chosen

    def pause(self, name: str, *, on: bool) -> None:
        """Pause a pool, or resume it.

        Raises:
            LookupError: there is no such pool.
        """
        self._pool(name)
        self._tell(PoolPaused(name, "by hand") if on else PoolResumed(name))

    def end_block(self, label: str, *, at_once: bool = False) -> None:
        """End a block.

        Raises:
            LookupError: there is no such block, or it has ended.
        """
        if label not in self._records.blocks:
            ended = self._records.ended.get(label)
            why = f"there is no block {label}" if ended is None else f"block {label} has ended: {ended.reason}"
            raise LookupError(why)
        self._tell(BlockDismissed(label, at_once))

    async def read_file(self, label: str, file: str, start: int) -> FilePart:
        """Return what the `log` or the `script` of a block has from a place on; its end, if that is much.

        Raises:
            LookupError: there is no such block, or its pool is down.
        """
        block = self._scheduler.block(label)
        if block is None:
            raise LookupError(f"there is no block {label}; `grainlike blocks --all` lists them")
        if block.pool not in self._state.pools:
            raise LookupError(f"the pool of block {label} is down, so nobody knows where its files are")
        return await self._state.client(block.pool).read_part(self._state.name_of(block), file, start)

    def _pool(self, name: str) -> WorkerPool:
        if name not in self._records.pools:
            raise LookupError(self._no_pool(name))
        return self._state.pools[name]

    def _no_pool(self, name: str) -> str:
        known = ", ".join(self._records.pools)
        return f"there is no pool {name}: {f'there are {known}' if known else 'no pool is up'}"

    # --- events ------------------------------------------------------------------------------------------------------

    def _tell(self, event: FleetEvent) -> None:
        self._outbox += self._scheduler.handle(event, self._state.time())
        self._waiting.set()
        self._changes.notify()

    def workers_changed(self) -> None:
        """Take notice of workers that have joined, left, or have other work."""
        scheduler = self._head.state.scheduler
        here: dict[tuple[str, int], tuple[int, bool]] = {}
        for peer in self._head.peers.values():
            place = place_of(peer)
            if place is not None:
                here[place] = peer.number, scheduler.may_go(peer.number)
        for place in [place for place in self._known if place not in here or here[place][0] != self._known[place][0]]:
            del self._known[place]
            self._tell(Left(*place, "its worker is gone"))
        for place, (number, idle) in here.items():
            before = self._known.get(place)
            self._known[place] = number, idle
            if before is None:
                self._learn(place[0], self._head.peers[number].offer)
                self._tell(Joined(*place, self._head.peers[number].offer.units.get("cores", 0) // UNIT, idle=idle))
            elif before[1] != idle:
                self._tell(Working(*place, idle=idle))

    def _learn(self, label: str, offer: Allocation) -> None:
        """Keep what a worker of a pool of whole nodes offers."""
        block = self._records.blocks.get(label)
        if block is not None and block.pool in self._state.pools and self._state.pools[block.pool].offer is None:
            self._state.offers[block.pool] = str(offer.request)

    def _count(self) -> None:
        """Count the workers that would be of use, of all pools together."""
        records = self._records
        if not records.pools:
            return
        version = self._scheduler.version
        names = list(records.pools)
        pools = [PoolOffer(self._state.usable(name), self._scheduler.room(name)) for name in names]
        scheduler = self._head.state.scheduler
        counts, kept = wanted_in_pools(scheduler, pools, WITHIN_S, self._trials.look(scheduler, self._head.now()))
        labels = frozenset(place[0] for place, (number, _) in self._known.items() if number in kept)
        self._tell(Wanted(dict(zip(names, counts, strict=True)), version, labels))

    async def _look(self) -> None:
        """Look from time to time at what waits and who is idle; with that, time passes for the scheduler."""
        while True:
            if not self._state.is_empty or self._records.systems:
                began = time.monotonic()
                self.workers_changed()
                self._count()
                self._pool_warnings.warn()
                self._show()
                took = time.monotonic() - began
                await anyio.sleep(max(LOOK_S, 20 * took))
            else:
                self._show()
                await self._changes.until(lambda: not self._state.is_empty)

    def _show(self) -> None:
        """Call `shown` if pools or blocks are to be shown otherwise than the last time."""
        blocks = [(row.label, row.state, row.reason, row.workers) for row in self.view.block_rows()]
        now = self.view.pool_rows(), blocks
        if now != self._last_shown:
            self._last_shown = now
            self._shown()

    # --- actions -----------------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        """Perform actions, after the records that have them are on disk."""
        self._drives = True
        try:
            while True:
                await self._waiting.wait()
                self._waiting = anyio.Event()
                actions, self._outbox = self._outbox, []
                why_not = await self._save()
                for action in actions:
                    self._perform(action, why_not)
                self._changes.notify()
        finally:
            self._drives = False

    async def _save(self) -> str:
        """Write the records where they outlive this head; return why that failed."""
        data = self._state.unwritten()
        if data is None:
            return ""
        try:
            await anyio.to_thread.run_sync(self._state.write, data)
        except OSError as error:
            logger.error("the records of the pools cannot be written: %s", error)
            return f"the head cannot write its records: {error}"
        return ""

    def _perform(self, action: FleetAction, why_not: str) -> None:
        match action:
            case SubmitBlock() if why_not:
                self._tell(SubmissionRefused(action.label, why_not))
            case SubmitBlock():
                failed = SubmissionUnclear(action.label, _FAILED)
                self._tasks.start_soon(self._guarded, self._submit(action), failed)
            case ListBlocks():
                self._tasks.start_soon(self._guarded, self._list(action.system), ListingFailed(action.system, _FAILED))
            case EndBlocks():
                self._tasks.start_soon(self._guarded, self._end(action), Tick())
            case Leave():
                self._send_off(action)
            case ReadLog():
                self._tasks.start_soon(self._guarded, self._read_log(action.label), Tick())
            case TellTimeLeft():
                self._tell_time_left(action)
            case Pause():
                self._pool_warnings.paused(action.pool, action.why)
            case _:
                pass  # `_look` lets time pass anyway

    async def _guarded(self, doing: Coroutine[None, None, None], failed: FleetEvent) -> None:
        """Do something, and tell `failed` if it raises: a defect in launching ends no head, with jobs that run."""
        try:
            await doing
        except Exception:
            logger.exception("launching workers has failed")
            self._tell(failed)

    async def _submit(self, action: SubmitBlock) -> None:
        name = native_name(self._records.digest, action.number)
        said = await self._state.client(action.pool).submit(name, action.label)
        self._submissions = {action.label: said}
        answer = said.answer
        if answer.verdict == "accepted":
            logger.info("block %s was submitted: %s", action.label, answer.native)
            self._pool_warnings.over(action.pool)
            self._tell(SubmissionAccepted(action.label, answer.native))
        elif answer.verdict == "unclear":
            logger.warning("block %s: it is not clear whether it was submitted: %s", action.label, answer.words)
            self._tell(SubmissionUnclear(action.label, answer.words))
        else:
            waits, elsewhere = answer.verdict == "waits", answer.verdict == "elsewhere"
            self._tell(SubmissionRefused(action.label, answer.words, waits=waits, elsewhere=elsewhere))

    async def _list(self, system: str) -> None:
        asked = self._state.time()
        client = self._state.client_of_system(system)
        if client is None:
            self._tell(ListingFailed(system, "no pool says how to ask it"))
            return
        listing = await client.listing()
        if listing.failed:
            self._tell(ListingFailed(system, listing.failed))
        else:
            self._tell(Listed(system, listing.blocks, asked))

    async def _end(self, action: EndBlocks) -> None:
        client = self._state.client_of_system(action.system)
        if client is not None:
            blocks = {block.native: block for block in self._records.blocks.values()}
            found = [blocks.get(native) for native in action.natives]
            late = self._state.time() - _KILL_S
            kill = all(block is not None and block.leave_reason and block.leaving_since < late for block in found)
            await client.end(action.natives, kill=kill)

    def _send_off(self, action: Leave) -> None:
        known = self._known.get((action.label, action.node))
        if known is not None and known[0] in self._head.peers:
            self._head.send_off([known[0]], kill=action.at_once)

    async def _read_log(self, label: str) -> None:
        block = self._scheduler.block(label)
        if block is not None and block.pool in self._state.pools:
            client = self._state.client(block.pool)
            name = self._state.name_of(block)
            self._tell(LogRead(label, await client.read_log(name), client.log(name)))

    def _tell_time_left(self, action: TellTimeLeft) -> None:
        block = self._records.blocks.get(action.label)
        pool = None if block is None else self._state.pools.get(block.pool)
        if pool is None:
            return
        for (label, _), (number, _) in self._known.items():
            if label == action.label and number in self._head.peers:
                left = max(0.0, action.left_s - pool.margin_s)
                self._head.tell_time_left(number, left, pool.margin_s / 2)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Take all pools down, and wait until nothing is left of them, for `CLOSE_S` at most."""
        self.down((), at_once=True)
        with anyio.move_on_after(CLOSE_S):
            await self._changes.until(lambda: not (self._drives and self._records.blocks))
        left = [
            f"{row.label} ({row.native or 'no id yet'}): {row.reason or row.state}" for row in self.view.block_rows()
        ]
        if left:
            logger.error("blocks are left after %g s, to be ended by hand: %s", CLOSE_S, "; ".join(left))
        await self._save()
