"""Calls that are alike are submitted as a batch: the scheduler is told what it is told of each by itself."""

from collections.abc import Callable
from typing import Any

import pytest

from grainlike.engine import Engine, Fetcher
from grainlike.graph import Delayed, delayed, delayed_value, gather, node_of
from grainlike.head._program_values import ProgramValues
from grainlike.head._submit import JobFactory
from grainlike.head.server._storage import NoStorage
from grainlike.jobs import Job
from grainlike.payload import load_arguments
from grainlike.resources import Cores
from grainlike.scheduler import JobsSubmitted


def first(*args: Any) -> Any:
    return args[0]


one = delayed(first) @ Cores(1)
other = delayed(lambda *args: args) @ Cores(1)
keyed = delayed(lambda leaf, key: (leaf, key)) @ Cores(1)


def tree() -> Delayed[Any]:
    leaves = [one(number) for number in range(8)]
    pairs = [other(leaves[at], leaves[at + 1]) for at in range(0, 8, 2)]
    return gather([*pairs[::-1], other(pairs[0], pairs[3], 7)])


def fan() -> Delayed[Any]:
    """Many calls that need one: all are as old as it."""
    seed = one(0)
    return gather([other(seed, number) for number in range(4)])


def ready() -> Delayed[Any]:
    """Values that are there already: a large one, and text that is long and then is not."""
    large = delayed_value(bytes(200_000))
    return gather([other(large, "a"), other(delayed_value("b"), "c" * 100_000), other(delayed_value(1), "d")])


def contained() -> Delayed[Any]:
    leaves = [one(number) for number in range(4)]
    return gather([other([leaf], 1) for leaf in leaves])


def paired() -> Delayed[Any]:
    """Tuples of calls, one of which is given twice, and is one object then, too."""
    leaves = [one((number, "a")) for number in range(8)]
    both = (leaves[6], leaves[7])
    return gather([*(other((leaves[at], leaves[at + 1])) for at in (0, 2, 4)), other(both, both)])


def nested() -> Delayed[Any]:
    leaves = [one(number) for number in range(4)]
    return gather([other((leaves[0], (leaves[1], 2))), other((leaves[2], [leaves[3]]), 1)])


def named() -> Delayed[Any]:
    leaves = [one(number) for number in range(4)]
    return gather([keyed(leaf, key=1) for leaf in leaves])


class Bench:
    """An engine and a head to which no worker has come; the calls of each turn are given the values of `value_of`."""

    def __init__(self, *, keeps_values: bool) -> None:
        self._turns: list[Callable[[], None]] = []
        self.told: list[JobsSubmitted] = []
        self.sent: list[tuple[int, object]] = []
        self.engine = Engine(None, self._turns.append, fail_fast=True)
        self.head = NoStorage().make_head(self.engine, lambda at: None, closed=False)
        self.engine.jobs = self.head
        if keeps_values:
            self.head.keep_values(Fetcher(lambda: None, self._turns.append, lambda: 0), shares=False)
        handle = self.head.state.scheduler.handle

        def handled(event: Any, now: float) -> Any:
            if isinstance(event, JobsSubmitted):
                self.told.append(event)
                self.sent += [(number, self.head.state.jobs[number].travels) for number in event.jobs]
            return handle(event, now)

        self.head.state.scheduler.handle = handled  # type: ignore[method-assign]
        self.engine.release_hold()

    def run(self, placeholder: Delayed[Any], value_of: Callable[[Job], object]) -> None:
        self.engine.start([node_of(placeholder)])
        while not node_of(placeholder).finished:
            while self._turns:
                self._turns.pop(0)()
            jobs, self.head.state.jobs = dict(self.head.state.jobs), {}
            for job in jobs.values():
                assert job.node is not None
                self.engine.succeeded(job.node, value_of(job))
            self.engine.pump()


@pytest.mark.parametrize("graph", [tree, fan, ready, contained, paired, nested, named])
@pytest.mark.parametrize("value_of", [lambda job: job.id, lambda job: "v" * (job.id * 20_000), lambda job: [job.id]])
@pytest.mark.parametrize("keeps_values", [False, True])
def test_a_batch_is_told_as_calls_one_by_one_are(graph, value_of, keeps_values, monkeypatch) -> None:
    monkeypatch.setattr(ProgramValues, "own_most", 1 << 30)
    by_the_batch = Bench(keeps_values=keeps_values)
    by_the_batch.run(graph(), value_of)
    monkeypatch.setattr(JobFactory, "make_alike", lambda maker, nodes: None)
    one_by_one = Bench(keeps_values=keeps_values)
    one_by_one.run(graph(), value_of)
    assert by_the_batch.told == one_by_one.told
    assert by_the_batch.sent == one_by_one.sent
    assert any(told.ages for told in one_by_one.told) is (graph is not ready)
    assert any(told.inputs for told in one_by_one.told) is (graph is ready and keeps_values)


def test_calls_that_may_take_others_along_are_told_in_the_same_pass_as_the_rest_of_their_batch() -> None:
    bench = Bench(keeps_values=False)
    bench.run(gather([other(one(0)), *(one(number) for number in range(1, 9))]), lambda job: job.id)
    assert [told.jobs for told in bench.told] == [[1, 2, 3, 4, 5, 6, 7, 8], [9], [10]]
    assert [told.more for told in bench.told] == [True, True, False]  # planned once, when the whole batch is there
    arguments = {number: load_arguments((travels, ())) for number, travels in bench.sent[:9]}
    assert arguments == {number: ((number % 9,), {}) for number in range(1, 10)}
