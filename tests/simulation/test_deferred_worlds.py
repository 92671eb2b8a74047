"""A scheduler that makes the records of its jobs late decides as one that makes them at once, in every world."""

import os
from hashlib import blake2b

import pytest

from grainlike import _deferred
from grainlike.scheduler import HeadScheduler, _records
from grainlike.simulation import _head
from simtest import simulate

SEEDS = max(10, int(os.environ.get("GRAINLIKE_TEST_SEEDS", "0")) // 1000)


class Watched(HeadScheduler):
    """Writes down what it is told, what it answers, and how many jobs it counts."""

    late = False
    told = blake2b()
    steps_with_deferred = 0

    def __init__(self, **options):
        super().__init__(**options)
        if Watched.late:
            self.defer_records()

    def handle(self, event, now):
        out = super().handle(event, now)
        Watched.told.update(repr((now, event, out, len(self.jobs))).encode())
        deferred = [cls for cls in self.classes.values() if cls.deferred is not None]
        assert all(cls.queue and len(cls.deferred) for cls in deferred)
        Watched.steps_with_deferred += bool(deferred)
        return out


def world(seed, workload, *, late):
    Watched.late, Watched.told = late, blake2b()
    outcome = simulate(seed, workload, judged=False)  # a judge would ask for every record at every step
    return Watched.told.hexdigest(), outcome.steps, outcome.makespan


@pytest.mark.parametrize("workload", ["any", "bursts", "poison", "recursion"])
def test_late_records_change_nothing(workload, monkeypatch):
    for module in (_deferred, _records):
        monkeypatch.setattr(module, "CHUNK", 1)
    monkeypatch.setattr(_head, "HeadScheduler", Watched)
    monkeypatch.setattr(Watched, "steps_with_deferred", 0)
    seeds = range(SEEDS)
    at_once = [world(seed, workload, late=False) for seed in seeds]
    assert Watched.steps_with_deferred == 0
    assert [world(seed, workload, late=True) for seed in seeds] == at_once
    assert Watched.steps_with_deferred > 0
