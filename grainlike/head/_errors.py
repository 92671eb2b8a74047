"""Error messages for jobs that have no value, or wait, where the job itself raised nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from grainlike.errors import JobTimeoutError, ValueLostError, WorkerLostError
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._nested import RelayedJob
from grainlike.head._peers import WorkerConnection
from grainlike.jobs import Job
from grainlike.payload import Payload, load_error
from grainlike.resources import shown_amounts
from grainlike.scheduler import Deadlock
from grainlike.wire import OWN_VALUES, Code, EndedJob

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.resources import Allocation, Missing

__all__ = ["LAYOUT", "error_of", "name_of", "refusal", "stopped", "text_of", "value_lost", "why_stuck"]

LAYOUT = "the amounts are there, but on no worker in the layout that is asked for (see pack=)"


def refusal(missing: Missing | None, peers: Iterable[WorkerConnection]) -> str:
    """Return why the request can never be met, where no more workers can join; for a resource that is not offered at
    all, with the offers.
    """
    if missing is None:
        return LAYOUT
    offered = [peer.offer for peer in peers]
    if not missing.absent or not offered:
        return str(missing)
    offers = " and ".join(shown_amounts(str(offer)) for offer in offered)
    return f"{missing}; all that is offered here is {offers}{_more(missing, offered)}"


def _more(missing: Missing, offered: Sequence[Allocation]) -> str:
    """Return what would offer what is absent, where there is one embedded worker; it may be tokens alone, of which
    nothing is said.
    """
    from grainlike.resources import EMPTY, with_amounts  # few requests are refused

    units = missing.option.units
    absent = {name: units[name] for name in missing.absent if name in units}
    if not absent or len(offered) > 1:
        return ""
    return f"; `local={offered[0]!r} & {with_amounts(EMPTY, absent)!r}` offers more"


def name_of(job: Job) -> str:
    """Return the display name of a job: its function's name."""
    if isinstance(job, RelayedJob | RevivedJob):
        return job.name
    return job.node.function.name if job.node is not None else "job"


def why_stuck(deadlock: Deadlock, jobs: Mapping[int, Job]) -> str:
    """Return which jobs hold which resources, and which jobs they wait for."""

    def named(number: int) -> str:
        return f"{name_of(jobs[number])} (job {number})" if number in jobs else f"job {number}"

    holders = "; ".join(
        f"{named(held.job)} holds {shown_amounts(held.held)} of {held.worker} and waits for "
        f"{', '.join(map(named, held.waits_for))}"
        for held in deadlock.holders
    )
    request = shown_amounts(str(deadlock.request))
    return f"{named(deadlock.job)} asks for {request} and can never start, for jobs wait in a circle: {holders}"


def error_of(job: Job, node: Node, code: Code, payload: Payload) -> BaseException:
    """Return the exception that is raised where a job of this program is awaited."""
    if code in (Code.FAILED, Code.OUT_OF_MEMORY):
        return load_error(payload, job.note(node.function.name))
    error = stopped(job, node.function.name, node.function.options.timeout, code)
    error.add_note(job.note(node.function.name))
    return error


def text_of(error: BaseException) -> str:
    """Return type and message of an error of the head's own."""
    return f"{type(error).__name__}: {error}"


def value_lost(maker: EndedJob | None, value: int, why: str) -> ValueLostError:
    """Return the exception of who needs a value that was at workers alone, and is lost. `maker` is the job that made
    it, as far as it is remembered.
    """
    if value >= OWN_VALUES:
        return ValueLostError(f"a value that the program gave its jobs is at no worker any more: {why}")
    name, made_at = ("a job", "") if maker is None else (maker.name, f", made at {maker.worker}")
    lost = f"the value of {name} (job {value}{made_at}) is lost, and cannot be made again: {why}"
    return ValueLostError(f"{lost}. `await replicate(r_, 2)` keeps a second replica of a value, `to=` a copy at a URL")


def stopped(job: Job, name: str, timeout: float | None, code: Code) -> Exception:
    """Return the exception of a job that ended without raising one."""
    if code is Code.TIMED_OUT:
        return JobTimeoutError(f"{name} ran past {_limit(job, timeout)}")
    return WorkerLostError(f"{name} was stopped by its worker ({code.name.lower()})")


def _limit(job: Job, timeout: float | None) -> str:
    """Return the time limit that ended a job, in words: the shorter one of its timeout and walltime."""
    walltime = job.allocation.walltime if job.allocation is not None else None
    if timeout is not None and (walltime is None or timeout <= walltime):
        return f"its timeout of {timeout:g} s"
    return "the walltime that its group has learned" if walltime is None else f"its walltime of {walltime:g} s"
