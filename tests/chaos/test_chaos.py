"""A head with a journal, workers and clients, killed, frozen and cut off at random: nothing is lost or done twice.

Sized by the environment: `GRAINLIKE_TEST_KILLS` faults in all, 20 in each town, whose seeds begin at
`GRAINLIKE_TEST_SEED`. A town that fails says its seed; `GRAINLIKE_TEST_KILLS=20 GRAINLIKE_TEST_SEED=that` plays the
same faults once more.
"""

import asyncio
import os
from collections import Counter

import pytest
from histories import complaints, read
from town import FAULTS, Town, draw

KILLS = int(os.environ.get("GRAINLIKE_TEST_KILLS", "100"))
FAULTS_OF_A_TOWN = min(20, KILLS)
EVERYDAY_SEED = 64375
FIRST_SEED = int(os.environ.get("GRAINLIKE_TEST_SEED", EVERYDAY_SEED))
PAUSE_S = 0.25
JOBS_OF_A_FAULT = 5
"""How many jobs each of the two clients wants at least, for each fault; they want more while faults fall."""

HEADS = ("kill_head", "kill_head_and_worker", "kill_head_and_client")
LIMIT_S = 1200.0


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def survive(folder, seed):
    """Let the faults of a seed befall a town; return what was complained of, the history, and how many faults came."""
    faults = draw(seed, FAULTS_OF_A_TOWN, list(FAULTS), PAUSE_S)
    print(f"seed {seed}:", ", ".join(f"{fault.name} after {fault.pause:.2f} s" for fault in faults))
    async with asyncio.timeout(LIMIT_S), Town(folder, seed, jobs=JOBS_OF_A_FAULT * len(faults)) as town:
        await town.until_begun()
        await town.befall(faults)
        await town.settle(LIMIT_S)
        if town.traceback:
            pytest.fail(f"see {folder / 'log'}\n{town.traceback}")  # in full: a comparison would be cut short
    history = read(town.history)
    return complaints(history), history, town.kills


@pytest.mark.asyncio
async def test_whatever_falls_nothing_is_lost_and_nothing_done_twice(tmp_path, private_state):
    figures: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + max(1, KILLS // FAULTS_OF_A_TOWN)):
        folder = tmp_path / f"town{seed}"
        folder.mkdir()
        found, history, kills = await survive(folder, seed)
        figures.update(record.what for record in history)
        figures.update(faults=kills.total(), heads=sum(kills[name] for name in HEADS))
        assert found == [], f"seed {seed}: see {folder}"
        assert sum(record.what == "outcome" for record in history) >= 2 * JOBS_OF_A_FAULT * FAULTS_OF_A_TOWN
    assert figures["faults"] >= KILLS // FAULTS_OF_A_TOWN * FAULTS_OF_A_TOWN
    assert figures["heads"] >= 20 or KILLS < 100 or FIRST_SEED != EVERYDAY_SEED
    print(
        f"{figures['faults']} faults survived, {figures['heads']} of them deaths of the head;",
        f"{figures['outcome']} outcomes of {figures['begin']} attempts:",
        "0 lost, 0 duplicate, 0 orphans",
    )


def test_a_seed_brings_the_same_faults_again():
    assert draw(7, 50, list(FAULTS), 0.1) == draw(7, 50, list(FAULTS), 0.1)
    assert draw(7, 50, list(FAULTS), 0.1) != draw(8, 50, list(FAULTS), 0.1)
    assert {fault.name for fault in draw(7, 500, list(FAULTS), 0.1)} == set(FAULTS)
