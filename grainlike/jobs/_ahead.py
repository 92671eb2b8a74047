"""Calls that go to a head before their inputs are there: how they are packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grainlike.graph import Node, RunsIn, ValueFetcher, arguments_ahead, operators_before
from grainlike.jobs._job import NO_PARCEL
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

if TYPE_CHECKING:  # a job has none
    from grainlike.jobs._own_arguments import OwnArguments

__all__ = ["pack_ahead"]


def pack_ahead(
    nodes: Sequence[Node], numbers: Mapping[Node, int], fetcher: ValueFetcher | None, own: OwnArguments | None = None
) -> list[JobCall]:
    """Pack calls and the operators between them, of which each needs only what is before it, has a number already, or
    has finished. `numbers` are those of all calls among them. `own` makes values of large arguments.

    Raises:
        SerializationError: one of them cannot travel.
    """
    if own is not None:
        for node in nodes:
            own.refer(node)
    calls = [_packed(node, numbers, fetcher) for node in nodes if node.place is RunsIn.REMOTE]
    if own is not None:
        shared = own.share([payload for _, payload in calls])
        calls = [
            (call._replace(inputs=[*call.inputs, *values]), payload)
            for (call, _), (payload, values) in zip(calls, shared, strict=True)
        ]
    copies = SharedCopies()
    return [_detached(call, copies.detached(payload)) for call, payload in calls]


def _detached(call: JobCall, payload: Payload) -> JobCall:
    """Return a call with its arguments, which are in no memory of the user's objects."""
    size = payload.nbytes
    return call._replace(parcel=(bytes(payload.data), payload.buffers), size=size if size > LARGE else 0)


def _packed(node: Node, numbers: Mapping[Node, int], fetcher: ValueFetcher | None) -> tuple[JobCall, Payload]:
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
    if steps and not needs:  # there is nothing to be filled in
        payload = Payload(*fill_arguments((payload.data, payload.buffers), {}))
    retry_spec(node.function.options.retry)
    blob = dump_function(node.function.callable)
    return JobCall(numbers[node], node, blob, NO_PARCEL, 0, inputs, tuple(needs)), payload
