"""Values that stay at workers, in the engine alone: what is fetched for whom, what goes by reference, and the end."""

from __future__ import annotations

import copy
import gc
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from grainlike import Cores, ResourceError, ValueLostError, replicate
from grainlike.engine import Engine, Fetcher, replicate_values
from grainlike.graph import Delayed, Node, RemoteList, RemoteValue, delayed, gather, node_of
from grainlike.payload import collecting, dump_arguments, dump_value

SIZE = 1_000_000


@delayed
def fn(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("the test ends calls by hand")


job: Any = fn @ Cores(1)


@pytest.fixture(autouse=True)
def clock_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a microsecond: what fits into a slice does not depend on the machine."""
    looks = count()
    monkeypatch.setattr("grainlike.engine._engine.time", SimpleNamespace(monotonic=lambda: next(looks) * 1e-6))


@dataclass
class Box:
    item: Any


class Source:
    """A head that is asked for values; the test answers."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self.wanted: list[int] = []
        self.unwanted: list[int] = []
        self.released: list[int] = []
        self.replicated: list[tuple[list[int], int]] = []
        fetcher.source = self

    def want(self, values: Sequence[int]) -> None:
        self.wanted += values

    def unwant(self, values: Sequence[int]) -> None:
        self.unwanted += values

    def release(self, values: Sequence[int]) -> None:
        self.released += values

    def replicate(self, values: Sequence[int], copies: int) -> None:
        self.replicated.append((list(values), copies))

    def where(self, value: int) -> tuple[str, ...]:
        return (f"n{value}",)

    def why_lost(self, value: int) -> str:
        return ""

    def why_few(self, value: int) -> str:
        return ""


class Bench:
    """An engine, its fetcher, and the jobs and calls that it begins."""

    def __init__(self, *, limit: int = 0) -> None:
        self.turns: list[Callable[[], None]] = []
        self.begun: list[Node] = []
        self.engine = Engine(self, self.turns.append, fail_fast=True)
        self.engine.jobs = self.engine.calls = self  # type: ignore[assignment]
        self.engine.fetcher = self.fetcher = Fetcher(lambda: None, self.turns.append, lambda: limit)
        self.source = Source(self.fetcher)
        self.engine.release_hold()

    def submit(self, nodes: Iterable[Node]) -> None:
        self.begun.extend(nodes)

    def begin(self, node: Node, context: Context) -> None:
        self.begun.append(node)

    def cancel(self, nodes: Any, *, skipped: bool = False) -> None: ...

    def start(self, *placeholders: Delayed[Any]) -> None:
        self.engine.start([node_of(r_) for r_ in placeholders])

    def turn(self) -> None:
        while self.turns:
            self.turns.pop(0)()

    def stays(self, r_: Delayed[Any], number: int, size: int = SIZE) -> None:
        """End a job with a value that stays."""
        self.engine.stayed(node_of(r_), number, size)
        self.engine.pump()

    def give(self, number: int, value: object) -> None:
        self.fetcher.given(number, dump_value(value))
        self.turn()

    def staying(self, number: int, size: int = SIZE) -> Delayed[Any]:
        """Return a placeholder whose value stays at workers."""
        r_ = job(number)
        self.start(r_)
        self.stays(r_, number, size)
        return r_

    def sent(self, r_: Delayed[Any]) -> tuple[list[int], tuple[Any, ...]]:
        """Return which values the arguments of a job that was begun refer to, and the arguments."""
        assert node_of(r_) in self.begun
        args, kwargs = node_of(r_).take_arguments(self.fetcher)
        with collecting() as values:
            dump_arguments(args, kwargs, what="job")
        return values, args


# --- who gets the bytes ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_await_fetches_once_and_the_placeholder_then_has_the_value() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    assert bench.source.wanted == []
    got = []
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(_await, a_, got)
        await wait_all_tasks_blocked()
        assert bench.source.wanted == [1]
        bench.give(1, [7])
    assert got == [[7]] * 3
    assert got[0] is got[1] is await a_
    assert bench.source.unwanted == []


@pytest.mark.anyio
async def test_the_fetch_for_an_awaiter_begins_when_the_job_ends() -> None:
    bench = Bench()
    a_ = job(1)
    async with anyio.create_task_group() as tasks:
        got: list[Any] = []
        tasks.start_soon(_wait, bench, a_, got)
        await wait_all_tasks_blocked()
        bench.stays(a_, 1)
        await wait_all_tasks_blocked()
        assert bench.source.wanted == [1]
        bench.give(1, "x")
    assert got == ["x"]


@pytest.mark.anyio
async def test_a_cancelled_awaiter_gives_its_interest_back_and_leaves_that_of_others() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    async with anyio.create_task_group() as one, anyio.create_task_group() as two:
        one.start_soon(_await, a_, [])
        two.start_soon(_await, a_, [])
        await wait_all_tasks_blocked()
        one.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert bench.source.unwanted == []
        two.cancel_scope.cancel()
        await wait_all_tasks_blocked()
    assert bench.source.unwanted == [1]
    async with anyio.create_task_group() as again:
        got: list[Any] = []
        again.start_soon(_await, a_, got)
        await wait_all_tasks_blocked()
        assert bench.source.wanted == [1, 1]
        bench.give(1, 5)
    assert got == [5]


@pytest.mark.anyio
async def test_a_lost_value_is_an_error_for_each_awaiter_and_the_node_has_succeeded() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    for _ in range(2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_fails, a_, ValueLostError)
            await wait_all_tasks_blocked()
            bench.fetcher.lost(1, ValueLostError("gone"))
    assert node_of(a_).state.label == "succeeded"


@pytest.mark.anyio
async def test_when_one_of_many_is_lost_the_others_are_given_up() -> None:
    bench = Bench()
    both_ = gather(bench.staying(1), bench.staying(2))
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_error_of, bench, both_, errors)
        await wait_all_tasks_blocked()
        bench.fetcher.lost(1, ValueLostError("gone"))
    assert [str(error) for error in errors] == ["gone"]
    assert bench.source.unwanted == [2]


@pytest.mark.anyio
async def test_a_value_that_cannot_be_rebuilt_is_its_awaiters_error() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_fails, a_, Exception)
        await wait_all_tasks_blocked()
        bench.fetcher.given(1, dump_value(1)._replace(data=b"damaged"))


def test_an_operator_a_local_call_and_a_slice_wait_for_the_bytes() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    sum_, call_ = a_ + 1, fn(a_)
    bench.start(sum_, call_)
    assert bench.source.wanted == [1]
    assert node_of(call_) not in bench.begun
    bench.give(1, 41)
    assert node_of(sum_).value == 42
    assert node_of(call_) in bench.begun
    assert node_of(call_).arguments() == ((41,), {})


def test_an_operator_that_waits_for_a_running_job_fetches_when_that_ends() -> None:
    bench = Bench()
    a_ = job(1)
    sum_ = a_ + 1
    bench.start(sum_)
    bench.stays(a_, 1)
    bench.give(1, 1)
    assert node_of(sum_).value == 2


def test_an_operator_whose_input_is_lost_fails_with_that() -> None:
    bench = Bench()
    sum_ = bench.staying(1) + 1
    bench.start(sum_)
    bench.fetcher.lost(1, ValueLostError("gone"))
    bench.turn()
    assert isinstance(node_of(sum_).error, ValueLostError)


def test_a_cancelled_operator_gives_up_its_fetch() -> None:
    bench = Bench()
    sum_ = bench.staying(1) + 1
    bench.start(sum_)
    bench.engine.release([node_of(sum_)])
    assert bench.source.unwanted == [1]
    bench.give(1, 1)  # too late, and nobody hears
    assert node_of(sum_).state.label == "cancelled"


# --- what goes by reference ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda a_: a_,
        lambda a_: [a_, 2],
        lambda a_: (1, [a_]),
        lambda a_: {"k": a_},
        lambda a_: {"k": ({"l": [a_]},)},
        gather,
        lambda a_: gather(a_, 1),
        lambda a_: gather([gather(a_), a_]),
        lambda a_: {"all": gather(a_)},
    ],
)
def test_a_job_gets_the_reference(wrapped: Callable[[Any], Any]) -> None:
    bench = Bench()
    a_ = bench.staying(1)
    b_ = job(wrapped(a_))
    bench.start(b_)
    assert bench.source.wanted == []
    assert bench.sent(b_)[0] == [1]


def test_a_job_gets_the_reference_by_keyword_and_before_the_value_has_come() -> None:
    bench = Bench()
    a_ = job(1)
    b_ = job(x=a_, y=[a_])
    bench.start(b_)
    bench.stays(a_, 1)
    assert bench.source.wanted == []
    assert bench.sent(b_)[0] == [1]


@pytest.mark.anyio
async def test_a_job_gets_the_reference_after_the_value_was_fetched_too() -> None:
    bench = Bench()
    a_, c_ = bench.staying(1), bench.staying(2)
    both_ = gather(a_, c_)
    async with anyio.create_task_group() as tasks:
        got: list[Any] = []
        tasks.start_soon(_wait, bench, both_, got)
        await wait_all_tasks_blocked()
        bench.give(1, "a")
        bench.give(2, "c")
    assert got == [["a", "c"]]
    for given in (a_, [a_], both_, gather(a_, c_)):
        b_ = job(given)
        bench.start(b_)
        values, args = bench.sent(b_)
        assert values[0] == 1
        assert "'a'" not in repr(args)
    assert bench.source.wanted == [1, 2]
    assert await a_ == "a"


@pytest.mark.parametrize(
    "wrapped", [Box, lambda a_: {a_}, lambda a_: {a_: 1}, lambda a_: [Box(a_)], lambda a_: slice(a_)]
)
def test_a_container_that_looks_at_its_values_is_built_after_a_fetch(wrapped: Callable[[Any], Any]) -> None:
    bench = Bench()
    a_ = bench.staying(1)
    b_ = job(wrapped(a_), a_)
    bench.start(b_)
    assert node_of(b_) not in bench.begun
    assert bench.source.wanted == [1]
    bench.give(1, 5)
    values, args = bench.sent(b_)
    assert values == [1]  # beside the container it is a reference still
    assert args[0] == wrapped(5)
    assert type(args[1]) is RemoteValue


def test_a_call_with_a_cache_has_its_inputs_here() -> None:
    bench = Bench()
    cached_ = (delayed(_plain, cache="1") @ Cores(1))(bench.staying(1))
    bench.start(cached_)
    assert bench.source.wanted == [1]
    bench.give(1, 5)
    assert node_of(cached_).arguments() == ((5,), {})


def test_values_of_another_executor_are_fetched_from_there() -> None:
    ours, theirs = Bench(), Bench()
    a_ = theirs.staying(1)
    b_ = job([a_])
    ours.start(b_)
    assert (ours.source.wanted, theirs.source.wanted) == ([], [1])
    theirs.give(1, "x")
    ours.turn()
    assert ours.sent(b_) == ([], (["x"],))


def test_a_gather_that_accepts_errors_has_references_and_errors() -> None:
    bench = Bench()
    a_, bad_ = bench.staying(1), job(2)
    both_ = gather(a_, bad_, return_exceptions=True)
    bench.start(both_)
    error = ValueError("bad")
    bench.engine.failed(node_of(bad_), error)
    bench.engine.pump()
    reference = node_of(both_).reference
    assert isinstance(reference, RemoteList)
    assert reference.items[1] is error


@pytest.mark.anyio
async def test_a_fetched_gather_leaves_no_reference_in_what_is_seen() -> None:
    bench = Bench()
    got: list[Any] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait, bench, gather(bench.staying(1), gather(bench.staying(2), 3)), got)
        await wait_all_tasks_blocked()
        bench.give(1, "a")
        bench.give(2, "b")
    assert got == [["a", ["b", 3]]]


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_more_than_half_of_the_memory_is_refused_before_a_byte_moves() -> None:
    bench = Bench(limit=SIZE)
    a_, b_ = bench.staying(1), bench.staying(2)
    big_ = bench.staying(3, SIZE + 1)
    for placeholder in (gather(a_, b_), gather([a_, 1], gather(b_)), big_):
        errors: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_error_of, bench, placeholder, errors)
            await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        (error,) = errors
        assert isinstance(error, ResourceError)
        assert "1,000,000" in str(error)
        assert "as_completed" in str(error)
    sum_ = a_ + b_
    bench.start(sum_)
    assert isinstance(node_of(sum_).error, ResourceError)
    assert bench.source.wanted == []


@pytest.mark.anyio
async def test_one_value_that_is_many_times_in_a_gather_counts_once() -> None:
    bench = Bench(limit=SIZE)
    a_ = bench.staying(1)
    got: list[Any] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait, bench, gather(a_, a_, gather(a_)), got)
        await wait_all_tasks_blocked()
        bench.give(1, 0)
    assert got == [[0, 0, [0]]]


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_dropped_placeholder_releases_its_value_in_a_turn_of_the_loop() -> None:
    bench = Bench()
    a_, b_ = bench.staying(1), bench.staying(2)
    bench.begun.clear()
    del a_
    assert bench.source.released == []
    bench.turn()
    assert bench.source.released == [1]
    c_ = copy.copy(b_)
    del b_
    bench.turn()
    assert bench.source.released == [1]
    del c_
    bench.turn()
    assert bench.source.released == [1, 2]


def test_references_go_in_cycles_and_in_other_threads_and_wake_the_loop_once() -> None:
    bench = Bench()
    kept = [bench.staying(number) for number in range(100)]
    bench.begun.clear()
    cycle: list[Any] = [bench.staying(100)]
    bench.begun.clear()
    cycle.append(cycle)
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    del cycle
    gc.collect()
    assert len(bench.turns) == 1
    bench.turn()
    assert sorted(bench.source.released) == list(range(101))


def test_a_gather_holds_its_values() -> None:
    bench = Bench()
    both_ = gather(bench.staying(1), bench.staying(2))
    bench.start(both_)
    bench.begun.clear()
    bench.turn()
    assert bench.source.released == []
    del both_
    bench.turn()
    assert sorted(bench.source.released) == [1, 2]


def test_the_value_of_a_job_that_was_cancelled_meanwhile_is_released() -> None:
    bench = Bench()
    a_ = job(1)
    bench.start(a_)
    bench.engine.cancel([node_of(a_)])
    bench.stays(a_, 1)
    bench.turn()
    assert bench.source.released == [1]


@pytest.mark.anyio
async def test_closing_ends_fetches_and_what_was_not_fetched_is_lost() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_fails, a_, ValueLostError)
        await wait_all_tasks_blocked()
        bench.fetcher.close()
    with pytest.raises(ValueLostError, match="executor has closed"):
        await a_
    assert node_of(a_).reference is not None


def _plain(x: Any) -> Any:
    return x


async def _await(r_: Delayed[Any], got: list[Any]) -> None:
    got.append(await r_)


async def _wait(bench: Bench, r_: Delayed[Any], got: list[Any]) -> None:
    got.append(await bench.engine.wait(node_of(r_)))


async def _error_of(bench: Bench, r_: Delayed[Any], errors: list[Exception]) -> None:
    try:
        await bench.engine.wait(node_of(r_))
    except Exception as error:  # noqa: BLE001 - which one is what the test asks
        errors.append(error)


async def _fails(r_: Delayed[Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await r_


# --- replicas --------------------------------------------------------------------------------------------------------


class Waits:
    """Waits for replicas of some values, and how often each has ended."""

    def __init__(self, copies: int, *placeholders: Delayed[Any]) -> None:
        self.ends = 0
        self.fetch = replicate_values([node_of(r_) for r_ in placeholders], copies, self.end)

    def end(self) -> None:
        self.ends += 1


def test_all_values_are_asked_for_at_once_and_each_is_waited_for() -> None:
    bench = Bench()
    a_, b_ = bench.staying(1), bench.staying(2)
    both_ = gather(a_, b_, 3)
    bench.start(both_)
    waits = Waits(2, both_, a_)
    assert bench.source.replicated == [([1, 2], 2)]
    assert bench.source.wanted == []
    bench.fetcher.replicated(1)
    assert (waits.ends, waits.fetch.ended) == (0, False)
    bench.fetcher.replicated(2)
    assert (waits.ends, waits.fetch.ended, waits.fetch.error) == (1, True, None)
    assert bench.fetcher._replicating == {}


def test_who_waits_for_replicas_of_one_value_ends_with_the_others() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    first, second, third = (Waits(copies, a_) for copies in (2, 0, 3))
    assert bench.source.replicated == [([1], 2), ([1], 0), ([1], 3)]
    second.fetch.cancel()
    bench.fetcher.replicated(1)
    assert (first.ends, second.ends, third.ends) == (1, 0, 1)
    assert bench.source.unwanted == []


def test_replicas_of_a_lost_value_end_with_its_error_for_all_of_the_wait() -> None:
    bench = Bench()
    a_, b_ = bench.staying(1), bench.staying(2)
    waits, other = Waits(2, a_, b_), Waits(2, b_)
    lost = ValueLostError("gone")
    bench.fetcher.lost(1, lost)
    assert (waits.ends, waits.fetch.ended, waits.fetch.error) == (1, True, lost)
    assert not other.fetch.ended
    bench.fetcher.replicated(2)
    assert (waits.ends, other.ends) == (1, 1)


@pytest.mark.anyio
async def test_a_fetch_and_a_wait_for_replicas_of_one_value_do_not_end_each_other() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    waits = Waits(2, a_)
    got: list[Any] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_await, a_, got)
        await wait_all_tasks_blocked()
        bench.give(1, [7])
    assert got == [[7]]
    assert not waits.fetch.ended
    waits.fetch.cancel()
    assert bench.source.unwanted == []
    assert bench.fetcher._replicating == {}


def test_the_end_of_the_executor_ends_waits_for_replicas() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    b_ = bench.staying(2)
    waits, left = Waits(2, a_), Waits(2, b_)
    left.fetch.cancel()
    bench.fetcher.close()
    assert waits.ends == 1
    assert left.ends == 0
    assert sorted(bench.source.released) == [1, 2]  # what is lost of them is not made again for that
    assert isinstance(waits.fetch.error, ValueLostError)
    with pytest.raises(ValueLostError, match="closed"):
        Waits(2, a_)


@pytest.mark.anyio
async def test_replicate_returns_when_there_are_as_many_as_asked_for_and_no_sooner() -> None:
    bench = Bench()
    a_, b_ = bench.staying(1), bench.staying(2)
    ended: list[str] = []

    async def keep() -> None:
        await replicate([a_, b_], 2)
        ended.append("kept")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep)
        await wait_all_tasks_blocked()
        bench.fetcher.replicated(2)
        await wait_all_tasks_blocked()
        assert ended == []
        bench.fetcher.replicated(1)
    assert ended == ["kept"]
    assert bench.source.replicated == [([1, 2], 2)]


@pytest.mark.anyio
async def test_replicate_raises_what_a_value_was_lost_for_and_leaves_nothing_when_it_is_cancelled() -> None:
    bench = Bench()
    a_ = bench.staying(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_not_kept, a_)
        await wait_all_tasks_blocked()
        bench.fetcher.lost(1, ValueLostError("gone with n1"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(replicate, a_, 2)
        await wait_all_tasks_blocked()
        assert bench.fetcher._replicating
        tasks.cancel_scope.cancel()
    assert bench.fetcher._replicating == {}


async def _not_kept(r_: Delayed[Any]) -> None:
    with pytest.raises(ValueLostError, match="gone with n1"):
        await replicate(r_, 2)
