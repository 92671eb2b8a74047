"""Observers of a program's jobs: objects of the user's, or of packages by name, that learn of each job's beginning and
end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # jobs import this module with an observer's surroundings, and not what these need
    from grainlike.calls import Surrounding

__all__ = ["GROUP", "VARIABLE", "CallEnded", "CallObserver", "CallSubmitted", "find_observers"]

GROUP = "grainlike.observers"
"""Group of entry points by whose names observers are asked for."""

VARIABLE = "GRAINLIKE_OBSERVERS"
"""Variable of the environment with names of observers for all executors, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubmitted:
    """A call with resources that its executor has submitted as a job, for its inputs are there.

    Attributes:
        number: its number among the calls of this executor: 1, 2, 3, ...
        name: the name of its function.
        function: what is called.
        request: what it asks for, as text.
        at: when, as `time.time()` has it.
    """

    number: int
    name: str
    function: Callable[..., Any]
    request: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """A call that has ended.

    Attributes:
        call: its submission.
        outcome: `"succeeded"`, `"failed"`, `"timed_out"`, `"cancelled"`, `"skipped"` for one that never started, as
            its graph had failed, or `"detached"` for one that has not ended: its program has left the named session in
            which it goes on. No observer is told how that ends; `executor.history()` is asked.
        error: why there is no value; None for one that succeeded, is wanted no more or was left.
        at: when, as `time.time()` has it.
        job: number of the job at its head, 0 where it has none.
        worker: the worker that had it last; empty where none had.
        slots: what it held there, in the notation of allocations.
        attempt: number of its last attempt, 0 where there was none.
        began_at: when that began, as `time.time()` has it; None if it did not.
        cpu_s: CPU seconds of that attempt, None where they are unknown.
        peak_memory: bytes of memory that it had at most, None where that is unknown.
    """

    call: CallSubmitted
    outcome: str
    error: BaseException | None
    at: float
    job: int
    worker: str
    slots: str
    attempt: int
    began_at: float | None
    cpu_s: float | None
    peak_memory: int | None


class CallObserver:
    """Base class of observers. Methods are called in the executor's event loop and must not wait.

    Whatever they raise, also a cancellation or `SystemExit`, is logged, once for each method, and changes nothing for
    the job; so is a result of `submitted` that is no text. Jobs that jobs submit, and calls without resources, are not
    observed.

    Example::

        class Prints(CallObserver):
            def ended(self, call):
                print(call.call.name, call.outcome, call.worker)


        async with Executor(observers=[Prints()]):
            ...
    """

    surrounding: ClassVar[Surrounding | None] = None
    """Function of a module that gives the context manager in which a job's code runs, in the job's process, of the text
    that `submitted` has returned for it. It is sent to workers, so they must be able to import it.
    """

    def submitted(self, call: CallSubmitted) -> str | None:  # noqa: ARG002 - for subclasses
        """Take note of a call, in the context of who submitted it; return the text for its `surrounding`, if any."""
        return None

    def ended(self, call: CallEnded) -> None:
        """Take note of the end of a call."""

    def closed(self) -> None:
        """Take note that the executor has closed; in a job, that the job has ended."""


def find_observers(asked: Iterable[CallObserver | str]) -> tuple[CallObserver, ...]:
    """Return the observers that are asked for, and those that `GRAINLIKE_OBSERVERS` names; a new one for each name.

    Raises:
        ValueError: there is no entry point of a name.
        TypeError: one is no observer.
        ImportError: a package that an observer needs is not installed.
    """
    by_variable = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    if isinstance(asked, str):
        raise TypeError(f"observers= takes a list: [{asked!r}]")
    given = list(asked)
    names = [name for name in by_variable if name not in given]
    return tuple(_found(observer) for observer in [*given, *names])


def _found(observer: object) -> CallObserver:
    if isinstance(observer, str):
        from importlib.metadata import entry_points

        points = {point.name: point for point in entry_points(group=GROUP)}
        if observer not in points:
            known = ", ".join(sorted(points)) or "none is installed"
            raise ValueError(f"there is no observer {observer!r}: {known}")
        observer = points[observer].load()()
    if not isinstance(observer, CallObserver):
        raise TypeError(f"an observer is a CallObserver, or the name of one, not {observer!r}")
    return observer
