"""External programs inside a job's slots: on its cores, with its thread widths, and ended when they are not wanted.

A coroutine shares its process with other jobs, so nothing there is pinned. What is pinned is the program: a new process
inherits the affinity of the thread that starts it, so that thread has the job's for the moment of starting.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from typing import IO, Any, TypeAlias
from uuid import uuid4

from grainlike._last_words import note_last_words
from grainlike.context import GVAR, holds_whole_process
from grainlike.resources import Allocation, keep_in_job, keep_unbound, program_environment
from grainlike.subprocesses._core_numbers import cores_count_in_order
from grainlike.subprocesses._descendants import descendants, kill_all
from grainlike.subprocesses._lifeline import end_with_pipe

__all__ = ["in_slots", "run_process"]

StrOrBytesPath: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

_MARK = "GRAINLIKE_PROGRAM"
"""Environment variable that marks a program: every descendant inherits it, and so is found even when its parents have
exited.
"""

_CHUNK = 65536

_KILLED_S = 5.0
"""Seconds that the processes of a program may take to die of SIGKILL."""


async def run_process(
    command: StrOrBytesPath | Sequence[StrOrBytesPath],
    *,
    input: bytes | None = None,  # noqa: A002 - anyio's signature
    stdin: int | IO[Any] | None = None,
    stdout: int | IO[Any] | None = subprocess.PIPE,
    stderr: int | IO[Any] | None = subprocess.PIPE,
    check: bool = True,
    cwd: StrOrBytesPath | None = None,
    env: Mapping[str, str] | None = None,
    startupinfo: Any = None,
    creationflags: int = 0,
    start_new_session: bool = False,
    pass_fds: Sequence[int] = (),
    user: str | int | None = None,
    group: str | int | None = None,
    extra_groups: Iterable[str | int] | None = None,
    umask: int = -1,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program in the slots of the running job, and wait until it ends. Everything else is as in anyio.

    The program, and what it starts, can use the job's cores and no others, and finds `OMP_NUM_THREADS` and its like set
    to their number, so it needs no `taskset`; `mpirun` finds the list of its cores. `GRAINLIKE_CORES`, `_GPUS`,
    `_MEMORY`, `_JOB` and `_SCRATCH` name the slots, the job's number and a directory that is removed with the job.
    Meanwhile other jobs run on the loop. It leads a process group.

    Args:
        command: program and arguments; text goes to the shell.
        input: bytes for its standard input, instead of `stdin`.
        stdin: as for `subprocess`.
        stdout: as for `subprocess`; collected by default.
        stderr: as for `subprocess`; collected by default.
        check: raise when it fails.
        cwd: as for `subprocess`.
        env: its whole environment. A thread width that differs from this process's own stays; others are the job's.
        startupinfo: for Windows, where nothing is enforced.
        creationflags: for Windows, where nothing is enforced.
        start_new_session: as for `subprocess`.
        pass_fds: as for `subprocess`.
        user: as for `subprocess`.
        group: as for `subprocess`.
        extra_groups: as for `subprocess`.
        umask: as for `subprocess`.

    Returns:
        What it gave: `returncode`, and `stdout` and `stderr` as bytes where they were collected.

    Raises:
        subprocess.CalledProcessError: it failed, and `check` is true; notes have the end of its output and error.
        OSError: the program could not be started.
        ValueError: both `input` and `stdin` were given.

    Cancelled, it kills the program with all that it started, daemons too, and waits until they have exited. What the
    program left in its process group when it ended is killed as well. Outside a job, and where there is no Linux, it
    is `anyio.run_process`.

    Example::

        @delayed
        async def solve(path: str) -> bytes:
            return (await run_process(["solver", path])).stdout

        text = await (solve @ Cores(4))("model.lp")
    """
    if input is not None and stdin is not None:
        raise ValueError("only one of stdin and input is allowed")
    options: dict[str, Any] = {
        "stdout": stdout,
        "stderr": stderr,
        "cwd": cwd,
        "start_new_session": start_new_session,
        "pass_fds": pass_fds,
        "user": user,
        "group": group,
        "extra_groups": extra_groups,
        "umask": umask,
    }
    if GVAR.job is None or sys.platform != "linux":
        import anyio

        windows = {"startupinfo": startupinfo, "creationflags": creationflags}
        return await anyio.run_process(command, input=input, stdin=stdin, check=check, env=env, **windows, **options)
    shell = isinstance(command, (str, bytes))
    program = _Program(command, env, shell=shell, stdin=subprocess.PIPE if input is not None else stdin, **options)
    output, errors = await program.run(input)
    code = program.process.returncode
    if check and code != 0:
        failure = subprocess.CalledProcessError(code, command, output, errors)
        note_last_words(failure)
        raise failure
    return subprocess.CompletedProcess(command, code, output, errors)


class _Program:
    """A program, from its start to the end of everything that it started."""

    def __init__(self, command: Any, env: Mapping[str, str] | None, **options: Any) -> None:
        self._mark = uuid4().hex
        if not options["start_new_session"]:
            options["process_group"] = 0
        lifeline, self._held = os.pipe()
        options["pass_fds"] = (*options["pass_fds"], lifeline)
        try:
            with in_slots(env) as environment:
                environment[_MARK] = self._mark
                process: Any = subprocess.Popen(command, env=environment, **options)  # noqa: S603 - what the user says
            # On the embedded worker that is the user's program, and no keeper ends its processes.
            end_with_pipe(lifeline, process.pid)
        except BaseException:
            os.close(self._held)
            raise
        finally:
            os.close(lifeline)
        self.process: subprocess.Popen[bytes] = process

    async def run(self, given: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Feed it, and wait for its end; return what it wrote to pipes of ours."""
        import anyio

        process = self.process
        told: dict[int, bytes] = {}

        async def drain(number: int, pipe: IO[bytes]) -> None:
            told[number] = await _drain(pipe)

        watch = os.pidfd_open(process.pid)
        try:
            async with anyio.create_task_group() as tasks:
                for number, pipe in enumerate((process.stdout, process.stderr)):
                    if pipe is not None:
                        tasks.start_soon(drain, number, pipe)
                if process.stdin is not None:
                    tasks.start_soon(_feed, process.stdin, given or b"")
                await anyio.wait_readable(watch)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # it is not reaped yet, so the number is its own
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._kill()
            raise
        finally:
            os.close(watch)
            os.close(self._held)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            if _has_ended(process.pid):
                process.wait()
        return told.get(0), told.get(1)

    async def _kill(self) -> None:
        """Kill it with all that it started, and wait until these have exited."""
        import anyio

        deadline = time.monotonic() + _KILLED_S
        killed: set[int] = set()
        while time.monotonic() < deadline:
            found = {self.process.pid, *descendants(self.process.pid), *_marked(self._mark.encode())}
            kill_all(sorted(found))
            killed |= found
            _reap(sorted(killed - {self.process.pid}))
            # One that is dying has no environment any more, and may run still.
            if found == {self.process.pid} and all(map(_is_dead, killed)):
                return
            await anyio.sleep(0.005)


@contextmanager
def in_slots(env: Mapping[str, str] | None) -> Iterator[dict[str, str]]:
    """Context manager for the start of a program of the job that runs here: the program inherits the job's cores. Its
    value is the program's environment: what was asked for, `env`, and the job's slots where not set otherwise.

    Example::

        with in_slots(None) as environment:
            subprocess.Popen(["solver"], env=environment)
    """
    environment = _environment(env, GVAR.res)
    # A process that belongs to the job alone is pinned already, and its devices are set.
    with _on_cores(() if holds_whole_process() else GVAR.res.cores):
        yield environment


def _environment(env: Mapping[str, str] | None, allocation: Allocation) -> dict[str, str]:
    """Return the environment of a program: what was asked for, and the job's slots where not set otherwise."""
    environment = dict(os.environ if env is None else env)
    if holds_whole_process():
        if env is None and GVAR.job is not None:
            with suppress(RuntimeError):  # where jobs have no scratch directory
                environment["GRAINLIKE_SCRATCH"] = str(GVAR.job.scratch)
        return environment
    keep_unbound(environment)
    keep_in_job(environment)
    for name, value in _shown(allocation).items():
        if env is not None and env.get(name) != os.environ.get(name):
            continue
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment


def _shown(allocation: Allocation) -> dict[str, str | None]:
    """Return the variables for a program of a coroutine; a job in its own process has them already."""
    pinned = os.sched_getaffinity(0).intersection(allocation.cores)
    shown = program_environment(allocation, pinned, counted_in_order=cores_count_in_order())
    shown["CUDA_VISIBLE_DEVICES"] = ""
    if GVAR.job is not None:
        shown["GRAINLIKE_JOB"] = str(GVAR.job.id)
        with suppress(RuntimeError):  # where jobs have no scratch directory
            shown["GRAINLIKE_SCRATCH"] = str(GVAR.job.scratch)
    return shown


@contextmanager
def _on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Let what the block starts inherit these cores, as far as this machine has them."""
    own = os.sched_getaffinity(0)
    wanted = own.intersection(cores)
    if not wanted or wanted == own:
        yield
        return
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


async def _drain(pipe: IO[bytes]) -> bytes:
    import anyio

    os.set_blocking(pipe.fileno(), False)
    chunks: list[bytes] = []
    while True:
        await anyio.wait_readable(pipe.fileno())
        with suppress(BlockingIOError):
            chunks.append(os.read(pipe.fileno(), _CHUNK))
            if not chunks[-1]:
                return b"".join(chunks)


async def _feed(pipe: IO[bytes], given: bytes) -> None:
    import anyio

    os.set_blocking(pipe.fileno(), False)
    rest = memoryview(given)
    # A program need not read all that it is given.
    with suppress(BrokenPipeError):
        while rest:
            await anyio.wait_writable(pipe.fileno())
            with suppress(BlockingIOError):
                rest = rest[os.write(pipe.fileno(), rest) :]
    pipe.close()


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _is_dead(pid: int) -> bool:
    """Return True if a process runs no more, reaped or not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as told:  # noqa: PTH123
            return told.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _reap(pids: list[int]) -> None:
    """Reap those that are dead and fell to us, as the parent of orphans."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _marked(mark: bytes) -> list[int]:
    """Return the living processes that were started with this mark in their environment, or by one of those."""
    found: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - strings are all that is needed
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as told:  # noqa: PTH123
            if mark in told.read():
                found.append(int(name))
    return found
