"""Functions on placeholders: they are no methods, for the names of a placeholder belong to its value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, overload

from grainlike.graph._delayed import Delayed
from grainlike.graph._node import current_resolver
from grainlike.graph._remote_value import RemoteValue
from grainlike.graph._stream import Stream, node_behind

if TYPE_CHECKING:
    from grainlike.resources import Allocation, Receipt, Usage

__all__ = ["Info", "cancel", "info", "start"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Info:
    """State of a placeholder at one moment.

    A job that asks about jobs of its own hears neither their state nor where and when they run before they have ended:
    until then they are pending. Calls without resources are no jobs, and have none of what comes from a worker.

    Attributes:
        name: the name of the function.
        state: lazy, pending, running, succeeded, failed or cancelled.
        worker: the worker that has it, or had it last; None until there is one.
        allocation: the slots that it has there, or had.
        attempt: number of the attempt; 0 until there is one.
        error: the exception with which it has failed; else None.
        receipt: what was enforced on the job, as its process read it back.
        usage: what the job used; None before it has ended.
        began: when the job itself began, in seconds as `time.monotonic()` of this process; for a job elsewhere as exact
            as its worker's clock could be set against this one.
        ended: when it ended, on the same clock, in seconds.
        job: the number of its job, as `grainlike explain` and `grainlike logs` take it; 0 until it has one.
        size: how many bytes the value has as it travels: None before the job has ended, and for calls that are no jobs,
            but for an item of a `gather` that stays at workers.
        where: the names of the workers that have a whole replica of the value, sorted; `()` where only the program has
            it.
        recomputed: how often the call ran again because its value was lost with a worker.

    Example::

        r_ = (half @ Cores(1))(2)
        assert info(r_).state == "lazy"
        await r_
        print(info(r_).worker, info(r_).usage)
    """

    name: str
    state: str
    worker: str | None = None
    allocation: Allocation | None = None
    attempt: int = 0
    error: BaseException | None = None
    receipt: Receipt | None = None
    usage: Usage | None = None
    began: float | None = None
    ended: float | None = None
    job: int = 0
    size: int | None = None
    where: tuple[str, ...] = ()
    recomputed: int = 0


_FACTS = tuple(field.name for field in fields(Info) if field.name not in ("name", "state", "error"))
"""What comes from a `Record`, by the same name."""


def info(placeholder: Delayed[object] | Stream[object]) -> Info:
    """Return the present state of a placeholder or a stream. This does not start it.

    Raises:
        TypeError: the argument is not a placeholder.

    Example::

        info(r_).state, info(r_).worker
    """
    node = node_behind(placeholder)
    known, name, state = node.record, node.function.name, node.state.label
    facts: dict[str, Any] = {} if known is None else {fact: getattr(known, fact) for fact in _FACTS}
    reference = node.reference
    if type(reference) is RemoteValue:
        facts["size"], facts["where"] = reference.size, reference.fetcher.where(reference.id)
    return Info(name, state, error=node.error, **facts)


@overload
def start(placeholder: Delayed[T]) -> Delayed[T]: ...
@overload
def start(placeholder: Stream[T]) -> Stream[T]: ...
def start(placeholder: Delayed[Any] | Stream[Any]) -> Delayed[Any] | Stream[Any]:
    """Begin the work without waiting, and return the placeholder.

    Started work goes on when its awaiters are cancelled, and ends with the block of its executor: await what you start
    before that, `await gather(placeholders)`. The log has a warning of those that were never awaited. A stream runs
    ahead of its reader by a window of items; it ends with its reader all the same, as no other code could read it.

    Raises:
        TypeError: it is not a placeholder.
        RuntimeError: there is no executor here.
        GraphError: it belongs to another executor.

    Example::

        r_ = start((fn @ Cores(4))(x))
    """
    node = node_behind(placeholder)
    if not node.finished:
        current_resolver(node).start([node])
    return placeholder


def cancel(placeholder: Delayed[object] | Stream[object]) -> bool:
    """Cancel a placeholder or a stream for all its awaiters, who then get `JobCancelledError`.

    A call that was not started is cancelled at once; the executor ends a call that runs.

    Returns:
        False if it had finished already.

    Raises:
        TypeError: the argument is not a placeholder.

    Example::

        r_ = start((fn @ Cores(4))(x))
        cancel(r_)
        info(r_).state    # "cancelled"
    """
    node = node_behind(placeholder)
    if node.finished:
        return False
    if node.owner is None:
        return node.cancel()
    node.owner.cancel(node)
    return True
