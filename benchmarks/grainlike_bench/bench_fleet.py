"""Cost of an event of the fleet scheduler with 1 000 blocks of 10 nodes: an idle worker, a listing, and a tick."""

from __future__ import annotations

import time
from statistics import median

from grainlike.dialects import ListedBlock, native_name
from grainlike.fleet import (
    FleetEvent,
    FleetPool,
    FleetScheduler,
    Joined,
    Listed,
    PoolSet,
    SubmissionAccepted,
    SubmitBlock,
    Tick,
    Wanted,
    Working,
)

BLOCKS = 1000
NODES = 10
DIGEST = "1a2b3c4d"


def fleet_of(blocks: int) -> tuple[FleetScheduler, float]:
    """Return a fleet with so many blocks, each with a busy worker on every node, and its time."""
    fleet = FleetScheduler(DIGEST)
    workers = blocks * NODES
    pool = FleetPool("cpu", "slurm", max=workers, nodes=NODES, walltime_s=86400.0, cores=16, pending=blocks)
    now = 0.0
    fleet.handle(PoolSet(pool), now)
    fleet.records.pools["cpu"].proven = True
    while len(fleet.records.blocks) < blocks:
        now += 1.0
        wanted = Wanted({"cpu": workers}, fleet.version)
        early = Listed("slurm", (), 0.0)  # of before the submissions
        for action in [*fleet.handle(wanted, now), *fleet.handle(early, now)]:
            if isinstance(action, SubmitBlock):
                fleet.handle(SubmissionAccepted(action.label, f"{action.number}"), now)
    for label in list(fleet.records.blocks):
        for node in range(NODES):
            fleet.handle(Joined(label, node, 16, idle=False), now)
    return fleet, now


def measure(fleet: FleetScheduler, event: FleetEvent, now: float, rounds: int) -> float:
    """Return the median of seconds that an event takes."""
    seconds: list[float] = []
    for number in range(rounds):
        begun = time.perf_counter()
        fleet.handle(event, now + number * 0.01)
        seconds.append(time.perf_counter() - begun)
    return median(seconds)


def main() -> None:
    fleet, now = fleet_of(BLOCKS)
    rows = tuple(
        ListedBlock(f"{number}", native_name(DIGEST, number), "running", left_s=86400.0 - now)
        for number in range(1, BLOCKS + 1)
    )
    print(f"{BLOCKS} blocks of {NODES} nodes, milliseconds an event:")
    for name, event in (
        ("tick", Tick()),
        ("working", Working("cpu-1", 3, idle=True)),
        ("listed", Listed("slurm", rows, now)),
    ):
        now += 10.0
        print(f"{name:<8} {measure(fleet, event, now, 100) * 1e3:.3f}")


if __name__ == "__main__":
    main()
