"""Small worlds, many of them: whatever breaks, every promise is kept."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from grainlike.simulation import CALM
from simtest import WORKLOADS, simulate

SEEDS = int(os.environ.get("GRAINLIKE_TEST_SEEDS", "2000"))
BLOCK = 50

# Seeds that once showed a fault, of the schedulers or of the judge. A world changes with the dice that are drawn for
# it, so a fault of the schedulers gets a test of its own as well.
REGRESSIONS = [(1319, "any"), (1955, "any"), (2321, "any"), (2454, "any"), (2953, "any"), (3561, "any")]
REGRESSIONS += [(0, "any"), (868, "any"), (1288, "any"), (2499, "any"), (3793, "any")]


@cache
def world(seed):
    """What was broken in it, and what happened there."""
    outcome = simulate(seed)
    return outcome.violations, outcome.seen


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_promise_is_kept(first):
    broken = {seed: world(seed)[0] for seed in range(first, min(first + BLOCK, SEEDS))}
    assert not {seed: violations for seed, violations in broken.items() if violations}


@pytest.mark.parametrize(("seed", "workload"), REGRESSIONS)
def test_what_was_broken_once_is_kept(seed, workload):
    assert simulate(seed, workload).violations == ()


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_every_workload_runs_through(workload):
    outcome = simulate(1, workload, jobs=20, faults=CALM)
    assert outcome.violations == ()
    # Trees of jobs have about eight each; values that fill stores have four readers for each job that was asked for.
    assert outcome.jobs == {"recursion": 2, "full_stores": 88, "real_stores": 88}.get(workload, 20)
    not_all_run = ("impossible", "stream", "bursts", "poison", "gangs")
    assert outcome.makespan >= outcome.lower_bound * 0.999 or workload in not_all_run


def test_a_name_that_no_workload_has_is_an_error():
    with pytest.raises(ValueError, match="there are: any, stream"):
        simulate(1, "nonsense")


@pytest.mark.parametrize("seed", range(10))
def test_the_judge_sees_what_any_witness_sees(seed):
    """What happens does not depend on who looks."""
    judged, measured = simulate(seed), simulate(seed, judged=False)
    assert judged.seen == measured.seen
    assert judged.steps == measured.steps


def test_the_worlds_see_every_path():
    """A world in which nothing dies or comes back proves nothing."""
    seen = Counter()
    for seed in range(400):
        seen.update(world(seed)[1])
    rare = {
        "run-list",
        "kept",
        "runner died",
        "worker died",
        "worker given up",
        "lost",
        "refused",
        "pending",
        "cancelled",
        "settled TIMED_OUT",
        "settled FAILED",
        "told RETURNED",
        "told CRASHED",
        "told CANCELLED",
        "told STOPPED",
        "worker leaving",
        "head died",
        "lost with the head",
        "silence",
        "worker told to stop",
    }
    assert not {path for path in rare if seen[path] < 10}, seen
