"""The keeper's process: `python -m grainlike_worker.keeper --fd N --parent PID ...`. The parent of a worker's runners.

It forks them, which takes a few milliseconds where a new interpreter takes a hundred; it reaps them, and whatever
they leave behind: it adopts their orphans, daemons in sessions of their own too, and tells of a runner's end only when
all of those are gone. It imports nothing of the user's and runs none of it. When the worker ends, in whatever way, it
ends what is left, and itself.

It holds the worker's connection to the head as well. The kernel would reset that of a worker that was killed before it
had read everything, just as a fault of the network does, after which the head waits for long. So the keeper ends the
stream in order, when nothing is left that could still run: then the head knows.
"""

import gc
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from types import ModuleType
from typing import NamedTuple, NoReturn

import grainlike_worker.runner.common._chain  # 1 ms of the first chain in each runner
import grainlike_worker.runner.process._runner  # noqa: F401 - what every runner needs, imported once
from grainlike.subprocesses import children, descendants, go_on_with_pipe, kill_all, reap, reset_signals
from grainlike.system import Cgroup
from grainlike_worker.ipc._claims import ClaimPage
from grainlike_worker.ipc._fork_requests import (
    SpawnReply,
    SpawnRequest,
    answer,
    send_exit_status,
    send_failure,
    send_reply,
    take,
)
from grainlike_worker.ipc._signals import NOTICES, in_batch_job
from grainlike_worker.keeper._memory_watchdog import Watchdog
from grainlike_worker.linux._cgroup_memory import was_out_of_memory
from grainlike_worker.linux._lifeline import adopt_orphans, die_with_parent
from grainlike_worker.linux._worker_cgroups import RunnerCgroups
from grainlike_worker.runner import __main__ as runner
from grainlike_worker.runner.common._job_directories import keeps, remove, remove_empty

__all__ = ["main"]

_STRAYS_S = 0.02
"""Seconds between two looks at orphans that it has killed and that are not gone yet."""

_KILLED_S = 5.0
"""Seconds that they may take to die of SIGKILL before they are left to the system: they wait for a device, or are not
ours to end."""


_TRACKED_S = 1.0
"""Seconds that a resource tracker of multiprocessing has to unlink what its processes, once dead, have left."""

_HEARD_S = 1.0
"""Seconds that the head may take to hang up, after it was told that the worker is dead."""


class _LivingRunner(NamedTuple):
    """A living runner."""

    status: socket.socket
    claims: ClaimPage | None
    group: Cgroup | None


class _DeadRunner(NamedTuple):
    """A runner that has ended, while something of it may still be there."""

    status: socket.socket
    code: int
    since: float
    group: Cgroup | None


class Keeper:
    """Serves its control socket until that ends, or SIGTERM comes (the kernel sends it when the worker dies).

    In a batch job SIGTERM and other signals are sent to every process: there they are the worker's to obey, while it
    lives.
    """

    def __init__(
        self, control: socket.socket, workers: int, scratch: str, cgroups: RunnerCgroups | None = None
    ) -> None:
        self._control = control
        self._workers_lifeline = workers
        self._cgroups = cgroups
        self._worker = os.getppid()
        self._kept: dict[int, _LivingRunner] = {}
        self._dead: list[_DeadRunner] = []
        self._watchdog = Watchdog()
        self._removers: set[int] = set()
        self._scratch = scratch
        self._ending = False
        self._links: list[socket.socket] = []
        """To the head: one, or none."""
        self._lifeline, self._grip = os.pipe()
        """Of the keeper itself, for each runner's group: see `_lifeline`."""
        self._bell, self._clapper = socket.socketpair()
        for end in (self._bell, self._clapper):
            end.setblocking(False)
        signal.set_wakeup_fd(self._clapper.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # Handled, or they would not ring the bell: a child's end, and a runner that has set itself a limit.
        for number in (signal.SIGCHLD, *NOTICES):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> list[str] | None:
        """Keep runners until the end; then None. In a child that was forked to be a runner: its arguments."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        while not self._ending:
            ready = {fd for fd, _ in poll.poll(self._patience_ms())}
            if self._bell.fileno() in ready:
                self._hush()
            if self._control.fileno() in ready:
                request = take(self._control)
                if request is None:
                    break
                if isinstance(request, bytes):
                    answer(self._control)
                elif isinstance(request, list):
                    self._hold(request)
                elif (arguments := self._fork_runner(*request)) is not None:
                    return arguments
            self._watchdog.look()
            self._reap()
        self._end_all()
        return None

    def _patience_ms(self) -> int | None:
        waits = [self._watchdog.next_s(), _STRAYS_S if self._dead else None]
        return min((int(1000 * wait) + 1 for wait in waits if wait is not None), default=None)

    def _on_sigterm(self, *_: object) -> None:
        self._ending = self._ending or not in_batch_job() or os.getppid() != self._worker

    def _hush(self) -> None:
        with suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass

    def _hold(self, links: list[socket.socket]) -> None:
        for link in self._links:
            link.close()
        self._links = links

    # --- forks -------------------------------------------------------------------------------------------------------

    def _fork_runner(self, spawn_request: SpawnRequest, status: socket.socket) -> list[str] | None:
        here = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            send_failure(status, error)
            status.close()
        else:
            if pid == 0:
                self._release(status)
                return _become(spawn_request, here, self._lifeline, self._scratch, self._cgroups)
            self._keep(pid, spawn_request, status)
        for fd in spawn_request.fds.values():
            os.close(fd)
        return None

    def _keep(self, pid: int, spawn_request: SpawnRequest, status: socket.socket) -> None:
        page = spawn_request.fds.get("--claims")
        claims = None if page is None else ClaimPage.attach(os.dup(page))
        self._kept[pid] = _LivingRunner(status, claims, None if self._cgroups is None else self._cgroups.of(pid))
        if claims is not None:
            self._watchdog.add(pid, claims)
        watch = os.pidfd_open(pid)
        # If there is no reader any more the worker is ending, and so shall we.
        with suppress(ConnectionError):
            send_reply(status, SpawnReply(pid, watch))
        os.close(watch)

    def _release(self, status: socket.socket) -> None:
        """Give up, in a child, all that is the keeper's."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, *NOTICES):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(self._grip)
        os.close(self._workers_lifeline)
        for end in (status, self._control, self._bell, self._clapper, *(dead.status for dead in self._dead)):
            end.close()
        for kept in self._kept.values():
            _forget(kept)
        self._hold([])

    # --- ends --------------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Reap what has died; kill what dead runners left behind; tell of those of whom nothing is left."""
        for pid in [pid for pid in self._kept if _has_died(pid)]:
            tracked = any(map(_is_tracker, self._orphans()))
            if not tracked:
                # Not reaped yet, so its number is still its own, and its group's.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            kept = self._kept.pop(pid)
            self._watchdog.remove(pid)
            self._dead.append(_DeadRunner(kept.status, os.waitstatus_to_exitcode(status), time.monotonic(), kept.group))
            if kept.claims is not None:
                _judge(kept.claims, kept.group)
                kept.claims.close()
            if kept.group is not None and not tracked:
                kept.group.kill()
            self._remove_later(f"{self._scratch}/{pid}")
        self._removers = {pid for pid in self._removers if not os.waitpid(pid, os.WNOHANG)[0]}
        if self._dead:
            strays = self._kill_strays()
            for dead in list(self._dead):
                if _is_empty(dead.group, strays) or self._has_waited_long(dead, strays):
                    self._dead.remove(dead)
                    with suppress(ConnectionError):
                        send_exit_status(dead.status, dead.code)
                    dead.status.close()

    def _remove_later(self, directory: str) -> None:
        """Remove what a runner's jobs left on disk, in a process of its own: that may take long."""
        if keeps() or not os.path.isdir(directory):  # noqa: PTH112
            return
        try:
            pid = os.fork()
        except OSError:
            return  # it goes with all the others
        if pid == 0:
            os.close(self._grip)
            remove(directory)
            os._exit(0)
        self._removers.add(pid)

    def _kill_strays(self) -> list[int]:
        """Kill the orphans of dead runners, trackers after a while; return those that were there."""
        strays = self._orphans()
        fresh = time.monotonic() - min(dead.since for dead in self._dead) < _TRACKED_S
        for dead in () if fresh else self._dead:  # a tracker among the orphans may have kept their groups alive
            if dead.group is not None:
                dead.group.kill()
        for pid in strays:
            if not (fresh and _is_tracker(pid)):
                kill_all([pid, *descendants(pid)])
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        # What they had started falls to us as they die, so only a look that finds no process is the last.
        return strays

    def _orphans(self) -> list[int]:
        """Return what dead runners have left behind. Living runners adopt theirs themselves."""
        return [pid for pid in children(os.getpid()) if pid not in self._kept and pid not in self._removers]

    def _has_waited_long(self, dead: _DeadRunner, strays: list[int]) -> bool:
        late = time.monotonic() - dead.since > _KILLED_S
        if late:
            left = ", ".join(map(str, strays)) or "of a runner"
            print(f"grainlike: processes {left} do not die of SIGKILL", file=sys.stderr, flush=True)  # noqa: T201
        return late

    def _end_all(self) -> None:
        """End every runner and all that is theirs, on disk too; what does not die of SIGKILL is left."""
        deadline = time.monotonic() + _KILLED_S
        if self._cgroups is not None:
            self._cgroups.kill()
        while reap() and time.monotonic() < deadline:
            kill_all(descendants(os.getpid()))
            time.sleep(0.001)
        if self._cgroups is not None:
            # Of a worker that was killed, threads may be dying still; one that lives does the rest itself.
            while not self._cgroups.release() and os.getppid() != self._worker and time.monotonic() < deadline:
                time.sleep(0.005)
        self._hang_up()
        (remove_empty if keeps() else remove)(self._scratch)

    def _hang_up(self) -> None:
        """Tell the head of the end of a worker that was killed. One that ends by itself has taken its link back."""
        deadline = time.monotonic() + _HEARD_S
        for link in self._links:
            with suppress(OSError):
                link.settimeout(_HEARD_S)
                link.shutdown(socket.SHUT_WR)
                # What it says until it knows is read: it would be answered by a reset, which might overtake the end.
                while link.recv(65536) and time.monotonic() < deadline:
                    pass


def main(arguments: list[str]) -> NoReturn:
    """Serve until the worker lets go or dies; never returns."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    reset_signals()
    adopt_orphans()
    control = socket.socket(fileno=int(options["--fd"]))
    control.set_inheritable(False)
    cgroups = RunnerCgroups(options["--cgroups"], limits="--limits" in options) if "--cgroups" in options else None
    lifeline = int(options["--lifeline"])
    os.set_inheritable(lifeline, False)
    keeper = Keeper(control, lifeline, options["--scratch"], cgroups)
    go_on_with_pipe(lifeline)
    # Only now, when the signal has a handler that ends our children first.
    die_with_parent(int(options["--parent"]), signal.SIGTERM)
    runner.forget_added_paths(int(options["--added-paths"]))
    # Users' functions may name things of *their* `__main__`; they must not find ours under that name.
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv[1:] = []
    # What is here is shared with every runner as long as it is not written to; the collector would. Imports leave no
    # garbage behind, so there is nothing to collect first, and the first runner need not wait for it.
    gc.freeze()
    gc.enable()  # see `__main__`
    spawn_reply = keeper.serve()
    del keeper, control
    if spawn_reply is not None:
        runner.main(spawn_reply)
    os._exit(0)


def _become(
    spawn_request: SpawnRequest, keeper: int, lifeline: int, scratch: str, cgroups: RunnerCgroups | None
) -> list[str]:
    """Turn this process, just forked, into what a new one would be; return its arguments."""
    os.setsid()
    group = None if cgroups is None else cgroups.enter()
    if spawn_request.directory is not None:
        with suppress(OSError):
            os.chdir(spawn_request.directory)
    os.environ.clear()
    os.environ.update(spawn_request.environment)
    options = {**spawn_request.fds, "--keepers-lifeline": lifeline, "--parent": keeper, "--kept": "yes"}
    options["--scratch"] = f"{scratch}/{os.getpid()}"
    if group is not None and cgroups is not None and cgroups.limits:
        options["--cgroup"] = group
    return [*spawn_request.arguments, *(str(item) for pair in options.items() for item in pair)]


def _forget(kept: _LivingRunner) -> None:
    kept.status.close()
    if kept.claims is not None:
        kept.claims.close()


def _judge(claims: ClaimPage, group: Cgroup | None) -> None:
    """Note, for those who wait for its job, that a dead runner was ended by the kernel for taking too much memory."""
    if group is not None and claims.limit and claims.kernel and was_out_of_memory(group):
        claims.taken = claims.limit  # it came so far; how far it would have gone is not known


def _is_empty(group: Cgroup | None, strays: list[int]) -> bool:
    """Return True if nothing of a dead runner is left; if so, its cgroup is removed."""
    if strays or (group is not None and group.is_populated()):
        return False
    if group is not None:
        group.remove()
    return True


def _is_tracker(pid: int) -> bool:
    """Return True for a resource tracker of multiprocessing."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as told:  # noqa: PTH123 - as the kernel names it
        return b"multiprocessing.resource_tracker" in told.read()
    return False


def _has_died(pid: int) -> bool:
    """Return True if this child has ended; it stays to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
