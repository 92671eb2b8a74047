"""Calls that go to a head elsewhere, from inside a job or from a client: how they are packed, and what comes back.

Retry options of a call on the wire: exception types are sent to the runner, which matches them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from grainlike.errors import JobMemoryError, JobTimeoutError, SerializationError, UnsatisfiableError
from grainlike.graph import StreamNode
from grainlike.jobs._interfaces import OutcomeListener
from grainlike.jobs._job import NO_PARCEL, Job, Placement
from grainlike.jobs._repeated import LARGE, RepeatedArguments, is_big
from grainlike.jobs._shipped import Shipped
from grainlike.payload import (
    SHARED_LEAST,
    FunctionBlob,
    Payload,
    SharedCopies,
    collecting,
    dump_arguments,
    dump_function,
    dump_value,
    enclose_values,
    load_error,
    load_value,
)
from grainlike.resources import Request
from grainlike.wire import (
    Buffer,
    Outcomes,
    Parcel,
    RetrySpec,
    Submit,
    SubmittedFunction,
    pack_parcels,
    split_by_bytes,
    unpack_parcels,
)

if TYPE_CHECKING:  # a job has none
    from grainlike.graph import Function, Node, Retry, ValueFetcher
    from grainlike.jobs._own_arguments import OwnArguments

    _Packed = tuple[Node, FunctionBlob, Payload, list[int]]
    """Call, its function, its arguments, and the values to which these refer."""

__all__ = [
    "outcome_alone",
    "outcomes_message",
    "pack_calls",
    "repacked",
    "retry_spec",
    "settle_calls",
    "submit_calls",
    "value_of",
]


_T = TypeVar("_T")

_FUNCTION_BYTES = 384
"""Bytes that a function's description takes: a buffer, and its columns."""

_NAMELESS: Mapping[Node, str] = {}


class JobCall(NamedTuple):
    """Call to submit: the number that we give it, its node, its function and its arguments, packed when it was made,
    with their bytes if they are large, else 0, and the values that they refer to.
    """

    child: int
    node: Node
    blob: FunctionBlob
    parcel: Parcel
    size: int
    inputs: Sequence[int] = ()
    needs: Sequence[int] | None = None
    """Numbers of the calls of its graph that it needs; None for a call that is sent with its inputs."""


def pack_calls(
    nodes: Iterable[Node],
    number: Callable[[Node], int],
    listener: OutcomeListener,
    *,
    streams: bool,
    copies: SharedCopies | None = None,
    fetcher: ValueFetcher | None = None,
    own: OwnArguments | None = None,
) -> dict[tuple[Request, int, bool], list[JobCall]]:
    """Pack the arguments of calls; what cannot travel fails at once, alone. Without `streams`, neither can a stream.

    With `copies`, large buffers that several calls have are copied once: for calls that leave this process. Values of
    `fetcher` travel as references, and `own` makes such values of large arguments.
    """
    packed: list[_Packed] = []
    blobs: dict[Function, FunctionBlob] = {}
    repeated = RepeatedArguments()
    for node in nodes:
        try:
            if not streams:
                _refuse_stream(node)
            blob = blobs.get(node.function)
            if blob is None:
                blob = blobs[node.function] = dump_function(node.function.callable)
            retry_spec(node.function.options.retry)
            if own is not None and node.deps:
                own.refer(node)
            if fetcher is None or not fetcher.used:
                args, kwargs = node.arguments()
                payload, inputs = dump_arguments(args, kwargs, what=node.function.name), list[int]()
            else:
                args, kwargs = node.take_arguments(fetcher)
                with collecting() as inputs:
                    payload = dump_arguments(args, kwargs, what=node.function.name)
            if is_big(payload.data, payload.buffers if own is None else ()):
                repeated.see(node, args, kwargs)
        except Exception as error:  # noqa: BLE001 - whatever the user's objects raise belongs to this call's awaiters
            listener.failed(node, error)
        else:
            packed.append((node, blob, payload, inputs))
    if own is not None and any(payload.buffers or len(payload.data) >= SHARED_LEAST for _, _, payload, _ in packed):
        shared = own.share([payload for _, _, payload, _ in packed])
        packed = [
            (node, blob, payload, [*inputs, *values])
            for (node, blob, _, inputs), (payload, values) in zip(packed, shared, strict=True)
        ]
    return _in_batches(packed, number, listener, copies)


def _in_batches(
    packed: Iterable[_Packed],
    number: Callable[[Node], int],
    listener: OutcomeListener,
    copies: SharedCopies | None,
) -> dict[tuple[Request, int, bool], list[JobCall]]:
    """Return packed calls by request, priority and isolation, with buffers of their own; fail those without memory."""
    batches: dict[tuple[Request, int, bool], list[JobCall]] = {}
    for node, blob, borrowed, inputs in packed:
        try:
            payload = borrowed.detached() if copies is None else copies.detached(borrowed)
        except MemoryError as error:
            listener.failed(node, error)
            continue
        options = node.function.options
        assert node.request is not None
        rows = batches.setdefault((node.request, options.rank, options.isolate), [])
        size = payload.nbytes if payload.buffers or len(payload.data) > LARGE else 0
        parcel = bytes(payload.data), payload.buffers
        rows.append(JobCall(number(node), node, blob, parcel, size if size > LARGE else 0, inputs))
    return batches


def repacked(node: Node, parcel: Parcel, values: Mapping[int, Payload]) -> JobCall:
    """Return a call to submit again, with values to which its packed arguments refer in these."""
    payload = enclose_values(Payload(parcel[0], tuple(parcel[1])), values)
    return JobCall(
        0, node, dump_function(node.function.callable), (bytes(payload.data), payload.buffers), payload.nbytes
    )


def submit_calls(
    parent: int,
    attempt: int,
    batches: dict[tuple[Request, int, bool], list[JobCall]],
    shipped: Shipped | set[bytes],
    post: Callable[[Submit, Sequence[Buffer]], object],
    refuse: Callable[[int, Node, Exception], object],
    names: Mapping[Node, str] = _NAMELESS,
    logs: bytes = b"",
    *,
    stays: bool = False,
    goes_on: bool = False,
) -> None:
    """Send packed calls. Functions that are not in `shipped` go along.

    `post` sends a message with its buffers. Where it raises, nothing of that message was sent: its calls are sent one
    by one, `refuse` is given number, node and error of those that cannot be sent, and their functions go along with the
    next call of them.
    `names` are those under which outcomes are to be kept, `logs` the packed levels of the program's loggers. With
    `stays`, large values stay at their workers. `goes_on` is for calls of graphs: what only a
    failed one needed is not cancelled.
    """
    for key, rows in batches.items():
        for first, last in split_by_bytes([call.parcel for call in rows], _bytes_beside(rows, names, logs)):
            calls = rows[first:last]
            error = _post_calls((parent, attempt), key, calls, shipped, post, names, logs, stays, goes_on)
            if error is None:
                continue
            for call in calls:
                alone: Exception | None = error
                if len(calls) > 1:
                    alone = _post_calls((parent, attempt), key, [call], shipped, post, names, logs, stays, goes_on)
                if alone is not None:
                    words = f"the call of {call.node.function.name} cannot be sent: {alone}"
                    refuse(call.child, call.node, SerializationError(words))


def _post_calls(
    submitter: tuple[int, int],
    key: tuple[Request, int, bool],
    calls: Sequence[JobCall],
    shipped: Shipped | set[bytes],
    post: Callable[[Submit, Sequence[Buffer]], object],
    names: Mapping[Node, str],
    logs: bytes,
    stays: bool,
    goes_on: bool,
) -> Exception | None:
    """Send calls in one message. Return the error if that cannot be sent; their functions then count as not sent."""
    request, priority, isolate = key
    functions, fns, blobs = _functions(calls, shipped, logs, stays=stays)
    data, counts, buffers = pack_parcels([call.parcel for call in calls])
    children = [call.child for call in calls]
    told = [names.get(call.node, "") for call in calls] if names else []
    needs = [] if calls[0].needs is None else [list(call.needs or ()) for call in calls]
    message = Submit(
        *submitter,
        request=str(request),
        priority=priority,
        isolate=isolate,
        functions=functions,
        children=children,
        fns=fns,
        data=data,
        counts=counts,
        names=told,
        ages=_column(call.node.age for call in calls),
        sizes=_column(call.size for call in calls),
        inputs=_column(list(call.inputs) for call in calls),
        needs=needs,
        goes_on=goes_on and bool(needs),
    )
    try:
        post(message, [*blobs, *buffers])
    except Exception as error:  # noqa: BLE001 - whatever encoding raises belongs to these calls
        for spec in functions:
            if spec.here:
                shipped.discard(spec.digest)
        return error
    return None


def _column(entries: Iterable[_T]) -> list[_T]:
    """Return the entries of a column; none at all where none says anything."""
    column = list(entries)
    return column if any(column) else []


def _bytes_beside(calls: Sequence[JobCall], names: Mapping[Node, str], logs: bytes) -> list[int]:
    """Return how many bytes each call adds to its arguments: its name, its age, its inputs, and for the first call of a
    function the function's description.
    """
    seen: set[int] = set()
    sizes: list[int] = []
    for call in calls:
        function = call.node.function
        new = id(function) not in seen
        seen.add(id(function))
        said = 0
        if new:
            said = _FUNCTION_BYTES + len(retry_spec(function.options.retry).on) + len(function.name) + len(logs)
        numbers = (call.node.age > 0) + (call.size > 0) + len(call.inputs) + len(call.needs or ())
        sizes.append(said + 4 * len(names.get(call.node, "")) + 9 * numbers)
    return sizes


def _functions(
    calls: Sequence[JobCall], shipped: Shipped | set[bytes], logs: bytes, *, stays: bool
) -> tuple[list[SubmittedFunction], list[int], list[Buffer]]:
    """Describe the functions of calls; with `stays` large values stay at workers."""
    functions: dict[SubmittedFunction, int] = {}
    blobs: list[Buffer] = []
    fns: list[int] = []
    for call in calls:
        function, options, blob = call.node.function, call.node.function.options, call.blob
        here = blob.digest not in shipped
        if here:
            shipped.add(blob.digest)
            blobs.append(blob.data)
        is_stream = isinstance(call.node, StreamNode)
        spec = SubmittedFunction(
            blob.digest,
            function.name,
            function.is_async,
            options.timeout,
            retry_spec(options.retry),
            function.many,
            options.keep,
            here,
            is_stream,
            logs,
            stays and not (function.many or is_stream) and options.cache is None,
            function.internal,
        )
        fns.append(functions.setdefault(spec, len(functions)))
    return list(functions), fns, blobs


def settle_calls(
    message: Outcomes,
    buffers: Sequence[Buffer],
    take: Callable[[int], Node | None],
    listener: OutcomeListener,
    release: Callable[[int], object] | None = None,
) -> int:
    """Hand outcomes to `listener`; `take` gives the node of a number once. How many there were, wanted or not.

    `release` is given the jobs of values that stay at workers, and which are wanted no more.
    """
    parcels = unpack_parcels(message.data, message.counts, buffers)
    for row, parcel in enumerate(parcels):
        node = take(message.children[row])
        if node is not None:
            _settle(node, message, row, Payload(parcel[0], tuple(parcel[1])), listener)
        elif release is not None and message.sizes and message.sizes[row]:
            release(message.jobs[row])
    return len(parcels)


def _settle(node: Node, message: Outcomes, row: int, payload: Payload, listener: OutcomeListener) -> None:
    job = node.record
    assert isinstance(job, Job)
    if message.jobs:
        job.id = message.jobs[row]
    job.placement = placement_in(message, row, time.monotonic()) or job.placement
    job.close()
    stays = message.sizes[row] if message.sizes else 0
    if message.good[row] and job.placement is not None:
        job.placement.size = stays or (payload.nbytes if payload.buffers else len(payload.data))
    try:
        if stays:
            listener.stayed(node, job.id, stays)
        elif message.good[row]:
            listener.succeeded(node, load_value(payload))
        else:
            listener.failed(node, load_error(payload, job.note(node.function.name) if job.attempt else None))
    except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this call's error
        error.add_note(job.note(node.function.name))
        listener.failed(node, error)


def _refuse_stream(node: Node) -> None:
    if isinstance(node, StreamNode):
        raise UnsatisfiableError(
            f"{node.function.name} asks for {node.request}, and a stream with resources cannot be read inside a job: "
            "read it in the program, which gives its items to jobs"
        )


# --- the columns of `Outcomes`: built, taken apart and read -----------------------------------------------------------

_NOWHERE = Placement(None, 0)
_NOT_ROWS = ("parent", "attempt", "data", "counts", "jobs")
_COLUMNS = tuple(name for name in Outcomes.__struct_fields__ if name not in _NOT_ROWS)


def outcomes_message(
    parent: int, attempt: int, rows: Iterable[tuple[int, Job, bool, Parcel]]
) -> tuple[Outcomes, Sequence[Buffer]]:
    """Return how jobs ended, as one message for their submitter, with its buffers.

    Args:
        parent: the job that submitted them, 0 for a client.
        attempt: the attempt of that job.
        rows: the submitter's number of each job, the job, whether it has a value, and its value or exception; no
            payload for a value that stays at its worker.
    """
    children, jobs, good, parcels = zip(*rows, strict=True)
    data, counts, buffers = pack_parcels(parcels)
    placements = [job.placement or _NOWHERE for job in jobs]
    stay = [
        job.size or 0 if is_good and parcel == NO_PARCEL else 0
        for job, is_good, parcel in zip(jobs, good, parcels, strict=True)
    ]
    used = [placement.used or (0.0, 0.0, 0) for placement in placements]
    message = Outcomes(
        parent,
        attempt,
        children=list(children),
        good=list(good),
        workers=[placement.worker or "" for placement in placements],
        slots=[placement.slots or "" for placement in placements],
        attempts=[placement.attempt for placement in placements],
        wall=[wall for wall, _, _ in used],
        cpu=[cpu for _, cpu, _ in used],
        rss=[rss for _, _, rss in used],
        receipts=[placement.receipt for placement in placements],
        data=data,
        counts=counts,
        jobs=[job.id for job in jobs] if parent or any(stay) else [],
        sizes=stay if any(stay) else [],
    )
    return message, buffers


def outcome_alone(message: Outcomes, row: int, parcel: Parcel) -> tuple[Outcomes, Sequence[Buffer]]:
    """Return one row of a message as a message of its own, to be kept; `parcel` is what it brought."""
    data, counts, buffers = pack_parcels([parcel])
    columns = {name: getattr(message, name)[row : row + 1] for name in _COLUMNS}
    jobs = message.jobs[row : row + 1] if value_of(message, row) else []
    return Outcomes(0, 0, **columns, data=data, counts=counts, jobs=jobs), buffers


def value_of(message: Outcomes, row: int) -> int:
    """Return the number of the value that stays at workers, of a row of a message; 0 where none does."""
    return message.jobs[row] if message.sizes and message.sizes[row] else 0


def placement_in(message: Outcomes, row: int, ended: float) -> Placement | None:
    """Return what a row says of where its job ran; None for a job that never did. `ended` is on our clock."""
    if not message.attempts[row]:
        return None
    return Placement(
        message.workers[row],
        message.attempts[row],
        slots=message.slots[row] or None,
        began=ended - message.wall[row],
        ended=ended,
        used=(message.wall[row], message.cpu[row], message.rss[row]),
        receipt=message.receipts[row],
    )


@lru_cache(maxsize=256)
def retry_spec(retry: Retry) -> RetrySpec:
    """Return the retry options for the wire. Raises `SerializationError` for an exception type that cannot be
    pickled.
    """
    on = b"" if retry.kinds is None else bytes(dump_value(retry.kinds, what="on= of a Retry").data)
    return RetrySpec(
        retry.times, retry.losses, retry.waits, on, retry.covers(JobTimeoutError), retry.covers(JobMemoryError)
    )
