"""Workload of a dry run, made from a user's graph: every call is a job, with the seconds that were given for it.

Operators and calls without resources become jobs that ask for nothing: they take no time, and whatever came after
them still comes after what they needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

from msgspec.structs import replace

from grainlike.dryrun._planning import DryRunWorkload, checked_seconds
from grainlike.errors import GraphError, JobTimeoutError
from grainlike.graph import Function, Node, Retry, RunsIn
from grainlike.payload import STAY_BYTES
from grainlike.resources import EMPTY, Request
from grainlike.simulation import FunctionPlan, JobPlan, Workload

__all__ = ["Durations", "rehearsed"]

Durations: TypeAlias = Mapping[str, float] | Callable[[str, Request], float]

_Kind: TypeAlias = "tuple[int, str, float | None, Retry]"


def rehearsed(
    nodes: Iterable[Node], durations: Durations, default: float | None, sizes: Mapping[str, int] | None = None
) -> DryRunWorkload:
    """Translate unfinished nodes, dependencies first. `sizes` are bytes of values, by the name of the function.

    Raises:
        GraphError: some functions have no duration.
        TypeError: a duration, or a size, is no number.
        ValueError: a duration, or a size, is negative or not finite.
    """
    large = {name: size for name, size in _checked_sizes(sizes or {}) if size > STAY_BYTES}
    nodes = list(nodes)
    seconds_of = _Seconds(durations, default, nodes)
    out = DryRunWorkload()
    kinds: dict[_Kind, int] = {}
    functions: list[FunctionPlan] = []
    jobs: list[JobPlan] = []
    position: dict[Node, int] = {}
    collected: set[int] = set()
    for node in nodes:
        if _is_hopeless(node, position):
            out.skipped.update([node.function.name] if node.place is RunsIn.REMOTE else [])
            continue
        position[node] = len(jobs)
        out.names.append(node.function.name)
        after = tuple(position[dep] for dep in node.deps if not dep.finished and dep in position)
        # Jobs take what was only collected as it is: they need that, too, and not only the joint.
        passed_on = [jobs[at].after for at in after if at in collected]
        after = tuple(dict.fromkeys(chain(after, *passed_on)))
        if node.place is not RunsIn.REMOTE or node.request is None:
            if node.function.collects and not node.function.accepts_errors:
                collected.add(len(jobs))
            jobs.append(JobPlan(0, EMPTY, 0.0, after=after, accepts_failures=node.function.accepts_errors))
            continue
        kind = _kind(node.function)
        if kind not in kinds:
            kinds[kind] = len(functions)
            functions.append(_plan(node.function))
        job = _job(node, node.request, kinds[kind], seconds_of(node.function.name, node.request), after)
        size = 0 if node.function.options.cache is not None else large.get(node.function.name, 0)
        jobs.append(replace(job, size=size) if size else job)
    out.workload = Workload("dry run", tuple(functions), tuple(jobs))
    return out


def _checked_sizes(sizes: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    if not isinstance(sizes, Mapping):
        raise TypeError(f"sizes is a mapping from function names to bytes, not {type(sizes).__name__}")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"sizes[{name!r}] is a number of bytes, not {type(size).__name__}")
        if size < 0:
            raise ValueError(f"sizes[{name!r}] is {size!r}: bytes are not negative")
        yield name, size


def _is_hopeless(node: Node, position: Mapping[Node, int]) -> bool:
    """Return True if a node needs one that has failed, or will."""
    return not node.function.accepts_errors and any(
        dep.error is not None if dep.finished else dep not in position for dep in node.deps
    )


def _kind(function: Function) -> _Kind:
    """Functions of one kind are one to the head: it learns their run times together."""
    options = function.options
    return id(function.callable), function.name, options.timeout, options.retry


def _plan(function: Function) -> FunctionPlan:
    options = function.options
    retry = options.retry
    return FunctionPlan(
        function.name,
        function.is_async,
        retry.times,
        options.timeout,
        losses=retry.losses,
        backoff=retry.waits,
        on_timeout=retry.covers(JobTimeoutError),
    )


def _job(node: Node, request: Request, fn: int, seconds: float, after: tuple[int, ...]) -> JobPlan:
    function, options = node.function, node.function.options
    return JobPlan(
        fn,
        request,
        seconds,
        after=after,
        priority=options.priority,
        isolate=options.isolate,
        awaits=function.is_async,  # what a coroutine is for
    )


class _Seconds:
    """Durations of calls, as the user gave them. All functions without one are named at once."""

    def __init__(self, durations: Durations, default: float | None, nodes: Iterable[Node]) -> None:
        self._ask = durations if callable(durations) else None
        self._known: dict[str, float] = {}
        if isinstance(durations, Mapping):
            self._known = {
                name: checked_seconds(seconds, f"durations[{name!r}]") for name, seconds in durations.items()
            }
        elif self._ask is None:
            raise TypeError(
                f"durations is a mapping from function names to seconds, or a function, not {type(durations).__name__}"
            )
        self._default = None if default is None else checked_seconds(default, "default")
        names = dict.fromkeys(node.function.name for node in nodes if node.place is RunsIn.REMOTE)
        unknown = [name for name in names if name not in self._known]
        if unknown and self._ask is None and self._default is None:
            raise GraphError(
                f"durations does not say how long {', '.join(unknown)} takes: add the seconds by the function's name, "
                "or give default= seconds"
            )

    def __call__(self, name: str, request: Request) -> float:
        if self._ask is not None:
            return checked_seconds(self._ask(name, request), f"what durations gave for {name}")
        known = self._known.get(name, self._default)
        assert known is not None
        return known
