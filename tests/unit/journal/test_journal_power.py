"""The machine loses power, again and again, at any call: nothing that was acknowledged is lost, and nothing invented.

Each seed is a history of some lives of one journal, on a disk in memory that forgets what was not synced, in pieces and
in any order. GRAINLIKE_TEST_SEEDS says how many histories.
"""

import os
import random
from contextlib import suppress
from pathlib import Path

from journal_stands import PowerCutError, PowerDisk

from grainlike import JournalError
from grainlike.journal import Journal, commit_image

SEEDS = int(os.environ.get("GRAINLIKE_TEST_SEEDS", "600"))
LIVES = 4
DIRECTORY = Path("/journal")


class History:
    """What was appended, how much of it was acknowledged, and how often a journal had to be salvaged."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.appended, self.acknowledged = [], 0
        self.cuts = self.refusals = self.images = 0

    def live(self, disk):
        """Open the journal, compare, and go on until the power goes, or enough is done."""
        journal, found = self.open(disk)
        held = [*(found.image or ()), *found.records]
        assert held == self.appended[: len(held)]
        assert len(held) == found.position >= self.acknowledged
        self.appended, self.acknowledged = held, len(held)
        self.cuts += bool(found.cut)
        journal.on_synced = self.acknowledge
        steps = (self.append, Journal.sync, Journal.begin_segment, self.write_image)
        for step in self.rng.choices(steps, (8, 3, 1, 1), k=20):
            step(journal)

    def open(self, disk):
        with suppress(JournalError):
            return Journal.open(DIRECTORY, disk=disk)
        self.refusals += 1
        return Journal.open(DIRECTORY, salvage=True, disk=disk)

    def acknowledge(self, position):
        assert self.acknowledged < position <= len(self.appended)
        self.acknowledged = position

    def append(self, journal):
        record = self.rng.randbytes(self.rng.choice((0, 3, 40, 100)))
        self.appended.append(record)  # a record whose append was cut short may be found whole
        assert journal.append(record) == len(self.appended)

    def write_image(self, journal):
        segment = journal.begin_segment()
        state = list(self.appended)
        for _ in range(self.rng.randint(0, 2)):
            self.append(journal)
        commit_image(DIRECTORY, segment, state, disk=journal._disk)
        self.images += 1
        journal.forget_before(segment)


def test_what_was_acknowledged_outlives_the_power():
    cuts = refusals = images = 0
    for seed in range(SEEDS):
        history = History(seed)
        disk = PowerDisk()
        for life in range(LIVES):
            at = history.rng.randint(1, 60)
            disk = disk.after_kill(at) if history.rng.random() < 0.3 else disk.after_power_cut(history.rng, at)
            try:
                history.live(disk)
            except PowerCutError:
                pass
            except Exception as error:
                error.add_note(f"seed {seed}, life {life}")
                raise
        cuts, refusals, images = cuts + history.cuts, refusals + history.refusals, images + history.images
    assert min(cuts, refusals, images) > SEEDS // 20, (cuts, refusals, images)


def test_what_was_set_aside_outlives_the_power():
    path = DIRECTORY / "0000000000000001.log"
    for seed in range(50):
        disk = PowerDisk()
        journal, _ = Journal.open(DIRECTORY, disk=disk)
        for record in (b"one", b"two" * 20, b"three" * 20):
            journal.append(record)
        journal.close()
        disk.now[path].now[60] ^= 1
        damaged = bytes(disk.now[path].now)
        journal, found = Journal.open(DIRECTORY, disk=disk, salvage=True)
        assert list(found.records) == []
        left = disk.after_power_cut(random.Random(seed))
        assert bytes(left.now[found.set_aside[0]].now) == damaged, seed
