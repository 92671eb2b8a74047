"""Client of one batch system: submits blocks, lists and ends them, and reads their logs, by native commands."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from grainlike.dialects import (
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
from grainlike.launch._context import LaunchContext
from grainlike.launch._native import run_native
from grainlike.launch._other_pools import SSH
from grainlike.launch._pool import AWAY, WorkerPool

__all__ = ["BatchClient", "Submission", "sweep_blocks", "system_key"]

_TAIL_BYTES = 4096
_SSH_FAILED = 255
UNCLEAR_S = 25.0
"""Seconds for which a job whose submission had no clear answer may be missing from listings, and still arrive: less
than between the two looks after which the fleet scheduler takes it for never arrived."""

KEEP_S = 30 * 86400.0
"""Seconds for which the script and the log of a block are kept after something was last written there."""


@dataclass(frozen=True, slots=True)
class Submission:
    """Answer to a submission, and what was said: the command, and the script of the block."""

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
        return f"ssh of {name}"  # the machines are its own
    where = [pool.kind, *(f"{key}={value}" for key, value in pool.system_options().items() if value)]
    return " ".join([*where, *([f"via {pool.via}"] if pool.via else [])])


class BatchClient:
    """Client of the batch system of `pool`. Machines by SSH have one of their own.

    Nothing raises but cancellation: what cannot be done is said in the answer.
    """

    def __init__(self, pool: WorkerPool, context: LaunchContext) -> None:
        self.pool = pool
        self._context = context
        self._dialect = pool.dialect()
        self._there = ""
        # Pools of one batch system share its listings, so one of them removes what blocks of all have left.
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
        """Take the blocks of an earlier head: name, id, and machine."""
        if self._delivers:
            self._with_files.update((name, 0.0) for name, _, _ in blocks if name not in self._with_files)

    @property
    def _delivers(self) -> bool:
        """True if files are written by a command of their own, where the batch system's commands run."""
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
                if said.code != 0:  # nothing was submitted yet, so it is not unclear
                    await self._take_back(name)
                    silent = said.code in (None, _SSH_FAILED)
                    words = said.stderr or f"{self.pool.via} gives no answer"
                    return Submission(Answer("waits" if silent else "refused", words=words), (), script)
            elif not isinstance(self._dialect, SSHDialect):
                await anyio.to_thread.run_sync(_write, self._dialect.files(block), Path(block.directory))
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
        """Remove what was delivered to a block that was not taken."""
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
        """Return the access file as it is delivered.

        Raises:
            OSError: it cannot be read.
        """
        return BlockFile(path, self._context.access.read_text(encoding="utf-8"))

    async def listing(self) -> Listing:
        """Return the blocks that the batch system knows, of whichever cluster."""
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
        """Remove the access files of blocks that have ended, which these did not if they were killed; logs stay."""
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
        """Return who submits, in the words of where that is done; empty if it does not say."""
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
        """Tell the batch system to end jobs by their ids; a listing says when they have."""
        if kill and isinstance(self._dialect, LocalDialect):
            await self._say(self._dialect.end_on("", natives, now=True))
        else:
            await self._say(self._dialect.end(natives))

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; None if there is none."""
        path = self.log(name)
        if not self.pool.is_away:
            return await anyio.to_thread.run_sync(_tail, Path(path))
        said = await self._say(_shell(self._tail_of(name)))
        return said.stdout if said.code == 0 else None

    def _tail_of(self, name: str) -> str:
        """Return shell text that prints the end of a block's log."""
        return f"tail -c {_TAIL_BYTES} -- {shlex.quote(self.log(name))}\n"

    def _environment(self) -> dict[str, str]:
        return native_environment(os.environ, self._dialect.finders)

    async def _say(self, command: NativeCommand) -> CommandResult:
        through = command.via(self.pool.via) if self.pool.via else command
        return await run_native(through, self._environment())


def _shell(text: str) -> NativeCommand:
    return NativeCommand(("bash", "-s"), f"{text}\n")


def _write(files: Sequence[BlockFile], directory: Path) -> None:
    """Write files of a block, mode 0600, into its directory, mode 0700."""
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    for file in files:
        handle = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(file.text)


def _tail(path: Path) -> str | None:
    try:
        with path.open("rb") as opened:
            opened.seek(0, os.SEEK_END)
            opened.seek(max(0, opened.tell() - _TAIL_BYTES))
            return opened.read().decode("utf-8", "replace")
    except OSError:
        return None


def sweep_blocks(state: Path, now: float | None = None) -> list[str]:
    """Remove the directories of blocks in which nothing was written for 30 days; return their names.

    Scripts and logs outlive their blocks, for people who look for what went wrong. What cannot be removed is left.

    Args:
        state: the state directory, which has the directory `blocks`.
        now: seconds since 1970; by default the present.

    Example::

        sweep_blocks(state_directory())
    """
    late = (time.time() if now is None else now) - KEEP_S
    gone: list[str] = []
    for folder in sorted((state / "blocks").glob("gl*-*")):
        with suppress(OSError):
            written = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
            if written < late and not folder.is_symlink():
                shutil.rmtree(folder)
                gone.append(folder.name)
    return gone
