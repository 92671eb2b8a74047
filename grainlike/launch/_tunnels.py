"""Tunnels: `ssh` connections that forward the head's port to machines which cannot connect to it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

import anyio
from anyio.abc import Process, TaskGroup

from grainlike.dialects import NativeCommand, SSHDialect
from grainlike.launch._native import start_process

__all__ = ["Tunnels"]

OPEN_S = 30.0
"""Seconds within which a tunnel must open."""

AGAIN_S = 1.0
LONGEST_AGAIN_S = 60.0
"""Longest wait before a broken tunnel is opened again; the wait doubles with each failure."""

END_S = 2.0
"""Seconds for a process to end after a signal."""

_MOST_LINE = 4096


@dataclass(slots=True, eq=False)
class _Tunnel:
    """Connection that is opened again whenever it ends.

    Attributes:
        command: command that opens it.
        environment: variables of the command.
        users: keys of the users that need it.
        scope: cancel scope that ends it.
        tried: set once it is open, or has failed to open.
        words: why it is not open; empty if it is.
    """

    command: NativeCommand
    environment: Mapping[str, str]
    users: set[str] = field(default_factory=set[str])
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    tried: anyio.Event = field(default_factory=anyio.Event)
    words: str = "it has not been opened yet"

    async def run(self) -> None:
        """Open the tunnel again and again, until it is cancelled."""
        wait = AGAIN_S
        with self.scope:
            while True:
                stood = False
                try:
                    stood = await self._stand()
                except OSError as error:  # no file or process can be made; the head goes on without
                    self._fails(str(error))
                wait = AGAIN_S if stood else min(LONGEST_AGAIN_S, 2 * wait)
                await anyio.sleep(wait)

    async def _stand(self) -> bool:
        """Open the tunnel once, and return when it has ended; True if it was open."""
        stood = False
        with tempfile.TemporaryFile(buffering=0) as stderr:
            try:
                process = await start_process(
                    self.command.argv, self.environment, subprocess.PIPE, subprocess.PIPE, stderr
                )
            except OSError as error:
                self._fails(f"{self.command.argv[0]}: {error.strerror}")
                return False
            try:
                with anyio.move_on_after(OPEN_S):
                    stood = await _says(process, SSHDialect.forwards)
                if stood:
                    self.words = ""
                    self.tried.set()
                    await process.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
            self._fails(_last_line(stderr) or "it gave no answer in time")
        return stood

    def _fails(self, words: str) -> None:
        self.words = words
        self.tried.set()


class Tunnels:
    """Tunnels of a head; all pools with blocks at the same place share one."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._open: dict[tuple[str, ...], _Tunnel] = {}

    def start(self, tasks: TaskGroup) -> None:
        """Run the tunnels in `tasks`; cancelling these ends the tunnels."""
        self._tasks = tasks

    async def use(self, user: str, command: NativeCommand, environment: Mapping[str, str]) -> str:
        """Open a tunnel for `user` by this command; return why there is none, or "" once it is open."""
        if self._tasks is None:
            return "no head runs that would keep a tunnel"
        tunnel = self._open.get(command.argv)
        if tunnel is None:
            tunnel = self._open[command.argv] = _Tunnel(command, environment)
            self._tasks.start_soon(tunnel.run)
        tunnel.users.add(user)
        await tunnel.tried.wait()
        if tunnel.words:
            self.leave(user, command)
        return tunnel.words

    def leave(self, user: str, command: NativeCommand) -> None:
        """Record that `user` does not need a tunnel any more; a tunnel without users is closed."""
        tunnel = self._open.get(command.argv)
        if tunnel is not None:
            tunnel.users.discard(user)
            if not tunnel.users:
                del self._open[command.argv]
                tunnel.scope.cancel()


async def _says(process: Process, line: str) -> bool:
    """Return True once a process has printed a line; False if it ends before."""
    text = b""
    with contextlib.suppress(anyio.EndOfStream):
        while process.stdout is not None:
            text = (text + await process.stdout.receive())[-_MOST_LINE:]
            if line.encode() in text.splitlines():
                return True
    return False


async def _end(process: Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            with anyio.move_on_after(END_S):
                await process.wait()
    await process.aclose()


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
