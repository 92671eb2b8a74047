"""Client of one batch system: submits blocks, lists and ends them, and reads their logs, by native commands."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from grainlike.dialects import (
    Answer,
    BlockFile,
    BlockRequest,
    CommandResult,
    ListedBlock,
    Listing,
    LocalDialect,
    NativeCommand,
    SSHDialect,
    deliver,
    native_environment,
)
from grainlike.launch._native import run_native
from grainlike.launch._other_pools import SSH
from grainlike.launch._pool import WorkerPool

__all__ = ["BatchClient", "Submission", "sweep_blocks", "system_key"]

_TAIL_BYTES = 4096
_SSH_FAILED = 255
KEEP_S = 30 * 86400.0
"""Seconds for which the script and the log of a block are kept after something was last written there."""

_AWAY = ".local/state/grainlike/blocks"
"""Directory of blocks below the home directory of a machine that shares none with the head."""


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
    """Client of the batch system of `pool`. Blocks are in `state`, and the workers' access file is `access`.

    Nothing raises but cancellation: what cannot be done is said in the answer.
    """

    def __init__(self, pool: WorkerPool, state: Path, access: Path) -> None:
        self.pool = pool
        self._state = state
        self._access = access
        self._dialect = pool.dialect()
        self._there = ""
        self._hosts: dict[str, str] = {}
        """Machines of the blocks by SSH that live, by native name."""
        self._places: dict[str, str] = {}
        """Machines of all blocks by SSH, those too that have ended."""
        self._natives: dict[str, str] = {}
        """Ids of the blocks by SSH, by native name."""

    @property
    def title(self) -> str:
        """Name of the batch system, for people."""
        return self._dialect.title

    def directory(self, name: str) -> str:
        """Return the directory of a block, as its nodes see it."""
        return f"{_AWAY}/{name}" if self._is_away else str(self._state / "blocks" / name)

    def log(self, name: str) -> str:
        """Return the path of a block's log."""
        return f"{self.directory(name)}/log"

    @property
    def _is_away(self) -> bool:
        """True if the nodes may share no directory with the head."""
        return isinstance(self.pool, SSH) or bool(self.pool.via)

    async def submit(self, name: str, label: str) -> Submission:
        """Submit a block."""
        try:
            host = await self._free_machine()
            block = await anyio.to_thread.run_sync(self._request, name, label, host)
            script = self._dialect.script(block)
            command = self._dialect.submit(block)
        except (ValueError, OSError) as error:
            return Submission(Answer("refused", words=str(error)), (), "")
        try:
            if self.pool.via and not isinstance(self.pool, SSH):
                said = await self._say(deliver(self._dialect.files(block)))
                if said.code != 0:  # nothing was submitted yet, so it is not unclear
                    silent = said.code in (None, _SSH_FAILED)
                    words = said.stderr or f"{self.pool.via} gives no answer"
                    return Submission(Answer("waits" if silent else "refused", words=words), (), script)
            elif not isinstance(self._dialect, SSHDialect):
                await anyio.to_thread.run_sync(_write, self._dialect.files(block), Path(block.directory))
        except OSError as error:
            return Submission(Answer("refused", words=f"{block.directory}: {error.strerror}"), (), script)
        answer = self._dialect.submitted(await self._say(command))
        return Submission(answer, command.argv, script)

    def _request(self, name: str, label: str, host: str) -> BlockRequest:
        away: tuple[BlockFile, ...] = ()
        access = str(self._access)
        if self._is_away:
            access = f"{self.directory(name)}/worker.json"
            away = (BlockFile(access, self._access.read_text(encoding="utf-8")),)
        if host:
            self._hosts[name] = self._places[name] = host
        return self.pool.block(
            name=name,
            label=label,
            directory=self.directory(name),
            access=access,
            environment=os.environ,
            host=host,
            deliver=away,
        )

    async def _free_machine(self) -> str:
        """Return a machine without a block, for pools of machines; empty for others."""
        if not isinstance(self.pool, SSH):
            return ""
        if not self._hosts:
            await self.listing()
        used = set(self._hosts.values())
        free = [machine for machine in self.pool.machines if machine not in used]
        if not free:
            raise ValueError(f"all of {len(used)} machines have a block")
        return free[0]

    async def listing(self) -> Listing:
        """Return the blocks that the batch system knows, of whichever cluster."""
        if isinstance(self.pool, SSH):
            return await self._listing_of_machines(self.pool.machines)
        failed = ""
        user = await self._user()
        if not user:
            return Listing(failed=f"{self.pool.via}: it does not say who we are there")
        for command in self._listings(user):
            listing = self._dialect.listed(await self._say(command))
            if not listing.failed:
                return listing
            failed = listing.failed
        return Listing(failed=failed)

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
            return (self._dialect.list_in(str(self._state / "blocks")),)
        return self._dialect.list(user)

    async def _listing_of_machines(self, machines: Sequence[str]) -> Listing:
        """Ask all machines; a block on one that does not answer is as it was."""
        rows: dict[str, list[ListedBlock]] = {}
        words: dict[str, str] = {}

        async def ask(machine: str) -> None:
            assert isinstance(self._dialect, SSHDialect)
            said = await self._say(self._dialect.list_in(_AWAY, machine, self.pool.native))
            listing = self._dialect.listed(said)
            if listing.failed:
                words[machine] = listing.failed
            else:
                rows[machine] = list(listing.blocks)

        async with anyio.create_task_group() as tasks:
            for machine in machines:
                tasks.start_soon(ask, machine)
        if words and not rows:
            return Listing(failed="\n".join(f"{machine}: {said}" for machine, said in words.items()))
        self._hosts = {name: machine for name, machine in self._hosts.items() if machine in words}
        for machine, found in rows.items():
            self._hosts.update({row.name: machine for row in found if row.state != "ended"})
            self._places.update({row.name: machine for row in found if row.state != "ended"})
            self._natives.update({row.name: row.native for row in found if row.native})
        silent = [
            ListedBlock(self._natives[name], name, "unknown", words[machine])
            for name, machine in self._hosts.items()
            if machine in words and name in self._natives
        ]
        return Listing((*(replace(row, nodes=(machine,)) for machine in rows for row in rows[machine]), *silent))

    async def end(self, natives: Sequence[str], names: Sequence[str], *, kill: bool = False) -> None:
        """Tell the batch system to end jobs, whose native names are beside their ids; a listing says when they have."""
        if not isinstance(self._dialect, SSHDialect):
            await self._say(self._dialect.end(natives))
            return
        machines: dict[str, list[str]] = {}
        for native, name in zip(natives, names, strict=True):
            machines.setdefault(self._places.get(name, ""), []).append(native)
        for machine, there in machines.items():
            if machine or isinstance(self._dialect, LocalDialect):
                await self._say(self._dialect.end_on(machine, there, now=kill, native=self.pool.native))

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; None if there is none."""
        path = self.log(name)
        if not self._is_away:
            return await anyio.to_thread.run_sync(_tail, Path(path))
        command = NativeCommand(("bash", "-s"), f"tail -c {_TAIL_BYTES} -- {shlex.quote(path)}\n")
        if isinstance(self.pool, SSH):
            machine = self._places.get(name)
            if machine is None:
                return None
            options = ("-o", "BatchMode=yes", "-T", "--", machine)
            command = NativeCommand(("ssh", *self.pool.native, *options, *command.argv), command.stdin)
        said = await self._say(command)
        return said.stdout if said.code == 0 else None

    async def _say(self, command: NativeCommand) -> CommandResult:
        through = command.via(self.pool.via) if self.pool.via else command
        return await run_native(through, native_environment(os.environ, self._dialect.finders))


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
