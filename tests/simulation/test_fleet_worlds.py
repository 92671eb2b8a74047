"""Fleets in simulated worlds: whatever batch systems do, the ten rules of docs/internals.md hold."""

from __future__ import annotations

import os

from simtest.fleet import simulate_fleet

SEEDS = int(os.environ.get("GRAINLIKE_TEST_SEEDS", "400")) // 8


def test_every_rule_holds_and_the_worlds_are_busy():
    broken = {}
    submissions = heads = 0
    for seed in range(SEEDS):
        outcome = simulate_fleet(seed)
        submissions += outcome.submissions
        heads += outcome.heads
        if outcome.violations:
            broken[seed] = outcome.violations
            if len(broken) == 3:
                break
    assert not broken
    assert submissions > 5 * SEEDS
    assert heads > 2 * SEEDS


def test_a_seed_gives_one_world():
    stories = []
    for _ in range(2):
        lines = []
        outcome = simulate_fleet(7, lines.append)
        stories.append((outcome, lines))
    assert stories[0] == stories[1]
    assert len(stories[0][1]) > 50
