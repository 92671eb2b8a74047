"""Calls that can be sent before their inputs are there, and their arguments with stand-ins in place of these."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any

from grainlike.graph._node import Node, StreamNode, Template, _build, _find_looked_at, _referring
from grainlike.graph._remote_value import ValueFetcher
from grainlike.graph._state import RunsIn, State

__all__ = ["arguments_ahead", "operators_before", "whole_graph"]


def whole_graph(root: Node, sent: Container[Node], fetcher: ValueFetcher | None) -> list[Node] | None:
    """Return what `root` needs that has not finished and was not `sent`, and itself: inputs first.

    None where a part has to stay in this program: a call without resources, one with a cache, a stream, what takes
    errors for values, a container that looks at what it is made of; or where a call was sent without its graph.
    """
    order: list[Node] = []
    entered, done = set[Node](), set[Node]()
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        below = () if node in sent else [dep for dep in node.deps if not dep.finished and dep not in done]
        if below and node not in entered:
            entered.add(node)
            stack.extend(reversed(below))
            continue
        stack.pop()
        done.add(node)
        if node not in sent:
            if not _can_go(node, fetcher):
                return None
            order.append(node)
    return order


def operators_before(node: Node) -> list[Node]:
    """Return the unfinished operators between a call and the calls that it needs: inputs first."""
    order: list[Node] = []
    done = set[Node]()
    stack = [dep for dep in reversed(node.deps) if dep.place is RunsIn.INLINE and not dep.finished]
    while stack:
        top = stack[-1]
        below = [dep for dep in top.deps if dep.place is RunsIn.INLINE and not dep.finished and dep not in done]
        if below and top not in done:
            stack.extend(reversed(below))
            continue
        stack.pop()
        if top not in done:
            done.add(top)
            order.append(top)
    return order


def arguments_ahead(
    node: Node, stand_in: Callable[[Node], object], fetcher: ValueFetcher | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a node with a `stand_in` for each dependency that has not finished. Values of `fetcher`
    are given as references.
    """
    args, kwargs = node.given
    fill = partial(_standing, stand_in=stand_in, fetcher=fetcher)
    built: dict[Template, Any] = {}
    return tuple(fill(args, built)), dict(zip(kwargs, fill(kwargs.values(), built), strict=True))


def _standing(
    items: Iterable[Any],
    built: dict[Template, Any],
    stand_in: Callable[[Node], object],
    fetcher: ValueFetcher | None,
) -> list[Any]:
    fill = partial(_standing, stand_in=stand_in, fetcher=fetcher)
    found: list[Any] = []
    for item in items:
        if type(item) is Node and not item.finished:
            found.append(stand_in(item))
        elif type(item) is Node:
            found += [item.value] if fetcher is None else _referring([item], built, fetcher)
        else:
            found.append(_build(item, built, fill) if type(item) is Template else item)
    return found


def _can_go(node: Node, fetcher: ValueFetcher | None) -> bool:
    function = node.function
    if node.place is RunsIn.REMOTE:
        if isinstance(node, StreamNode) or function.options.cache is not None or node.record is not None:
            return False
    elif node.place is not RunsIn.INLINE:
        return False
    if function.accepts_errors or any(_is_elsewhere(dep, fetcher) for dep in node.deps):
        return False
    args, kwargs = node.given
    looked_at: set[Node] = set()
    _find_looked_at((*args, *kwargs.values()), looked_at, by_reference=True)
    return all(dep.finished and not dep.stays for dep in looked_at)


def _is_elsewhere(dep: Node, fetcher: ValueFetcher | None) -> bool:
    """Return True if a dependency has finished without a value, or with one that cannot be referred to here."""
    if not dep.finished:
        return False
    reference = dep.reference if dep.stays else None
    return dep.state is not State.SUCCEEDED or (reference is not None and reference.fetcher is not fetcher)
