"""The daemon's side of its keeper (`keeper`), the process that forks the runners and ends what they leave behind."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial

import anyio

from grainlike.eventloop import here, spawn_detached
from grainlike.system import Cgroup
from grainlike_worker.daemon import _keeper_watch as watching
from grainlike_worker.daemon._child import ProcessHandle, Surroundings, describe_exit, start_module
from grainlike_worker.daemon._keeper_watch import DYING_S, gone, readable
from grainlike_worker.ipc._fork_requests import SpawnRequest, ask, hand_over, receive_exit_status, receive_reply
from grainlike_worker.linux._worker_cgroups import RunnerCgroups
from grainlike_worker.runner.common._job_directories import directory_for

__all__ = ["KeeperClient", "memory_tier", "open_keeper"]

logger = logging.getLogger("grainlike.worker")


class KeeperClient:
    """Starts runners; the process behind it is started with the first of them, and again should it have died.

    Example::

        async with open_keeper() as keeper:
            runner = await RunnerProcess.spawn("own", keeper=keeper)

    Attributes:
        surroundings: what runners start with, of when this was made.
        suspected: True while its process is late with an answer: then this worker does not vouch for itself.
    """

    def __init__(self, cgroups: RunnerCgroups | None = None) -> None:
        self._cgroups = cgroups
        self._process: subprocess.Popen[bytes] | None = None
        self._begun: bool = False
        """True while the next runner is the first that the process is started for."""
        self._control: socket.socket | None = None
        self._held = -1
        """The end to write to of a pipe, by which the kernel resumes a stopped process when we die; -1 for none."""
        self._statuses: dict[socket.socket, subprocess.Popen[bytes]] = {}
        """Where starts and ends of runners are awaited, and of which process."""
        self._watching: list[anyio.CancelScope] = []
        self._unwatched = anyio.Event()
        """Set when the last watch that was begun has ended."""
        self._watch_task: object = None
        self._scratch = ""
        self._closed = False
        self.surroundings = Surroundings.now()
        self.suspected = False

    async def fork_runner(
        self, arguments: list[str], environment: dict[str, str], fds: dict[str, int]
    ) -> ProcessHandle:
        """Start a runner with these descriptors, which stay the caller's. `OSError` when that cannot be."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with far:
                asked = self._ask(SpawnRequest(arguments, environment, self.surroundings.directory, fds), far)
            self._statuses[near] = asked
            await anyio.wait_readable(near)
            spawn_reply = receive_reply(near)
            if spawn_reply is None:
                raise OSError(f"their keeper ended: {await _end_of(asked)}")
        except BaseException:
            self._statuses.pop(near, None)
            near.close()  # if it is born all the same, it finds its link closed and ends
            raise
        near.setblocking(False)
        return _KeeperChild(
            *spawn_reply, near, self._statuses, None if self._cgroups is None else self._cgroups.of(spawn_reply.pid)
        )

    def scratch_of(self, runner: int) -> str:
        """Return the directory below which the jobs of a runner find theirs, by its process id."""
        return f"{self._scratch}/{runner}"

    def hold(self, link: int) -> None:
        """Let the process behind it hold our connection to the head too, from now on this one.

        When we are killed, it ends the stream in order once nothing of ours is left. One that was started again holds
        none until there is another.
        """
        self._hand_over(link if link >= 0 else None)

    def _hand_over(self, link: int | None) -> None:
        if self._control is not None:
            with suppress(OSError):
                hand_over(self._control, link)

    async def aclose(self) -> None:
        """Have everything ended that it keeps, and wait until it is gone itself. Not cut short by cancellation.

        One that cannot end is killed, and what it keeps.
        """
        self._hand_over(None)  # the end of the link is ours to make
        if self._control is not None:
            # A fork of this program may hold it too: closing our end would not end it.
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._hang_up()
        process, self._process = self._process, None
        if process is not None:
            with anyio.CancelScope(shield=True):
                await watching.finish(process, self._scratch)
        self._closed = True
        for scope in self._watching:
            scope.cancel()
        if self._watch_task is not None:
            with anyio.CancelScope(shield=True):
                await self._unwatched.wait()

    def _hang_up(self) -> None:
        """Close our ends of what connects us with the process behind it."""
        if self._control is not None:
            self._control.close()
            os.close(self._held)
            self._control, self._held = None, -1

    async def _watch_over(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        """Have a process killed when it does not answer any more, until it ends or `aclose`.

        A task of its own, which no cancellation of the worker's reaches: what is awaited of that process while a worker
        ends would else never come.
        """
        scope = anyio.CancelScope()
        self._watching.append(scope)
        try:
            with scope:
                if not self._closed:
                    await self._watch(process, control)
        except OSError:
            pass  # it has ended, and everybody who waits for it sees that
        except Exception:
            logger.exception("nobody watches process %d, which starts the runners", process.pid)
        finally:
            self.suspected = False
            self._watching.remove(scope)
            self._unwatched.set()

    async def _watch(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        """Return when a process was given up. `OSError` when it has ended by itself."""
        while True:
            if not await watching.ask(control, watching.SUSPECT_S):
                self.suspected = True
                words = "process %d, which starts the runners, has not answered for %g s (%s): it is told to go on"
                logger.warning(words, process.pid, watching.SUSPECT_S, watching.describe_state(process.pid))
                watching.go_on(process)
                if not await watching.answers(control, watching.LOST_S - watching.SUSPECT_S):
                    words = "process %d has not answered for %g s (%s): it is killed, with its runners and their jobs"
                    logger.error(words, process.pid, watching.LOST_S, watching.describe_state(process.pid))
                    await self._give_up(process)
                    return
                logger.warning("process %d answers again", process.pid)
                self.suspected = False
            await anyio.sleep(watching.ASK_S)

    async def _give_up(self, process: subprocess.Popen[bytes]) -> None:
        await watching.end_stuck(process, self._scratch)
        if self._process is process:
            self._hang_up()
            self._process = None
        for status, of in list(self._statuses.items()):
            if of is process:  # had it died, they would see the end; one that cannot die yet is as good as dead
                with suppress(OSError):
                    status.shutdown(socket.SHUT_RDWR)

    def _ask(self, spawn_request: SpawnRequest, status: socket.socket) -> subprocess.Popen[bytes]:
        """Return the process that was asked: by the time that it fails to answer, another may have taken its place."""
        begun, self._begun = self._begun, False
        if self._control is not None and self._process is not None and self._process.poll() is None:
            # It may be dying all the same; then it is as if it had died before.
            with suppress(ConnectionError):
                ask(self._control, spawn_request, status)
                return self._process
        if begun and self._process is not None:
            raise self._ended(self._process)
        self.start()
        assert self._control is not None
        assert self._process is not None
        try:
            ask(self._control, spawn_request, status)
        except ConnectionError:
            raise self._ended(self._process) from None
        return self._process

    @staticmethod
    def _ended(process: subprocess.Popen[bytes]) -> OSError:
        return OSError(f"their keeper ended: {describe_exit(process.wait())}")

    def begin(self) -> None:
        """Start the process behind it, if there was none yet, for the runner that is asked for next: it fails with the
        process. `OSError` when the system has none left.
        """
        if self._process is None:
            self.start()
            self._begun = True

    def start(self) -> None:
        """Start the process behind it, or start it again. `OSError` when the system has none left."""
        self._hang_up()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):  # its socket is closed, so it is all but gone
                self._process.wait(DYING_S)
        self._process = None
        self._scratch = directory_for(str(os.getpid()))
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far, ExitStack() as failed:
            failed.callback(near.close)
            lifeline, held = os.pipe()
            failed.callback(os.close, held)
            try:
                fds = {"--fd": far.fileno(), "--lifeline": lifeline}
                begun = self.surroundings.environment(), fds, self.surroundings.directory
                self._process = start_module("grainlike_worker.keeper", self._options(), *begun)
            finally:
                os.close(lifeline)
            failed.pop_all()
        self._held = held
        self._control = near
        home = here()
        if home is not None:
            self._unwatched = anyio.Event()
            watch = partial(self._watch_over, self._process, near)
            self._watch_task = spawn_detached(home, "grainlike watch over a keeper", watch)

    def _options(self) -> list[str]:
        options = ["--scratch", self._scratch]
        if self._cgroups is not None:
            options += ["--cgroups", self._cgroups.path, *(["--limits", "yes"] if self._cgroups.limits else [])]
        return options


@asynccontextmanager
async def open_keeper(
    cgroups: RunnerCgroups | None = None, *, early: bool = False
) -> AsyncIterator[KeeperClient | None]:
    """A keeper for as long as the block runs; None where the system has none (it takes Linux).

    Its runners have cgroups where there are `cgroups`. With `early`, its process is started now and not with the first
    runner, which then need not wait for it.
    """
    if sys.platform != "linux":
        yield None
        return
    keeper = KeeperClient(cgroups)
    try:
        if early:
            keeper.start()
        yield keeper
    finally:
        await keeper.aclose()


class _KeeperChild:
    """A child of the keeper's. It is gone when the keeper says so, which is when its orphans are gone too."""

    def __init__(
        self,
        pid: int,
        watch: int,
        status: socket.socket,
        statuses: dict[socket.socket, subprocess.Popen[bytes]],
        group: Cgroup | None,
    ) -> None:
        self.pid = pid
        self._group = group
        self.returncode: int | None = None
        self._watch = watch
        self._status = status
        self._statuses = statuses

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watch, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)  # the rest of it is ended by the keeper

    async def wait(self) -> int:
        if self.returncode is None:
            await readable(self._status.fileno())
        if self.returncode is None:
            code = receive_exit_status(self._status)
            if code is None:
                # The keeper is dead, and the kernel kills its children: that we can see ourselves. Or it was given up.
                self.kill()
                with anyio.move_on_after(watching.ENDING_S):
                    await readable(self._watch)
                if self._group is not None:
                    await _emptied(self._group)
                code = -int(signal.SIGKILL)
            self._ended(code)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            self._statuses.pop(self._status, None)
            self._status.close()
            os.close(self._watch)


async def _emptied(group: Cgroup) -> None:
    """End what was left in the cgroup of a runner, and remove that."""
    group.kill()
    with anyio.move_on_after(DYING_S):
        while group.is_populated():  # noqa: ASYNC110 - the kernel tells of it to those who look
            await anyio.sleep(0.005)
    group.remove()


async def _end_of(process: subprocess.Popen[bytes]) -> str:
    """Return how a keeper that did not answer ended. Its sockets are closed a little before it is gone; but then, what
    did not
    answer may have been a child of a keeper that lives, which is not to be waited for."""
    with anyio.move_on_after(DYING_S):
        await gone(process)
    code = process.poll()
    return "not it, but its child, before that had begun" if code is None else describe_exit(code)


def memory_tier(keeper: KeeperClient | None, cgroups: RunnerCgroups | None) -> str:
    """Return the means by which jobs in runners of their own are held to their memory."""
    if keeper is None:
        return "none"
    return "cgroup" if cgroups is not None and cgroups.limits else "watchdog"
