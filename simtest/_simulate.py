"""Entry point of simulations: draws what is not given, and runs the world."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from grainlike.simulation import CALM, QUICK, Delay, Dice, Faults, Network, NodePlan
from simtest._outcome import Outcome
from simtest._trial import Trial
from simtest._value_workloads import (
    VALUE_WORKLOADS,
    with_real_stores,
    with_small_stores,
    with_stores,
    with_tight_stores,
)
from simtest._workloads import BENCHMARKS, draw_nodes, draw_workload, equal_nodes

__all__ = ["simulate"]

_STORMY = Network(link=Delay(0.0001, 0.005, spike=1.0, spiky=0.02))
_DRIFT = 0.01


def simulate(
    seed: int,
    workload: str = "any",
    *,
    workers: int | None = None,
    jobs: int | None = None,
    faults: Faults | None = None,
    head_crash: float | None = None,
    judged: bool = True,
    show: Callable[[str], None] | None = None,
) -> Outcome:
    """Run one world. The same arguments give the same outcome, bit for bit.

    Args:
        seed: decides all that is not given: nodes, jobs, faults, and every random number in between.
        workload: one of `WORKLOADS`, or `any`. Benchmarks run on nodes of 16 cores, without faults.
        workers: how many nodes; drawn from 1 to 4.
        jobs: how many; drawn from 5 to 50.
        faults: drawn by default, and often none.
        head_crash: mean number of seconds after which the head dies, whatever `faults` has; 0 for never. See `Faults`.
        judged: check every promise after every step. Without it a world only measures, several times as fast.
        show: called with a line for a person, for every step.

    Raises:
        ValueError: no workload has that name.

    Example::

        assert simulate(17, "poison").violations == ()
    """
    dice = Dice(seed)
    if workload in BENCHMARKS:
        plan = draw_workload(dice.fork("workload"), workload, 200 if jobs is None else jobs)
        nodes = equal_nodes(1 if workers is None else workers)
        calm = _with_crash(faults or CALM, head_crash)
        return Trial(seed, plan, nodes, faults=calm, network=QUICK, judged=judged, show=show).run()
    size = dice.fork("size")
    drawn_workers, drawn_jobs = 1 + size.below(4), 5 + size.below(46)
    plan = draw_workload(dice.fork("workload"), workload, drawn_jobs if jobs is None else jobs)
    nodes = draw_nodes(dice.fork("nodes"), drawn_workers if workers is None else workers, drift=_DRIFT)
    weather = dice.fork("weather")
    drawn = _draw_faults(weather) if faults is None else faults
    network = _STORMY if weather.chance(0.5) else Network()
    if plan.name in VALUE_WORKLOADS:
        nodes, drawn, network = _with_data(dice.fork("data"), nodes, drawn, network, calm=faults is not None)
    if plan.name in ("full_stores", "real_stores"):
        nodes = with_stores(dice.fork("stores"), plan, 1 + len(nodes) // 3)
        network = replace(network, bytes_per_s=1e9, relayed_bytes_per_s=None)
    elif plan.name == "own_values":
        nodes = with_small_stores(dice.fork("small stores"), plan, nodes)
    elif plan.name in ("large_outputs", "real_outputs"):
        nodes = with_tight_stores(dice.fork("tight stores"), nodes)
    if plan.name in ("real_stores", "real_outputs"):
        nodes = with_real_stores(dice.fork("real stores"), nodes)
    return Trial(
        seed,
        plan,
        nodes,
        faults=_with_crash(drawn, head_crash),
        network=network,
        closed=weather.chance(0.2),
        judged=judged,
        show=show,
    ).run()


def _draw_faults(dice: Dice) -> Faults:
    """Return drawn faults: none in a third of all worlds; in the others some kinds come often, some never."""
    if dice.chance(1 / 3):
        return CALM
    later = dice.fork("later")
    return Faults(
        runner_kill=dice.pick((0.0, 0.1, 0.5, 2.0)),
        node_kill=dice.pick((0.0, 0.0, 0.5, 3.0)),
        freeze=dice.pick((0.0, 0.0, 3.0)),
        partition=dice.pick((0.0, 0.0, 3.0)),
        spawn_fails=dice.pick((0.0, 0.0, 0.1)),
        until=dice.between(0.5, 20.0),
        stop=later.pick((0.0, 0.0, 0.5, 3.0)),
        reset=later.pick((0.0, 0.0, 3.0)),
        head_crash=dice.fork("death").pick((0.0,) * 22 + (0.3, 2.0)),
        blink=dice.fork("last").pick((0.0, 0.0, 0.3, 2.0)),
        blocked=dice.fork("blocked").pick((0.0, 0.0, 0.2, 0.6)),
        damage=dice.fork("damage").pick((0.0, 0.0, 0.5)),
    )


def _with_data(
    dice: Dice, nodes: tuple[NodePlan, ...], faults: Faults, network: Network, *, calm: bool
) -> tuple[tuple[NodePlan, ...], Faults, Network]:
    """Return nodes of which all, some or none have a data server, rates of copies, and workers that are drained."""
    share = dice.pick((0.0, 0.7, 1.0, 1.0))
    nodes = tuple(replace(node, has_data=dice.chance(share)) for node in nodes)
    network = replace(network, bytes_per_s=dice.pick((1e8, 1e8, 1e9)), relayed_bytes_per_s=dice.pick((None, 3e7)))
    drain, evict = dice.pick((0.0, 0.0, 0.5, 3.0)), dice.pick((0.0, 0.0, 0.02, 0.2))
    return nodes, faults if calm or faults is CALM else replace(faults, drain=drain, evict=evict), network


def _with_crash(faults: Faults, head_crash: float | None) -> Faults:
    return faults if head_crash is None else replace(faults, head_crash=head_crash)
