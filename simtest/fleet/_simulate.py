"""Entry point of simulated fleets: draws pools, work and weather from a seed, and runs the world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grainlike.fleet import FleetPool
from grainlike.simulation import Dice
from simtest.fleet._weather import draw_weather
from simtest.fleet._work import Work, WorkItem, serves
from simtest.fleet._world import FleetWorld

__all__ = ["FleetOutcome", "simulate_fleet"]


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """Outcome of a world: which promises were broken, and how much happened."""

    seed: int
    violations: tuple[str, ...]
    jobs: int
    submissions: int
    heads: int


def simulate_fleet(seed: int, show: Callable[[str], None] | None = None) -> FleetOutcome:
    """Run one world of a fleet. The same seed gives the same outcome, bit for bit.

    Example::

        >>> simulate_fleet(1).violations
        ()
    """
    dice = Dice(seed)
    weather = draw_weather(dice.fork("weather"))
    pools = _pools(dice.fork("pools"))
    items = _items(dice.fork("work"), pools)
    world = FleetWorld(dice.fork("world"), weather, pools, Work(items))
    world.show = show
    world.story()
    return FleetOutcome(seed, tuple(world.judge.violations), len(items), world.submissions, world.heads)


def _pools(dice: Dice) -> list[FleetPool]:
    return [_pool(dice, f"pool{number}") for number in range(1 + dice.below(3))]


def _pool(dice: Dice, name: str) -> FleetPool:
    nodes = dice.pick([1, 1, 1, 2, 3])
    most = nodes * (1 + dice.below(6))
    least = nodes * dice.below(most // nodes + 1) if dice.chance(0.3) else 0
    walltime = dice.pick([600.0, 1800.0, 7200.0])
    cores = dice.pick([0, 4, 4])
    budget = None
    if dice.chance(0.15):
        budget = nodes * 4 * walltime / 3600 * dice.between(1.0, 6.0)
    endless = budget is None and dice.chance(0.15)
    return FleetPool(
        name,
        dice.pick(["slurm", "slurm", "pbs"]),
        min=least,
        max=most,
        nodes=nodes,
        walltime_s=None if endless else walltime,
        cores=cores,
        pending=1 + dice.below(5),
        idle_s=dice.pick([30.0, 300.0, 900.0]),
        join_s=dice.pick([200.0, 300.0, 900.0]),
        budget=budget,
    )


def _items(dice: Dice, pools: list[FleetPool]) -> list[WorkItem]:
    """Return jobs that some pool without a budget can serve: of others it is not known whether they end."""
    sure = [pool for pool in pools if pool.budget is None]
    items: list[WorkItem] = []
    for number in range(dice.below(50)):
        names = frozenset(pool.name for pool in pools if dice.chance(0.6))
        seconds = dice.pick([5.0, 60.0, 400.0, 1500.0]) * dice.between(0.2, 1.0)
        width = dice.pick([1, 1, 1, 1, 2, 3])
        item = WorkItem(number, seconds, width, names)
        if any(_surely_serves(pool, item) for pool in sure):
            items.append(item)
    return items


def _surely_serves(pool: FleetPool, item: WorkItem) -> bool:
    """Return True if a pool runs a job some day: the blocks of a gang have to be young together."""
    if item.width == 1 or pool.walltime_s is None:
        return serves(pool, item)
    young = pool.walltime_s >= item.seconds + pool.idle_s + 1500.0
    return serves(pool, item) and young and pool.pending * pool.nodes >= item.width
