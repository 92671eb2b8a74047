"""Named graphs run in parts: the same outcomes as without, parts as single jobs, and what happens when one fails."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import anyio
import numpy as np
import pytest
from limits import LIMIT_S
from part_calls import Stays, atotal, fail, heard, hold, meet, same, sort, total

from grainlike import (
    GVAR,
    Callbacks,
    Cores,
    Dag,
    DelayedFn,
    Executor,
    GraphError,
    JobCancelledError,
    JobTimeoutError,
    Limit,
    Memory,
    Partition,
    UnsatisfiableError,
    WorkerLostError,
    delayed,
    info,
)

pytestmark = pytest.mark.anyio

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

STRATEGIES: list[Any] = ["level_based", "balanced", "communication_min"]
SMALL = Cores([0, 1])


@pytest.fixture
def anyio_backend():
    """One event loop is enough for most; the others are marked."""
    return "asyncio"


@pytest.fixture
def fifo():
    """A FIFO: opening it to read returns when another opens it to write, and the other way round."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fifo")
        os.mkfifo(path)
        yield str(path)


def chains(count: int, length: int, fn: Any = total) -> Dag:
    dag = Dag()
    for step in range(length):
        for chain in range(count):
            dag.add(f"{chain}.{step}", fn, *([dag[f"{chain}.{step - 1}"]] if step else []), request=Cores(1))
    return dag


USES: list[Any] = [
    lambda r_: r_,
    lambda r_: r_ + 1,
    lambda r_: [r_, 2],
    lambda r_: (delayed(total) @ Cores(1))(r_),
]
"""How a placeholder of an earlier job is used as an argument."""


def mixed(seed: int, *, broken: float = 0.0) -> Dag:
    """A graph of all kinds of jobs and edges; with `broken`, some fail."""
    dice = Random(seed)
    dag = Dag()
    for number in range(40):
        earlier = dice.sample(range(max(0, number - 8), number), min(number, dice.randrange(4)))
        placeholders: list[Any] = [dag[str(one)] for one in earlier]
        values = [dice.choice(USES)(r_) for r_ in placeholders]
        after = [str(dice.randrange(number))] if number and dice.random() < 0.2 else []
        fn = fail if dice.random() < broken else dice.choice([total, total, atotal])
        request = dice.choice([Cores(1), Cores(1), Cores(2) & Memory(10), Limit("db", 1) & Cores(1), None])
        dag.add(str(number), fn, *values, request=request, after=after, timeout=dice.choice([None, None, 60.0]))
    return dag


def outcomes(report: Any) -> dict[str, tuple[Any, ...]]:
    return {name: (job.status, job.value, type(job.error), str(job.error)) for name, job in report.items()}


async def test_x6_a_run_in_parts_gives_the_same_outcomes_by_every_strategy():
    async with Executor(local=SMALL & Memory(10)):
        for broken in (0.0, 0.15):
            with anyio.fail_after(LIMIT_S):
                whole = await mixed(7, broken=broken).run(on_failure="continue")
            assert (whole.failed > 0) == (broken > 0)
            for strategy in STRATEGIES:
                with anyio.fail_after(LIMIT_S):
                    parted = await mixed(7, broken=broken).run(on_failure="continue", partition=Partition(4, strategy))
                assert outcomes(parted) == outcomes(whole), strategy


def changes_and_stays() -> tuple[Dag, Any]:
    """Calls that change what they are given, values and arguments that can not travel, and a view, which can not."""
    dag = Dag()
    numbers = [6, 5]

    def add(name: str, fn: Any, *args: Any, after: Any = ()) -> Any:
        return dag.add(name, fn, *args, after=after, request=Cores(1))

    drawn_ = add("drawn", lambda: [3, 1, 2])
    add("sorted", sort, drawn_)
    add("first", min, drawn_[:1], after=["sorted"])
    add("twice", same, drawn_, drawn_)
    add("ours", sort, numbers)
    add("ours again", lambda values: values[0], numbers, after=["ours"])
    array_ = add("array", np.arange, 5000)
    for name in ("raised", "raised again"):
        add(name, lambda array: np.add(array, 1, out=array).sum(), array_)
    add("Stays", Stays)
    add("needs it", type, dag["Stays"])
    add("is given one", lambda _, values: values, 1, [drawn_, Stays()])
    view_ = array_.data
    add("bytes", abs, view_.nbytes)
    return dag, view_


async def test_x6_calls_of_a_part_share_nothing_and_what_cannot_travel_fails_alone():
    async with Executor(local=SMALL):
        whole = outcomes(await changes_and_stays()[0].run(on_failure="continue"))
        dag, view_ = changes_and_stays()
        parted = outcomes(await dag.run(on_failure="continue", partition=Partition(1)))
        assert info(view_).state == "succeeded"
        assert isinstance(await view_, memoryview)
    assert (whole.pop("array")[1] == parted.pop("array")[1]).all()
    assert parted == whole
    assert {name: how for name, (how, *_) in whole.items() if how != "succeeded"} == {
        "Stays": "failed",
        "needs it": "skipped",
        "is given one": "failed",
    }
    assert whole["sorted"][1] == [1, 2, 3]
    assert (whole["first"][1], whole["ours again"][1], whole["twice"][1]) == (3, 6, True)
    assert whole["raised"][1] == whole["raised again"][1] == 12_502_500
    assert whole["bytes"][1] == 40_000
    assert "argument 1 of <lambda>, at [1], cannot travel" in parted["is given one"][3]
    assert "the value of Stays cannot travel" in parted["Stays"][3]


async def test_x6_a_part_travels_as_one_job():
    async with Executor(local=SMALL) as executor:
        for fn, sent in ((total, 4), (atotal, 8)):
            report = await chains(4, 25, fn).run(partition=Partition(4))
            assert report.succeeded == 100
            assert executor.report().succeeded == sent
            assert [report[f"{chain}.24"].value for chain in range(4)] == [25] * 4


async def test_what_asks_for_a_limit_or_a_choice_runs_by_itself_between_pieces_of_its_part():
    dag = Dag()
    dag.add("first", total, request=Cores(1))
    dag.add("limited", total, dag["first"], request=Cores(1) & Limit("db", 1))
    dag.add("either", total, dag["limited"], request=Cores(1) | Cores(2))
    dag.add("last", total, dag["either"], request=Cores(1))
    async with Executor(local=SMALL) as executor:
        report = await dag.run(partition=Partition(1))
        assert executor.report().succeeded == 4
    assert report["last"].value == 4


async def test_x6_parts_that_need_nothing_of_each_other_run_at_the_same_time(fifo):
    dag = Dag()
    for side, how in (("left", "r"), ("right", "w")):
        dag.add(f"{side} first", total, request=Cores(1))
        dag.add(f"{side} meets", meet, fifo, how, dag[f"{side} first"], request=Cores(1))
        dag.add(f"{side} last", total, dag[f"{side} meets"], request=Cores(1))
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(partition=Partition(2))
    assert report["left last"].value == report["right last"].value == 3
    assert report.peak_utilization == {"cores": 1.0}


async def test_x6_an_unknown_strategy_is_refused():
    with pytest.raises(GraphError, match="strategy="):
        Partition(k=4, strategy="metis")  # type: ignore[arg-type]


async def test_a_part_asks_the_most_of_each_that_its_jobs_ask():
    dag = Dag()
    dag.add("wide", lambda: GVAR.res.N, request=Cores(2))
    dag.add("large", lambda _: (GVAR.res.N, GVAR.res.memory), dag["wide"], request=Cores(1) & Memory(500))
    async with Executor(local=SMALL & Memory(800)):
        report = await dag.run(partition=Partition(1))
    assert (report["wide"].value, report["large"].value) == (2, (2, 500))
    assert report["large"].allocation == Cores([0, 1]) & Memory(500)


async def test_a_part_that_could_run_nowhere_is_refused_before_anything_starts():
    dag = Dag()
    dag.add("small", total, request=Cores(1))
    dag.add("wide", total, request=Cores(3))
    async with Executor(local=SMALL):
        with pytest.raises(UnsatisfiableError, match="wide"):
            await dag.run(partition=Partition(1))
    assert info(dag["small"]).state == "lazy"


async def test_a_delayed_function_is_a_value_like_any_other_beside_coroutines():
    dag = Dag()
    dag.add("later", anyio.sleep, 0, request=Cores(1))
    dag.add("made", lambda _: delayed(fail), dag["later"], request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run(partition=Partition(1))
    assert isinstance(report["made"].value, DelayedFn)


async def test_each_call_knows_its_own_name_and_tells_where_it_failed():
    dag = Dag()
    dag.add("first", lambda: GVAR.job.name, request=Cores(1))  # type: ignore[union-attr]
    dag.add("second", fail, dag["first"], request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run(partition=Partition(1))
    assert report["first"].value == "first"
    error = report["second"].error
    assert isinstance(error, ValueError)
    assert "raise ValueError" in str(error.__cause__)
    assert error.__notes__ == ["grainlike: job 1, on worker local, slots cores=[0], attempt 1 of fail"]


async def test_x6_fail_fast_holds_across_parts(fifo):
    dag = Dag()
    dag.add("held", hold, fifo, request=Cores(1))
    dag.add("after held", total, after=["held"], request=Cores(1))
    dag.add("fails", heard, fifo, request=Cores(1))
    dag.add("after fails", total, after=["fails"], request=Cores(1))
    dag.add("beside", total, request=Cores(1), after=["after held", "after fails"])
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(partition=Partition(3))
    told = {name: job.status for name, job in report.items()}
    assert told == {
        "held": "cancelled",
        "after held": "cancelled",  # it travelled with what was running
        "fails": "failed",
        "after fails": "skipped",
        "beside": "skipped",
    }
    assert isinstance(report["held"].error, JobCancelledError)


async def test_a_part_ends_at_its_first_failure_and_with_continue_goes_on():
    def build() -> Dag:
        dag = Dag()
        dag.add("bad", fail, request=Cores(1))
        dag.add("next", total, dag["bad"], request=Cores(1))
        dag.add("free", total, request=Cores(1))
        return dag

    async with Executor(local=Cores([0])):
        fast = await build().run(partition=Partition(1))
        slow = await build().run(partition=Partition(1), on_failure="continue")
    assert {name: job.status for name, job in fast.items()} == {"bad": "failed", "next": "skipped", "free": "skipped"}
    assert {name: job.status for name, job in slow.items()} == {"bad": "failed", "next": "skipped", "free": "succeeded"}


async def test_a_timeout_inside_of_a_part_is_enforced_and_frees_its_slots(fifo):
    dag = Dag()
    dag.add("first", total, request=Cores(2))
    dag.add("endless", lambda _: signal.pause(), dag["first"], request=Cores(2), timeout=0.2)
    dag.add("needs it", total, dag["endless"], request=Cores(2))
    dag.add("does not", total, dag["first"], request=Cores(2))
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(partition=Partition(1), on_failure="continue")
    assert {name: job.status for name, job in report.items()} == {
        "first": "succeeded",
        "endless": "timed_out",
        "needs it": "skipped",
        "does not": "succeeded",
    }
    assert isinstance(report["endless"].error, JobTimeoutError)


async def test_a_call_of_a_part_is_tried_again_alone(tmp_path):
    def flaky(path: Path) -> int:
        with path.open("a") as file:
            file.write("x")
        if path.stat().st_size < 3:
            raise OSError("not yet")
        return path.stat().st_size

    def once(path: Path) -> int:
        with path.open("a") as file:
            return file.write("x")

    dag = Dag()
    dag.add("once", once, tmp_path / "once", request=Cores(1))
    dag.add("flaky", delayed(flaky, retries=2), tmp_path / "flaky", request=Cores(1), after=["once"])
    async with Executor(local=SMALL):
        report = await dag.run(partition=Partition(1))
    assert (report["flaky"].value, report["flaky"].attempt) == (3, 3)
    assert (tmp_path / "once").read_text() == "x"


async def test_a_part_whose_process_dies_fails_and_the_others_go_on():
    dag = Dag()
    dag.add("dies", os._exit, 3, request=Cores(1))
    dag.add("with it", total, after=["dies"], request=Cores(1))
    for number in range(2):
        dag.add(f"well {number}", total, *([dag["well 0"]] if number else []), request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run(partition=Partition(2), on_failure="continue")
    assert isinstance(report["dies"].error, WorkerLostError)
    assert (report["dies"].status, report["with it"].status) == ("failed", "skipped")
    assert report["well 1"].value == 2


@both_loops
async def test_placeholders_of_a_part_can_be_awaited_meanwhile():
    dag = chains(2, 3)
    got = []

    async def wait() -> None:
        got.append(await dag["1.2"])

    async with Executor(local=SMALL), anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await dag.run(partition=Partition(2))
    assert got == [3]
    assert info(dag["1.2"]).allocation is not None


async def test_cancelling_a_run_in_parts_ends_its_jobs(fifo):
    dag = Dag()
    dag.add("held", hold, fifo, request=Cores(2))
    dag.add("next", total, dag["held"], request=Cores(2))
    async with Executor(local=SMALL) as executor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: dag.run(partition=Partition(1)))
            await anyio.to_thread.run_sync(meet, fifo, "r")
            tasks.cancel_scope.cancel()
        assert {info(dag[name]).state for name in dag} == {"cancelled"}
        with anyio.fail_after(LIMIT_S):
            assert await executor.submit(Cores(2), total) == 1
        assert executor.report().cancelled == 1


async def test_a_run_in_parts_that_takes_too_long_ends(fifo):
    dag = Dag()
    dag.add("held", lambda: signal.pause(), request=Cores(1))
    dag.add("needs it", total, dag["held"], timeout=60.0, request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run(partition=Partition(1), timeout=0.5)
    assert (report["held"].status, report["needs it"].status) == ("timed_out", "skipped")


async def test_callbacks_are_told_each_thing_once():
    told: list[tuple[str, str]] = []

    def note(what: str) -> Any:
        return lambda name, *_: told.append((what, name))

    names = ["start", "complete", "error", "skip", "resource_acquired", "resource_released"]
    callbacks = Callbacks(**{f"on_{what}": note(what) for what in names})
    dag = chains(2, 2)
    dag.add("bad", fail, request=Cores(1), after=["0.1"])
    dag.add("never", total, dag["bad"], request=Cores(1))
    dag.add("here", total, dag["1.1"])
    async with Executor(local=SMALL):
        await dag.run(partition=Partition(2), on_failure="continue", callbacks=callbacks)
    assert set(Counter(told).values()) == {1}
    ended = {name: what for what, name in told if what in ("complete", "error", "skip")}
    well = dict.fromkeys(["0.0", "0.1", "1.0", "1.1", "here"], "complete")
    assert ended == well | {"bad": "error", "never": "skip"}
    assert ("resource_released", "1.1") in told
    assert ("resource_acquired", "here") not in told
    assert told.index(("resource_acquired", "0.1")) < told.index(("start", "0.1")) < told.index(("complete", "0.1"))


async def test_a_second_run_in_parts_runs_only_what_was_added():
    dag = chains(2, 2)
    async with Executor(local=SMALL) as executor:
        await dag.run(partition=Partition(2))
        dag.add("more", total, dag["0.1"], request=Cores(1))
        report = await dag.run(partition=Partition(2))
        assert executor.report().succeeded == 3
    assert report["more"].value == 3
    assert report.succeeded == 5


async def test_what_is_no_partition_is_refused():
    async with Executor(local=SMALL):
        with pytest.raises(TypeError, match=r"partition= takes a Partition, as Partition\(k=4\), not 4"):
            await chains(1, 1).run(partition=4)  # type: ignore[arg-type]
