"""A process that the daemon has started, or has had started: signal it, see it gone."""

import os
import signal
import site
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
import anyio.to_thread

import grainlike
from grainlike.subprocesses import is_standard_for_children

__all__ = ["ProcessHandle", "Surroundings", "describe_exit", "start_child", "start_module", "with_our_paths"]


_FATAL = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGABRT: "aborted",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic fault",
    signal.SIGILL: "illegal instruction",
}


class Surroundings(NamedTuple):
    """The working directory and the environment that all runners of a worker start with.

    They are those of when the worker opened: a program may change its own later, and its jobs would differ by the
    process that runs them.
    """

    directory: str | None
    variables: dict[bytes, bytes]

    @classmethod
    def now(cls) -> "Surroundings":
        """Return those that this process has now."""
        try:
            directory = os.getcwd()  # noqa: PTH109 - only handed on
        except OSError:
            directory = None
        # The bytes behind the mapping: most are never asked for as text, and a program opens sooner. It may have put a
        # mapping of its own there.
        held = getattr(os.environ, "_data", None)
        if held is None:
            held = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
        return cls(directory, dict(held))

    def environment(self) -> dict[str, str]:
        """Return the variables as text."""
        return {os.fsdecode(name): os.fsdecode(value) for name, value in self.variables.items()}


class ProcessHandle(Protocol):
    """Interface of a process, as far as the daemon uses it."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """The exit code as `subprocess` counts; None until `wait` has seen the end."""

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing once its end was seen."""

    def kill(self) -> None:
        """Kill it, and what it has started."""

    async def wait(self) -> int:
        """Wait until it is gone; return the exit code. For any number of tasks, cancellable."""
        ...


def start_child(
    arguments: list[str], environment: dict[str, str], fds: Mapping[str, int], directory: str | None = None
) -> ProcessHandle:
    """Return a runner as a new interpreter, started by this process. `OSError` when the system has no process left."""
    return _Started(start_module("grainlike_worker.runner", arguments, environment, fds, directory))


def start_module(
    module: str,
    arguments: Iterable[str],
    environment: dict[str, str],
    fds: Mapping[str, int],
    directory: str | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a module of ours in a session of its own; descriptors by option. It begins in the directory, if that is
    still there, else in ours.
    """
    environment, added = with_our_paths(environment)
    # -P: what lies in the current directory must not stand in for the standard library.
    command = [sys.executable, "-P", "-m", module, *arguments]
    for option, fd in fds.items():
        command += [option, str(fd)]
    command += ["--parent", str(os.getpid()), "--added-paths", str(added)]
    out, err = (None if is_standard_for_children(fd) else subprocess.DEVNULL for fd in (1, 2))
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command,
        cwd=directory if directory is not None and os.path.isdir(directory) else None,  # noqa: PTH112 - hot
        env=environment,
        pass_fds=list(fds.values()),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )


class _Started:
    """A child of this process, with a group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.pid = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def send_signal(self, number: signal.Signals) -> None:
        # Only `wait` reaps, so until then the number cannot be another process's.
        if self._process.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self._process.returncode is None:
            # macOS refuses to signal a group of which only its dead leader is left.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        if self._process.returncode is None:
            await self._ended()
            self.kill()
        return self._process.wait()

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


def with_our_paths(environment: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """`environment`, so that a Python which starts in it finds our packages; and how many paths that took."""
    added = _needed_paths()
    paths = [*added, *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)} if added else dict(environment), len(added)


def _needed_paths() -> list[str]:
    """Return the directories of both packages, but for those where any interpreter of this installation looks."""
    homes = [str(Path(path).resolve().parent) for path in (*grainlike.__path__, *_worker_path())]
    usual = {str(Path(path).resolve()) for path in (*site.getsitepackages(), site.getusersitepackages())}
    return [home for home in dict.fromkeys(homes) if home not in usual]


def _worker_path() -> Iterable[str]:
    import grainlike_worker

    return grainlike_worker.__path__
