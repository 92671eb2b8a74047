"""The daemon's side of a runner: start the process, hold its link, signal it, see it gone."""

import os
import signal
import site
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

import grainlike
from grainlike.net import Link, adopt
from grainlike_worker._claims import Claims
from grainlike_worker._interrupts import FLUSH_SIGNAL

__all__ = ["RunnerProcess", "describe_exit"]

_FATAL = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGABRT: "aborted",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic fault",
    signal.SIGILL: "illegal instruction",
}


class RunnerProcess:
    """A runner, from `spawn` until `wait` has returned and `aclose` has let go of what the daemon held.

    The kernel kills the process when the *thread* that spawned it ends: spawn from the event loop's thread, never from
    a pool's. It leads a session and process group of its own, so that what it started goes with it.

    Example::

        runner = await RunnerProcess.spawn("own")
        runner.link.post(Setup("n1", sys.path))
        tasks.start_soon(runner.link.run, on_frames)
        print(describe_exit(await runner.wait()))
        await runner.aclose()
    """

    def __init__(self, process: subprocess.Popen[bytes], link: Link, claims: Claims | None, held: ExitStack) -> None:
        self.link = link
        self.claims = claims
        self.pid = process.pid
        self._process = process
        self._held = held

    @classmethod
    async def spawn(cls, kind: Literal["shared", "own"], *, env: Mapping[str, str] | None = None) -> "RunnerProcess":
        """Start a runner; `env` comes on top of this process's environment.

        An "own" runner shares a page of `claims` with this process. The link is trusted; nobody runs it yet. Starting
        blocks the loop for about a millisecond. `OSError` when the system has no process or descriptor left.
        """
        with ExitStack() as stack:
            claims = stack.enter_context(closing(Claims.create())) if kind == "own" else None
            lifeline, held_end = os.pipe()
            stack.callback(os.close, held_end)
            process, near = _start_with_socket(kind, claims, lifeline, env or {})
            try:
                link = await adopt(near, f"runner {process.pid}")
            except BaseException:
                process.kill()
                process.wait()
                raise
            link.trust()
            return cls(process, link, claims, stack.pop_all())

    @property
    def returncode(self) -> int | None:
        """The exit code, the negative number of the signal that killed it, or None until `wait` has seen the end."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until the process has ended, kill what is left of its group, reap it, and return its exit code.

        May be called by several tasks and again. Cancelling it changes nothing.
        """
        if self._process.returncode is None:
            await self._ended()
            self.kill()
        return self._process.wait()

    def terminate(self) -> None:
        """Ask it to end: the running job sees `SystemExit` or its loop's cancellation. Nothing once it was reaped."""
        self._signal(signal.SIGTERM)

    def flush(self) -> None:
        """Ask an "own" runner for the outcomes that wait for its running job to end. It may be too busy to answer."""
        self._signal(FLUSH_SIGNAL)

    def kill(self) -> None:
        """Kill the process and all of its group at once. Nothing once it was reaped."""
        if self._process.returncode is None:
            # macOS refuses to signal a group of which only its dead leader is left.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def aclose(self) -> None:
        """Kill what still runs, wait until it is gone, and let go of link and claims. Not cut short by cancellation."""
        with anyio.CancelScope(shield=True):
            self.kill()
            await self.wait()
            await self.link.aclose()
        self._held.close()

    def _signal(self, number: signal.Signals) -> None:
        # Only `wait` reaps, so until then the number cannot be another process's.
        if self._process.returncode is None:
            os.kill(self.pid, number)

    async def _ended(self) -> None:
        """Wait for the end without reaping: the group is swept while the number is still taken."""
        if sys.platform != "linux":
            await anyio.to_thread.run_sync(self._process.wait, abandon_on_cancel=True)
            return
        watch = os.pidfd_open(self.pid)
        try:
            await anyio.wait_readable(watch)
        finally:
            os.close(watch)


def describe_exit(returncode: int) -> str:
    """Words for how a process ended.

    >>> describe_exit(3), describe_exit(-9), describe_exit(-11)
    ('exit code 3', 'killed by SIGKILL', 'segmentation fault (SIGSEGV)')
    """
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        number = signal.Signals(-returncode)
    except ValueError:
        return f"killed by signal {-returncode}"
    return f"{_FATAL[number]} ({number.name})" if number in _FATAL else f"killed by {number.name}"


def _start_with_socket(
    kind: str, claims: Claims | None, lifeline: int, extra: Mapping[str, str]
) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """The process and our end of its socket; its own ends, `lifeline` too, are closed here whatever happens."""
    try:
        near, far = socket.socketpair()
        with far:
            try:
                return _start(kind, far, claims, lifeline, extra), near
            except BaseException:
                near.close()
                raise
    finally:
        os.close(lifeline)


def _start(
    kind: str, far: socket.socket, claims: Claims | None, lifeline: int, extra: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, **extra}
    added = _needed_paths()
    if added:
        environment["PYTHONPATH"] = os.pathsep.join([*added, *filter(None, [environment.get("PYTHONPATH")])])
    # -P: what lies in the current directory must not stand in for the standard library.
    command = [sys.executable, "-P", "-m", "grainlike_worker.runner", f"--{kind}"]
    command += ["--fd", str(far.fileno()), "--parent", str(os.getpid()), "--added-paths", str(len(added))]
    command += ["--lifeline", str(lifeline)]
    fds = [far.fileno(), lifeline]
    if claims is not None:
        command += ["--claims", str(claims.fd)]
        fds.append(claims.fd)
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command, env=environment, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True
    )


def _needed_paths() -> list[str]:
    """Where this process has both packages from, unless any interpreter of this installation looks there anyway."""
    homes = [str(Path(path).resolve().parent) for path in (*grainlike.__path__, *_worker_path())]
    usual = {str(Path(path).resolve()) for path in (*site.getsitepackages(), site.getusersitepackages())}
    return [home for home in dict.fromkeys(homes) if home not in usual]


def _worker_path() -> Iterable[str]:
    import grainlike_worker

    return grainlike_worker.__path__
