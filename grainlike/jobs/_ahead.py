"""Calls that go to a head before their inputs are there: how they are packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grainlike.graph import Node, RunsIn, ValueFetcher, arguments_ahead, operators_before
from grainlike.jobs._repeated import LARGE
from grainlike.jobs._submission import JobCall, retry_spec
from grainlike.payload import (
    AppliedStep,
    Awaited,
    Payload,
    SharedCopies,
    StepResult,
    collecting,
    dump_arguments,
    dump_arguments_ahead,
    dump_function,
    fill_arguments,
)

__all__ = ["pack_ahead"]


def pack_ahead(nodes: Sequence[Node], numbers: Mapping[Node, int], fetcher: ValueFetcher | None) -> list[JobCall]:
    """Pack calls and the operators between them, of which each needs only what is before it, has a number already, or
    has finished. `numbers` are those of all calls among them.

    Raises:
        SerializationError: one of them cannot travel.
    """
    copies = SharedCopies()
    return [_packed(node, numbers, fetcher, copies) for node in nodes if node.place is RunsIn.REMOTE]


def _packed(node: Node, numbers: Mapping[Node, int], fetcher: ValueFetcher | None, copies: SharedCopies) -> JobCall:
    name = node.function.name
    operators = {operator: at for at, operator in enumerate(operators_before(node))}
    needs: dict[int, None] = {}

    def stand_in(dep: Node) -> object:
        if dep in operators:
            return results.setdefault(dep, StepResult(operators[dep]))
        needs[numbers[dep]] = None
        return marks.setdefault(dep, Awaited(numbers[dep]))

    results: dict[Node, StepResult] = {}
    marks: dict[Node, Awaited] = {}
    with collecting() as inputs:
        steps = [
            AppliedStep(operator.function.callable, *arguments_ahead(operator, stand_in, fetcher))
            for operator in operators
        ]
        args, kwargs = arguments_ahead(node, stand_in, fetcher)
        if not (steps or needs):
            payload = dump_arguments(args, kwargs, what=name)
        else:
            payload = dump_arguments_ahead(steps, args, kwargs, what=name)
    payload = copies.detached(payload)
    if steps and not needs:  # there is nothing to be filled in
        payload = Payload(*fill_arguments((payload.data, payload.buffers), {}))
    retry_spec(node.function.options.retry)
    blob = dump_function(node.function.callable)
    size = payload.nbytes
    parcel = bytes(payload.data), payload.buffers
    return JobCall(numbers[node], node, blob, parcel, size if size > LARGE else 0, inputs, tuple(needs))
