"""Programs that coroutines start, with whatever library: they get the job's cores and variables; in the user's process
they are noted, too, and ended with their worker.

`subprocess.Popen` starts those of asyncio, anyio and trio too; a loop that is not asyncio's own, as uvloop's, starts
them by itself. So these are wrapped while such a worker is there. Whose program it is, the context tells: what the
user's program starts outside its jobs is not noted. Nor is what the library has other ways for (`os.fork`,
`os.posix_spawn`, `multiprocessing`, whose helpers serve the whole program).
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from grainlike.context import GVAR, JobInfo, JobOutput, author
from grainlike.eventloop import on_asyncio
from grainlike.subprocesses import LEFTOVER_GRACE_S

if TYPE_CHECKING:
    from grainlike.subprocesses import Program

__all__ = ["JobPrograms", "programs_ended", "programs_placed"]

_Wrap: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

logger = logging.getLogger("grainlike.worker")

_STARTING_S = 1.0
"""How long the end of a worker waits for a thread that is just starting a program."""

_FEW = 16
"""Below this many programs it is not checked which of them have ended."""


@asynccontextmanager
async def programs_ended(output: JobOutput) -> AsyncIterator[None]:
    """End with the block the programs that jobs have started in it and left; the jobs are those whose output this is.

    The jobs have ended before the block is left. Takes a second or two, and some more where a program survives SIGKILL.
    Not cut short by cancellation. The log names each program, and its job.
    """
    programs = JobPrograms()
    with programs_placed(), _noted_by(output, programs):
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await programs.end()


class JobPrograms:
    """The programs of one worker's jobs. `starting` and `note` may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._identify: Callable[..., Program | None] = lambda *_: None
        self._noted: dict[Program, JobInfo] = {}
        self._starting = 0
        self._look_at = _FEW
        self._closed = False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Surround the start of a program, for the end to wait for it."""
        # Loaded before the start: `run_process` binds its program to this process right after it, and until then the
        # program would outlive this process.
        from grainlike.subprocesses import identify

        with self._lock:
            self._starting += 1
            self._identify = identify
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    def note(self, job: JobInfo, pid: int, child: subprocess.Popen[Any] | None = None) -> None:
        """Note a program that `job` has just started and that was not reaped; when the worker has ended, end it."""
        program = self._identify(pid, child)
        if program is None:
            return
        with self._lock:
            late = self._closed
            self._noted[program] = job
            if len(self._noted) >= self._look_at:
                # Seldom enough that looking costs each program the same, however many there are.
                self._noted = {each: of for each, of in self._noted.items() if each.is_there()}
                self._look_at = max(_FEW, 2 * len(self._noted))
        if late:
            program.send(signal.SIGKILL)

    async def end(self) -> None:
        """End those that live."""
        deadline = time.monotonic() + _STARTING_S
        while self._starting and time.monotonic() < deadline:  # noqa: ASYNC110 - threads start them
            await anyio.sleep(0.005)
        with self._lock:
            self._closed = True
            noted, self._noted = self._noted, {}
        if noted:
            await _end(noted)


async def _end(noted: dict[Program, JobInfo]) -> None:
    from grainlike.subprocesses import end_programs

    for program, job in noted.items():
        if program.is_alive():
            words = "job %d, %s, has left a program running, %s (process %d): it is ended with the executor's block"
            logger.warning(words, job.id, job.name, program.name(), program.pid)
    left = await end_programs(noted, LEFTOVER_GRACE_S)
    if left:
        logger.error("processes %s, which programs of jobs have started, do not die of SIGKILL", left)


# --- where programs are started --------------------------------------------------------------------------------------


@contextmanager
def programs_placed() -> Iterator[None]:
    """Have programs that jobs start in the block inherit the cores of their job, and find its slots in the environment,
    as those of `run_process`.
    """
    with ExitStack() as stack:
        if sys.platform == "linux":
            _wrap_starts(stack, _placing_popen, _placing_transports)
        yield


_POSITIONAL_ENV = 11
"""With so many positional arguments a `Popen` has been given its environment; programs do not do so."""


def _placing_popen(start: Callable[..., None]) -> Callable[..., None]:
    @wraps(start)
    def __init__(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it is shown in stacks
        if GVAR.job is None or len(args) >= _POSITIONAL_ENV:
            start(self, *args, **kwargs)
            return
        from grainlike.subprocesses import in_slots

        with in_slots(kwargs.pop("env", None)) as environment:
            start(self, *args, env=environment, **kwargs)

    return __init__


def _placing_transports(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    async def started(*args: Any, **kwargs: Any) -> Any:
        if GVAR.job is None:
            return await start(*args, **kwargs)
        from grainlike.subprocesses import in_slots

        with in_slots(kwargs.pop("env", None)) as environment:
            begun = _Begun(start(*args, env=environment, **kwargs))
        return await begun

    return started


class _Begun:
    """A coroutine whose first step is done, in which uvloop forks; to be awaited before anything else is."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._steps = coroutine.__await__()
        self._step: Callable[[], Any] = partial(next, iter([next(self._steps)]))  # it waits for the new program then

    def __await__(self) -> Generator[Any, Any, Any]:
        step = self._step
        while True:
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                step = partial(self._steps.throw, error)
            else:
                step = partial(next, self._steps)


_programs_of: dict[int, JobPrograms] = {}
"""By the identity of their jobs' output, which is one for each worker."""


@contextmanager
def _noted_by(output: JobOutput, programs: JobPrograms) -> Iterator[None]:
    with ExitStack() as stack:
        _wrap_starts(stack, _noting_popen, _noting_transports)
        _programs_of[id(output)] = programs
        stack.callback(_programs_of.pop, id(output))
        yield


def _wrap_starts(stack: ExitStack, popen: _Wrap, transports: _Wrap) -> None:
    """Wrap what starts programs until the stack ends: `Popen`, and a loop that starts them by itself."""
    stack.enter_context(_wrapped(subprocess.Popen, "__init__", popen))
    if on_asyncio():
        loop = asyncio.get_running_loop()
        if not isinstance(loop, asyncio.BaseEventLoop):
            for name in ("subprocess_exec", "subprocess_shell"):
                stack.enter_context(_wrapped(loop, name, transports))


def _here() -> tuple[JobPrograms, JobInfo] | None:
    """Return whose program it is that is started here; None for the user's own."""
    found = author()
    if found is None:
        return None
    programs = _programs_of.get(id(found[0]))
    return None if programs is None else (programs, found[1])


def _noting_popen(start: Callable[..., None]) -> Callable[..., None]:
    @wraps(start)
    def __init__(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it is shown in stacks
        found = _here()
        if found is None:
            start(self, *args, **kwargs)
            return
        programs, job = found
        with programs.starting():
            start(self, *args, **kwargs)
            if self.returncode is None:
                programs.note(job, self.pid, self)

    return __init__


def _noting_transports(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    async def started(*args: Any, **kwargs: Any) -> Any:
        found = _here()
        if found is None:
            return await start(*args, **kwargs)
        programs, job = found
        with programs.starting():
            made = await start(*args, **kwargs)
            if made[0].get_returncode() is None:
                programs.note(job, made[0].get_pid())
            return made

    return started


class _Wrapping:
    """Wrapper around a method of an object, shared by all who ask for it at a time."""

    def __init__(self, owner: Any, name: str, wrap: _Wrap) -> None:
        self.users = 0
        self._owner = owner
        self._name = name
        self._own = name in vars(owner)
        self._before = getattr(owner, name)
        self._wrapper = wrap(self._before)
        setattr(owner, name, self._wrapper)

    def undo(self) -> None:
        """Take it away; but where somebody has put something over it, which still calls it, it stays and does nothing.

        For then no job is known whose programs it could note.
        """
        if vars(self._owner).get(self._name) is not self._wrapper:
            return
        if self._own:
            setattr(self._owner, self._name, self._before)
        else:
            delattr(self._owner, self._name)


_wrappings: dict[tuple[int, str, object], _Wrapping] = {}
_wrappings_lock = threading.Lock()


@contextmanager
def _wrapped(owner: Any, name: str, wrap: _Wrap) -> Iterator[None]:
    key = (id(owner), name, wrap)
    with _wrappings_lock, suppress(AttributeError, TypeError):  # a loop that lets nothing be put in its place
        if key not in _wrappings:
            _wrappings[key] = _Wrapping(owner, name, wrap)
        _wrappings[key].users += 1
    try:
        yield
    finally:
        with _wrappings_lock:
            wrapping = _wrappings.get(key)
            if wrapping is not None:
                wrapping.users -= 1
                if wrapping.users == 0:
                    del _wrappings[key]
                    wrapping.undo()
