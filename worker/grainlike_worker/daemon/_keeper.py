"""The daemon's side of its keeper (`keeper`), the process that forks the runners and ends what they leave behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from grainlike.system import Cgroup
from grainlike_worker.daemon._child import Child, describe_exit, start_module
from grainlike_worker.ipc._fork_requests import Birth, ask, hand_over, told_born, told_status
from grainlike_worker.linux._worker_cgroups import JobCgroups

__all__ = ["Keeper", "open_keeper"]

_DYING = 2.0
"""Seconds that a process may take between closing its sockets and being gone: some milliseconds, as a rule."""


class Keeper:
    """Starts runners; the process behind it is started with the first of them, and again should it have died.

    Example::

        async with open_keeper() as keeper:
            runner = await RunnerProcess.spawn("own", keeper=keeper)
    """

    def __init__(self, cgroups: JobCgroups | None = None) -> None:
        self._cgroups = cgroups
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def bear(self, arguments: list[str], environment: dict[str, str], fds: dict[str, int]) -> Child:
        """Start a runner with these descriptors, which stay the caller's. `OSError` when that cannot be."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with far:
                asked = self._ask(Birth(arguments, environment, _directory(), fds), far)
            await anyio.wait_readable(near)
            born = told_born(near)
            if born is None:
                raise OSError(f"their keeper ended: {await _end_of(asked)}")
        except BaseException:
            near.close()  # if it is born all the same, it finds its link closed and ends
            raise
        near.setblocking(False)
        return _Kept(*born, near, None if self._cgroups is None else self._cgroups.of(born.pid))

    def hold(self, link: int) -> None:
        """Let the process behind it hold our connection to the head too, from now on this one.

        When we are killed, it ends the stream in order once nothing of ours is left. One that was started anew holds
        none until there is another.
        """
        self._hand_over(link if link >= 0 else None)

    def _hand_over(self, link: int | None) -> None:
        if self._control is not None:
            with suppress(OSError):
                hand_over(self._control, link)

    async def aclose(self) -> None:
        """Have everything ended that it keeps, and wait until it is gone itself. Not cut short by cancellation."""
        self._hand_over(None)  # the end of the link is ours to make
        if self._control is not None:
            # A fork of this program may hold it too: closing our end would not end it.
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._control.close()
            self._control = None
        process, self._process = self._process, None
        if process is not None:
            with anyio.CancelScope(shield=True):
                await _gone(process)

    def _ask(self, birth: Birth, status: socket.socket) -> subprocess.Popen[bytes]:
        """The process that was asked: by the time that it fails to answer, another may have taken its place."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            # It may be dying all the same; then it is as if it had died before.
            with suppress(ConnectionError):
                ask(self._control, birth, status)
                return self._process
        self.start()
        assert self._control is not None
        assert self._process is not None
        try:
            ask(self._control, birth, status)
        except ConnectionError:
            raise OSError(f"their keeper ended: {describe_exit(self._process.wait())}") from None
        return self._process

    def start(self) -> None:
        """Start the process behind it, anew if there was one. `OSError` when the system has none left."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.wait()
        self._process = self._control = None
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            try:
                self._process = start_module(
                    "grainlike_worker.keeper", self._options(), dict(os.environ), {"--fd": far.fileno()}
                )
            except BaseException:
                near.close()
                raise
        self._control = near

    def _options(self) -> list[str]:
        if self._cgroups is None:
            return []
        return ["--cgroups", self._cgroups.path, *(["--limits", "yes"] if self._cgroups.limits else [])]


@asynccontextmanager
async def open_keeper(cgroups: JobCgroups | None = None, *, early: bool = False) -> AsyncIterator[Keeper | None]:
    """A keeper for as long as the block runs; None where the system has none (it takes Linux).

    Its runners have cgroups where there are `cgroups`. With `early`, its process is started now and not with the first
    runner, which then need not wait for it.
    """
    if sys.platform != "linux":
        yield None
        return
    keeper = Keeper(cgroups)
    try:
        if early:
            keeper.start()
        yield keeper
    finally:
        await keeper.aclose()


class _Kept:
    """A child of the keeper's. It is gone when the keeper says so, which is when its orphans are gone too."""

    def __init__(self, pid: int, watch: int, status: socket.socket, group: Cgroup | None) -> None:
        self.pid = pid
        self._group = group
        self.returncode: int | None = None
        self._watch = watch
        self._status = status

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watch, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)  # the rest of it is ended by the keeper

    async def wait(self) -> int:
        if self.returncode is None:
            await _readable(self._status.fileno())
        if self.returncode is None:
            code = told_status(self._status)
            if code is None:
                # The keeper is dead, and the kernel kills its children: that we can see ourselves.
                await _readable(self._watch)
                if self._group is not None:
                    await _emptied(self._group)
                code = -int(signal.SIGKILL)
            self._ended(code)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            self._status.close()
            os.close(self._watch)


async def _emptied(group: Cgroup) -> None:
    """End what was left in the cgroup of a runner, and remove that."""
    group.kill()
    with anyio.move_on_after(_DYING):
        while group.is_populated():  # noqa: ASYNC110 - the kernel tells of it to those who look
            await anyio.sleep(0.005)
    group.remove()


async def _end_of(process: subprocess.Popen[bytes]) -> str:
    """How a keeper that did not answer ended. Its sockets are closed a little before it is gone; but then, what did not
    answer may have been a child of a keeper that lives, which is not to be waited for."""
    with anyio.move_on_after(_DYING):
        await _gone(process)
    code = process.poll()
    return "not it, but its child, before that had begun" if code is None else describe_exit(code)


async def _gone(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end without holding up the loop."""
    if process.poll() is None:
        watch = os.pidfd_open(process.pid)
        try:
            await _readable(watch)
        finally:
            os.close(watch)
        process.wait()


async def _readable(fd: int) -> None:
    """Wait on a descriptor of our own: of one descriptor a loop lets only one task wait."""
    own = os.dup(fd)
    try:
        await anyio.wait_readable(own)
    finally:
        os.close(own)


def _directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - only handed on
    except OSError:
        return None
