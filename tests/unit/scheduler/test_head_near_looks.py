"""Looks at classes near a worker that are left out: the head decides as if it looked at each class in each pass."""

import random

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Memory, WallTime
from grainlike.scheduler import (
    FunctionTimed,
    HeadScheduler,
    JobsCancelled,
    ReplicasGone,
    Ticked,
    WorkerHeard,
    WorkerStored,
    WorkerSuspected,
)
from grainlike.scheduler.planning import _planner, _resting

GIB = 1 << 30


class RandomCluster(ValueCluster):
    """A cluster to which one thing after another happens: the same for the same seed and the same decisions."""

    def __init__(self, seed, *, stores=False):
        self.dice = random.Random(seed)
        self.suspected = set()
        self.megabytes = (-1, 100, 150, 300, 600) if stores else (-1,)
        offers = [Cores(self.dice.randint(1, 4)) & Memory(40 * GIB) for _ in range(self.dice.randint(2, 4))]
        if self.dice.random() < 0.3:
            offers.append(Cores(2) & Memory(40 * GIB) & WallTime(60))
        super().__init__(*offers, has_data=self.dice.random() < 0.5)
        for fn in (1, 2, 3):
            self.function(fn, self.dice.choice([None, None, 0.02, 0.5, 3.0]))
        self.values = [self.call(Cores(1), 0.0, size=self.dice.randint(1, 90) * MB) for _ in range(5)]
        self.run(0.0)

    def join(self, offer, **known):
        size = self.dice.choice(self.megabytes)
        super().join(offer, store=size * MB if size > 0 else -1, **known)

    def live(self, steps):
        is_any_limited = any(worker.store is not None for worker in self.head.workers.values())
        for _ in range(steps):
            kind = self.dice.choices(
                ["read", "make", "end", "arrive", "fail", "wait", "shut", "gone", "cancel", "timed", "lose", "exceed"],
                [30, 4, 20, 12, 2, 15, 3, 2, 3, 2, 0.3, 3 * is_any_limited],
            )[0]
            getattr(self, kind)()
        return self.actions

    def read(self):
        inputs = self.dice.sample(self.values, self.dice.randint(1, 2))
        memory = Memory(self.dice.choice([1, 1, 3, 25]) * GIB + self.dice.randint(0, 9), grow=2)
        request = Cores(self.dice.choice([1, 1, 1, 2])) & memory
        if self.dice.random() < 0.1:
            request |= Cores(1) & Memory(GIB, grow=2)
        count, fn = self.dice.choice([1, 1, 4]), self.dice.choice([1, 2, 3])
        self.call(request, self.dice.choice([0.02, 0.5, 4.0]), *inputs, fn=fn, n=count)

    def make(self):
        seconds, count, priority = self.dice.random() * 3, self.dice.randint(1, 3), self.dice.randint(0, 1)
        self.submit(Cores(1) & Memory(GIB), seconds, n=count, priority=priority)

    def end(self):
        if self._heap:
            self.run(self._heap[0][0])

    def arrive(self, *of):
        if of:
            super().arrive(*of)
        elif self.under_way:
            self.now += self.dice.random() * 0.3
            super().arrive(*self.dice.choice(sorted(self.under_way)))

    def fail(self, *of, unreachable=False):
        if self.under_way:
            super().fail(*self.dice.choice(sorted(self.under_way)), unreachable=self.dice.random() < 0.5)

    def wait(self):
        at = self.head.wakes_at
        until = self._heap[0][0] if self._heap else self.now + 1.0
        self.now = min(until, at if at is not None and at > self.now else self.now + self.dice.random())
        self.tell(Ticked())

    def shut(self):
        worker = self.dice.choice(sorted(self.head.workers))
        self.tell(WorkerHeard(worker) if worker in self.suspected else WorkerSuspected(worker))
        self.suspected ^= {worker}

    def gone(self):
        value = self.dice.choice(self.values)
        where = self.where(value)
        if len(where) > 1 and not any(pair[0] == value for pair in self.under_way):
            attempt = next(attempt for held, attempt in self.stores[where[0]] if held == value)
            self.stores[where[0]].discard((value, attempt))
            self.tell(ReplicasGone(where[0], [value], [attempt]))

    def cancel(self):
        queued = [job for job in self.head.jobs.values() if not job.worker and job.id not in self.values]
        if queued:
            self.tell(JobsCancelled([self.dice.choice(queued).id]))

    def timed(self):
        self.tell(FunctionTimed(self.dice.choice([1, 2, 3]), [self.dice.choice([0.01, 0.3, 2.0, 9.0])] * 3))

    def exceed(self):
        worker = self.dice.choice(sorted(self.head.workers))
        self.tell(WorkerStored(worker, over=self.dice.choice([0, 0, 20 * MB])))

    def lose(self, *of):
        if len(self.head.workers) > 2:
            worker = self.dice.choice(sorted(self.head.workers))
            self.suspected.discard(worker)
            super().lose(worker)


@pytest.mark.parametrize(("first", "stores"), [(0, False), (20, False), (40, True)])
def test_the_head_decides_as_if_it_looked_at_all(first, stores, monkeypatch):
    """With the index of classes in use from the first class on, as where there are very many."""
    monkeypatch.setattr(_planner, "FEW", 0)
    seeds = range(first, first + 20)
    decided = {seed: RandomCluster(seed, stores=stores).live(120) for seed in seeds}
    monkeypatch.setattr(_resting.Resting, "let_rest", lambda *_: None)
    monkeypatch.setattr(HeadScheduler, "check", lambda _: None)  # the same clusters were held to the laws above
    for seed in seeds:
        assert decided[seed] == RandomCluster(seed, stores=stores).live(120), f"seed {seed}"
