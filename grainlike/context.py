"""`GVAR`: what a job sees of itself.

It answers which slots, worker and job the running code belongs to, and never finds that out by itself:
whoever runs a job enters it here. The state is one context variable, so it is right in every task that a
job starts, and in every thread that copies the context, as `asyncio.to_thread` and anyio's do.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from grainlike.resources import NO_ALLOCATION, Allocation

__all__ = ["GVAR", "JobInfo", "enter_job", "leave_job"]


@dataclass(frozen=True, slots=True)
class JobInfo:
    """The job that the code runs in.

    Attributes:
        id: its number, unique at its head.
        name: the function's name, or what `name=` said.
        attempt: 1 for the first try.
        deadline: when its timeout ends it, on the clock of `time.monotonic`; None without a timeout.
    """

    id: int
    name: str
    attempt: int
    deadline: float | None


class _View:
    """One moment's answer: immutable by custom, replaced as a whole."""

    __slots__ = ("allocation", "context", "instance", "job")

    def __init__(self, allocation: Allocation, instance: str | None, job: JobInfo | None, context: object) -> None:
        self.allocation = allocation
        self.instance = instance
        self.job = job
        self.context = context


_OUTSIDE = _View(NO_ALLOCATION, None, None, None)
_current: ContextVar[_View | None] = ContextVar("grainlike_job", default=None)


class _Process:
    """What a thread sees that copied no context: the one job of a process that runs one at a time."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = _OUTSIDE


_process = _Process()


def _view() -> _View:
    return _current.get() or _process.view


class _GVar:
    """The running job's view of itself; there is one, `GVAR`.

    Example:
        >>> GVAR.res.cores
        ()
    """

    __slots__ = ()

    @property
    def res(self) -> Allocation:
        """What the job was given, with ids; empty outside a job and in calls without resources."""
        return _view().allocation

    @property
    def instance(self) -> str | None:
        """The name of the worker; None outside a job."""
        return _view().instance

    @property
    def job(self) -> JobInfo | None:
        """Id, name, attempt and deadline of the job; None outside a job."""
        return _view().job

    @property
    def context(self) -> Any:  # only the user's module knows its type
        """What the worker's context module yielded; None without one."""
        return _view().context

    def __repr__(self) -> str:
        return f"GVAR(res={self.res!r}, instance={self.instance!r}, job={self.job!r})"


GVAR = _GVar()


def enter_job(
    allocation: Allocation,
    instance: str | None,
    job: JobInfo | None,
    context: object = None,
    *,
    whole_process: bool = False,
) -> None:
    """Show a job to the current context and to all that copy it from now on.

    With `whole_process`, threads that copied no context see it too: for a process that runs one job at a time.
    """
    view = _View(allocation, instance, job, context)
    _current.set(view)
    if whole_process:
        _process.view = view


def leave_job(*, whole_process: bool = False) -> None:
    """Show no job to the current context any more; with `whole_process`, to no other thread either."""
    _current.set(_OUTSIDE)
    if whole_process:
        _process.view = _OUTSIDE
