"""A line of classes finds what a walk over all of them would find."""

from __future__ import annotations

import random

import pytest

from grainlike.scheduler.planning import _class_index
from grainlike.scheduler.planning._class_index import ClassIndex, Entry, Room

SEEDS = range(20)


def naive(entries: list[Entry], rooms: list[Room], after: Entry | None) -> Entry | None:
    for entry in entries:
        later = after is None or entry > after
        for room, until in rooms:
            within = all(amount <= most for amount, most in zip(entry[3], room, strict=True))
            if later and within and (until is None or entry[:2] <= until):
                return entry
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_that_fits_is_found_as_by_a_walk_over_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_class_index, "BLOCK", 3)
    dice = random.Random(seed)
    line, entries = ClassIndex(), list[Entry]()
    for step in range(400):
        if entries and dice.random() < 0.4:
            gone = dice.choice(entries)
            entries.remove(gone)
            line.remove(gone)
        else:
            new = (-dice.randrange(3), dice.randrange(50), step, (dice.randrange(9), dice.randrange(9)))
            entries.append(new)
            entries.sort()
            line.add(new)
        rooms: list[Room] = [
            ((dice.randrange(9), dice.randrange(9)), dice.choice([None, (-dice.randrange(3), dice.randrange(50))]))
            for _ in range(dice.randrange(3))
        ]
        after = dice.choice([None, *entries, (-1, 20, 10**9, ())])
        assert line.first_fitting(rooms, after) == naive(entries, rooms, after)
        assert line.after(after) == next((entry for entry in entries if after is None or entry > after), None)
        assert list(line) == entries
        assert bool(line.blocks) == bool(entries)
