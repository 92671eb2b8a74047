"""`GVAR`: what a job sees of itself.

The slots, worker and job that the running code belongs to, as entered here by the runner of each job. The state is
one context variable, so it is right in every task that a job starts, and in every thread that copies the context, as
`asyncio.to_thread` and anyio's do.
"""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from grainlike.resources import NO_ALLOCATION, Allocation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = [
    "GVAR",
    "JobFacts",
    "JobInfo",
    "JobNode",
    "JobOutput",
    "JobView",
    "LoggingJob",
    "OwnCallsObserver",
    "author",
    "enter_job",
    "enter_part",
    "holds_whole_process",
    "leave_job",
    "logging_job",
    "observers_here",
    "this_job",
    "this_process",
]


class JobNode(NamedTuple):
    """Node of a job that has several (`Nodes`).

    Attributes:
        name: the worker's name.
        host: address of its host.
        allocation: the slots that it gives there.
    """

    name: str
    host: str
    allocation: Allocation


@dataclass(frozen=True, slots=True, init=False)
class JobInfo:
    """The job that the code runs in.

    Attributes:
        id: its number, unique at its head.
        name: the function's name, or `name=`.
        attempt: 1 for the first try.
        deadline: when its timeout ends it, on the clock of `time.monotonic`; None without a timeout.
        nodes: of a job with `Nodes(n, each=...)`, its n nodes, the one it runs on first; empty for all others.
    """

    id: int
    name: str
    attempt: int
    deadline: float | None
    nodes: tuple[JobNode, ...] = ()
    _directory: "Callable[[str], Path] | None" = field(default=None, repr=False, compare=False)

    def __init__(
        self,
        id: int,  # noqa: A002 - as the attribute is called
        name: str,
        attempt: int,
        deadline: float | None,
        nodes: tuple[JobNode, ...] = (),
        _directory: "Callable[[str], Path] | None" = None,
    ) -> None:
        _set_id(self, id)
        _set_name(self, name)
        _set_attempt(self, attempt)
        _set_deadline(self, deadline)
        _set_nodes(self, nodes)
        _set_directory(self, _directory)

    @property
    def scratch(self) -> "Path":
        """A directory of this attempt's own, on the worker's disk, made at the first call.

        It is removed with all that is in it when the job has ended; when its process was killed, soon after. With
        `GRAINLIKE_KEEP_SCRATCH=failed` in the worker's environment that of a failed job stays, and a note of its
        error has the path; with `always`, all stay. In a job with a process of its own, `GRAINLIKE_SCRATCH` in the
        environment names it from then on to programs that the job starts.

        Raises:
            RuntimeError: the runner of this job provides no directories.
        """
        if self._directory is None:
            raise RuntimeError(f"{self.name} runs where there is no scratch directory")
        return self._directory(f"{self.id}-{self.attempt}")


JobFacts = tuple[int, str, int, float | None, tuple[JobNode, ...], "Callable[[str], Path] | None"]
"""Arguments of a `JobInfo`, in order."""

# The descriptors themselves: there is one for each job, and a frozen class's own way takes three times as long.
_set_id = JobInfo.__dict__["id"].__set__
_set_name = JobInfo.__dict__["name"].__set__
_set_attempt = JobInfo.__dict__["attempt"].__set__
_set_deadline = JobInfo.__dict__["deadline"].__set__
_set_nodes = JobInfo.__dict__["nodes"].__set__
_set_directory = JobInfo.__dict__["_directory"].__set__


class JobOutput(Protocol):
    """Receiver of a job's output, in a process in which several jobs run at once."""

    @property
    def show(self) -> "Callable[[int, Any, str], object] | None":
        """Shows on one of the process's own streams what the job of a number has written; None if nothing does."""
        ...

    def write(self, job: JobInfo, stream: Any, text: str) -> None:
        """Take `text` that `job` wrote to `stream`, whose number is the wire's. Called from any thread."""


class JobView:
    """State of one job that all its tasks and threads share: they refer to this object.

    Attributes:
        allocation: the slots it holds. A job that lent its cores while it awaited may resume with others.
        uplink: its connection to its worker, typed by the code that put it here; None where there is none.
        resolver: runs the placeholders that it awaits; set once it has awaited one.
        output: receiver of what it prints; None if output is not attributed.
        carrier: the view of the job that runs this one as a part of itself; None for one that runs alone.
        logs: the levels of its program's loggers, typed by the code that put them here; None if records of `logging`
            are not passed on to that program.
    """

    __slots__ = (
        "_author",
        "_job",
        "allocation",
        "carrier",
        "context",
        "instance",
        "logs",
        "output",
        "resolver",
        "uplink",
    )

    def __init__(
        self,
        allocation: Allocation,
        instance: str | None,
        job: JobInfo | JobFacts | None,
        context: object,
        uplink: object = None,
        carrier: "JobView | None" = None,
        author: JobInfo | None = None,
        output: JobOutput | None = None,
        logs: object = None,
    ) -> None:
        self.allocation: Allocation = allocation
        self.carrier: JobView | None = carrier
        self.instance: str | None = instance
        self._job: JobInfo | JobFacts | None = job
        self.context: object = context
        self.uplink: object = uplink
        self._author: JobInfo | None = author
        self.output: JobOutput | None = output
        self.logs: object = logs
        self.resolver: object = None

    @property
    def job(self) -> JobInfo | None:
        """The job itself; None outside of one."""
        job = self._job
        if isinstance(job, tuple):
            job = self._job = JobInfo(*job)  # only now: most jobs never look at themselves
        return job

    @property
    def author(self) -> JobInfo | None:
        """The job to which output printed here is attributed, itself unless another was named; None outside of one."""
        return self.job if self._author is None else self._author


_OUTSIDE = JobView(NO_ALLOCATION, None, None, None)
_current: ContextVar[JobView | None] = ContextVar("grainlike_job", default=None)


class _Process:
    """Process-wide state, seen by threads that copied no context: the one job of a process that runs one at a time.

    Attributes:
        used_up: True once a job called `use_up_process`.
        view: the view of that job.
    """

    __slots__ = ("used_up", "view")

    def __init__(self) -> None:
        self.view: JobView = _OUTSIDE
        self.used_up: bool = False


this_process: _Process = _Process()


def _view() -> JobView:
    return _current.get() or this_process.view


class _GVar:
    """The running job's view of itself; there is one, `GVAR`.

    Example:
        >>> GVAR.res.cores
        ()
    """

    __slots__ = ()

    @property
    def res(self) -> Allocation:
        """Slots that the job was given, with ids; empty outside a job and in calls without resources."""
        return _view().allocation

    @property
    def instance(self) -> str | None:
        """The name of the worker; None outside a job."""
        return _view().instance

    @property
    def job(self) -> JobInfo | None:
        """Id, name, attempt, deadline and nodes of the job; None outside a job."""
        return _view().job

    @property
    def context(self) -> Any:  # only the user's module knows its type
        """Value that the worker's context module yielded; None without one."""
        return _view().context

    def __repr__(self) -> str:
        return f"GVAR(res={self.res!r}, instance={self.instance!r}, job={self.job!r})"


GVAR = _GVar()
"""The running job's view of itself, in every task and thread that the job starts.

Attributes:
    res (Allocation): slots that the job was given, with ids; empty outside a job and in calls without resources.
    instance (str | None): the name of the worker; None outside a job.
    job (JobInfo | None): id, name, attempt, deadline, nodes and scratch directory of the job; None outside a job.
    context (Any): value that the worker's context module yielded; None without one.

Example::

    @delayed
    def which():
        return GVAR.res.cores, GVAR.job.id
"""


def enter_job(
    allocation: Allocation,
    instance: str | None,
    job: JobInfo | JobFacts | None,
    context: object = None,
    uplink: object = None,
    *,
    output: JobOutput | None = None,
    whole_process: bool = False,
    logs: object = None,
) -> None:
    """Show a job to the current context and to all that copy it from now on. `uplink`: see `JobView`.

    `output` receives what it prints (see `author`); `logs`: see `JobView`. With `whole_process`, threads that copied no
    context see the job too: for a process that runs one job at a time.
    """
    # Without names, which would take as long as all the rest: each job passes here.
    view = JobView(allocation, instance, job, context, uplink, None, None, output, logs)
    _current.set(view)
    if whole_process:
        this_process.view = view


class OwnCallsObserver(Protocol):
    """Observer of the calls that a job makes: what an observer of the program's has set up round the job."""

    def observing(self, runner: Any, engine: Any, observers: "Sequence[Any]") -> Any:
        """Return the runner that stands between the job's engine and `runner`, and tells `observers`, of which this is
        the first. It is closed with the job.
        """
        ...


observers_here: ContextVar[tuple[OwnCallsObserver, ...]] = ContextVar("grainlike_observers_here", default=())
"""Observers of the calls that the job of this context makes."""


def this_job() -> JobView | None:
    """Return the view of the running job; None outside of one, and in a call without resources."""
    view = _current.get() or this_process.view  # `_view` and `job` without their calls: each await asks
    return None if view._job is None else view


def enter_part(job: JobInfo | JobFacts) -> None:
    """Show `job`, a part of the running job, to the current context: on the same slots, with the same way out."""
    whole = _current.get() or this_process.view
    carrier = whole.carrier or whole
    view = JobView(
        carrier.allocation, whole.instance, job, whole.context, whole.uplink, carrier, None, whole.output, carrier.logs
    )
    _current.set(view)


class _Silence:
    """Stream that drops what is printed."""

    show = None

    def write(self, job: JobInfo, stream: Any, text: str) -> None:
        """Drop it."""


_SILENT = JobView(NO_ALLOCATION, None, None, None, author=JobInfo(0, "call", 1, None), output=_Silence())


def leave_job(*, whole_process: bool = False, silent: bool = False) -> None:
    """Show no job to the current context any more; with `whole_process`, to no other thread either.

    What is printed and logged remains the job's: a call without resources that a job makes speaks for the job. Outside
    a job, what is printed in this context is dropped where `silent`, if the streams ask (`author`).
    """
    view = _current.get()
    if view is None or view.output is None:
        _current.set(_SILENT if silent else _OUTSIDE)
    else:
        carrier = view.carrier or view
        _current.set(JobView(NO_ALLOCATION, None, None, None, None, carrier, view.author, view.output, view.logs))
    if whole_process:
        this_process.view = _OUTSIDE


def holds_whole_process() -> bool:
    """Return True if a job has this process to itself, so that all of the process is held to its slots."""
    return this_process.view is not _OUTSIDE


def use_up_process() -> None:
    """Have this process run no job after this one, where a job has it to itself; another takes its place."""
    this_process.used_up = holds_whole_process()


def author() -> tuple[JobOutput, JobInfo] | None:
    """Return the output receiver and the job to which prints of the current context belong; None outside a job that
    has an output.
    """
    view = _current.get()
    if view is None or view.output is None or view.author is None:
        return None
    return view.output, view.author


class LoggingJob(NamedTuple):
    """Job that a record of `logging` made here belongs to, and its way to its program.

    Attributes:
        job: the job; of several that run as one, the very one.
        carrier: the job that the worker was sent: `job` itself, or the one that runs it as a part.
        worker: the worker's name.
        levels: the levels of its program's loggers; see `JobView.logs`.
    """

    job: JobInfo
    carrier: JobInfo
    worker: str
    levels: Any


def logging_job() -> LoggingJob | None:
    """Return the job whose records of `logging` are passed on to its program; None outside one."""
    view = _current.get()
    if view is None or view.logs is None:
        view = this_process.view
    carrier = view.carrier or view
    if view.logs is None or view.author is None or carrier.job is None:
        return None
    return LoggingJob(view.author, carrier.job, carrier.instance or "", view.logs)
