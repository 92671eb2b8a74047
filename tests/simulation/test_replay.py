"""One seed is one world, bit for bit, whatever Python's hashes are seeded with."""

from __future__ import annotations

import os
import subprocess
import sys

from grainlike.simulation import Dice, simulate

WORLDS = """
from grainlike.simulation import simulate
for seed in range(12):
    outcome = simulate(seed)
    print(seed, outcome.workload, outcome.steps, outcome.makespan.hex(), outcome.digest)
"""


def worlds(hash_seed):
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", WORLDS], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_same_seeds_give_the_same_worlds_under_any_hash_seed():
    first = worlds("1")
    assert first == worlds("4242")
    assert len(first.splitlines()) == 12


def test_another_seed_is_another_world():
    assert simulate(1, "bursts").digest != simulate(2, "bursts").digest


def test_watching_changes_nothing():
    lines: list[str] = []
    assert simulate(5, show=lines.append) == simulate(5)
    assert any("AssignJobs" in line for line in lines)


def test_the_dice_are_splitmix64():
    """The first values for the seed 1234567, as published with the generator."""
    dice = Dice(1234567)
    assert [dice.bits() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_fork_is_its_own_stream():
    one, other = Dice(7), Dice(7)
    one.bits()
    assert one.fork("network").bits() == other.fork("network").bits() != other.fork("faults").bits()
