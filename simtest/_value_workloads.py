"""Workloads with large values that stay at workers: patterns of use, in small."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from grainlike.resources import EMPTY, Cores, Nodes, Request, Resource, offer_of
from grainlike.simulation import Dice, FunctionPlan, JobPlan, NodePlan, Workload

__all__ = [
    "PATTERNS", "VALUE_WORKLOADS", "with_real_stores", "with_small_stores", "with_stores", "with_tight_stores",
]  # fmt: skip

MB = 10**6

_FUNCTIONS = (
    FunctionPlan("makes"),
    FunctionPlan("reads", is_async=True),
    FunctionPlan("once", losses=0),
    FunctionPlan("tries", retries=2, losses=1, backoff=(0.1, 2.0, 1.0)),
    FunctionPlan("hurried", timeout=1.0),
    FunctionPlan("quick"),
)


def broadcast(dice: Dice, count: int, size: int = 50 * MB, seconds: float = 0.5) -> Workload:
    """One value, and many readers."""
    jobs = [JobPlan(0, Cores(1), 0.1, size=size)]
    jobs += [JobPlan(1, Cores(1), seconds * dice.between(0.9, 1.1), after=(0,)) for _ in range(count - 1)]
    return Workload("broadcast", _FUNCTIONS, tuple(jobs))


def chains(dice: Dice, count: int, size: int = 20 * MB, seconds: float = 0.1) -> Workload:
    """Chains of ten jobs, each of which needs the one before."""
    jobs: list[JobPlan] = []
    for at in range(count):
        after = (at - 1,) if at % 10 else ()
        jobs.append(JobPlan(0, Cores(1), seconds * dice.between(0.8, 1.2), after=after, size=size))
    return Workload("chains", _FUNCTIONS, tuple(jobs))


def tree(dice: Dice, count: int, size: int = 20 * MB, seconds: float = 0.2) -> Workload:
    """Leaves, summed by eights, and those sums again; and a few leaves more, if that is fewer than `count` jobs."""
    leaves = next(leaves for leaves in range(count, 0, -1) if leaves + _sums_of(leaves) <= count)
    extra = count - leaves - _sums_of(leaves)
    jobs = [JobPlan(0, Cores(1), seconds * dice.between(0.8, 1.2), size=size) for _ in range(leaves + extra)]
    level = list(range(leaves))
    while len(level) > 1:
        above = list(range(len(jobs), len(jobs) + _eighths(len(level))))
        jobs += [
            JobPlan(1, Cores(1), seconds / 2, after=tuple(level[at : at + 8]), size=size)
            for at in range(0, len(level), 8)
        ]
        level = above
    return Workload("tree", _FUNCTIONS, tuple(jobs))


def _eighths(count: int) -> int:
    return (count + 7) // 8


def _sums_of(leaves: int) -> int:
    """Return how many sums there are above leaves, with all levels."""
    return 0 if leaves <= 1 else _eighths(leaves) + _sums_of(_eighths(leaves))


def few_long(dice: Dice, count: int, size: int = 100 * MB, seconds: float = 2.0) -> Workload:
    """A few values, each with many long readers."""
    jobs = [JobPlan(0, Cores(1), 0.2, size=size) for _ in range(4)]
    jobs += [JobPlan(1, Cores(1), seconds * dice.between(0.5, 1.5), after=(at % 4,)) for at in range(count - 4)]
    return Workload("few_long", _FUNCTIONS, tuple(jobs))


def cheap(dice: Dice, count: int, size: int = 50 * MB, seconds: float = 0.002) -> Workload:
    """Many values, each with readers that take no time."""
    many = max(1, count // 40)
    jobs = [JobPlan(0, Cores(1), 0.05, size=size) for _ in range(many)]
    jobs += [JobPlan(1, Cores(1), seconds * dice.between(0.8, 1.2), after=(at % many,)) for at in range(count - many)]
    return Workload("cheap", _FUNCTIONS, tuple(jobs))


PATTERNS: dict[str, Callable[[Dice, int], Workload]] = {
    "broadcast": broadcast, "chains": chains, "tree": tree, "few_long": few_long, "cheap": cheap,
}  # fmt: skip
"""Patterns by which policies are compared."""

_ASKS: tuple[Request, ...] = (Cores(1), Cores(1), Cores(1), Cores(2), Cores(4))


def values(dice: Dice, count: int) -> Workload:
    """A graph of any form: values of all sizes, readers of several, some of which fail, are cancelled or fetched."""
    jobs: list[JobPlan] = []
    for at in range(count):
        after = {dice.below(at) for _ in range(dice.below(4))} if at else set[int]()
        if at and dice.chance(0.2):
            after = {at - 1}
        size = dice.pick((0, 10_000, 200_000, 2 * MB, 20 * MB, 100 * MB))
        fn = dice.pick((0, 0, 1, 1, 2, 3, 3, 4))
        plan = JobPlan(
            fn, dice.pick(_ASKS), dice.pick((0.001, 0.02, 0.3)) * dice.between(0.5, 1.5), dice.between(0.0, 1.0),
            tuple(sorted(after)), size=size, wants=dice.chance(0.3), priority=dice.below(8) // 7,
            awaits=fn == 1 and dice.chance(0.3), on_stop=dice.pick(("ends", "ends", "returns", "goes on")),
        )  # fmt: skip
        kept = dice.fork(f"kept {at}")
        if kept.chance(0.25):
            plan = replace(plan, copies=kept.pick((0, 1, 2, 2, 3)), holds=kept.pick((0.0, 0.5, 5.0, 30.0)))
        if dice.chance(0.05):
            plan = replace(plan, raises=dice.pick((1, 2)))
        if dice.chance(0.05):
            plan = replace(plan, cancel_at=dice.between(0.0, 3.0))
        if dice.chance(0.04) and fn != 1:
            plan = replace(plan, kills=1)
        if dice.chance(0.05):
            plan = replace(plan, request=Nodes(2, each=Cores(1)), fn=0, awaits=False)
        jobs.append(plan)
    return Workload("values", _FUNCTIONS, tuple(jobs))


def shared_values(dice: Dice, count: int) -> Workload:
    """Few values that nearly all jobs need, some at several levels, while workers come and go."""
    few = 1 + dice.below(4)
    quick = dice.fork("quick").chance(0.4)
    size = dice.pick((2 * MB, 20 * MB, 100 * MB))
    jobs = [JobPlan(dice.pick((0, 0, 2)), Cores(1), 0.05, size=size, wants=dice.chance(0.2)) for _ in range(few)]
    kept = dice.fork("kept")
    jobs = [
        replace(plan, copies=kept.pick((0, 2, 3)), holds=kept.between(0.0, 20.0)) if kept.chance(0.3) else plan
        for plan in jobs
    ]
    for at in range(few, count):
        after = tuple(sorted({dice.below(few) for _ in range(1 + dice.below(3))}))
        if at > few + 4 and dice.chance(0.2):
            after = tuple(sorted({*after, few + dice.below(at - few)}))
        made = dice.pick((0, 0, 0, size))
        fn, seconds = dice.pick((1, 3)), dice.pick((0.002, 0.1, 1.0))
        if quick:
            fn, seconds = 5, 0.002
        jobs.append(JobPlan(fn, Cores(1), seconds, after=after, size=made))
    return Workload("shared_values", _FUNCTIONS, tuple(jobs))


def own_values(dice: Dice, count: int) -> Workload:
    """Few values of the client's own that nearly all jobs need, beside those of other jobs."""
    few = 1 + dice.below(4)
    sizes = (200_000, 2 * MB, 20 * MB, 100 * MB)
    jobs = [JobPlan(0, EMPTY, 0.0, dice.between(0.0, 2.0) * dice.below(2), size=dice.pick(sizes)) for _ in range(few)]
    jobs = [
        replace(plan, copies=dice.pick((0, 1, 2, 3)), holds=dice.between(0.0, 20.0)) if dice.chance(0.3) else plan
        for plan in jobs
    ]
    for at in range(few, count):
        after = {dice.below(few) for _ in range(1 + dice.below(2))}
        if at > few and dice.chance(0.3):
            after.add(few + dice.below(at - few))
        made = dice.pick((0, 0, 2 * MB, 20 * MB))
        plan = JobPlan(
            dice.pick((0, 1, 2, 3)), Cores(1), dice.pick((0.002, 0.1, 1.0)), dice.between(0.0, 3.0) * dice.below(2),
            tuple(sorted(after)), size=made, wants=dice.chance(0.1),
        )  # fmt: skip
        if dice.chance(0.05):
            plan = replace(plan, cancel_at=dice.between(0.0, 3.0))
        jobs.append(plan)
    return Workload("own_values", _FUNCTIONS, tuple(jobs))


def full_stores(dice: Dice, count: int) -> Workload:
    """Values at the first node, and readers of some of them on nodes that have room for few at a time; see
    `with_stores`.
    """
    few = 5 + dice.below(5)
    large = 2 + dice.below(3)
    jobs = [JobPlan(0, Cores(1) & Resource("hub", 1), 0.02, size=20 * MB + dice.below(40) * MB) for _ in range(few)]
    for at in range(few, few + 4 * count):
        is_large = at == few + 1 or dice.chance(0.01)
        after = set(range(large)) if is_large else {large + dice.below(few - large)}
        if at > few + 4 and dice.chance(0.1):
            after.add(few + dice.below(at - few))
        request = Cores(1) if dice.chance(0.1) else Cores(1) & Resource("leaf", 1)
        seconds, size = dice.pick((0.1, 0.3, 0.6)) * dice.between(0.5, 1.5), dice.chance(0.05) * 5 * MB
        begins = dice.between(0.5, 1.0) if is_large else 0.0
        fn = dice.pick((0, 0, 0, 3)) if size else 5
        jobs.append(JobPlan(fn, request, seconds, begins, tuple(sorted(after)), size=size))
    return Workload("full_stores", _FUNCTIONS, tuple(jobs))


def large_outputs(dice: Dice, count: int) -> Workload:
    """Values that are kept for a while, some of which not all stores, or none, can hold; see `with_tight_stores`."""
    jobs: list[JobPlan] = []
    for at in range(count):
        size = dice.pick((0, 5, 20, 20, 60, 60, 150, 400)) * MB
        after = tuple({dice.below(at)}) if at and dice.chance(0.3) else ()
        plan = JobPlan(
            dice.pick((0, 0, 0, 1, 2, 3)), Cores(1), dice.pick((0.02, 0.3)) * dice.between(0.5, 1.5),
            dice.between(0.0, 2.0), after, size=size,
        )  # fmt: skip
        if size and plan.fn != 2 and dice.chance(0.6):  # of that function's values there are two replicas, for ever
            plan = replace(plan, copies=1, holds=dice.pick((0.5, 5.0, 20.0)))
        if dice.chance(0.05):
            plan = replace(plan, raises=dice.pick((1, 2)))
        jobs.append(plan)
    return Workload("large_outputs", _FUNCTIONS, tuple(jobs))


def real_stores(dice: Dice, count: int) -> Workload:
    """As `full_stores`, with the store's real scheduler at workers; see `with_real_stores`."""
    return replace(full_stores(dice, count), name="real_stores")


def real_outputs(dice: Dice, count: int) -> Workload:
    """As `large_outputs`, with the store's real scheduler at workers; see `with_real_stores`."""
    return replace(large_outputs(dice, count), name="real_outputs")


def with_real_stores(dice: Dice, nodes: tuple[NodePlan, ...]) -> tuple[NodePlan, ...]:
    """Return nodes whose stores have the real scheduler, half of them with a disk. Beyond the budget, jobs may give one
    value for each core, at some nodes as long as memory is free.
    """
    return tuple(
        node
        if node.store is None
        else replace(node, scratch=dice.pick((0, 0, 60, 150)) * MB, overdraft=dice.pick((None, None, None, 60 * MB)))
        for node in nodes
    )


def with_tight_stores(dice: Dice, nodes: tuple[NodePlan, ...]) -> tuple[NodePlan, ...]:
    """Return nodes for `large_outputs`: each with a store of its own size, beyond which jobs may give little."""
    return tuple(
        replace(node, store=dice.pick((50, 100, 200, 300)) * MB, overdraft=dice.pick((0, 0, 60)) * MB) for node in nodes
    )


def with_stores(dice: Dice, workload: Workload, count: int) -> tuple[NodePlan, ...]:
    """Return nodes for `full_stores`: one with the room of all, and some with little more than the job with the largest
    inputs needs beside all that readers give.
    """
    given = sum(plan.size for plan in workload.jobs if plan.after)
    most = max(sum(workload.jobs[at].size for at in plan.after) for plan in workload.jobs)
    store = given // dice.pick((1, 1, 4, 4)) + int(most * dice.between(1.0, 1.2))
    hub = NodePlan(offer_of(Cores(2) & Resource("hub", 2), own_cores=range(64)), has_data=True)
    leaf = offer_of(Cores(4) & Resource("leaf", 4), own_cores=range(64))
    return hub, *(NodePlan(leaf, has_data=True, store=store) for _ in range(count))


def with_small_stores(dice: Dice, workload: Workload, nodes: tuple[NodePlan, ...]) -> tuple[NodePlan, ...]:
    """Return nodes for `own_values`: in most worlds that ask for no replicas, which may have room nowhere, nodes that
    have room for those of the client's values that fit alone, all of them together, and for some that jobs make.
    """
    if dice.chance(0.2) or any(plan.holds for plan in workload.jobs):
        return nodes
    own = sorted(plan.size for plan in workload.jobs if not plan.request)
    return tuple(replace(node, store=_store_for(own, dice.pick((30, 60, 90, 150)) * MB)) for node in nodes)


def _store_for(own: list[int], store: int) -> int:
    """Return how large a store has to be, `store` at the least, for all values that it could hold alone."""
    needed = 0
    for size in own:
        if size > max(store, needed + 40 * MB):
            break
        needed += size
    return max(store, needed + 40 * MB)


VALUE_WORKLOADS: dict[str, Callable[[Dice, int], Workload]] = {
    "broadcast": broadcast,
    "chains": chains,
    "tree": tree,
    "few_long": few_long,
    "cheap": cheap,
    "values": values,
    "shared_values": shared_values,
    "own_values": own_values,
    "full_stores": full_stores,
    "large_outputs": large_outputs,
    "real_stores": real_stores,
    "real_outputs": real_outputs,
}
"""All of these, by name."""
