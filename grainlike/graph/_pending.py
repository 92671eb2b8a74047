"""What is still to be done for some nodes, in an order in which it can be done."""

from collections.abc import Callable, Iterable, Sequence

from grainlike.graph._node import Node

__all__ = ["ordered", "pending_nodes", "unfinished_nodes"]


def pending_nodes(roots: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """Walk from `roots` to everything they need that is not finished.

    Returns:
        The nodes that no executor has yet, each once, dependencies first, otherwise in the order of roots and
        arguments; and the unfinished ones that have an owner, at which the walk stopped.
    """
    found = [node for node in ordered(roots, _needs) if not node.finished]
    bound = [node for node in found if node.owner is not None]
    return [node for node in found if node.owner is None] if bound else found, bound


def unfinished_nodes(roots: Iterable[Node]) -> list[Node]:
    """What is still to be done for `roots`, whoever does it: each node once, dependencies first."""
    return [node for node in ordered(roots, _deps) if not node.finished]


def _deps(node: Node) -> Sequence[Node]:
    return node.deps  # finished nodes have let theirs go


def _needs(node: Node) -> Sequence[Node]:
    return node.deps if node.owner is None else ()  # finished nodes have let theirs go


def ordered(roots: Iterable[Node], needs: Callable[[Node], Sequence[Node]]) -> list[Node]:
    """The roots and all that they need, each once, dependencies first."""
    order: list[Node] = []
    entered: set[Node] = set()
    left: set[Node] = set()
    stack = list(roots)
    stack.reverse()
    while stack:  # an explicit stack: graphs are deeper than Python's own
        node = stack[-1]
        if node not in entered:
            entered.add(node)
            if below := [dep for dep in needs(node) if dep not in entered]:
                stack.extend(reversed(below))
                continue
        stack.pop()
        if node not in left:
            left.add(node)
            order.append(node)
    return order
