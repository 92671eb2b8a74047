"""One seed is one world, bit for bit, whatever Python's hashes are seeded with, and on any Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grainlike.simulation import Dice
from simtest import WORKLOADS, simulate

TIMES = int(os.environ.get("GRAINLIKE_TEST_REPLAYS", "1"))
"""How often each world is lived through under each of the hash seeds."""

OTHER = os.environ.get("GRAINLIKE_TEST_ALIKE", "")
"""Another Python, which has grainlike: it must live through the same worlds."""

ROOT = Path(__file__).parents[2]

WORLDS = """
from simtest import WORKLOADS, simulate
for workload in ("any", *WORKLOADS):
    for seed in range(12 if workload == "any" else 2):
        outcome = simulate(seed, workload)
        print(workload, seed, outcome.steps, outcome.makespan.hex(), outcome.digest)
for seed in range(4):
    outcome = simulate(seed, head_crash=1.0)
    print("head crash", seed, outcome.steps, outcome.makespan.hex(), outcome.digest)
outcome = simulate(1, "bursts", workers=12, jobs=400)
print("large", outcome.steps, outcome.makespan.hex(), outcome.digest)
"""


def worlds(hash_seed, python=sys.executable):
    paths = (str(ROOT), str(ROOT / "worker"))  # another Python has packages of its own
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([python, "-c", WORLDS], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_same_seeds_give_the_same_worlds_under_any_hash_seed_and_python():
    """Ten times of ten, in the long run."""
    told = [worlds(hash_seed) for _ in range(TIMES) for hash_seed in ("1", "4242")]
    if OTHER:  # what comes out alike on every Python has run there, and does not run here (ALIKE in the Makefile)
        told.append(worlds("1", OTHER))
    assert told == told[:1] * len(told)
    assert len(told[0].splitlines()) == 12 + 2 * len(WORKLOADS) + 4 + 1


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
