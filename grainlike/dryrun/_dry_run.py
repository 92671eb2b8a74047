"""`dry_run`: plan of a graph on some workers, by the real schedulers in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from grainlike.dryrun._plan import Plan
from grainlike.graph import Delayed, Node, excuse, node_of, unfinished_nodes
from grainlike.resources import Allocation, Request, offer_of

if TYPE_CHECKING:
    from grainlike.dryrun._workload import Durations
    from grainlike.simulation import NodePlan

__all__ = ["dry_run", "rehearse", "roots_of"]


async def dry_run(
    *placeholders: Delayed[Any] | Iterable[Delayed[Any]],
    workers: Sequence[Request],
    durations: Durations,
    default: float | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Plan:
    """Return a plan of these placeholders on those workers; run nothing.

    The scheduler that runs jobs goes through the graph in virtual time, so a month takes seconds. No user code runs, no
    executor is needed, and the placeholders stay as they are: lazy, and free to be awaited anywhere. Calls that have
    finished take no time; all others are planned from their beginning.

    The plan has only the jobs: calls without resources, operators, the network and the start of processes take no time,
    and nothing breaks. A call that takes longer than its function's `timeout` is timed out, and tried again as its
    `retries` allow. Calls inside calls are unknown. The same arguments give the same plan.

    With `sizes`, large values stay at the workers that made them. Jobs run near them, or the values move, at 100 MB a
    second, and the plan says how many bytes move (`moved`). Every worker's store has room for all values: the plan
    foretells no disk, no wait for room, and no job whose inputs fit into no store.

    Cancelling it stops it; other tasks run meanwhile.

    Args:
        placeholders: a placeholder, several, or an iterable of them.
        workers: offer of each worker; they are called n1, n2, and so on.
        durations: seconds by the name of the function; or a function that is called with the name and the request of
            each call, in the order of the graph, and returns seconds.
        default: seconds for functions that are not in the mapping.
        sizes: bytes of a value by the name of the function. Values of other functions, and values up to 64 KiB, are
            small, and cost nothing. So do values that go through the program: through operators, calls without
            resources, functions with `cache=`, or `gather(return_exceptions=True)`.

    Raises:
        GraphError: `durations` does not name all functions, and there is no default. A `ValueError`.
        ValueError: there are no workers, or some seconds or bytes are negative or not finite.
        TypeError: an argument is no placeholder, or a duration or size is no number.
        ResourceSpecError: a worker is no offer.

    Example::

        from grainlike import Cores, Node, delayed, dry_run

        fits_ = [(fit @ Cores(4))(fold) for fold in range(100)]
        merged_ = (merge @ Cores(1))(fits_)
        plan = await dry_run(merged_, workers=[Node(16, "64Gi")] * 4, durations={"fit": 40, "merge": 5})
        print(plan)
    """
    nodes = unfinished_nodes(roots_of(placeholders))
    excuse(nodes)
    return await rehearse(nodes, _offers(workers), durations, default, sizes)


async def rehearse(
    nodes: Sequence[Node],
    workers: Sequence[Allocation | NodePlan],
    durations: Durations,
    default: float | None,
    sizes: Mapping[str, int] | None,
) -> Plan:
    """Return a plan of these nodes of a graph on workers that may come and go. Raises as `dry_run`."""
    # A program that only runs its graphs never loads the simulation.
    from grainlike.dryrun._planning import planned
    from grainlike.dryrun._workload import rehearsed

    planning = planned(rehearsed(nodes, durations, default, sizes), workers)
    while (plan := next(planning)) is None:
        await checkpoint()
    return plan


def roots_of(placeholders: Sequence[Delayed[Any] | Iterable[Delayed[Any]]]) -> list[Node]:
    """Return the nodes of placeholders, or of one iterable of them. Raises `TypeError` for anything else."""
    if len(placeholders) == 1 and not isinstance(placeholders[0], Delayed):
        only = placeholders[0]
        if isinstance(only, str | bytes) or not isinstance(only, Iterable):
            raise TypeError(f"dry_run takes placeholders, or one iterable of them, not {type(only).__name__}")
        return [node_of(placeholder) for placeholder in only]
    return [node_of(placeholder) for placeholder in placeholders]


def _offers(workers: Sequence[Request]) -> list[Allocation]:
    if isinstance(workers, Request):
        raise TypeError(f"workers is a list of offers: write [{workers!r}]")
    offers = [offer_of(what, own_cores=()) for what in workers]
    if not offers:
        raise ValueError("dry_run needs workers: give a list of offers, such as [Node(16, '64Gi')] * 4")
    return offers
