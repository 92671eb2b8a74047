"""Workloads by name: patterns of use of a scheduler, in small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from grainlike.resources import (
    Allocation,
    Cores,
    GPUs,
    Limit,
    Memory,
    Nodes,
    Rate,
    Request,
    Resource,
    Token,
    WallTime,
    offer_of,
)
from grainlike.simulation import FOREVER, Dice, FunctionPlan, JobPlan, NodePlan, Workload
from simtest._value_workloads import VALUE_WORKLOADS

__all__ = ["BENCHMARKS", "WORKLOADS", "draw_nodes", "draw_workload", "equal_nodes"]

TINY_S, SHORT_S, LONG_S = 0.0004, 0.05, 2.0

_FUNCTIONS = (
    FunctionPlan("tiny", is_async=False),
    FunctionPlan("tiny_async", is_async=True),
    FunctionPlan("waits", is_async=True),
    FunctionPlan("short"),
    FunctionPlan("long", retries=1),
    FunctionPlan("hurried", timeout=0.5),
)
_TINY, _TINY_ASYNC, _WAITS, _SHORT, _LONG, _HURRIED = range(6)
_SECONDS = (TINY_S, TINY_S, TINY_S, SHORT_S, LONG_S, SHORT_S)

_AGAIN = (
    FunctionPlan("waits longer", retries=3, losses=4, backoff=(0.1, 2.0, 1.0)),
    FunctionPlan("at once", is_async=True, retries=2, losses=1),
    FunctionPlan("hurried", retries=2, timeout=1.0, backoff=(0.5, 1.0, 0.5), on_timeout=False),
    FunctionPlan("once", losses=0),
    FunctionPlan("waits", is_async=True, retries=1, backoff=(3.0, 1.0, 3.0)),
)
_ON_STOP: tuple[Literal["ends", "returns", "goes on"], ...] = ("ends", "ends", "ends", "returns", "goes on")

_REQUESTS: tuple[Request, ...] = (
    Cores(1),
    Cores(1),
    Cores(2),
    Cores(4),
    Cores(1) & Memory("1G"),
    GPUs(1),
    GPUs(0.5),
    Resource("lic", 1) & Cores(1),
)

_EACH: tuple[Request, ...] = (Cores(1), Cores(2), Cores(2), Cores(4), Cores(1) & Memory("1G"), GPUs(0.6))
"""Requests for each node of a gang. Two shares of one device can be free by the amounts and lie on two devices."""

_RATIONED: tuple[Request, ...] = (
    Cores(1) & Limit("db", 2),
    Cores(2) & Limit("db", 2),
    Cores(1) & Rate("api", 20),
    GPUs(0.5) & Limit("db", 2) & Rate("api", 20),
    Cores(1),
)

_CHOICES: tuple[Request, ...] = (
    GPUs(1) | Cores(2),
    Cores(4) | Cores(1) & Memory("1G"),
    Cores(1) & Token("fast"),
    Cores(2) & Token("fast") | Cores(1),
    Cores(1) & WallTime(1.0),
    Cores(2) & WallTime(10.0, soft=2.0),
    Cores(4),
)

_OFFERS: tuple[Request, ...] = (
    Cores(4) & Memory("2G") & GPUs(1) & Resource("lic", 2),
    Cores(2),
    Cores(8) & Memory("8G"),
    Cores(4) & GPUs(2),
)


def equal_nodes(count: int, offer: Request = Cores(16)) -> tuple[NodePlan, ...]:  # noqa: B008 - it is immutable
    """Return nodes that all have the same offer, from the beginning."""
    return (NodePlan(_numbered(offer)),) * count


def draw_nodes(dice: Dice, count: int, *, drift: float = 0.0) -> tuple[NodePlan, ...]:
    """Return nodes of several kinds, the first of which can run all requests used here; some join late, or have an
    end.
    """
    nodes: list[NodePlan] = []
    for at in range(count):
        offer = _OFFERS[0] if at == 0 else dice.pick(_OFFERS)
        terms = dice.fork(f"terms {at}")
        if at == 0 or terms.chance(0.5):
            offer &= Token("fast")
        ends = 1.0 + terms.below(9) if at > 0 and terms.chance(0.3) else None
        if ends is not None:
            offer &= WallTime(ends)
        late = dice.between(0.0, 1.0) if dice.chance(0.2) else 0.0
        rate, offset = 1.0 + dice.between(-drift, drift), dice.between(-1e4, 1e4)
        nodes.append(NodePlan(_numbered(offer), rate, offset, late, ends))
    return tuple(nodes)


def _numbered(offer: Request) -> Allocation:
    return offer_of(offer, own_cores=range(64))


def _job(dice: Dice, fn: int, request: Request, at: float = 0.0) -> JobPlan:
    seconds = _SECONDS[fn] * dice.between(0.5, 1.5)
    on_stop: Literal["ends", "returns", "goes on"] = dice.pick(_ON_STOP)
    plan = JobPlan(fn, request, seconds, at, awaits=fn == _WAITS, on_stop=on_stop, priority=dice.below(8) // 7)
    if fn == _HURRIED and dice.chance(0.3):
        plan = msgspec.structs.replace(plan, seconds=12.0 if on_stop == "goes on" else 5.0)
    if dice.chance(0.05):
        plan = msgspec.structs.replace(plan, raises=dice.pick((1, 2)))
    if dice.chance(0.08):
        plan = msgspec.structs.replace(plan, cancel_at=at + dice.between(0.0, 1.0))
    return plan


def stream(dice: Dice, count: int) -> Workload:
    """Jobs of one kind, evenly spaced; sometimes with another request."""
    fn, request = dice.below(len(_FUNCTIONS)), dice.pick(_REQUESTS)
    gap = dice.between(0.0, 2.0 * _SECONDS[fn])
    alike = dice.fork("alike")
    own = alike.chance(0.2)

    def asks() -> Request:
        usual = request if dice.chance(0.9) else dice.pick(_REQUESTS)
        return Cores(1) & Memory(10**9 - alike.below(4 * 10**7)) if own else usual

    jobs = [_job(dice, fn, asks(), at * gap) for at in range(count)]
    return Workload("stream", _FUNCTIONS, tuple(jobs))


def bursts(dice: Dice, count: int) -> Workload:
    """Batches of equal jobs, all at once, with pauses."""
    jobs: list[JobPlan] = []
    at = 0.0
    while len(jobs) < count:
        fn, request = dice.below(len(_FUNCTIONS)), dice.pick(_REQUESTS)
        size = min(1 + dice.below(max(2, count // 2)), count - len(jobs))
        jobs += [_job(dice, fn, request, at) for _ in range(size)]
        at += dice.between(0.0, 1.0)
    return Workload("bursts", _FUNCTIONS, tuple(jobs))


def wide(dice: Dice, count: int) -> Workload:
    """Narrow jobs, and a few that want a whole node among them."""
    narrow = dice.pick((_TINY, _TINY_ASYNC, _SHORT))
    gap = dice.between(0.0, _SECONDS[narrow])
    jobs: list[JobPlan] = []
    for at in range(count):
        broad = dice.chance(0.1)
        fn, request = (_SHORT, Cores(4)) if broad else (narrow, Cores(1))
        jobs.append(JobPlan(fn, request, _SECONDS[fn] * dice.between(0.5, 1.5), at * gap))
    return Workload("wide", _FUNCTIONS, tuple(jobs))


def surprises(dice: Dice, count: int) -> Workload:
    """Tiny jobs of one function, until some turn out long or await, and their run-lists are handed back."""
    fn = dice.pick((_TINY, _TINY_ASYNC))
    jobs = [JobPlan(fn, Cores(1), TINY_S / 4 * dice.between(0.5, 1.5)) for _ in range(count)]
    for at in range(min(12, count), count):
        if dice.chance(0.06):
            jobs[at] = msgspec.structs.replace(jobs[at], seconds=0.1, awaits=fn == _TINY_ASYNC)
        if dice.chance(0.03):
            jobs[at] = msgspec.structs.replace(jobs[at], cancel_at=dice.between(0.0, 0.3))
        if dice.chance(0.02):
            jobs[at] = msgspec.structs.replace(jobs[at], kills=dice.pick((1, FOREVER)))
    return Workload("surprises", _FUNCTIONS, tuple(jobs))


def layers(dice: Dice, count: int) -> Workload:
    """A graph: each job needs up to three of the layer before."""
    jobs: list[JobPlan] = []
    before: list[int] = []
    while len(jobs) < count:
        size = min(1 + dice.below(8), count - len(jobs))
        layer = list(range(len(jobs), len(jobs) + size))
        for _ in layer:
            after = tuple(sorted({dice.pick(before) for _ in range(dice.below(4))})) if before else ()
            fn = dice.pick((_TINY, _TINY_ASYNC, _WAITS, _SHORT))
            jobs.append(msgspec.structs.replace(_job(dice, fn, dice.pick(_REQUESTS)), after=after))
        before = layer
    return Workload("layers", _FUNCTIONS, tuple(jobs))


def sums(dice: Dice, count: int) -> Workload:
    """A tree: leaves are summed by eights, those sums again, and so on."""
    leaf, total = dice.pick(((_SHORT, _SHORT), (_TINY, _SHORT), (_LONG, _TINY), (_SHORT, _LONG)))
    request, of_sums = dice.pick(((Cores(1), Cores(1)), (Cores(1), Cores(2)), (Cores(2), Cores(1) & Memory("1G"))))
    jobs = [_job(dice, leaf, request) for _ in range(count - count // 8)]
    level = list(range(len(jobs)))
    while len(level) > 1 and len(jobs) < count:
        above: list[int] = []
        for at in range(0, len(level), 8):
            above.append(len(jobs))
            jobs.append(msgspec.structs.replace(_job(dice, total, of_sums), after=tuple(level[at : at + 8])))
            if len(jobs) == count:
                break
        level = above
    return Workload("sums", _FUNCTIONS, tuple(jobs))


def poison(dice: Dice, count: int) -> Workload:
    """Jobs of which some kill their process, once or every time; their neighbours must not suffer."""
    workload = dice.pick((stream, bursts))(dice, count)
    jobs = list(workload.jobs)
    for _ in range(1 + dice.below(3)):
        at = dice.below(len(jobs))
        jobs[at] = msgspec.structs.replace(jobs[at], kills=dice.pick((1, 2, FOREVER)))
    return Workload("poison", workload.functions, tuple(jobs))


def impossible(dice: Dice, count: int) -> Workload:
    """Jobs of which some ask for what no node has."""
    workload = bursts(dice, count)
    jobs = list(workload.jobs)
    for _ in range(1 + dice.below(3)):
        at = dice.below(len(jobs))
        jobs[at] = msgspec.structs.replace(jobs[at], request=dice.pick((Cores(512), Resource("absent", 1))))
    return Workload("impossible", workload.functions, tuple(jobs))


def gangs(dice: Dice, count: int) -> Workload:
    """Jobs on two or three nodes among jobs on one: many want overlapping workers, some of them all of a worker."""
    jobs: list[JobPlan] = []
    gap = dice.between(0.0, 0.1)
    for at in range(count):
        fn = dice.pick((_TINY, _WAITS, _SHORT, _SHORT, _LONG))
        request = dice.pick(_REQUESTS)
        if dice.chance(0.5):
            request = Nodes(dice.pick((2, 2, 3)), each=dice.pick(_EACH))
        plan = _job(dice, fn, request, at * gap)
        # A gang's job has a process of its own, which ends with it: one that ignores a signal is killed.
        kills = dice.pick((1, 2, FOREVER)) if dice.chance(0.03) else 0
        jobs.append(msgspec.structs.replace(plan, kills=kills))
    return Workload("gangs", _FUNCTIONS, tuple(jobs))


_NESTING = (
    FunctionPlan("awaits", is_async=True),
    FunctionPlan("keeps", is_async=True, keep=True),
    FunctionPlan("tries", is_async=True, retries=1),
    FunctionPlan("leaf"),
    FunctionPlan("tiny_leaf"),
)


def recursion(dice: Dice, count: int) -> Workload:
    """Jobs that await jobs that await jobs, among others; some keep their cores, and some of those are deadlocked."""
    jobs: list[JobPlan] = []
    at, keeps = 0.0, dice.chance(0.4)
    for _ in range(max(1, count // 8)):
        jobs.append(msgspec.structs.replace(_caller(dice, 1 + dice.below(3), keeps=keeps), at=at))
        if dice.chance(0.2):
            jobs[-1] = msgspec.structs.replace(jobs[-1], cancel_at=at + dice.between(0.0, 1.0))
        if dice.chance(0.3):  # jobs of no tree, of which some are sent ahead
            fn, seconds = dice.pick(((3, SHORT_S), (4, TINY_S)))
            jobs += [JobPlan(fn, Cores(1), seconds * dice.between(0.5, 1.5), at) for _ in range(12)]
        at += dice.between(0.0, 0.2)
    return Workload("recursion", _NESTING, tuple(jobs))


def _caller(dice: Dice, depth: int, *, keeps: bool) -> JobPlan:
    """Return a job with up to two batches of up to three jobs, `depth` levels of them."""
    request = dice.pick(_REQUESTS)
    if not depth or dice.chance(0.2):
        fn, seconds = dice.pick(((3, SHORT_S), (4, TINY_S)))
        plan = JobPlan(fn, request, seconds * dice.between(0.5, 1.5), on_stop=dice.pick(_ON_STOP))
    else:
        calls = tuple(
            tuple(_caller(dice, depth - 1, keeps=keeps) for _ in range(1 + dice.below(3)))
            for _ in range(1 + dice.below(2))
        )
        fn = 1 if keeps and dice.chance(0.5) else dice.pick((0, 2))
        roll = dice.fraction()
        on_stop: Literal["ends", "returns", "goes on"] = (
            "ends" if roll < 0.8 else "returns" if roll < 0.9 else "goes on"  # one that goes on shields its wait
        )
        isolate = dice.chance(0.2)
        seconds = SHORT_S * dice.between(0.1, 1.5)
        plan = JobPlan(fn, request, seconds, awaits=True, isolate=isolate, on_stop=on_stop, calls=calls)
    if dice.chance(0.03):
        plan = msgspec.structs.replace(plan, kills=1) if dice.chance(0.5) else msgspec.structs.replace(plan, raises=1)
    return plan


def rationed(dice: Dice, count: int) -> Workload:
    """Jobs under a limit, a rate, or both, among others."""
    gap = dice.between(0.0, 0.05)
    jobs = [_job(dice, dice.below(len(_FUNCTIONS)), dice.pick(_RATIONED), at * gap) for at in range(count)]
    return Workload("rationed", _FUNCTIONS, tuple(jobs))


def tried_again(dice: Dice, count: int) -> Workload:
    """Jobs that fail, crash and exceed their time, of functions with several retry policies."""
    gap = dice.between(0.0, 0.1)
    jobs: list[JobPlan] = []
    for at in range(count):
        fn = dice.below(len(_AGAIN))
        plan = _job(dice, _SHORT, dice.pick(_REQUESTS), at * gap)
        seconds = 1.5 if fn == 2 and dice.chance(0.3) else plan.seconds
        plan = msgspec.structs.replace(plan, fn=fn, seconds=seconds, awaits=_AGAIN[fn].is_async)
        if dice.chance(0.4):
            plan = msgspec.structs.replace(plan, raises=1 + dice.below(5), final=dice.chance(0.2))
        elif dice.chance(0.3):
            plan = msgspec.structs.replace(plan, kills=1 + dice.below(5))
        jobs.append(plan)
    return Workload("tried_again", _AGAIN, tuple(jobs))


def choices(dice: Dice, count: int) -> Workload:
    """Requests that leave a choice, or need a worker with a token, or one with walltime left."""
    gap = dice.between(0.0, 0.2)
    jobs = [_job(dice, dice.below(len(_FUNCTIONS)), dice.pick(_CHOICES), at * gap) for at in range(count)]
    return Workload("choices", _FUNCTIONS, tuple(jobs))


def mixed(dice: Dice, count: int) -> Workload:
    """Benchmark W5: jobs of 1 to 8 cores and 0.1 to 1 s, all at once, in any order."""
    jobs = [JobPlan(0, Cores(dice.pick((1, 1, 2, 2, 4, 8))), dice.between(0.1, 1.0), awaits=True) for _ in range(count)]
    return Workload("mixed", (FunctionPlan("sleep", is_async=True),), tuple(jobs))


def mixed_widest_first(dice: Dice, count: int) -> Workload:
    """Jobs of `mixed`, the widest first, and of those the longest."""
    drawn = mixed(dice, count)
    jobs = sorted(drawn.jobs, key=lambda plan: (-plan.request.units["cores"], -plan.seconds))
    return Workload("mixed_widest_first", drawn.functions, tuple(jobs))


def one_wide(dice: Dice, count: int) -> Workload:
    """Benchmark W6b: a job of 16 cores is the tenth among others of one core and 0.1 s."""
    functions = (FunctionPlan("narrow", is_async=True), FunctionPlan("wide", is_async=True))
    jobs = [JobPlan(0, Cores(1), 0.1 * dice.between(0.99, 1.01), awaits=True) for _ in range(count)]
    jobs[min(9, count - 1)] = JobPlan(1, Cores(16), 0.1, awaits=True)
    return Workload("one_wide", functions, tuple(jobs))


WORKLOADS: dict[str, Callable[[Dice, int], Workload]] = {
    maker.__name__: maker
    for maker in (
        stream,
        bursts,
        wide,
        surprises,
        layers,
        sums,
        poison,
        impossible,
        gangs,
        recursion,
        rationed,
        choices,
        tried_again,
        mixed,
        mixed_widest_first,
        one_wide,
    )
} | VALUE_WORKLOADS
"""Workloads that `draw_workload` knows."""

BENCHMARKS = ("mixed", "mixed_widest_first", "one_wide")
"""Workloads that are made for nodes of 16 cores."""

_ANY: Sequence[str] = (
    "stream",
    "bursts",
    "bursts",
    "wide",
    "surprises",
    "surprises",
    "layers",
    "poison",
    "poison",
    "impossible",
)


_ANY_LATER: Sequence[tuple[str, Sequence[str], float]] = (
    ("later", ("rationed", "choices"), 0.2),
    ("last", ("tried_again",), 0.1),
    ("trees", ("sums",), 0.05),
)
"""Workloads that were added later, and are picked by random numbers of their own, so that most seeds still give the
same workload as before.
"""


def draw_workload(dice: Dice, name: str, count: int) -> Workload:
    """Return the workload of that name; `any` picks one.

    Raises:
        ValueError: no workload has that name.
    """
    if name == "any":
        name = dice.pick(_ANY)
        for fork, names, share in _ANY_LATER:
            later = dice.fork(fork)
            if later.chance(share):
                name = later.pick(names)
    if name not in WORKLOADS:
        raise ValueError(f"no workload is named {name!r}; there are: any, {', '.join(WORKLOADS)}")
    return WORKLOADS[name](dice, count)
