"""Links that break and are made anew within ten seconds: no job notices but by the delay."""

from __future__ import annotations

from collections import Counter

import pytest

from grainlike.simulation import Faults
from simtest import simulate

BLINKS = Faults(blink=0.05, until=20.0)


@pytest.mark.parametrize("workload", ["mixed", "one_wide"])
def test_a_link_that_is_made_anew_costs_no_attempt(workload):
    """In these nothing fails by itself: every job begins once, at its first attempt."""
    seen = Counter()
    for seed in range(4):
        outcome = simulate(seed, workload, jobs=60, workers=2, faults=BLINKS)
        assert outcome.violations == ()
        assert outcome.seen["lease"] == outcome.seen["settled SUCCEEDED"] == 60
        seen.update(outcome.seen)
    assert seen["worker suspected"] == seen["worker trusted"] > 20
    assert not seen["worker given up"] + seen["told CRASHED"] + seen["lost"] + seen["kept"]


@pytest.mark.parametrize("workload", ["gangs", "recursion", "tried_again", "bursts", "rationed"])
def test_whatever_runs_every_promise_is_kept(workload):
    broken = {seed: simulate(seed, workload, jobs=30, faults=BLINKS).violations for seed in range(8)}
    assert not {seed: violations for seed, violations in broken.items() if violations}
