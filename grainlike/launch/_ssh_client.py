"""Client of machines by SSH: gives each block a machine, and removes everything of blocks that have ended."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace

import anyio
import anyio.to_thread

from grainlike.dialects import Answer, BlockFile, CommandResult, ListedBlock, Listing, NativeCommand, SSHDialect
from grainlike.launch._batch_client import BatchClient, Submission
from grainlike.launch._block_files import FilePart, part_said, shell_for_part
from grainlike.launch._context import LaunchContext
from grainlike.launch._machines import Machines
from grainlike.launch._other_pools import SSH
from grainlike.launch._pool import AWAY
from grainlike.net import TcpAddress, parse_address

__all__ = ["SSHClient"]

logger = logging.getLogger("grainlike")

_AT_ONCE = 32
"""Most machines that are asked at the same time."""


class SSHClient(BatchClient):
    """Client of the machines of `pool`; `before` is the pool's client until now."""

    def __init__(self, pool: SSH, context: LaunchContext, before: object = None) -> None:
        super().__init__(pool, context)
        self._ssh = SSHDialect()
        self._pool = pool
        known = before if isinstance(before, SSHClient) else None
        self._machines: Machines = Machines() if known is None else known._machines
        self._machines.use(pool.machines)
        self._mine: set[str] = set() if known is None else known._mine
        """Native names of the pool's blocks, including blocks that have ended."""
        self._where: dict[str, str] = {} if known is None else known._where
        """Machines of blocks of every cluster, by id."""
        self._tunnels: dict[str, NativeCommand] = {} if known is None else known._tunnels
        self._asked: bool = known is not None and known._asked and {*pool.machines} <= {*known._pool.machines}
        self._exhausted = False
        self._one_listing: anyio.Lock = anyio.Lock() if known is None else known._one_listing

    def remember(self, blocks: Iterable[tuple[str, str, str]]) -> None:
        """Record the blocks of an earlier head: name, id, and machine, which may be unknown."""
        for name, native, machine in blocks:
            self._mine.add(name)
            self._machines.remember(name, native, machine)
            if native and machine:
                self._where.setdefault(native, machine)

    # --- submissions -------------------------------------------------------------------------------------------------

    async def submit(self, name: str, label: str) -> Submission:
        """Submit a block to a machine that has none. A machine that fails is not tried again for a while."""
        if not self._asked:
            async with self._one_listing:
                if not self._asked:
                    await self._list()
        if self._exhausted:  # the pool was paused then, so somebody has resumed it
            self._machines.try_all()
        machine = self._machines.take(name, time.monotonic())
        if machine is None:
            return Submission(self._none_left(self._machines.why_none()), (), "")
        self._exhausted = False
        self._mine.add(name)
        said = await self._submit_to(machine, name, label)
        answer = said.answer
        if answer.verdict == "accepted":
            self._machines.taken(name, answer.native)
            self._where[answer.native] = machine
        elif answer.verdict == "unclear":
            self._machines.unclear(name)
        else:
            self._machines.release(name)
            self._machines.failed(machine, answer.words, time.monotonic())
            words = f"{machine}: {answer.words}"
            others = self._machines.is_any_free(time.monotonic())
            return replace(said, answer=Answer("elsewhere", words=words) if others else self._none_left(words))
        return said

    def _none_left(self, words: str) -> Answer:
        """Return the answer if no machine is left to try: the answer of a pool without usable machines."""
        if self._machines.has_blocks:
            return Answer("waits", words=words)
        self._exhausted = True
        return Answer("refused", words=self._machines.why_none())

    async def _submit_to(self, machine: str, name: str, label: str) -> Submission:
        try:
            why_not = await self._forward(machine)
            if why_not:
                return Submission(Answer("refused", words=f"tunnel: {why_not}"), (), "")
            block = await anyio.to_thread.run_sync(self._request, name, label, machine)
            script, command = self._ssh.script(block), self._ssh.submit(block)
        except (ValueError, OSError) as error:
            return Submission(Answer("refused", words=str(error)), (), "")
        return Submission(self._ssh.submitted(await self._say(command)), command.argv, script)

    def _delivered(self, path: str) -> BlockFile:
        text = self._context.access.read_text(encoding="utf-8")
        if self._pool.tunnel:
            content = json.loads(text)
            text = json.dumps({**content, "addresses": [f"tcp://127.0.0.1:{self._head().port}"]}, indent=1) + "\n"
        return BlockFile(path, text)

    # --- tunnels -----------------------------------------------------------------------------------------------------

    def _head(self) -> TcpAddress:
        """Return the address at which the head is reached from this machine: loopback, if the head listens there.

        Raises:
            ValueError: the head listens on no port.
        """
        content = json.loads(self._context.access.read_text(encoding="utf-8"))
        found = [one for one in map(parse_address, content["addresses"]) if isinstance(one, TcpAddress)]
        if not found:
            raise ValueError("tunnel: the head listens on no port")
        return next((one for one in found if one.is_loopback), found[0])

    async def _forward(self, machine: str) -> str:
        """Open a tunnel to a machine, if the pool wants tunnels; return why there is none.

        The port there is the head's own, so that the next head, which has the same port, finds the same workers.
        """
        if not self._pool.tunnel:
            return ""
        head = await anyio.to_thread.run_sync(self._head)
        host = f"[{head.numeric}]" if ":" in head.numeric else head.numeric
        command = self._ssh.forward(machine, head.port, f"{host}:{head.port}", self._pool.native)
        command = command.via(self._pool.via) if self._pool.via else command
        why_not = await self._context.tunnels.use(self._user_of_tunnels, command, self._environment())
        if not why_not:
            self._tunnels[machine] = command
        return why_not

    @property
    def _user_of_tunnels(self) -> str:
        return str(id(self._machines))

    async def _keep_tunnels(self, answered: AbstractSet[str]) -> None:
        """Keep tunnels to the machines with blocks that have answered, including those of an earlier head, and to no
        others.
        """
        needed = self._machines.with_blocks()
        for machine in [machine for machine in self._tunnels if machine not in needed]:
            self._context.tunnels.leave(self._user_of_tunnels, self._tunnels.pop(machine))
        if self._pool.tunnel:
            with suppress(OSError, ValueError):  # this head closes
                await anyio.to_thread.run_sync(self._head)
                async with anyio.create_task_group() as tasks:
                    for machine in (needed & answered) - self._tunnels.keys():
                        tasks.start_soon(self._forward, machine)

    # --- listings ----------------------------------------------------------------------------------------------------

    async def listing(self) -> Listing:
        """Ask the machines for their blocks. Blocks on a machine that does not answer do not change, for a while."""
        async with self._one_listing:
            return await self._list()

    async def _list(self) -> Listing:
        now = time.monotonic()
        question, machines = self._machines.ask(now)
        rows: dict[str, list[ListedBlock]] = {}
        words: dict[str, str] = {}
        limiter = anyio.CapacityLimiter(_AT_ONCE)

        async def ask(machine: str) -> None:
            async with limiter:
                try:
                    rows[machine] = await self._list_one(machine)
                except OSError as error:
                    words[machine] = str(error)

        async with anyio.create_task_group() as tasks:
            for machine in machines:
                tasks.start_soon(ask, machine)
        for machine, said in words.items():
            self._machines.silent(machine, said, time.monotonic())
        for machine, found in rows.items():
            self._take_answer(machine, question, found)
        self._asked = True
        await self._keep_tunnels(rows.keys())
        silent = [*self._machines.on_silent(now)]
        if words and not rows and not silent:
            return Listing(failed="\n".join(f"{machine}: {said}" for machine, said in words.items()))
        live = [row for machine in rows for row in rows[machine]]
        told = {row.name for row in live}
        # Rows of ended blocks are repeated, because a block may be asked for again after its worker's end.
        over = [row for name, row in self._context.ended.items() if name in self._mine and name not in told]
        return Listing((*live, *silent, *over))

    async def _list_one(self, machine: str) -> list[ListedBlock]:
        """Return the blocks of a machine, and remove the files of the pool's blocks that have ended there.

        Raises:
            OSError: the machine does not answer.
        """
        listing = self._ssh.listed(await self._say(self._ssh.list_in(AWAY, machine, self._pool.native)))
        if listing.failed:
            raise OSError(listing.failed)
        # Without an id it may be a live block of a batch system, whose directory is in the same place.
        ended = [
            row.name
            for row in listing.blocks
            if row.state == "ended" and self._context.owns(row.name) and (row.native or row.name in self._mine)
        ]
        if ended:
            folders = [self.directory(name) for name in ended]
            said = await self._say(self._ssh.forget_on(machine, folders, self._pool.native))
            forgotten = self._ssh.forgotten(said)
            self._context.forget([row for row in listing.blocks if row.name in forgotten], forgotten)
            if len(forgotten) < len(ended):
                words = said.stderr.strip() or "no answer"
                logger.warning("%s does not remove what its ended blocks have left: %s", machine, words)
        return [replace(row, nodes=(machine,)) for row in listing.blocks]

    def _take_answer(self, machine: str, question: int, rows: Sequence[ListedBlock]) -> None:
        live = {row.name: row.native for row in rows if row.state != "ended"}
        self._machines.answered(machine, question, live, self._mine)
        self._where.update({native: machine for native in live.values() if native})
        for row in rows:
            if row.state == "ended" and row.name in self._mine:
                self._machines.ended(machine, row.name, time.monotonic())
                self._where.pop(row.native, None)

    # --- ends and logs -----------------------------------------------------------------------------------------------

    async def end(self, natives: Sequence[str], *, kill: bool = False) -> None:
        """Tell the machines to end blocks; a listing shows when they have ended."""
        if not all(native in self._where for native in natives):
            await self.listing()
        machines: dict[str, list[str]] = {}
        for native in natives:
            if native in self._where:
                machines.setdefault(self._where[native], []).append(native)
        async with anyio.create_task_group() as tasks:
            for machine, there in machines.items():
                tasks.start_soon(self._say, self._ssh.end_on(machine, there, now=kill, native=self._pool.native))

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; None if there is none."""
        machine = self._machines.machine_of(name)
        if name in self._context.logs or machine is None:
            return self._context.logs.get(name)
        said = await self._say_on(machine, self._tail_of(name))
        return said.stdout if said.code == 0 else None

    async def read_part(self, name: str, file: str, start: int) -> FilePart:
        """Return a file of a block from a position on, from the block's machine. Of a block that has ended, only the
        end of the log is left, because its directory was removed.
        """
        machine = self._machines.machine_of(name)
        if machine is None:
            text = self._context.logs.get(name, "") if file == "log" else ""
            if not text:
                return FilePart(why=f"{self.directory(name)}/{file} was on its machine, and went with the block")
            return FilePart("" if start else text, start, max(start, len(text)))
        part = part_said(await self._say_on(machine, shell_for_part(f"{self.directory(name)}/{file}", start)))
        return replace(part, why=f"{machine}: {part.why}") if part.why else part

    async def _say_on(self, machine: str, text: str) -> CommandResult:
        shell = self._ssh.list_in("", machine, self._pool.native)
        return await self._say(replace(shell, stdin=text))
