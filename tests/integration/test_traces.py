"""Traces as viewers read them: of an executor's jobs, of a named graph's, and of any stretches."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike import Cores, Dag, Executor, GPUs, Memory, Node, ThreadBackend, delayed, gather, start
from grainlike.head import _recorder
from grainlike.observe import Depth, Stretch, depths, trace

Row = tuple[int, int]


@dataclass
class Read:
    """A trace whose laws hold."""

    bars: list[dict]
    rows: dict[Row, str]
    workers: dict[int, str]
    arrows: list[tuple[str, str]] = field(default_factory=list)
    """Names of jobs: from whom to whom."""
    counters: dict[tuple[int, str], list[tuple[int, dict[str, int]]]] = field(default_factory=dict)

    def where(self, name: str) -> list[str]:
        """The rows of all bars of that name."""
        return sorted(self.rows[bar["pid"], bar["tid"]] for bar in self.bars if bar["name"] == name)

    def bar(self, name: str) -> dict:
        return next(bar for bar in self.bars if bar["name"] == name)


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def begin_and_end(bar: dict) -> tuple[int, int]:
    return ns(bar["ts"]), ns(bar["ts"]) + ns(bar["dur"])


def read(text: str) -> Read:
    """Check what every trace keeps to, and sort its events."""
    events = json.loads(text)["traceEvents"]
    by_phase = defaultdict(list)
    for event in events:
        by_phase[event["ph"]].append(event)
    assert set(by_phase) <= {"M", "X", "s", "f", "C"}
    assert all(event["ts"] >= 0 for event in events if event["ph"] != "M")
    titles = by_phase["M"]
    rows = {(one["pid"], one["tid"]): one["args"]["name"] for one in titles if one["name"] == "thread_name"}
    workers = {one["pid"]: one["args"]["name"] for one in titles if one["name"] == "process_name"}
    found = Read(by_phase["X"], rows, workers)
    lanes = check_rows(found)
    check_arrows(found, by_phase["s"], by_phase["f"], lanes)
    check_counters(found, by_phase["C"])
    return found


def check_rows(found: Read) -> dict[Row, list[dict]]:
    """Every row has a name of its own at its worker, and no two of its bars overlap."""
    assert len({(pid, name) for (pid, _), name in found.rows.items()}) == len(found.rows)
    lanes = defaultdict(list)
    for bar in found.bars:
        lanes[bar["pid"], bar["tid"]].append(bar)
    assert lanes.keys() == found.rows.keys()
    for bars in lanes.values():
        bars.sort(key=lambda bar: bar["ts"])
        for before, after in pairwise(bars):
            assert begin_and_end(before)[1] <= begin_and_end(after)[0]
    return lanes


def check_arrows(found: Read, leave: list[dict], arrive: list[dict], lanes: dict[Row, list[dict]]) -> None:
    """Each leaves a bar in its last nanosecond or earlier, and arrives at the begin of one, later in the file."""
    arrivals = {one["id"]: one for one in arrive}
    assert len(arrivals) == len(arrive) == len(leave)
    for one in leave:
        source = bar_at(lanes, one)
        target = bar_at(lanes, arrivals[one["id"]])
        assert ns(target["ts"]) == ns(arrivals[one["id"]]["ts"]) >= ns(one["ts"])
        found.arrows.append((source["name"], target["name"]))


def bar_at(lanes: dict[Row, list[dict]], point: dict) -> dict:
    at = ns(point["ts"])
    under = [bar for bar in lanes[point["pid"], point["tid"]] if begin_and_end(bar)[0] <= at < begin_and_end(bar)[1]]
    assert len(under) == 1
    return under[0]


def check_counters(found: Read, samples: Iterable[dict]) -> None:
    """They go on in time, and never below zero."""
    for one in samples:
        assert all(figure >= 0 for figure in one["args"].values())
        found.counters.setdefault((one["pid"], one["name"]), []).append((ns(one["ts"]), one["args"]))
    for series in found.counters.values():
        assert [at for at, _ in series] == sorted({at for at, _ in series})


# --- of any stretches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_any_stretches_make_a_trace_whose_laws_hold(seed: int) -> None:
    dice = random.Random(seed)
    stretches = []
    for key in range(300):
        began = dice.choice([dice.random(), dice.randrange(4) / 4])
        ended = began + dice.choice([0.0, 0.001, dice.random()])
        stretches.append(
            Stretch(
                f"job {key}",
                dice.choice(["n1", "n2"]),
                tuple(dice.sample(range(4), dice.randrange(3))),
                began,
                ended,
                gpus=tuple(dice.sample(range(2), dice.randrange(2))),
                key=key,
                needs=tuple(dice.sample(range(301), dice.randrange(3))),
                held={"memory": dice.randrange(3)},
            )
        )
    found = read(trace(stretches, depths((one.began - 0.5, one.began, one.ended) for one in stretches)))
    assert {bar["name"] for bar in found.bars} == {one.name for one in stretches}
    assert found.arrows
    by_key = {one.key: one for one in stretches}
    possible = {
        (by_key[need].name, one.name)
        for one in stretches
        for need in one.needs
        if need in by_key and by_key[need].began <= one.began
    }
    assert set(found.arrows) <= possible
    for series in found.counters.values():
        assert not any(series[-1][1].values()), "in the end nothing is held and nobody waits"


def test_what_shares_a_device_or_runs_on_a_lent_core_has_a_second_row() -> None:
    shared = [Stretch("a", "n1", (0,), 0.0, 3.0, gpus=(0,)), Stretch("b", "n1", (0,), 1.0, 2.0, gpus=(0,))]
    assert read(trace(shared)).where("b") == ["GPU 0 (2)", "core 0 (2)"]


def test_what_overlaps_by_less_than_clocks_agree_is_put_one_after_the_other() -> None:
    found = read(trace([Stretch("a", "n1", (0,), 0.0, 1.0002), Stretch("b", "n1", (0,), 1.0, 2.0)]))
    assert found.where("b") == ["core 0"]
    assert begin_and_end(found.bar("b")) == (1_000_200_000, 2_000_000_000)


def test_counters_say_what_was_held_and_how_many_waited() -> None:
    stretches = [
        Stretch("a", "n1", (0,), 0.0, 2.0, held={"memory": 5}),
        Stretch("b", "n1", (1,), 1.0, 2.0, held={"memory": 7}),
        Stretch("c", "n2", (1,), 2.0, 3.0),
    ]
    counters = read(trace(stretches, [Depth(0.0, 2, 1), Depth(1.0, 1, 2)])).counters
    assert counters == {
        (1, "memory held"): [(0, {"bytes": 5}), (10**9, {"bytes": 12}), (2 * 10**9, {"bytes": 0})],
        (0, "jobs"): [(0, {"running": 1, "waiting": 2}), (10**9, {"running": 2, "waiting": 1})],
    }


# --- of what an executor ran -----------------------------------------------------------------------------------------


def add(*numbers: int) -> int:
    return sum(numbers)


def square(number: int) -> int:
    return number * number


def fail(_: int) -> None:
    raise ValueError("broken on purpose")


async def here(number: int) -> int:
    return number


async def wait_for_ever() -> None:
    await anyio.sleep_forever()


@pytest.fixture
def every_depth_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also depths of the queue that lasted for less than a millisecond, in which a quick machine may do everything."""
    monkeypatch.setattr(_recorder, "_NEAR_S", 0.0)


@pytest.mark.asyncio
@pytest.mark.usefixtures("every_depth_is_kept")
async def test_an_executor_that_records_draws_what_ran_with_arrows_through_operators(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    async with Executor(local=Node(2, "1Gi") & GPUs(1), record=True) as executor:
        with anyio.fail_after(LIMIT_S):
            local = delayed(here)(3)
            squares = [(delayed(square, name=f"square {n}") @ Cores(1))(n) for n in range(3)]
            total = 0
            for one in squares:
                total += one
            wide = (delayed(add) @ (Cores(2) & Memory("100Mi")))(total, local)
            assert await (delayed(square, name="last") @ GPUs(1))(wide) == 64
            with pytest.raises(ValueError, match="on purpose"):
                await (delayed(fail, retries=1) @ Cores(1))(1)
        executor.write_trace(path)
    found = read(path.read_text())
    assert set(found.arrows) == {
        *((f"square {n}", "add") for n in range(3)),
        ("here", "add"),
        ("add", "last"),
    }
    assert found.where("add") == ["core 0", "core 1"]
    assert found.where("last") == ["GPU 0"]
    assert found.where("here") == ["no cores 1"]
    assert sorted(found.workers.values()) == ["local", "queue", "this process"]
    assert found.bar("add")["args"] == {
        "status": "succeeded",
        "job": found.bar("add")["args"]["job"],
        "attempt": 1,
        "slots": "cores=[0,1] memory=104857600",
    }
    attempts = [(bar["args"]["attempt"], bar["args"]["status"]) for bar in found.bars if bar["name"] == "fail"]
    assert attempts == [(1, "failed"), (2, "failed")]
    (worker,) = [pid for pid, name in found.workers.items() if name == "local"]
    assert [held["bytes"] for _, held in found.counters[worker, "memory held"]] == [100 * 2**20, 0]
    queue = [figures for _, figures in found.counters[0, "jobs"]]
    assert max(figures["waiting"] for figures in queue) >= 1
    assert max(figures["running"] for figures in queue) in (1, 2)
    assert queue[-1] == {"running": 0, "waiting": 0}


@pytest.mark.asyncio
async def test_only_the_last_are_kept_and_what_runs_is_drawn_to_this_moment(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    async with Executor(local=Cores([0, 1]), record=10) as executor:
        events = executor.events()
        with anyio.fail_after(LIMIT_S):
            await gather((delayed(square) @ Cores(1))(n) for n in range(40))
            endless = executor.submit(Cores(1), wait_for_ever)
            async for event in events:
                if (event.kind, event.name) == ("job_started", "wait_for_ever"):
                    break
            await anyio.lowlevel.checkpoint()  # the turn in which it takes its first step
        executor.write_trace(path)
        kept = read(path.read_text())
        assert len([bar for bar in kept.bars if bar["name"] == "square"]) == 10
        assert kept.bar("wait_for_ever")["args"]["status"] == "running"
        assert kept.counters[0, "jobs"][-1][1] == {"running": 1, "waiting": 0}
        del endless
    executor.write_trace(path)  # the executor has closed, and has ended what ran
    assert read(path.read_text()).bar("wait_for_ever")["args"]["status"] == "cancelled"


@pytest.mark.asyncio
@pytest.mark.usefixtures("every_depth_is_kept")
async def test_jobs_on_another_engine_are_drawn_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    seen = threading.Event()

    def add(left: int, right: int) -> int:
        seen.wait(LIMIT_S)  # a job that ends before it is seen to run never counted as running
        return left + right

    async with Executor(backend=ThreadBackend(2), record=True) as executor:
        events = executor.events()
        with anyio.fail_after(LIMIT_S):
            nine_ = start((delayed(square) @ Cores(1))((delayed(add) @ Cores(1))(1, 2)))
            async for event in events:
                if event.kind == "job_started":
                    break
            seen.set()
            assert await nine_ == 9
        executor.write_trace(path)
    found = read(path.read_text())
    assert sorted(found.workers.values()) == ["queue", "threads"]
    assert set(found.arrows) == {("add", "square")}
    assert max(figures["running"] for _, figures in found.counters[0, "jobs"]) == 1


@pytest.mark.asyncio
async def test_an_executor_that_does_not_record_says_so(tmp_path: Path) -> None:
    async with Executor(local=Cores(1)) as executor:
        with pytest.raises(RuntimeError, match="record=True"):
            executor.write_trace(tmp_path / "trace.json")
    with pytest.raises(ValueError, match="record="):
        Executor(record=-1)


@pytest.mark.asyncio
async def test_calls_that_travel_as_a_chain_are_drawn_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    async with Executor(local=Cores([0]), record=True) as executor:
        with anyio.fail_after(LIMIT_S):
            await gather((delayed(square) @ Cores(1))(n) for n in range(50))  # teaches that it is quick
            chain = (delayed(square) @ Cores(1))(1)
            for _ in range(20):
                chain = (delayed(square) @ Cores(1))(chain)
            assert await chain == 1
        executor.write_trace(path)
    found = read(path.read_text())
    assert len(found.bars) == 71
    assert set(found.rows.values()) == {"core 0"}
    assert len(found.arrows) == 20


# --- of a named graph ------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_named_graphs_trace_has_arrows_for_values_and_for_order(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    dag = Dag()
    dag.add("one", square, 3, request=Cores(1) & Memory("1Mi"))
    dag.add("two", add, dag["one"], 1, request=Cores(1))
    dag.add("three", here, 3, after=["one"])
    async with Executor(local=Node(2, "1Gi")):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(trace=path)
    assert report.succeeded == 3
    found = read(path.read_text())
    assert sorted(found.arrows) == [("one", "three"), ("one", "two")]
    assert {name for _, name in found.counters} == {"jobs", "memory held"}
    assert [figures for _, figures in found.counters[0, "jobs"]][-1] == {"running": 0, "waiting": 0}


def test_bytes_have_a_row_for_each_direction_and_for_the_disk() -> None:
    lanes = [Stretch("a", "n1", (), 0.0, 2.0, lane=lane) for lane in ("in", "out", "disk", "in")]
    found = read(trace([Stretch("job", "n1", (0,), 0.0, 3.0), *lanes]))
    assert sorted(found.rows.values()) == ["bytes in", "bytes in (2)", "bytes out", "core 0", "disk"]
    assert {bar["cat"] for bar in found.bars} == {"job", "bytes"}
