"""Pending work of some nodes, in an order in which it can be done."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from grainlike.graph._node import Node

__all__ = ["ordered", "pending_nodes", "unfinished_nodes"]

_DEPS = attrgetter("deps")


def pending_nodes(roots: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Walk from `roots` to everything they need that is not finished.

    Returns:
        The nodes that no executor has yet, each once, dependencies first, otherwise in the order of roots and
        arguments; and the unfinished ones that have an owner, at which the walk stopped.
    """
    if len(roots) == 1 and not roots[0].deps:  # as most that are awaited one after another
        found = [] if roots[0].finished else [*roots]
        return (found, []) if roots[0].owner is None else ([], found)
    only = roots[0] if len(roots) == 1 and roots[0].owner is None else None
    # Of calls that one root gathers, which need nothing themselves, each is there once: no set has to tell.
    flat = only is not None and not any(map(_DEPS, only.deps))
    every = (*only.deps, only) if only is not None and flat else ordered(roots, past_owned=False)
    found = [node for node in every if not node.finished]
    bound = [node for node in found if node.owner is not None]
    return [node for node in found if node.owner is None] if bound else found, bound


def unfinished_nodes(roots: Iterable[Node]) -> list[Node]:
    """Return the unfinished nodes that `roots` need, whatever runs them: each once, dependencies first."""
    return [node for node in ordered(roots) if not node.finished]


def ordered(roots: Iterable[Node], *, past_owned: bool = True) -> list[Node]:
    """The roots and all that they need, each once, dependencies first. Finished nodes have let go of what they needed.

    `past_owned`: also what nodes need that an executor has already.
    """
    order: list[Node] = []
    entered: set[Node] = set()
    left: set[Node] = set()
    stack = list(roots)
    stack.reverse()
    while stack:  # an explicit stack: graphs are deeper than Python's own
        node = stack[-1]
        if node not in entered:
            entered.add(node)
            deps = node.deps if past_owned or node.owner is None else ()
            if deps and (below := [dep for dep in deps if dep not in entered]):
                if any(map(_DEPS, below)):
                    stack += below[::-1]
                    continue
                entered.update(below)  # none needs anything: no need to come back for them
                left.update(below)
                order += below
        stack.pop()
        if node not in left:
            left.add(node)
            order.append(node)
    return order
