"""A graph in parts, as pieces that run: which jobs travel together, and what goes into and out of each piece.

Most of a part is one piece: its jobs with resources, and the operators between them, one after another on one worker.
What can not travel so stays as it is, and its part goes in pieces around it: calls without resources, which run in the
program's own process; jobs with a timeout, which only the end of a process enforces; requests that say more than
amounts, for several jobs together would not mean the same by them; and `gather(return_exceptions=True)`, for the steps
of a piece are given values alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grainlike.graph._node import Node, Template
from grainlike.graph._retry import Retry
from grainlike.graph._state import RunsIn, State
from grainlike.graph.partitioning._partition import Partition
from grainlike.resources import Request, shareable, widest

__all__ = ["ATOMS", "Given", "Hole", "Piece", "Step", "Steps", "pieces_of"]


@dataclass(slots=True, eq=False)
class Piece:
    """Nodes that run one after another as one job.

    Attributes:
        part: the number of its part.
        nodes: what it runs, in order.
        request: what it asks for: the element-wise maximum of its nodes' requests.
        needs: the nodes of other pieces, or of no part, that must have finished before it.
        is_async: whether one of them is a coroutine.
        retries: how often the whole may be run again when its worker is lost: as often as each of its nodes may.
        priority: the highest of theirs.
    """

    part: int
    nodes: tuple[Node, ...]
    request: Request
    needs: tuple[Node, ...]
    is_async: bool
    retries: int
    priority: int


def pieces_of(nodes: Sequence[Node], costs: Mapping[Node, float], partition: Partition) -> list[Piece]:
    """Return the pieces of a graph's lazy nodes, which are given in an order in which they could run.

    Nodes in none of them are to be run one by one. `costs` are of nodes that are jobs; a call that is none costs 1, an
    operator nothing.
    """
    lazy = [node for node in nodes if node.state is State.LAZY]
    number = {node: at for at, node in enumerate(lazy)}
    needs = [[number[dep] for dep in node.deps if dep in number] for node in lazy]
    weights = [costs.get(node, 0.0 if node.place is RunsIn.INLINE else 1.0) for node in lazy]
    members: dict[int, list[Node]] = {}
    for node, part in zip(lazy, partition.parts(needs, weights), strict=True):
        members.setdefault(part, []).append(node)
    return [piece for part in sorted(members) for piece in _split(part, members[part])]


def _split(part: int, nodes: Sequence[Node]) -> list[Piece]:
    """Return the pieces of one part: as few as there can be around what runs by itself."""
    waiting, done = list(nodes), set[Node]()
    inside = set(nodes)
    pieces = []
    while waiting:
        run: list[Node] = []
        rest: list[Node] = []
        for node in waiting:
            ready = all(dep in done or dep not in inside for dep in node.deps)
            if ready and _travels(node):
                run.append(node)
                done.add(node)
            else:
                rest.append(node)
        if any(node.place is RunsIn.REMOTE for node in run):
            pieces.append(_piece(part, run))
        waiting = []
        for node in rest:
            if not _travels(node) and all(dep in done or dep not in inside for dep in node.deps):
                done.add(node)
            else:
                waiting.append(node)
    return pieces


def _travels(node: Node) -> bool:
    if node.place is RunsIn.REMOTE:
        assert node.request is not None
        options = node.function.options
        plain = options.timeout is None and options.cache is None and options.retry == Retry(options.retry.times)
        return plain and shareable(node.request)
    return node.place is RunsIn.INLINE and not node.function.accepts_errors


def _piece(part: int, nodes: Sequence[Node]) -> Piece:
    inside = set(nodes)
    remote = [node for node in nodes if node.place is RunsIn.REMOTE]
    return Piece(
        part,
        tuple(nodes),
        widest(node.request for node in remote if node.request is not None),
        tuple(dict.fromkeys(dep for node in nodes for dep in node.deps if dep not in inside)),
        any(node.function.is_async for node in remote),
        min(node.function.options.retry.times for node in remote),
        max(node.function.options.priority for node in remote),
    )


# --- what a piece's job is told --------------------------------------------------------------------------------------

ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
"""Types of values that cannot be changed, and that can always travel."""


class Hole:
    """In a step's arguments: where the value of the step with this number goes."""

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step: int = step

    def __reduce__(self) -> tuple[Any, ...]:
        return Hole, (self.step,)


class Given:
    """In a step's arguments: where the object with this number goes, of those that the step brings along."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number: int = number

    def __reduce__(self) -> tuple[Any, ...]:
        return Given, (self.number,)


@dataclass(slots=True)
class Step:
    """Call of a piece: `args` and `kwargs` have holes, and `needs` are the steps that must have succeeded.

    `inline` says that it is an operator, which works on the values themselves; a job has copies of its own.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    needs: tuple[int, ...]
    inline: bool

    def with_given(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with these objects in the places that are marked for them."""

        def filled(item: Any) -> Any:
            if type(item) is Template:
                return [filled(part) for part in item.items]
            return given[item.number] if type(item) is Given else item

        return tuple(map(filled, self.args)), {key: filled(item) for key, item in self.kwargs.items()}


class Steps:
    """The steps of a piece, made one by one: `numbers` are those of the nodes that have become one."""

    def __init__(self) -> None:
        self.numbers: dict[Node, int] = {}

    def of(self, node: Node) -> tuple[Step, tuple[Any, ...]]:
        """Return the call for a node, and the objects that it is given besides; only trying tells if those can be sent.

        It has holes for what it gets from nodes that are steps already; all else that it needs has succeeded.
        """
        numbers = self.numbers
        form = _Form(numbers)
        given, by_keyword = node.given
        args = tuple([form.item(item) for item in given])
        kwargs = {key: form.item(item) for key, item in by_keyword.items()}
        needs = tuple([numbers[dep] for dep in node.deps if dep in numbers])
        return Step(args, kwargs, needs, node.place is RunsIn.INLINE), tuple(form.given)

    def add(self, node: Node) -> None:
        """Add a node: it is a step from now on."""
        self.numbers[node] = len(self.numbers)


class _Form:
    """The arguments of one step as they travel."""

    def __init__(self, numbers: Mapping[Node, int]) -> None:
        self.given: list[Any] = []
        self._numbers = numbers
        self._templates: dict[Template, Any] = {}
        self._marks: dict[int, Any] = {}

    def item(self, item: Any) -> Any:
        """Return the form of one argument."""
        return self._marked(self._with_holes(item))

    def _with_holes(self, item: Any) -> Any:
        if type(item) is Node:
            return Hole(self._numbers[item]) if item in self._numbers else item.value
        if type(item) is not Template:
            return item
        if item not in self._templates:
            items = [self._with_holes(part) for part in item.items]
            holes = any(type(part) in (Hole, Template) for part in items)
            self._templates[item] = Template(item.make, items) if holes else item.make(items)
        return self._templates[item]

    def _marked(self, item: Any) -> Any:
        """Return an item with marks for the objects that travel beside it. One that is there twice stays one."""
        kind = type(item)
        if kind is Hole or kind in ATOMS:
            return item
        mark = self._marks.get(id(item))
        if mark is None:
            if kind is Template:
                mark = Template(item.make, [self._marked(part) for part in item.items])
            else:
                mark = Given(len(self.given))
                self.given.append(item)
            self._marks[id(item)] = mark
        return mark
