"""Graphs by name: jobs that are added one by one, with names, costs and an order beside that of their values."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from grainlike.errors import GraphError, UnknownNameError
from grainlike.graph._delayed import Delayed, node_of
from grainlike.graph._delayed_fn import DelayedFn, delayed
from grainlike.graph._function import LEVELS, Function
from grainlike.graph._named_checks import check_cost, check_keywords, check_timeout, in_order, nearest, pair
from grainlike.graph._node import Node
from grainlike.graph._state import State, Status
from grainlike.graph.drawing._picture import Graph, GraphNode

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from grainlike.resources import Request

__all__ = ["NamedGraph", "NamedJob"]

T = TypeVar("T")

_COST = 1.0
"""What a job without a cost is taken to cost."""


@dataclass(slots=True, eq=False)
class NamedJob:
    """Job of a named graph.

    `needs` are the names that it waits for, for their values or for order alone; names of jobs that were added earlier.
    `cost` is None where none was given. `status` is how a run of the graph ended it, None before that.
    """

    name: str
    node: Node
    needs: tuple[str, ...]
    cost: float | None
    status: Status | None = None

    @property
    def weight(self) -> float:
        """Return its cost: what was given, or 1."""
        return _COST if self.cost is None else self.cost


class NamedGraph(Mapping[str, Delayed[Any]]):
    """A mapping of names to placeholders, in an order in which they could run. What runs it derives from it.

    All that a job needs was added before it, so there is no cycle that `add` could make.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, NamedJob] = {}
        self._placeholders: dict[str, Delayed[Any]] = {}
        self._names: dict[Node, str] = {}
        self._made: dict[int, DelayedFn[..., Any]] = {}
        self._timed: dict[tuple[Function, float], Function] = {}
        self._weighed = False

    # --- the mapping -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Delayed[Any]:
        try:
            return self._placeholders[name]
        except KeyError:
            raise self._unknown(name, "there is no job") from None

    def __contains__(self, name: object) -> bool:
        return name in self._placeholders

    def __iter__(self) -> Iterator[str]:
        return iter(self._placeholders)

    def __len__(self) -> int:
        return len(self._placeholders)

    def __eq__(self, other: object) -> bool:
        return self is other  # its values are placeholders, and cannot tell whether they are equal

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        edges = sum(len(job.needs) for job in self._jobs.values())
        return f"<{type(self).__name__} of {len(self)} jobs and {edges} edges>"

    # --- building ----------------------------------------------------------------------------------------------------

    @overload
    def add(
        self,
        name: str,
        fn: DelayedFn[..., T],
        /,
        *args: Any,
        request: Request | None = None,
        cost: float | None = None,
        timeout: float | None = None,
        after: Iterable[str] = (),
        **kwargs: Any,
    ) -> Delayed[T]: ...
    @overload
    def add(
        self,
        name: str,
        fn: Callable[..., Coroutine[Any, Any, T]],
        /,
        *args: Any,
        request: Request | None = None,
        cost: float | None = None,
        timeout: float | None = None,
        after: Iterable[str] = (),
        **kwargs: Any,
    ) -> Delayed[T]: ...
    @overload
    def add(
        self,
        name: str,
        fn: Callable[..., T],
        /,
        *args: Any,
        request: Request | None = None,
        cost: float | None = None,
        timeout: float | None = None,
        after: Iterable[str] = (),
        **kwargs: Any,
    ) -> Delayed[T]: ...
    def add(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        request: Request | None = None,
        cost: float | None = None,
        timeout: float | None = None,
        after: Iterable[str] = (),
        **kwargs: Any,
    ) -> Delayed[Any]:
        """Add the job `fn(*args, **kwargs)`, and return its placeholder.

        Placeholders in the arguments, of this graph or not, are dependencies whose values it gets.

        Args:
            name: what it is called, here and in reports; each once.
            fn: any callable, `async def` or not, delayed or not.
            request: what it asks for. Without one, here or on a delayed function, it runs in the caller's process.
            cost: how much work it is, in any unit, such as seconds; 1 unless given. Of the jobs that could run, those
                with the most work still behind them, on the longest path to the end, go first.
            timeout: seconds after which a running attempt is ended.
            after: names of jobs that must have succeeded before it starts; their values are not passed.

        A parameter of `fn` that is called `request`, `cost`, `timeout` or `after` is given by position, or with
        `functools.partial`.

        Raises:
            GraphError: the name is taken, `after` names a job that is not there, a cost or a timeout is no
                positive number.
            TypeError: what is not a function, a request or a list of names; or a keyword that `fn` does not name is
                near to an option's name, or a request.
            ResourceSpecError: the request is none.

        Example::

            clean_ = dag.add("clean", clean, path, request=Cores(2), cost=5.0)
            dag.add("fit", fit, clean_, "a", request=GPUs(1) & Cores(4), timeout=3600)
        """
        self._check_name(name)
        check_cost(name, cost)
        check_timeout(name, timeout)
        befores = self._befores(name, after)
        if kwargs:
            check_keywords(name, fn, kwargs)
        function = self._function(fn, timeout)
        if request is not None:
            function = function @ request
        node = node_of(function(*args, **kwargs))
        needs = dict.fromkeys([*self._needs(node), *befores])
        if befores:
            node.deps = tuple(dict.fromkeys([*node.deps, *(self._jobs[before].node for before in befores)]))
        placeholder: Delayed[Any] = Delayed(node)
        self._jobs[name] = NamedJob(name, node, tuple(needs), None if cost is None else float(cost))
        self._placeholders[name] = placeholder
        self._names[node] = name
        self._weighed |= cost is not None
        return placeholder

    @classmethod
    def from_edges(
        cls,
        functions: Mapping[str, Callable[..., Any]],
        edges: Iterable[tuple[str, str]],
        *,
        requests: Mapping[str, Request] | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> Self:
        """Return a graph of functions without arguments, and edges (earlier, later) that say in which order they run.

        No values flow along these edges: each function is called with nothing.

        Raises:
            GraphError: the edges form a cycle, or an edge, a request or a cost names what is no function.

        Example::

            dag = Dag.from_edges({"a": f, "b": g}, [("a", "b")], requests={"a": Cores(1)}, costs={"a": 2.0})
        """
        requests, costs = requests or {}, costs or {}
        before: dict[str, list[str]] = {name: [] for name in functions}
        pairs = [pair(edge) for edge in edges]
        named = {"an edge": [name for both in pairs for name in both], "requests=": requests, "costs=": costs}
        for where, names in named.items():
            for name in names:
                if name not in before:
                    raise GraphError(f"{where} names {name!r}, and there is no such function{nearest(name, before)}")
        for earlier, later in pairs:
            before[later].append(earlier)
        dag = cls()
        for name in in_order(before):
            dag.add(name, functions[name], request=requests.get(name), cost=costs.get(name), after=before[name])
        return dag

    def _function(self, fn: Callable[..., Any], timeout: float | None) -> DelayedFn[..., Any]:
        """Return the delayed function for `fn`: one function for all jobs that call the same with the same timeout."""
        if not isinstance(fn, DelayedFn):
            made = self._made.get(id(fn))  # by identity, as what is called need not be hashable; the function holds it
            if made is None:
                made = self._made[id(fn)] = delayed(fn)
            fn = made
        if timeout is None:
            return fn
        key = fn.function, timeout
        timed = self._timed.get(key)
        if timed is None:
            options = replace(fn.function.options, timeout=timeout)
            timed = self._timed[key] = Function(fn.function.callable, options, name=fn.function.name)
        return DelayedFn(timed, fn.request, fn._bound, fn.__dict__)

    def _check_name(self, name: object) -> None:
        if not isinstance(name, str) or not name:
            raise GraphError(f"a job's name is a text that is not empty, not {name!r}")
        if name in self._jobs:
            raise GraphError(f"there is a job {name!r} already: names are given once")

    def _befores(self, name: str, after: Iterable[str]) -> list[str]:
        if isinstance(after, str) or not isinstance(after, Iterable):
            raise TypeError(f"{name}: after= takes a list of names, as [{after!r}], not {type(after).__name__}")
        befores = list(after)
        for before in befores:
            if before not in self._jobs:
                raise self._unknown(before, f"{name}: after= names what is no job before it:")
        return befores

    def _unknown(self, name: object, said: str) -> UnknownNameError:
        return UnknownNameError(f"{said} {name!r}{nearest(name, self._jobs)}")

    def _needs(self, node: Node) -> list[str]:
        """Return the jobs of this graph that a new node stands on, through operators and other placeholders too."""
        found: dict[str, None] = {}
        seen: set[Node] = set()
        stack = list(reversed(node.deps))
        while stack:
            dep = stack.pop()
            name = self._names.get(dep)
            if name is not None:
                found[name] = None
            elif dep not in seen:
                seen.add(dep)
                stack.extend(reversed(dep.deps))
        return list(found)

    # --- what it looks like ------------------------------------------------------------------------------------------

    def critical_path(self) -> list[str]:
        """Return the names of the jobs on the longest path, by cost, in order: no run can take less time than theirs.

        Example::

            dag.critical_path()    # ["clean", "fit_a", "report"]
        """
        ranks = self._ranks()
        following: dict[str, list[str]] = {name: [] for name in self._jobs}
        for job in self._jobs.values():
            for need in job.needs:
                following[need].append(job.name)
        path: list[str] = []
        choice: Sequence[str] = [job.name for job in self._jobs.values() if not job.needs]
        while choice:
            longest = max(choice, key=ranks.__getitem__)  # the first of several
            path.append(longest)
            choice = following[longest]
        return path

    def _ranks(self) -> dict[str, float]:
        """Return for each job its cost and that of the longest path behind it."""
        behind = dict.fromkeys(self._jobs, 0.0)
        ranks: dict[str, float] = {}
        for job in reversed(self._jobs.values()):
            rank = ranks[job.name] = behind[job.name] + job.weight
            for need in job.needs:
                behind[need] = max(behind[need], rank)
        return ranks

    def _graph(self) -> Graph:
        """Return a snapshot of names, requests, states and edges."""
        number = {name: at for at, name in enumerate(self._jobs)}
        nodes = tuple(map(_described, self._jobs.values()))
        edges = tuple((number[need], number[job.name]) for job in self._jobs.values() for need in job.needs)
        return Graph(nodes, edges)

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, one job or edge a line.

        Example::

            print(dag.mermaid())
        """
        return self._graph().mermaid()

    def picture(self, path: str | PathLike[str]) -> Path:
        """Write the graph to an SVG file, coloured by state, and return its path.

        Unlike that of a placeholder, it can be drawn after it ran as well.

        Raises:
            ValueError: the name does not end in `.svg`, or there are more than 2 000 jobs.
            OSError: the file cannot be written.

        Example::

            dag.picture("dag.svg")
        """
        return self._graph().picture(path)

    def _repr_svg_(self) -> str | None:
        return self._graph()._repr_svg_()

    # --- before it runs ----------------------------------------------------------------------------------------------

    def _prioritise(self) -> list[NamedJob]:
        """Give jobs that were not started their place by the critical path; return all unfinished, first ones first.

        There are few levels, so that jobs that ask for the same still share few queues; within a level, and where no
        cost was ever given, the order is that of adding.
        """
        jobs = [job for job in self._jobs.values() if not job.node.finished]
        if not self._weighed:
            return jobs
        ranks = self._ranks()
        levels = _levels(ranks.values())
        leveled: dict[tuple[Function, int], Function] = {}
        for job in jobs:
            level = levels(ranks[job.name])
            if level and job.node.state is State.LAZY:
                function = job.node.function
                if (function, level) not in leveled:
                    options = replace(function.options, level=level)
                    leveled[function, level] = Function(function.callable, options, name=function.name)
                job.node.function = leveled[function, level]
        return sorted(jobs, key=lambda job: -ranks[job.name])


def _levels(ranks: Iterable[float]) -> Callable[[float], int]:
    """A function that gives ranks as whole numbers below `LEVELS`: their order if they are few, else equal steps."""
    known = sorted(set(ranks))
    if len(known) <= LEVELS:
        places = {rank: level for level, rank in enumerate(known)}
        return places.__getitem__
    highest = known[-1]
    return lambda rank: min(int(LEVELS * rank / highest), LEVELS - 1)


def _described(job: NamedJob) -> GraphNode:
    node = job.node
    return GraphNode(job.name, node.state, node.place, str(node.request) if node.request else "")
