"""Cost of an event where there are many blocks, in Python calls; `bench_fleet` has the seconds."""

import pytest
from counting import counted
from fleets import Fleet, a_pool, a_row

from grainlike.fleet import Listed, Tick, Working

BLOCKS, NODES = 200, 10


@pytest.fixture(scope="module")
def fleet():
    """Many blocks that are up, with busy workers."""
    fleet = Fleet(a_pool(max=BLOCKS * NODES, nodes=NODES, pending=BLOCKS, min=BLOCKS * NODES, walltime_s=86400.0))
    fleet.state().proven = True
    for _ in range(BLOCKS):
        fleet.accept_all()
        fleet.later(1.0)
    for label in list(fleet.records.blocks):
        fleet.bring_up(label, nodes=NODES, idle=False)
    assert len(fleet.records.blocks) == BLOCKS
    assert {block.phase for block in fleet.records.blocks.values()} == {"up"}
    return fleet


def calls_of(fleet, event):
    """How many Python functions an event calls."""
    with counted() as count:
        fleet.scheduler.handle(event, fleet.now)
    return count.python


@pytest.mark.parametrize(("what", "most"), [("tick", 4), ("working", 4), ("listed", 8)])
def test_an_event_costs_a_few_calls_a_block(fleet, what, most):
    rows = tuple(a_row(number, left_s=80000.0) for number in range(1, BLOCKS + 1))
    event = {"tick": Tick(), "working": Working("cpu-1", 3, idle=True), "listed": Listed("slurm", rows, fleet.now)}
    calls_of(fleet, event[what])  # what is new is told once
    assert calls_of(fleet, event[what]) < most * BLOCKS


def test_a_listing_is_asked_for_once_a_period_whatever_the_number_of_blocks(fleet):
    fleet.later(100.0)
    fleet.asked.clear()
    fleet.later(3600.0)
    assert len(fleet.asked) == pytest.approx(120, abs=1)
