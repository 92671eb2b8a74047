"""Client of one batch system: submits blocks, lists and ends them, and reads their logs, by native commands."""

from __future__ import annotations

import getpass
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from grainlike.dialects import (
    TAIL_BYTES,
    Answer,
    BlockFile,
    BlockRequest,
    CommandResult,
    Listing,
    LocalDialect,
    NativeCommand,
    SSHDialect,
    deliver,
    native_environment,
)
from grainlike.launch._block_files import FilePart, part_said, read_end, read_part, shell_for_part, write_file
from grainlike.launch._context import LaunchContext
from grainlike.launch._native import run_native
from grainlike.launch._other_pools import SSH
from grainlike.launch._pool import AWAY, WorkerPool

__all__ = ["BatchClient", "Submission", "system_key"]

_SSH_FAILED = 255
UNCLEAR_S = 25.0
"""Seconds for which a job whose submission had no clear answer may be missing from listings, and still arrive. They are
fewer than those between the two looks after which the fleet scheduler decides that it never arrived.
"""


@dataclass(frozen=True, slots=True)
class Submission:
    """Answer to a submission, with the command and the script of the block."""

    answer: Answer
    command: tuple[str, ...]
    script: str


def system_key(pool: WorkerPool, name: str) -> str:
    """Return the key of a pool's batch system: pools with one key share its listings. `name` is the pool's.

    Example::

        >>> from grainlike.launch import Local
        >>> system_key(Local("cores=1"), "here")
        'local'
    """
    if isinstance(pool, SSH):
        return f"ssh of {name}"  # each SSH pool has its own machines
    where = [pool.kind, *(f"{key}={value}" for key, value in pool.system_options().items() if value)]
    return " ".join([*where, *([f"via {pool.via}"] if pool.via else [])])


class BatchClient:
    """Client of the batch system of `pool`. Machines by SSH have a client of their own.

    Nothing raises but cancellation: a failure is said in the answer.
    """

    def __init__(self, pool: WorkerPool, context: LaunchContext) -> None:
        self.pool = pool
        self._context = context
        self._dialect = pool.dialect()
        self._there = ""
        # Pools of one batch system share its listings, so one client removes the files of all their blocks.
        self._with_files = context.delivered.setdefault(system_key(pool, ""), {})

    @property
    def title(self) -> str:
        """Name of the batch system, for people."""
        return self._dialect.title

    def directory(self, name: str) -> str:
        """Return the directory of a block, as its nodes see it."""
        return f"{AWAY}/{name}" if self.pool.is_away else str(self._context.state / "blocks" / name)

    def log(self, name: str) -> str:
        """Return the path of a block's log."""
        return f"{self.directory(name)}/log"

    def remember(self, blocks: Iterable[tuple[str, str, str]]) -> None:
        """Record the blocks of an earlier head: name, id, and machine."""
        if self._delivers:
            self._with_files.update((name, 0.0) for name, _, _ in blocks if name not in self._with_files)

    @property
    def _delivers(self) -> bool:
        """True if files are written by a separate command, which runs where the batch system's commands run."""
        return bool(self.pool.via) and not isinstance(self._dialect, SSHDialect)

    async def submit(self, name: str, label: str) -> Submission:
        """Submit a block."""
        try:
            block = await anyio.to_thread.run_sync(self._request, name, label)
            script = self._dialect.script(block)
            command = self._dialect.submit(block)
        except (ValueError, OSError) as error:
            return Submission(Answer("refused", words=str(error)), (), "")
        try:
            if self._delivers:
                said = await self._say(deliver(self._dialect.files(block)))
                if said.code != 0:  # nothing was submitted yet, so the answer is clear
                    await self._take_back(name)
                    silent = said.code in (None, _SSH_FAILED)
                    words = said.stderr or f"{self.pool.via} gives no answer"
                    return Submission(Answer("waits" if silent else "refused", words=words), (), script)
            elif not isinstance(self._dialect, SSHDialect):
                await anyio.to_thread.run_sync(_write, self._dialect.files(block))
        except OSError as error:
            return Submission(Answer("refused", words=f"{block.directory}: {error.strerror}"), (), script)
        answer = self._dialect.submitted(await self._say(command))
        if self._delivers and answer.verdict in ("waits", "refused"):
            await self._take_back(name)
        elif self._delivers:
            unclear = answer.verdict == "unclear"
            self._with_files[name] = time.monotonic() + UNCLEAR_S if unclear else 0.0
        return Submission(answer, command.argv, script)

    async def _take_back(self, name: str) -> None:
        """Remove the files that were delivered to a block that was refused."""
        said = await self._say(_shell(f"rm -rf -- {shlex.quote(self.directory(name))}"))
        if said.code != 0:
            self._with_files[name] = 0.0  # the next listing, which does not have it, removes what it can

    def _request(self, name: str, label: str, host: str = "") -> BlockRequest:
        access = f"{self.directory(name)}/worker.json" if self.pool.is_away else str(self._context.access)
        return self.pool.block(
            name=name,
            label=label,
            directory=self.directory(name),
            access=access,
            environment=os.environ,
            host=host,
            deliver=(self._delivered(access),) if self.pool.is_away else (),
        )

    def _delivered(self, path: str) -> BlockFile:
        """Return the access file in the form in which it is delivered.

        Raises:
            OSError: the file cannot be read.
        """
        return BlockFile(path, self._context.access.read_text(encoding="utf-8"))

    async def listing(self) -> Listing:
        """Return the blocks that the batch system knows, of every cluster."""
        failed = ""
        user = await self._user()
        if not user:
            return Listing(failed=f"{self.pool.via}: it does not say who we are there")
        asked = time.monotonic()
        delivered = frozenset(name for name, until in self._with_files.items() if until <= asked)
        for command in self._listings(user):
            listing = self._dialect.listed(await self._say(command))
            if not listing.failed:
                await self._remove_files(delivered, listing)
                return listing
            failed = listing.failed
        return Listing(failed=failed)

    async def _remove_files(self, delivered: frozenset[str], listing: Listing) -> None:
        """Remove access files that killed blocks have left; logs stay."""
        live = {row.name for row in listing.blocks if row.state != "ended"}
        over = sorted(delivered - live)
        for name in live & self._with_files.keys():
            self._with_files[name] = 0.0  # it has arrived
        if over:
            files = shlex.join(f"{self.directory(name)}/worker.json" for name in over)
            said = await self._say(_shell(f"rm -f -- {files}"))
            if said.code == 0:
                for name in over:
                    self._with_files.pop(name, None)

    async def _user(self) -> str:
        """Return the user who submits, as the submitting machine names it; empty if it does not say."""
        if not self.pool.via:
            return getpass.getuser()
        if not self._there:
            said = await self._say(NativeCommand(("id", "-un")))
            self._there = said.stdout.strip() if said.code == 0 else ""
        return self._there

    def _listings(self, user: str) -> tuple[NativeCommand, ...]:
        if isinstance(self._dialect, LocalDialect):
            folder = AWAY if self.pool.is_away else str(self._context.state / "blocks")
            return (self._dialect.list_in(folder),)
        return self._dialect.list(user)

    async def end(self, natives: Sequence[str], *, kill: bool = False) -> None:
        """Tell the batch system to end jobs by their ids; a listing shows when they have ended."""
        if kill and isinstance(self._dialect, LocalDialect):
            await self._say(self._dialect.end_on("", natives, now=True))
        else:
            await self._say(self._dialect.end(natives))

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; None if there is none."""
        path = self.log(name)
        if not self.pool.is_away:
            return await anyio.to_thread.run_sync(read_end, Path(path))
        said = await self._say(_shell(self._tail_of(name)))
        return said.stdout if said.code == 0 else None

    def _tail_of(self, name: str) -> str:
        """Return shell text that prints the end of a block's log."""
        return f"tail -c {TAIL_BYTES} -- {shlex.quote(self.log(name))}\n"

    async def read_part(self, name: str, file: str, start: int) -> FilePart:
        """Return a file of a block, `log` or `script`, from a position on; only its end if that is much."""
        path = f"{self.directory(name)}/{file}"
        if not self.pool.is_away:
            return await anyio.to_thread.run_sync(read_part, Path(path), start)
        part = part_said(await self._say(_shell(shell_for_part(path, start))))
        return replace(part, why=f"{self.pool.via}: {part.why}") if part.why else part

    def _environment(self) -> dict[str, str]:
        return native_environment(os.environ, self._dialect.finders)

    async def _say(self, command: NativeCommand) -> CommandResult:
        through = command.via(self.pool.via) if self.pool.via else command
        return await run_native(through, self._environment())


def _shell(text: str) -> NativeCommand:
    return NativeCommand(("bash", "-s"), f"{text}\n")


def _write(files: Sequence[BlockFile]) -> None:
    for file in files:
        write_file(Path(file.path), file.text)
