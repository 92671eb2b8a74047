"""What is still to be done for some nodes, in an order in which it can be done."""

from collections.abc import Iterable

from ._node import Node

__all__ = ["pending_nodes"]


def pending_nodes(roots: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """Walk from `roots` to everything they need that is not finished.

    Returns:
        The nodes that no executor has yet, each once, dependencies first, otherwise in the order of roots and
        arguments; and the unfinished ones that have an owner, at which the walk stopped.
    """
    new: list[Node] = []
    bound: list[Node] = []
    entered: set[Node] = set()
    left: set[Node] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack[-1]
        if node not in entered:
            entered.add(node)
            if node.finished:
                left.add(node)
            elif node.owner is not None:
                left.add(node)
                bound.append(node)
            elif below := [dep for dep in node.deps if dep not in entered]:
                # An explicit stack: graphs are deeper than Python's own.
                stack.extend(reversed(below))
                continue
        stack.pop()
        if node not in left:
            left.add(node)
            new.append(node)
    return new, bound
