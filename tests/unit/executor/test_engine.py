"""The engine alone: jobs and calls are ended by hand, and turns of the event loop are given by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from counting import calls_of

from grainlike import Cores
from grainlike.engine._engine import Engine
from grainlike.errors import GraphError, JobCancelledError
from grainlike.graph import Delayed, Node, RunsIn, State, delayed, delayed_value, gather, node_of

MANY = 100_000


@delayed
def fn(*args: Any) -> Any:
    raise AssertionError("the test ends calls by hand")


job: Any = fn @ Cores(1)


@pytest.fixture(autouse=True)
def clock_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a microsecond: what fits into a slice does not depend on the machine."""
    looks = count()
    monkeypatch.setattr("grainlike.engine._engine.time", SimpleNamespace(monotonic=lambda: next(looks) * 1e-6))


class Hands:
    """Jobs and calls that are begun here and ended by the test."""

    def __init__(self) -> None:
        self.begun: list[Node] = []
        self.cancelled: list[Node] = []
        self.contexts: dict[Node, Context] = {}

    def submit(self, nodes: Iterable[Node]) -> None:
        self.begun.extend(nodes)

    def begin(self, node: Node, context: Context) -> None:
        self.begun.append(node)
        self.contexts[node] = context

    def cancel(self, nodes: Any, *, skipped: bool = False) -> None:
        self.cancelled.extend([nodes] if isinstance(nodes, Node) else nodes)


class Bench:
    """An engine and both hands."""

    def __init__(self, *, fail_fast: bool = True, held: bool = False) -> None:
        self.fairness: list[Callable[[], None]] = []
        self.hands = Hands()
        self.engine = Engine(self, self.fairness.append, fail_fast=fail_fast)
        self.engine.jobs = self.engine.calls = self.hands
        if not held:
            self.engine.release_hold()

    def start(self, *placeholders: Delayed[Any]) -> None:
        self.engine.start([node_of(r_) for r_ in placeholders])

    def turn(self) -> None:
        """Let the event loop go round until it has nothing left."""
        while self.fairness:
            self.fairness.pop(0)()

    def succeed(self, r_: Delayed[Any], value: object = None) -> None:
        self.engine.succeeded(node_of(r_), value)
        self.engine.pump()

    def fail(self, r_: Delayed[Any], error: BaseException) -> None:
        self.engine.failed(node_of(r_), error)
        self.engine.pump()

    def began(self, *placeholders: Delayed[Any]) -> bool:
        return self.hands.begun == [node_of(r_) for r_ in placeholders]

    def ended(self, *placeholders: Delayed[Any]) -> bool:
        return {n for n in self.hands.cancelled if n.state is State.CANCELLED} == {node_of(r_) for r_ in placeholders}


class Awaiter:
    """One `await` in a task of its own."""

    def __init__(self, bench: Bench, r_: Delayed[Any]) -> None:
        self._bench, self._node = bench, node_of(r_)
        self.scope = anyio.CancelScope()
        self.outcome: Any = None

    async def run(self) -> None:
        with self.scope:
            try:
                self.outcome = await self._bench.engine.wait(self._node)
            except Exception as error:  # noqa: BLE001 - any outcome will do
                self.outcome = error


async def awaiting(tasks: anyio.abc.TaskGroup, bench: Bench, r_: Delayed[Any]) -> Awaiter:
    awaiter = Awaiter(bench, r_)
    tasks.start_soon(awaiter.run)
    await wait_all_tasks_blocked()
    return awaiter


def state(r_: Delayed[Any]) -> State:
    return node_of(r_).state


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_awaiters_get_the_value_and_later_ones_too() -> None:
    bench, r_ = Bench(), job(1)
    async with anyio.create_task_group() as tasks:
        first = await awaiting(tasks, bench, r_)
        second = await awaiting(tasks, bench, r_)
        assert bench.began(r_)
        bench.succeed(r_, 7)
    assert (first.outcome, second.outcome, await bench.engine.wait(node_of(r_))) == (7, 7, 7)


def test_a_diamond_runs_each_node_once_and_in_order() -> None:
    bench = Bench()
    top_ = job()
    left_, right_ = job(top_), fn(top_)
    bottom_ = job(left_, right_)
    bench.start(bottom_)
    assert bench.began(top_)
    bench.succeed(top_, 1)
    assert set(bench.hands.begun) == {node_of(r_) for r_ in (top_, left_, right_)}
    bench.succeed(left_)
    assert len(bench.hands.begun) == 3
    bench.succeed(right_)
    bench.start(bottom_, right_)
    assert bench.hands.begun[3:] == [node_of(bottom_)]
    bench.succeed(bottom_, 2)
    assert (state(bottom_), node_of(bottom_).value) == (State.SUCCEEDED, 2)
    assert bench.hands.cancelled == []


def test_a_shared_node_of_two_graphs_runs_once() -> None:
    bench, shared_ = Bench(), job()
    one_, two_ = shared_ + 1, shared_ + 2
    bench.start(one_)
    bench.start(two_)
    bench.succeed(shared_, 10)
    assert bench.began(shared_)
    assert (node_of(one_).value, node_of(two_).value) == (11, 12)


def test_what_is_bound_while_its_input_has_finished_begins_at_once() -> None:
    bench, a_ = Bench(), job()
    bench.start(a_)
    bench.succeed(a_, 3)
    b_ = a_ * 2
    bench.start(b_)
    assert node_of(b_).value == 6


def test_the_first_outcome_counts() -> None:
    bench, r_ = Bench(), job()
    bench.start(r_)
    bench.succeed(r_, 1)
    bench.succeed(r_, 2)
    bench.fail(r_, KeyError())
    assert (state(r_), node_of(r_).value) == (State.SUCCEEDED, 1)


def test_values_that_come_together_are_settled_in_order_each_with_its_dependents() -> None:
    bench, told = Bench(), []
    a_, b_, c_ = job(1), job(2), job(3)
    both_, last_, all_ = job(a_, b_), job(c_), gather(a_, b_, c_)
    bench.start(both_, last_, all_)
    nodes = [node_of(r_) for r_ in (a_, b_, c_)]
    for age, node in zip((5, 4, 6), nodes, strict=True):
        node.age = age
    bench.engine.watch(nodes[1], lambda: told.append([node.finished for node in nodes]))
    bench.engine.all_succeeded(nodes, [10, 20, 30])
    bench.engine.pump()
    assert told == [[True, True, False]]
    assert bench.began(a_, b_, c_, both_, last_)
    assert [node_of(r_).age for r_ in (both_, last_)] == [4, 6]
    assert node_of(both_).arguments()[0] == (10, 20)
    assert node_of(all_).value == [10, 20, 30]


def test_what_gathers_values_that_come_together_is_as_old_as_the_oldest_of_them() -> None:
    bench, calls = Bench(), [job(i) for i in range(3)]
    after_ = job(gather(calls))
    bench.start(after_)
    nodes = [node_of(r_) for r_ in calls]
    for age, node in zip((5, 4, 6), nodes, strict=True):
        node.age = age
    bench.engine.all_succeeded(nodes, range(3))
    bench.engine.pump()
    assert bench.began(*calls, after_)
    assert node_of(after_).age == 4


def test_one_who_hears_of_a_value_may_cancel_another_that_came_with_it() -> None:
    bench, calls = Bench(), [job(i) for i in range(4)]
    nodes = [node_of(r_) for r_ in calls]
    bench.start(*calls)
    bench.engine.watch(nodes[1], lambda: bench.engine.cancel([nodes[2]]))
    bench.engine.all_succeeded(nodes, range(4))
    bench.engine.pump()
    assert [state(r_) for r_ in calls] == [State.SUCCEEDED, State.SUCCEEDED, State.CANCELLED, State.SUCCEEDED]
    assert bench.engine.unfinished() == []


def test_values_of_a_batch_for_which_a_slice_has_no_time_come_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, calls = Bench(), [job(i) for i in range(1000)]
    everything_ = gather(calls)
    bench.start(everything_)
    monkeypatch.setattr("grainlike.engine._engine._SLICE_S", 0.0)
    bench.engine.all_succeeded([node_of(r_) for r_ in calls], range(1000))
    bench.engine.pump()
    settled = [node_of(r_).finished for r_ in calls].count(True)
    assert 0 < settled < 200
    assert not node_of(everything_).finished
    bench.turn()
    assert node_of(everything_).value == [*range(1000)]


def test_jobs_wait_for_the_hold_and_calls_and_operators_do_not() -> None:
    bench = Bench(held=True)
    job_, call_, dropped_ = job(), fn(), job()
    sum_ = delayed_value(1) + 1
    bench.start(job_, call_, sum_, dropped_)
    assert bench.began(call_)
    assert state(sum_) is State.SUCCEEDED
    bench.engine.cancel([node_of(dropped_)])
    bench.engine.release_hold()
    assert bench.began(call_, job_)


def test_a_call_gets_the_context_in_which_its_graph_was_started() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    bench, a_ = Bench(), job()
    now_, later_ = fn(), fn(a_)

    def begin() -> None:
        variable.set("mine")
        bench.start(now_, later_)

    Context().run(begin)
    bench.succeed(a_)
    for r_ in (now_, later_):
        assert bench.hands.contexts[node_of(r_)][variable] == "mine"


# --- interest ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_one_of_two_awaiters_leaves_the_others_result_intact() -> None:
    bench, r_ = Bench(), job()
    async with anyio.create_task_group() as tasks:
        first = await awaiting(tasks, bench, r_)
        second = await awaiting(tasks, bench, r_)
        first.scope.cancel()
        await wait_all_tasks_blocked()
        assert bench.hands.cancelled == []
        bench.succeed(r_, 7)
    assert (first.outcome, second.outcome) == (None, 7)


@pytest.mark.anyio
async def test_the_last_awaiter_takes_the_work_with_it_and_nobody_hangs_afterwards() -> None:
    bench = Bench()
    a_, b_ = job(), fn()
    r_ = gather(a_, b_)[0]
    async with anyio.create_task_group() as tasks:
        awaiters = [await awaiting(tasks, bench, r_) for _ in range(2)]
        for awaiter in awaiters:
            assert bench.hands.cancelled == []
            awaiter.scope.cancel()
            await wait_all_tasks_blocked()
    assert bench.ended(a_, b_)
    with pytest.raises(JobCancelledError, match=r"the last who awaited it left; start\(\) keeps a call going"):
        await bench.engine.wait(node_of(r_))
    bench.succeed(a_, 1)
    assert state(a_) is State.CANCELLED


@pytest.mark.anyio
async def test_the_last_awaiter_leaves_what_another_graph_wants() -> None:
    bench = Bench()
    top_, mine_ = job(), job()
    left_, right_ = job(top_, mine_), job(top_)
    async with anyio.create_task_group() as tasks:
        one = await awaiting(tasks, bench, left_)
        two = await awaiting(tasks, bench, right_)
        one.scope.cancel()
        await wait_all_tasks_blocked()
        assert [state(r_) for r_ in (left_, mine_, top_, right_)] == [State.CANCELLED] * 2 + [State.PENDING] * 2
        bench.succeed(top_)
        bench.succeed(right_, 5)
    assert two.outcome == 5
    assert node_of(left_) not in bench.hands.begun


@pytest.mark.anyio
async def test_a_diamond_is_let_go_only_by_both_arms() -> None:
    bench, top_ = Bench(), job()
    bottom_ = job(job(top_), job(top_))
    async with anyio.create_task_group() as tasks:
        arm = await awaiting(tasks, bench, top_ + 1)
        whole = await awaiting(tasks, bench, bottom_)
        whole.scope.cancel()
        await wait_all_tasks_blocked()
        assert state(top_) is State.PENDING
        arm.scope.cancel()
        await wait_all_tasks_blocked()
    assert state(top_) is State.CANCELLED


@pytest.mark.anyio
async def test_start_keeps_what_its_awaiters_leave() -> None:
    bench, r_ = Bench(), job()
    bench.start(r_)
    async with anyio.create_task_group() as tasks:
        awaiter = await awaiting(tasks, bench, r_)
        awaiter.scope.cancel()
    assert bench.hands.cancelled == []
    bench.succeed(r_, 7)
    assert node_of(r_).value == 7


def test_release_takes_back_what_start_put_in() -> None:
    bench, r_, kept_ = Bench(), job(), job()
    bench.start(r_, kept_)
    bench.start(kept_)
    bench.engine.release([node_of(r_), node_of(kept_)])
    assert bench.ended(r_)
    assert state(kept_) is State.PENDING


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_fail_fast_cancels_what_only_the_failed_graph_needed() -> None:
    bench = Bench()
    bad_, other_, shared_ = job(), job(), job()
    r_ = job(bad_, other_, shared_)
    error = KeyError("bad")
    async with anyio.create_task_group() as tasks:
        keeper = await awaiting(tasks, bench, shared_)
        awaiter = await awaiting(tasks, bench, r_)
        bench.fail(bad_, error)
        await wait_all_tasks_blocked()
        assert awaiter.outcome is error
        assert bench.ended(other_)
        bench.succeed(shared_, 1)
    assert keeper.outcome == 1
    assert node_of(r_) not in bench.hands.begun


@pytest.mark.anyio
async def test_continue_lets_the_rest_run_to_its_end() -> None:
    bench = Bench(fail_fast=False)
    bad_, other_ = job(), job()
    after_ = job(other_)
    r_ = gather(bad_, after_)
    error = KeyError("bad")
    async with anyio.create_task_group() as tasks:
        awaiter = await awaiting(tasks, bench, r_)
        bench.fail(bad_, error)
    assert awaiter.outcome is error
    bench.succeed(other_)
    assert bench.began(bad_, other_, after_)
    bench.succeed(after_, 3)
    assert node_of(after_).value == 3


@pytest.mark.parametrize("fail_fast", [True, False])
def test_an_error_goes_all_the_way_down_with_the_same_exception(fail_fast: bool) -> None:
    bench, bad_ = Bench(fail_fast=fail_fast), job()
    far_ = job(fn(job(bad_) + 1))[0]
    error = KeyError("bad")
    bench.start(far_)
    bench.fail(bad_, error)
    assert node_of(far_).error is error
    assert bench.began(bad_)


def test_an_input_known_to_have_failed_fails_before_anything_begins() -> None:
    bench, bad_ = Bench(), job()
    error = KeyError("bad")
    bench.start(bad_)
    bench.fail(bad_, error)
    other_ = job()
    r_ = job(other_, bad_)
    bench.start(r_)
    assert node_of(r_).error is error
    assert bench.began(bad_)
    assert state(other_) is State.CANCELLED


def test_an_operators_own_error_is_its_awaiters() -> None:
    bench, a_ = Bench(), job()
    r_ = (a_ + "x")[0]
    good_ = a_ + 1
    bench.start(r_, good_)
    bench.succeed(a_, 1)
    assert isinstance(node_of(r_).error, TypeError)
    assert node_of(good_).value == 2


class Stops:
    """An operand that ends the program."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __add__(self, other: object) -> object:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_in_an_operator_is_its_awaiters_and_holds_nobody_else_up(error: BaseException) -> None:
    bench = Bench()
    r_ = delayed_value(Stops(error)) + 1
    after_ = job()
    bench.start(r_, after_)
    assert node_of(r_).error is error
    assert bench.began(after_)


# --- cancel -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fail_fast", [True, False])
@pytest.mark.anyio
async def test_cancel_is_for_everybody_and_for_all_that_depend(fail_fast: bool) -> None:
    bench, a_ = Bench(fail_fast=fail_fast), job()
    down_ = fn(a_ + 1)
    bench.start(a_)
    async with anyio.create_task_group() as tasks:
        awaiters = [await awaiting(tasks, bench, r_) for r_ in (a_, down_)]
        bench.engine.cancel([node_of(a_)])
    assert [type(awaiter.outcome) for awaiter in awaiters] == [JobCancelledError] * 2
    assert bench.hands.cancelled[0] is node_of(a_)
    assert bench.began(a_)


@pytest.mark.parametrize("fail_fast", [True, False])
def test_cancel_lets_go_of_what_only_that_node_needed(fail_fast: bool) -> None:
    bench = Bench(fail_fast=fail_fast)
    mine_, shared_ = job(), job()
    r_ = job(mine_, shared_)
    bench.start(r_, shared_)
    bench.engine.cancel([node_of(r_)])
    assert [state(x_) for x_ in (r_, mine_, shared_)] == [State.CANCELLED, State.CANCELLED, State.PENDING]


def test_cancel_after_the_end_changes_nothing() -> None:
    bench, r_ = Bench(), job()
    bench.start(r_)
    bench.succeed(r_, 1)
    bench.engine.cancel([node_of(r_)])
    assert (state(r_), bench.hands.cancelled) == (State.SUCCEEDED, [])


def test_cancel_all_leaves_nothing_unfinished() -> None:
    bench, a_ = Bench(), job()
    nodes = [node_of(r_) for r_ in (a_, fn(a_), job(a_ + 1), job(), fn())]
    bench.engine.start(nodes)
    bench.engine.cancel_all()
    assert all(node.finished for node in nodes)
    assert all(isinstance(node.error, JobCancelledError) for node in nodes)


def test_cancel_all_reaches_what_goes_on_though_it_is_needed_no_more() -> None:
    bench = Bench(fail_fast=False)
    failing_, going_on_ = job(), job()
    r_ = job(failing_, going_on_)
    bench.start(r_)
    bench.fail(failing_, ValueError())
    assert [state(x_) for x_ in (r_, going_on_)] == [State.FAILED, State.PENDING]
    bench.engine.cancel_all()
    assert state(going_on_) is State.CANCELLED


# --- owners -----------------------------------------------------------------------------------------------------------


def test_what_another_engine_runs_is_refused_and_nothing_is_bound() -> None:
    here, there = Bench(), Bench()
    foreign_, fresh_ = job(), job()
    there.start(foreign_)
    r_ = gather(fresh_, foreign_)
    with pytest.raises(GraphError, match="fn was started by another executor"):
        here.start(fresh_, r_)
    assert (state(fresh_), state(r_), state(foreign_)) == (State.LAZY, State.LAZY, State.PENDING)
    assert (node_of(fresh_).owner, node_of(r_).owner, node_of(fresh_).interest) == (None, None, 0)
    assert here.hands.begun == []
    there.succeed(foreign_, 2)
    here.start(r_)
    here.succeed(fresh_, 1)
    assert node_of(r_).value == [1, 2]


# --- size and turns ---------------------------------------------------------------------------------------------------


def chain(start_: Any, length: int) -> Any:
    for _ in range(length):
        start_ = start_ + 1
    return start_


def tree(width: int) -> tuple[list[Any], Any]:
    """So many jobs, and operators that sum them two by two."""
    leaves = [job(number) for number in range(width)]
    level = leaves
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=False))
        level = [a_ + b_ for a_, b_ in pairs] + level[2 * len(pairs) :]
    return leaves, level[0]


def test_a_chain_of_many_operators_is_a_loop() -> None:
    bench, first_ = Bench(), job()
    last_ = chain(first_, MANY)
    bench.start(last_)
    bench.succeed(first_, 0)
    bench.turn()
    assert node_of(last_).value == MANY


@pytest.mark.parametrize("end", ["fail", "cancel", "release"])
def test_a_long_chain_ends_as_its_start_or_its_end_does(end: str) -> None:
    end_a_chain(MANY, end)


def end_a_chain(length: int, end: str) -> None:
    bench, first_ = Bench(), job()
    last_ = chain(first_, length)
    bench.start(last_)
    bench.turn()
    if end == "fail":
        bench.fail(first_, KeyError())
    elif end == "cancel":
        bench.engine.cancel([node_of(first_)])
    else:
        bench.engine.release([node_of(last_)])
    bench.turn()
    assert state(last_) is (State.CANCELLED if end == "release" else State.FAILED)
    assert state(first_) is (State.FAILED if end == "fail" else State.CANCELLED)


def compute_a_tree(width: int) -> None:
    leaves, root_ = tree(width)
    bench = Bench()
    bench.start(root_)
    bench.turn()
    assert len(bench.hands.begun) == len(leaves)
    for number, leaf_ in enumerate(leaves):
        bench.engine.succeeded(node_of(leaf_), number)
    bench.engine.pump()
    bench.turn()
    assert node_of(root_).value == sum(range(len(leaves)))


def test_a_tree_of_many_nodes_is_a_loop() -> None:
    compute_a_tree(MANY // 2)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(compute_a_tree, id="tree"),
        *(pytest.param(partial(end_a_chain, end=end), id=end) for end in ("fail", "cancel", "release")),
    ],
)
def test_work_grows_with_the_number_of_nodes_and_no_faster(work: Callable[[int], None]) -> None:
    few, many = (calls_of(lambda: work(length)) for length in (500, 2_000))  # noqa: B023 - called at once
    assert few < many < 4.4 * few


class Slow:
    """An operand whose addition takes a clock's step."""

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def __add__(self, other: object) -> Slow:
        self.clock[0] += 0.004
        return self


def test_slices_give_others_a_turn_however_slow_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("grainlike.engine._engine.time", SimpleNamespace(monotonic=lambda: clock[0]))
    bench = Bench()
    last_ = chain(delayed_value(Slow(clock)), 100)
    bench.start(last_)
    split_by_bytes = [clock[0]]
    while bench.fairness:
        bench.fairness.pop(0)()
        split_by_bytes.append(clock[0])
    assert state(last_) is State.SUCCEEDED
    assert max(after - before for before, after in zip([0.0, *split_by_bytes], split_by_bytes, strict=False)) < 0.02


def test_quick_operators_do_not_take_the_loop_for_long() -> None:
    bench = Bench()
    last_ = chain(delayed_value(0), MANY)
    bench.start(last_)
    assert not node_of(last_).finished
    assert len(bench.fairness) == 1
    bench.turn()
    assert node_of(last_).value == MANY


def test_places_are_what_these_tests_take_them_for() -> None:
    assert [node_of(r_).place for r_ in (job(), fn(), job() + 1)] == [RunsIn.REMOTE, RunsIn.LOCAL, RunsIn.INLINE]


def test_the_clock_is_looked_at_after_each_step_that_may_be_long_and_after_few_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = count()
    monkeypatch.setattr("grainlike.engine._engine.time", SimpleNamespace(monotonic=lambda: next(looks) * 1e-9))
    bench = Bench()
    calls = [job(i) for i in range(1600)]
    bench.start(*calls)
    begun = next(looks)
    for r_ in calls:
        bench.engine.succeeded(node_of(r_), 1)
    bench.engine.pump()
    assert all(node_of(r_).finished for r_ in calls)
    assert next(looks) - begun <= 1600 / 16 + 2
    begun = next(looks)
    bench.start(chain(delayed_value(0), 100))
    assert next(looks) - begun >= 100
