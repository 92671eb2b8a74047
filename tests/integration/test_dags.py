"""Named graphs, run for real: what happens to each job, what is told of it, and that slots come back."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from dag_calls import avalue, fail, fail_then_hold, hold, meet, one_more, stay_then_tell, value
from limits import LIMIT_S

from grainlike import (
    Callbacks,
    Cores,
    Dag,
    Executor,
    GPUs,
    GraphError,
    JobCancelledError,
    JobTimeoutError,
    Memory,
    Nodes,
    UnsatisfiableError,
    cancel,
    connect,
    delayed,
    info,
    run,
    start,
)
from grainlike.dag import _run

pytestmark = pytest.mark.anyio

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

ROOT = Path(__file__).parents[2]
SMALL = Cores([0, 1])


@pytest.fixture
def anyio_backend():
    """One event loop is enough for what the run does not wait for itself; the others are marked."""
    return "asyncio"


@pytest.fixture
def fifo():
    """A FIFO: opening it to read returns when another opens it to write, and the other way round."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fifo")
        os.mkfifo(path)
        yield str(path)


def diamond(**requests: Any) -> Dag:
    dag = Dag()
    dag.add("preprocess", value, 3, request=Cores(2) & Memory(4000))
    dag.add("train_a", value, dag["preprocess"], request=requests["train"])
    dag.add("train_b", lambda x: x + 1, dag["preprocess"], request=requests["train"])
    dag.add("evaluate", lambda a, b: (a, b), dag["train_a"], dag["train_b"], request=Cores(1))
    return dag


OFFER = Cores(list(range(8))) & Memory(16000)


# --- outcomes ---


async def test_r1_a_diamond_succeeds_and_its_trainings_overlap_where_two_devices_are(fifo):
    dag = Dag()
    train = GPUs(1) & Cores(2) & Memory(6000)
    dag.add("preprocess", value, 3, request=Cores(2) & Memory(4000))
    dag.add("train_a", meet, fifo, "r", dag["preprocess"], request=train)
    dag.add("train_b", meet, fifo, "w", dag["preprocess"] + 1, request=train)
    dag.add("evaluate", lambda a, b: (a, b), dag["train_a"], dag["train_b"], request=Cores(1))
    async with Executor(local=OFFER & GPUs(2)):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run()
    assert (report.succeeded, report.failed, len(report)) == (4, 0, 4)
    assert report["evaluate"].value == (3, 4)
    assert report.peak_utilization["gpus"] == 1.0
    assert report.peak_utilization["cores"] == 0.5
    assert report.peak_utilization["memory"] == 0.75


async def test_r1_with_one_device_the_trainings_do_not_overlap():
    dag = diamond(train=GPUs(1) & Cores(2))
    async with Executor(local=OFFER & GPUs(1)):
        report = await dag.run()
    a, b = sorted([info(dag["train_a"]), info(dag["train_b"])], key=lambda told: told.began or 0)
    assert a.ended is not None
    assert b.began is not None
    assert a.ended <= b.began + 0.002  # clocks are compared anew with each report
    assert report.succeeded == 4
    assert report.peak_utilization["gpus"] == 1.0
    assert report.peak_utilization["cores"] == 0.25


async def test_x4_the_report_tells_counts_times_the_backend_and_of_each_job():
    dag = Dag()
    dag.add("here", avalue, 1)
    dag.add("there", delayed(value, retries=1), dag["here"] + 1, request=Cores(2))
    dag.add("bad", fail, dag["there"], request=Cores(1))
    dag.add("never", value, after=["bad"])
    async with Executor(local=SMALL):
        report = await dag.run(on_failure="continue")
    assert (report.succeeded, report.failed, report.skipped, report.timed_out, report.cancelled) == (2, 1, 1, 0, 0)
    assert report.backend == "grainlike"
    there, bad, never, here = report["there"], report["bad"], report["never"], report["here"]
    assert (there.name, there.status, there.value, there.error) == ("there", "succeeded", 2, None)
    assert (there.worker, there.allocation, there.attempt) == ("local", SMALL, 1)
    assert there.usage is not None
    assert 0 <= there.queued_s < report.total_seconds
    assert 0 < there.run_s < report.total_seconds
    assert report.run_seconds == pytest.approx(sum(job.run_s or 0 for job in report.values()))
    assert (bad.status, type(bad.error), bad.value) == ("failed", ValueError, None)
    assert (never.status, never.error, never.worker, never.attempt) == ("skipped", bad.error, None, 0)
    assert (never.queued_s, never.run_s, never.usage) == (None, None, None)
    assert (here.value, here.worker, here.allocation, here.attempt) == (1, None, None, 1)
    assert here.run_s is not None
    assert str(report).splitlines() == [
        f"2 succeeded, 1 failed, 1 skipped in {report.total_seconds:.3g} s",
        "  bad failed: ValueError: broken on purpose",
    ]


async def test_x8_values_flow_and_no_level_waits_for_another(fifo):
    # "late" is on the second level of one branch, and lets "slow" of the first level of the other end.
    dag = Dag()
    dag.add("slow", meet, fifo, "r", 1, request=Cores(1))
    dag.add("quick", value, 5, request=Cores(1))
    dag.add("late", meet, fifo, "w", dag["quick"], request=Cores(1))
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run()
    assert [job.value for job in report.values()] == [1, 5, 5]


async def test_r8_fail_fast_cancels_what_runs_and_skips_what_has_not_started(fifo):
    dag = Dag()
    dag.add("running", hold, fifo, request=Cores(1))
    dag.add("bad", meet, fifo, "r", 1, request=Cores(1))
    dag.add("broken", fail, dag["bad"], request=Cores(1))
    dag.add("dependant", value, dag["broken"])
    dag.add("later", value, after=["running"], request=Cores(1))
    async with Executor(local=SMALL) as executor:
        with anyio.fail_after(LIMIT_S):
            report = await dag.run()
        assert executor.workers()[0].running == 0
    assert {name: job.status for name, job in report.items()} == {
        "running": "cancelled",
        "bad": "succeeded",
        "broken": "failed",
        "dependant": "skipped",
        "later": "skipped",
    }
    assert isinstance(report["running"].error, JobCancelledError)
    assert "broken failed" in str(report["running"].error)
    assert report["running"].run_s is not None
    assert report["dependant"].error is not None


async def test_continue_skips_only_what_needs_the_failed_one():
    dag = Dag()
    dag.add("bad", fail, request=Cores(1))
    dag.add("through an operator", value, dag["bad"] + 1)
    dag.add("in order", value, after=["bad"], request=Cores(1))
    dag.add("after that", value, dag["in order"])
    dag.add("other", value, 1, request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run(on_failure="continue")
    statuses = {name: job.status for name, job in report.items()}
    assert Counter(statuses.values()) == {"failed": 1, "skipped": 3, "succeeded": 1}
    assert statuses["other"] == "succeeded"


async def test_an_operator_that_fails_between_two_jobs_is_told_of_the_second():
    dag = Dag()
    dag.add("a", value, 1, request=Cores(1))
    dag.add("b", value, dag["a"] / 0, request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run()
    assert (report["b"].status, type(report["b"].error)) == ("failed", ZeroDivisionError)


async def test_x5_a_timeout_ends_the_job_frees_its_slots_and_skips_its_dependants():
    dag = Dag()
    dag.add("endless", signal.pause, request=Cores(2), timeout=0.2)
    dag.add("dependant", value, after=["endless"], request=Cores(1))
    dag.add("wants its slots", value, 1, request=Cores(2))
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(on_failure="continue")
    assert {name: job.status for name, job in report.items()} == {
        "endless": "timed_out",
        "dependant": "skipped",
        "wants its slots": "succeeded",
    }
    assert isinstance(report["endless"].error, JobTimeoutError)
    assert report["endless"].run_s < LIMIT_S
    assert report.timed_out == 1


@both_loops
async def test_a_timeout_of_the_run_ends_what_runs_and_skips_the_rest():
    dag = Dag()
    dag.add("endless", anyio.sleep_forever, request=Cores(1))
    dag.add("here", anyio.sleep_forever)
    dag.add("next", value, after=["endless"], request=Cores(1))
    async with Executor(local=SMALL) as executor:
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(timeout=0.3)
        assert executor.workers()[0].running == 0
    assert [job.status for job in report.values()] == ["timed_out", "timed_out", "skipped"]
    assert isinstance(report["endless"].error, JobTimeoutError)
    assert "timeout of 0.3 s" in str(report["next"].error)


async def test_cancelling_a_job_leaves_the_others_but_for_its_dependants():
    dag = Dag()
    dag.add("endless", anyio.sleep_forever, request=Cores(1))
    dag.add("next", value, after=["endless"])
    dag.add("other", avalue, 1, request=Cores(1))
    callbacks = Callbacks(on_start=lambda name: name == "endless" and cancel(dag["endless"]))
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(callbacks=callbacks)
    assert [job.status for job in report.values()] == ["cancelled", "skipped", "succeeded"]
    assert report.cancelled == 1


@both_loops
async def test_cancelling_the_run_cancels_what_nobody_else_wants():
    dag = Dag()
    dag.add("endless", anyio.sleep_forever, request=Cores(1))
    dag.add("wanted", anyio.sleep, 0.1, request=Cores(1))
    async with Executor(local=SMALL):
        start(dag["wanted"])
        with anyio.CancelScope() as scope:
            await dag.run(callbacks=Callbacks(on_start=lambda name: name == "endless" and scope.cancel()))
        assert scope.cancelled_caught
        assert info(dag["endless"]).state == "cancelled"
        assert await dag["wanted"] is None


async def test_r8_an_impossible_need_raises_before_anything_starts(tmp_path):
    mark = tmp_path / "ran"
    dag = Dag()
    dag.add("first", mark.touch, request=Cores(1))
    dag.add("greedy", value, request=Cores(99))
    async with Executor(local=SMALL):
        with pytest.raises(UnsatisfiableError, match=r"greedy: .*asked 99, at most 2"):
            await dag.run()
    assert info(dag["first"]).state == "lazy"
    assert not mark.exists()


async def test_a_run_that_is_none_is_refused_before_anything_starts(tmp_path):
    dag = Dag()
    dag.add("a", value, request=Cores(1))
    async with Executor(local=SMALL):
        with pytest.raises(ValueError, match="'stop'"):
            await dag.run(on_failure="stop")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="positive"):
            await dag.run(timeout=0)
        with pytest.raises(FileNotFoundError, match="no folder"):
            await dag.run(trace=tmp_path / "nowhere" / "trace.json")
        with pytest.raises(TypeError, match=r"callbacks= takes Callbacks\(on_start=...\), not \{\}"):
            await dag.run(callbacks={})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_skip= takes a function, not 'a'"):
        Callbacks(on_skip="a")  # type: ignore[arg-type]
    assert info(dag["a"]).state == "lazy"


async def test_a_second_run_tells_the_same_and_runs_only_what_is_new():
    dag = Dag()
    dag.add("a", time.monotonic, request=Cores(1))
    dag.add("bad", fail, dag["a"], request=Cores(1))
    dag.add("never", value, dag["bad"])
    async with Executor(local=SMALL):
        first = await dag.run()
        again = await dag.run()
        dag.add("new", value, dag["a"], request=Cores(1))
        third = await dag.run()
    assert [(job.status, job.value) for job in first.values()] == [(job.status, job.value) for job in again.values()]
    assert third["new"].value == first["a"].value
    assert (third.succeeded, third.failed, third.skipped) == (2, 1, 1)


async def test_a_job_that_another_executor_runs_is_refused():
    dag = Dag()
    dag.add("a", anyio.sleep_forever, request=Cores(1))
    async with Executor(local=SMALL):
        start(dag["a"])
        async with Executor(local=SMALL):
            with pytest.raises(GraphError, match="another executor"):
                await dag.run()


async def test_an_empty_graph_has_an_empty_report():
    async with Executor(local=SMALL):
        report = await Dag().run()
    assert (len(report), report.succeeded, report.peak_utilization) == (0, 0, {"cores": 0.0})


def started(dag: Dag) -> list[str]:
    """The names in the order in which the jobs started."""
    return sorted(dag, key=lambda name: info(dag[name]).began or 0.0)


async def test_critical_jobs_start_first():
    dag = Dag()
    for n in range(6):
        dag.add(f"{n}", value, n, request=Cores(2), cost=n)
    async with Executor(local=SMALL):
        await dag.run()
    assert started(dag) == ["5", "4", "3", "2", "1", "0"]


async def test_a_critical_job_that_becomes_ready_goes_before_those_that_wait():
    dag = Dag()
    dag.add("gate", time.sleep, 0.02, request=Cores(2), cost=1)
    dag.add("critical", value, after=["gate"], request=Cores(2), cost=50)
    for n in range(8):
        dag.add(f"{n}", time.sleep, 0.02, request=Cores(2), cost=1)
    async with Executor(local=SMALL):
        await dag.run()
    assert started(dag)[0] == "gate"
    # One took the room that the gate gave back, another may have been on its way.
    assert started(dag).index("critical") <= 3


# --- callbacks ---


def listening(heard: list[tuple[Any, ...]]) -> Callbacks:
    async def on_error(name: str, error: BaseException) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(("error", name, type(error)))

    return Callbacks(
        on_start=lambda name: heard.append(("start", name)),
        on_complete=lambda name, value: heard.append(("complete", name, value)),
        on_error=on_error,
        on_skip=lambda name: heard.append(("skip", name)),
        on_resource_acquired=lambda name, slots: heard.append(("acquired", name, slots.N)),
        on_resource_released=lambda name, slots: heard.append(("released", name, slots.N)),
    )


def of(heard: list[tuple[Any, ...]], name: str) -> list[tuple[Any, ...]]:
    return [(what, *rest) for what, whose, *rest in heard if whose == name]


@asynccontextmanager
async def embedded() -> AsyncIterator[Executor]:
    async with Executor(local=SMALL) as executor:
        yield executor


@asynccontextmanager
async def connected() -> AsyncIterator[Executor]:
    """A client of a head, which hears of its jobs from there alone."""
    async with Executor(listen="tcp://127.0.0.1:0", local=SMALL) as head, connect(head.address) as executor:
        yield executor


@both_loops
@pytest.mark.parametrize("opened", [embedded, connected])
async def test_r7_callbacks_come_once_for_each_job_in_order(tmp_path, monkeypatch, opened):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def second_time(mark: Path) -> int:
        if mark.exists():
            return 7
        mark.touch()
        raise OSError("the first time it fails")

    heard: list[tuple[Any, ...]] = []
    dag = Dag()
    dag.add("retried", delayed(second_time, retries=1), tmp_path / "mark", request=Cores(2))
    dag.add("bad", fail, dag["retried"], request=Cores(1))
    dag.add("never", value, dag["bad"])
    dag.add("here", avalue, 1, after=["retried"])
    async with opened():
        report = await dag.run(on_failure="continue", callbacks=listening(heard))
    assert report["retried"].attempt == 2
    assert of(heard, "retried") == [("acquired", 2), ("start",), ("complete", 7), ("released", 2)]
    assert of(heard, "bad") == [("acquired", 1), ("start",), ("error", ValueError), ("released", 1)]
    assert of(heard, "never") == [("skip",)]
    assert of(heard, "here") == [("start",), ("complete", 1)]


async def test_r5_slots_are_released_after_success_failure_timeout_and_cancellation(fifo, tmp_path):
    heard: list[tuple[Any, ...]] = []
    dag = Dag()
    dag.add("good", value, request=Cores(1))
    dag.add("cancelled", delayed(fail_then_hold, retries=1), tmp_path / "mark", fifo, request=Cores(1))
    dag.add("its reader", meet, fifo, "r", 1, after=["good"])
    dag.add("late", signal.pause, request=Cores(1), timeout=0.1, after=["its reader"])
    async with Executor(local=SMALL) as executor:
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(callbacks=listening(heard))
            assert await executor.submit(Cores(2), value, 1) == 1
    assert [report[name].status for name in ("good", "late", "cancelled")] == ["succeeded", "timed_out", "cancelled"]
    for name in ("good", "late", "cancelled"):
        assert Counter(what for what, *_ in of(heard, name))["released"] == 1, name
    assert of(heard, "cancelled")[-2:] == [("error", JobCancelledError), ("released", 1)]


async def test_r7_an_error_in_a_callback_is_logged_and_harms_nothing(caplog):
    def broken(*told: Any) -> None:
        raise RuntimeError("a careless callback")

    dag = Dag()
    dag.add("a", value, 1, request=Cores(1))
    dag.add("b", avalue, dag["a"])
    names = ("on_start", "on_complete", "on_error", "on_skip", "on_resource_acquired", "on_resource_released")
    async with Executor(local=SMALL):
        with caplog.at_level(logging.ERROR, "grainlike"):
            report = await dag.run(callbacks=Callbacks(**dict.fromkeys(names, broken)))
    assert report.succeeded == 2
    assert [record.getMessage() for record in caplog.records] == ["a callback failed at a"] * 4 + [
        "a callback failed at b"
    ] * 2


@both_loops
async def test_a_slow_callback_does_not_outlast_the_runs_timeout(monkeypatch):
    limits: dict[float | None, anyio.CancelScope] = {}
    limit = anyio.move_on_after

    def keep_limit(seconds: float | None, **more: Any) -> anyio.CancelScope:
        limits[seconds] = limit(seconds, **more)
        return limits[seconds]

    monkeypatch.setattr(anyio, "move_on_after", keep_limit)

    async def too_slow(*_: Any) -> None:
        limits[2 * LIMIT_S].deadline = anyio.current_time()  # and not before the job has ended, on a busy machine
        await anyio.sleep_forever()

    dag = Dag()
    dag.add("a", avalue, 1, request=Cores(1))
    dag.add("endless", anyio.sleep_forever)
    async with Executor(local=SMALL):
        with anyio.fail_after(LIMIT_S):
            report = await dag.run(timeout=2 * LIMIT_S, callbacks=Callbacks(on_complete=too_slow))
    assert [job.status for job in report.values()] == ["succeeded", "timed_out"]


async def test_r5_slots_of_a_lost_worker_are_no_longer_held(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    heard: list[tuple[Any, ...]] = []
    dag = Dag()
    dag.add("moved", stay_then_tell, request=Cores(1))
    with ExitStack() as stack:
        async with Executor(listen=f"unix://{tmp_path}/socket") as executor:
            first = stack.enter_context(worker(executor, "first"))

            def lose(name: str) -> None:
                heard.append(("start", name))
                first.kill()
                stack.enter_context(worker(executor, "second"))

            with anyio.fail_after(LIMIT_S):
                await executor.wait_for_workers(1)
                report = await dag.run(callbacks=replace(listening(heard), on_start=lose))
    moved = report["moved"]
    assert (moved.value, moved.worker, moved.attempt) == ("again", "second", 2)
    assert of(heard, "moved") == [("acquired", 1), ("start",), ("complete", "again"), ("released", 1)]


async def test_r5_a_run_does_not_wait_for_slots_of_a_lost_worker(tmp_path, monkeypatch):
    async def worker_is_gone() -> None:
        while (await anext(events)).kind != "worker_left":
            pass
        raise ValueError("the worker is gone")

    monkeypatch.setattr(_run, "QUIET_S", 3600.0)  # with what it waits for slots of its own workers
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    heard: list[tuple[Any, ...]] = []
    dag = Dag()
    dag.add("lost", signal.pause, request=Cores(1))
    dag.add("told", worker_is_gone)
    async with Executor(listen=f"unix://{tmp_path}/socket") as executor:
        with worker(executor, "only") as only, anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(1)
            events = executor.events()
            callbacks = replace(listening(heard), on_start=lambda name: name == "lost" and only.kill())
            report = await dag.run(callbacks=callbacks)
    assert [job.status for job in report.values()] == ["cancelled", "failed"]
    assert of(heard, "lost") == [("acquired", 1), ("error", JobCancelledError), ("released", 1)]


async def test_a_gang_is_told_of_once_when_it_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    heard: list[tuple[Any, ...]] = []
    dag = Dag()
    dag.add("gang", value, 7, request=Nodes(2, each=Cores(1)))
    async with Executor(local=SMALL, listen=f"unix://{tmp_path}/socket") as executor:
        events = executor.events()
        with worker(executor, "other"), anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(2)
            on_start = lambda name: heard.append(("start", name, info(dag[name]).state == "pending"))  # noqa: E731
            report = await dag.run(callbacks=replace(listening(heard), on_start=on_start))
    assert heard == [
        ("acquired", "gang", 1),
        ("start", "gang", False),
        ("complete", "gang", 7),
        ("released", "gang", 1),
    ]
    assert report["gang"].value == 7
    assert report.peak_utilization == {"cores": pytest.approx(2 / 3)}
    assert [event.kind async for event in events if event.job] == ["job_started", "job_ended"]


@contextmanager
def worker(executor: Executor, name: str):
    """A worker in a process of its own; gone after the block."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    command = [sys.executable, "-m", "grainlike_worker", "--head", str(executor.address), "--resources", "cores=[0]"]
    with subprocess.Popen([*command, "--name", name, "--log-level", "error"], env=environment) as process:
        yield process
        process.kill()


# --- traces ---


async def test_x7_one_call_writes_a_trace_with_a_row_for_each_core_and_device(tmp_path):
    dag = Dag()
    dag.add("wide", time.sleep, 0.05, request=Cores(2))
    dag.add("device", time.sleep, 0.05, request=Cores(1) & GPUs(1), after=["wide"])
    dag.add("here", avalue, 1)
    dag.add("bad", fail, after=["device"])
    dag.add("never", value, after=["bad"])
    async with Executor(local=SMALL & GPUs(1)):
        report = await dag.run(trace=tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    workers = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    rows = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    bars = [one for one in events if one["ph"] == "X"]
    found = sorted((one["name"], workers[one["pid"]], rows[one["pid"], one["tid"]]) for one in bars)
    slots = info(dag["device"]).allocation
    assert slots is not None
    assert found == [
        ("bad", "this process", "no cores 1"),
        ("device", "local", "GPU 0"),
        ("device", "local", f"core {slots.cores[0]}"),
        ("here", "this process", "no cores 1"),
        ("wide", "local", "core 0"),
        ("wide", "local", "core 1"),
    ]
    wide, device = (next(one for one in bars if one["name"] == name) for name in ("wide", "device"))
    assert wide["dur"] >= 50_000
    assert device["ts"] >= wide["ts"] + wide["dur"] - 2_000
    assert wide["dur"] == pytest.approx(report["wide"].run_s * 1e6, abs=1)


# --- sizes ---


async def test_4000_nodes_in_layers_run_without_a_task_or_a_timer_for_each():
    dag = Dag()
    for n in range(4000):
        above = [dag[f"{n - 100}"], dag[f"{n - 100 - (n % 100 > 0)}"]] if n >= 100 else [0, 1]
        dag.add(f"{n}", one_more, *above, request=Cores(1))
    async with Executor(local=SMALL):
        report = await dag.run()
    assert report.succeeded == 4000
    assert report["3999"].value == 41


# --- from a plain script ---


def test_the_blocking_form_returns_the_report():
    dag = Dag.from_edges({"a": value, "b": avalue}, [("a", "b")], requests={"a": Cores(1)})
    report = run(dag.run, local=Cores([0]))
    assert [job.status for job in report.values()] == ["succeeded", "succeeded"]
