"""A graph in parts, as pieces that run: which jobs travel together, and what goes into and out of each piece.

Most of a part is one piece: its jobs with resources, and the operators between them, one after another on one worker.
What can not travel so stays as it is, and its part goes in pieces around it: calls without resources, which run in the
program's own process; jobs with a timeout, which only the end of a process enforces; and requests that say more than
amounts, for several jobs together would not mean the same by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grainlike.graph._node import Node, Template
from grainlike.graph._partition import Partition
from grainlike.graph._retry import Retry
from grainlike.graph._state import Place, State
from grainlike.resources import Request, shareable, widest

__all__ = ["Hole", "Piece", "Step", "pieces_of", "steps_of"]


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
    """The pieces of a graph's lazy nodes, which are given in an order in which they could run.

    Nodes in none of them are to be run one by one. `costs` are of nodes that are jobs; a call that is none costs 1, an
    operator nothing.
    """
    lazy = [node for node in nodes if node.state is State.LAZY]
    number = {node: at for at, node in enumerate(lazy)}
    needs = [[number[dep] for dep in node.deps if dep in number] for node in lazy]
    weights = [costs.get(node, 0.0 if node.place is Place.INLINE else 1.0) for node in lazy]
    members: dict[int, list[Node]] = {}
    for node, part in zip(lazy, partition.parts(needs, weights), strict=True):
        members.setdefault(part, []).append(node)
    return [piece for part in sorted(members) for piece in _split(part, members[part])]


def _split(part: int, nodes: Sequence[Node]) -> list[Piece]:
    """The pieces of one part: as few as there can be around what runs by itself."""
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
        if any(node.place is Place.REMOTE for node in run):
            pieces.append(_piece(part, run))
        waiting = []
        for node in rest:
            if not _travels(node) and all(dep in done or dep not in inside for dep in node.deps):
                done.add(node)
            else:
                waiting.append(node)
    return pieces


def _travels(node: Node) -> bool:
    if node.place is Place.REMOTE:
        assert node.request is not None
        options = node.function.options
        plain = options.timeout is None and options.cache is None and options.retry == Retry(options.retry.times)
        return plain and shareable(node.request)
    return node.place is Place.INLINE


def _piece(part: int, nodes: Sequence[Node]) -> Piece:
    inside = set(nodes)
    remote = [node for node in nodes if node.place is Place.REMOTE]
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


class Hole:
    """In a step's arguments: where the value of the step with this number goes."""

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step = step

    def __reduce__(self) -> tuple[Any, ...]:
        return Hole, (self.step,)


@dataclass(slots=True)
class Step:
    """One call of a piece: `args` and `kwargs` have holes, and `needs` are the steps that must have succeeded."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    needs: tuple[int, ...]


def steps_of(nodes: Iterable[Node]) -> list[Step]:
    """What to call, with holes for what these nodes get from each other; all else that they need has succeeded."""
    numbers: dict[Node, int] = {}
    steps = []
    for number, node in enumerate(nodes):
        templates: dict[Template, Any] = {}
        args = tuple([_with_holes(item, numbers, templates) for item in node._args])
        kwargs = {key: _with_holes(item, numbers, templates) for key, item in (node._kwargs or {}).items()}
        steps.append(Step(args, kwargs, tuple([numbers[dep] for dep in node.deps if dep in numbers])))
        numbers[node] = number
    return steps


def _with_holes(item: Any, numbers: Mapping[Node, int], templates: dict[Template, Any]) -> Any:
    if type(item) is Node:
        return Hole(numbers[item]) if item in numbers else item.value
    if type(item) is not Template:
        return item
    if item not in templates:
        items = [_with_holes(part, numbers, templates) for part in item.items]
        holes = any(type(part) in (Hole, Template) for part in items)
        templates[item] = Template(item.make, items) if holes else item.make(items)
    return templates[item]
