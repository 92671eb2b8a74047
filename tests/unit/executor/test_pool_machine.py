"""A pool under any sequence of calls, against a naive model: multisets, and a list of waiters read from the front."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from itertools import product
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from grainlike import Allocation, ResourceError, ResourcePool
from grainlike.pool._queue import PASSES

NAMES = ("a", "b", "cores")
# All that there are, the smallest first: to draw one choice takes a third of the time that three numbers take.
REQUESTS = st.sampled_from(
    [
        {name: amount for name, amount in zip(NAMES, amounts, strict=True) if amount}
        for amounts in sorted(product(range(5), repeat=len(NAMES)), key=lambda amounts: (sum(amounts), amounts))
    ]
).map(dict)
PICK = st.integers(0, 10**6)


class Model:
    """The rule, said in the slowest way."""

    def __init__(self, capacity: dict[str, int]) -> None:
        self.capacity = capacity
        self.held: list[Counter[str]] = []
        self.reserved: Counter[str] = Counter()
        self.waiting: list[dict[str, Any]] = []

    def free(self) -> Counter[str]:
        used = sum(self.held, Counter()) + self.reserved
        return Counter({name: most - used[name] for name, most in self.capacity.items()})

    def front(self) -> list[dict[str, Any]]:
        older: set[str] = set()
        front = []
        for waiter in self.waiting:
            if not older & set(waiter["request"]):
                front.append(waiter)
            older |= set(waiter["request"])
        return front

    def limit(self, request: dict[str, int], front: list[dict[str, Any]]) -> str | None:
        free = self.free()
        for waiter in front:
            if waiter["passed"] >= PASSES:
                for name, amount in waiter["request"].items():
                    free[name] = max(0, free[name] - amount)
        return next((name for name in sorted(request) if request[name] > free[name]), None)

    def passing(self, request: dict[str, int], front: list[dict[str, Any]]) -> None:
        for waiter in front:
            waiter["passed"] += bool(set(request) & set(waiter["request"]))

    def take(self, request: dict[str, int]) -> bool:
        front = self.front()
        if self.limit(request, front) is not None:
            return False
        self.passing(request, front)
        self.held.append(Counter(request))
        return True

    def serve(self) -> list[int]:
        served = []
        queue, self.waiting = self.waiting, []
        for waiter in queue:  # those before it that still wait are in `self.waiting`
            if self.take(waiter["request"]):
                served.append(waiter["number"])
            else:
                self.waiting.append(waiter)
        return served


class Pool(RuleBasedStateMachine):
    @initialize(a=st.integers(1, 4), b=st.integers(1, 4), cores=st.integers(1, 4))
    def open(self, a: int, b: int, cores: int) -> None:
        self.runner = asyncio.Runner()
        self.capacity = {"a": a, "b": b, "cores": cores}
        self.pool = ResourcePool(self.capacity)
        self.model = Model(self.capacity)
        self.held: list[tuple[Counter[str], Allocation]] = []
        self.gone: list[Allocation] = []
        self.tasks: dict[int, asyncio.Task[Allocation | None]] = {}
        self.number = 0

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()

    def finish(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return what it returns; `Runner.run` would take over Ctrl-C and give it back each time."""
        return self.runner.get_loop().run_until_complete(coroutine)

    def settle(self) -> None:
        """Let tasks go on as far as they can, and take in what they were given."""

        async def fairness() -> None:
            for _ in range(4):
                await asyncio.sleep(0)

        self.finish(fairness())

    def served(self, numbers: list[int], requests: dict[int, dict[str, int]]) -> None:
        """Those, and only those, have what they wait for."""
        self.settle()
        assert [number for number, task in self.tasks.items() if task.done()] == numbers
        for number in numbers:
            allocation = self.tasks.pop(number).result()
            assert allocation
            self.held.append((Counter(requests[number]), allocation))

    def after_serving(self) -> None:
        requests = {waiter["number"]: waiter["request"] for waiter in self.model.waiting}
        self.served(self.model.serve(), requests)

    def fits_ever(self, request: dict[str, int]) -> bool:
        return all(amount <= self.capacity[name] for name, amount in request.items())

    @rule(request=REQUESTS)
    def try_acquire(self, request: dict[str, int]) -> None:
        assert self.pool.can_satisfy(request) == self.fits_ever(request)
        if not self.fits_ever(request):
            with pytest.raises(ResourceError):
                self.pool.try_acquire(request)
            return
        allocation = self.pool.try_acquire(request)
        assert (allocation is not None) == self.model.take(request)
        if allocation is not None:
            self.held.append((Counter(request), allocation))

    @rule(request=REQUESTS)
    def acquire(self, request: dict[str, int]) -> None:
        if not self.fits_ever(request):
            return
        self.number += 1
        self.tasks[self.number] = self.runner.get_loop().create_task(self.pool.acquire(request))
        if self.model.take(request):
            self.served([self.number], {self.number: request})
        else:
            self.model.waiting.append({"number": self.number, "request": request, "passed": 0})
            self.served([], {})

    @rule(request=REQUESTS)
    def acquire_without_waiting(self, request: dict[str, int]) -> None:
        if not self.fits_ever(request):
            return
        allocation = self.finish(self.pool.acquire(request, timeout=0))
        front = self.model.front()
        assert (allocation is not None) == self.model.take(request)
        if allocation is not None:
            self.held.append((Counter(request), allocation))
        assert front == self.model.front()
        self.after_serving()

    @precondition(lambda self: self.held)
    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        amounts, allocation = self.held.pop(pick % len(self.held))
        self.pool.release(allocation)
        self.gone.append(allocation)
        self.model.held.remove(amounts)
        self.after_serving()

    @precondition(lambda self: self.gone)
    @rule(pick=PICK)
    def release_again(self, pick: int) -> None:
        with pytest.raises(ResourceError):
            self.pool.release(self.gone[pick % len(self.gone)])

    @precondition(lambda self: self.tasks)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        number = list(self.tasks)[pick % len(self.tasks)]
        task = self.tasks.pop(number)
        task.cancel()
        self.model.waiting = [waiter for waiter in self.model.waiting if waiter["number"] != number]
        self.after_serving()
        assert task.cancelled()

    @precondition(lambda self: self.tasks)
    @rule(pick=PICK)
    def hurry(self, pick: int) -> None:
        """One that waits is passed often, all at once."""
        front = self.model.front()
        waiter = front[pick % len(front)]
        for _ in range(pick % (PASSES + 1)):
            name = next(iter(waiter["request"]), None)
            if name is None or self.model.limit({name: 1}, front) is not None:
                return
            self.model.passing({name: 1}, front)
            assert self.finish(self.pool.reserve({name: 1})) is None
            self.finish(self.pool.relinquish({name: 1}))
        self.after_serving()

    @rule(request=REQUESTS)
    def reserve(self, request: dict[str, int]) -> None:
        front = self.model.front()
        limit = self.model.limit(request, front)
        assert self.finish(self.pool.reserve(request)) == limit
        if limit is None:
            self.model.passing(request, front)
            self.model.reserved += Counter(request)

    @rule(request=REQUESTS)
    def relinquish(self, request: dict[str, int]) -> None:
        if Counter(request) <= self.model.reserved:
            self.finish(self.pool.relinquish(request))
            self.model.reserved -= Counter(request)
        else:
            with pytest.raises(ResourceError):
                self.finish(self.pool.relinquish(request))
        self.after_serving()

    @invariant()
    def the_records_are_exact(self) -> None:
        if not hasattr(self, "model"):
            return
        free = self.model.free()
        assert self.pool.capacities == self.capacity
        assert self.pool.available == dict(free)
        assert self.pool.allocated == {name: most - free[name] for name, most in self.capacity.items()}
        assert min(free.values()) >= 0

    @invariant()
    def ids_are_disjoint(self) -> None:
        cores = [core for _, allocation in getattr(self, "held", []) for core in allocation.cores]
        assert len(cores) == len(set(cores))

    @invariant()
    def who_may_go_does_not_wait(self) -> None:
        if not hasattr(self, "model"):
            return
        for waiter in self.model.front():
            assert self.model.limit(waiter["request"], []) is not None


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=500, stateful_step_count=50, deadline=None)
