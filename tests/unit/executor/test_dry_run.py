"""`dry_run`: the same scheduler, in virtual time, on graphs that nobody runs."""

from __future__ import annotations

import json
import subprocess
import sys
from xml.etree import ElementTree as Xml

import anyio
import pytest
from counting import counted
from limits import LIMIT_S

from grainlike import (
    Cores,
    GPUs,
    GraphError,
    Memory,
    Node,
    Nodes,
    ResourceSpecError,
    WallTime,
    delayed,
    delayed_value,
    dry_run,
    gather,
    info,
)
from grainlike.dryrun._workload import rehearsed
from grainlike.graph import node_of

pytestmark = pytest.mark.anyio


@delayed
def fit(*_inputs):
    raise AssertionError("a dry run runs no user code")


@delayed
def wide(*_inputs):
    raise AssertionError("a dry run runs no user code")


@delayed
async def merge(*_inputs):
    raise AssertionError("a dry run runs no user code")


@delayed
def local(*_inputs):
    raise AssertionError("a dry run runs no user code")


def starts(plan, name):
    return [job.start_s for job in plan.jobs if job.name == name]


async def test_jobs_share_cores_and_dependencies_hold():
    fits_ = [(fit @ Cores(1))(fold) for fold in range(4)]
    plan = await dry_run((merge @ Cores(2))(fits_), workers=[Cores(2)], durations={"fit": 3, "merge": 1.5})
    assert starts(plan, "fit") == [0.0, 0.0, 3.0, 3.0]
    assert starts(plan, "merge") == [6.0]
    assert plan.makespan_s == 7.5
    assert plan.utilisation == 1.0
    assert plan.core_hours == pytest.approx(15.0 / 3600)
    assert [job.queued_s for job in plan.jobs] == [0.0, 0.0, 3.0, 3.0, 0.0]


async def test_jobs_tell_worker_and_slots():
    plan = await dry_run(
        [(fit @ Node(1, "4Gi"))(n) for n in range(3)],
        workers=[Node(2, "8Gi"), Cores([7]) & Memory("4Gi")],
        durations={"fit": 1},
    )
    assert sorted((job.worker, job.allocation.cores) for job in plan.jobs) == [("n1", (0,)), ("n1", (1,)), ("n2", (7,))]
    assert {job.allocation.memory for job in plan.jobs} == {4 << 30}
    assert {job.request for job in plan.jobs} == {Node(1, "4Gi")}


async def test_what_runs_in_the_callers_process_takes_no_time_and_passes_dependencies_on():
    first_ = (fit @ Cores(1))()
    last_ = (wide @ Cores(1))(local(first_ + 1)[0], gather(first_, 5))
    plan = await dry_run(last_, workers=[Cores(4)], durations={"fit": 2, "wide": 1})
    assert [(job.name, job.start_s) for job in plan.jobs] == [("fit", 0.0), ("wide", 2.0)]


async def test_placeholders_stay_lazy_and_unbound():
    last_ = (merge @ Cores(1))(inner_ := (fit @ Cores(1))())
    await dry_run(last_, workers=[Cores(1)], durations={}, default=1.0)
    for r_ in (inner_, last_):
        assert info(r_).state == "lazy"
        assert node_of(r_).owner is None
        assert node_of(r_).dependents is None


async def test_what_has_finished_takes_no_time_and_what_failed_is_missed():
    failed_ = local()
    node_of(failed_).fail(ValueError("no"))
    good_, bad_ = (fit @ Cores(1))(delayed_value(1)), (fit @ Cores(1))(failed_)
    plan = await dry_run(good_, (merge @ Cores(1))(local(bad_)), workers=[Cores(1)], durations={}, default=1.0)
    assert len(plan.jobs) == 1
    assert plan.skipped == {"fit": 1, "merge": 1}


async def test_one_several_or_an_iterable_of_placeholders():
    def some():
        return (fit @ Cores(1))(1), (fit @ Cores(1))(2)

    for given in (some(), (some(),), (iter(some()),)):
        assert len((await dry_run(*given, workers=[Cores(2)], durations={"fit": 1})).jobs) == 2
    assert len((await dry_run(some()[0], workers=[Cores(2)], durations={"fit": 1})).jobs) == 1
    shared_ = some()[0]
    assert len((await dry_run(shared_, shared_, workers=[Cores(2)], durations={"fit": 1})).jobs) == 1


async def test_durations_may_be_asked_for_each_call():
    asked = []

    def seconds(name, request):
        asked.append((name, request))
        return float(len(asked))

    calls_ = [(fit @ Cores(1))(1), (fit @ Cores(2))(2)]
    plan = await dry_run(calls_, workers=[Cores(4)], durations=seconds)
    assert asked == [("fit", Cores(1)), ("fit", Cores(2))]
    assert sorted(job.end_s - job.start_s for job in plan.jobs) == [1.0, 2.0]


async def test_unknown_functions_are_named_all_at_once():
    calls_ = [(fit @ Cores(1))(), (wide @ Cores(1))(local()), (merge @ Cores(1))()]
    with pytest.raises(GraphError, match="how long wide, merge takes"):
        await dry_run(calls_, workers=[Cores(1)], durations={"fit": 1})


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"durations": {"fit": -1}}, ValueError, r"durations\['fit'\] is -1"),
        ({"durations": {"fit": float("nan")}}, ValueError, "finite"),
        ({"durations": {"fit": "2 s"}}, TypeError, "number of seconds, not str"),
        ({"durations": lambda name, request: float("inf")}, ValueError, "what durations gave for fit"),
        ({"durations": 3}, TypeError, "mapping from function names"),
        ({"durations": {}, "default": -2}, ValueError, "default is -2"),
        ({"workers": []}, ValueError, "needs workers"),
        ({"workers": Cores(2)}, TypeError, "list of offers"),
        ({"workers": ["cores=2"]}, ResourceSpecError, "not an offer"),
    ],
)
async def test_what_makes_no_sense_is_said(options, error, said):
    with pytest.raises(error, match=said):
        await dry_run((fit @ Cores(1))(), **{"workers": [Cores(1)], "durations": {"fit": 1}, **options})


@pytest.mark.parametrize("what", [3, "fit", [4], None])
async def test_what_is_no_placeholder_is_refused(what):
    with pytest.raises(TypeError, match="placeholder"):
        await dry_run(what, workers=[Cores(1)], durations={})


async def test_what_can_never_run_is_told_and_the_rest_is_planned():
    huge_ = [(wide @ Cores(9))(n) for n in range(3)]
    gang_ = (fit @ Nodes(3, each=Cores(1)))()
    last_ = (merge @ Cores(1))(huge_, gang_)
    plan = await dry_run(last_, (fit @ Cores(1))(), workers=[Cores(2), Cores(4)], durations={}, default=1)
    assert [job.name for job in plan.jobs] == ["fit"]
    told = {(one.name, one.request): (one.jobs, one.why) for one in plan.unsatisfiable}
    assert told["wide", Cores(9)][0] == 3
    assert "nearest is n2" in told["wide", Cores(9)][1]
    assert "it needs 3 workers that can give cores=1; there are 2" in told["fit", Nodes(3, each=Cores(1))][1]
    assert plan.skipped == {"merge": 1}
    assert "never runs: 3 calls of wide" in str(plan)
    assert "skipped: 1 call of merge" in str(plan)


async def test_a_job_on_several_nodes_is_planned_and_drawn_on_all_of_them(tmp_path):
    gangs_ = [(fit @ Nodes(2, each=Cores(2)))(n) for n in range(2)]
    alone_ = (merge @ Cores(1))(0)
    plan = await dry_run(alone_, *gangs_, workers=[Cores(2)] * 3, durations={"fit": 10, "merge": 1})
    first = next(job for job in plan.jobs if job.name == "fit")
    assert [(worker, slots.cores) for worker, slots in first.nodes] == [("n2", (0, 1)), ("n3", (0, 1))]
    assert (first.worker, first.allocation.cores) == ("n2", (0, 1))
    assert sorted((job.name, job.start_s, len(job.nodes)) for job in plan.jobs) == [
        ("fit", 0.0, 2),
        ("fit", 10.0, 2),
        ("merge", 0.0, 0),
    ]
    assert plan.core_hours == pytest.approx((2 * 4 * 10 + 1) / 3600)
    plan.trace(tmp_path / "plan.json")
    events = json.loads((tmp_path / "plan.json").read_text())
    rows = events["traceEvents"] if isinstance(events, dict) else events
    assert sum(row.get("name") == "fit" and row["ph"] == "X" for row in rows) == 8
    plan.picture(tmp_path / "plan.svg")


async def test_jobs_for_which_no_time_is_left_are_told():
    calls_ = [(fit @ (Cores(1) & WallTime(40)))(n) for n in range(3)]
    plan = await dry_run(calls_, workers=[Cores(1) & WallTime(100)], durations={"fit": 40})
    assert [job.start_s for job in plan.jobs] == [0.0, 40.0]
    assert [(one.jobs, "more time than any worker has left" in one.why) for one in plan.unsatisfiable] == [(1, True)]


async def test_priorities_and_timeouts_are_the_functions_own():
    urgent = delayed(fit.function.callable, name="urgent", priority=1)
    late = delayed(fit.function.callable, name="late", timeout=2, retries=1)
    calls_ = [(fit @ Cores(1))(), (fit @ Cores(1))(), (urgent @ Cores(1))(), (merge @ Cores(1))((late @ Cores(1))())]
    plan = await dry_run(calls_, workers=[Cores(1)], durations={"late": 60}, default=1)
    assert (starts(plan, "fit"), starts(plan, "urgent")) == ([1.0, 2.0], [0.0])
    lates = [job for job in plan.jobs if job.name == "late"]
    assert [(job.attempt, job.status, job.end_s - job.start_s) for job in lates] == [
        (1, "timed_out", 2.0),
        (2, "timed_out", 2.0),
    ]
    assert plan.skipped == {"merge": 1}
    assert "2 timed out" in str(plan)


async def narrow_jobs_and_a_wide_one():
    """Chains of narrow jobs that never end at one moment, and a job for the whole worker."""
    chains_ = [None] * 4
    for length in range(30):
        chains_ = [(fit @ Cores(1))(length, chain_) for chain_ in chains_]
    seconds = iter([0.7, 1.0, 1.3, 1.6] * 1000)
    return await dry_run(
        *chains_,
        (wide @ Cores(4))(),
        workers=[Cores(4)],
        durations=lambda name, _: next(seconds) if name == "fit" else 1,
    )


async def test_the_plan_is_the_schedulers(monkeypatch):
    """With a rule taken out of the scheduler, here the reservations for wide jobs, the plan is another one."""
    with_rule = await narrow_jobs_and_a_wide_one()
    monkeypatch.setattr("grainlike.scheduler.planning._reservations.reserve_on", lambda *_: None)
    without = await narrow_jobs_and_a_wide_one()
    assert starts(with_rule, "wide")[0] < 3.0
    assert starts(without, "wide")[0] > 10.0


async def test_the_same_arguments_give_the_same_plan():
    assert await narrow_jobs_and_a_wide_one() == await narrow_jobs_and_a_wide_one()


async def test_planning_grows_with_the_number_of_calls_and_no_faster():
    async def calls_to_plan(calls: int) -> int:
        total_ = 0
        for fold in range(calls):
            total_ = total_ + (fit @ Cores(1 + fold % 4))(fold)
        with counted() as count:
            plan = await dry_run(total_, workers=[Node(16, "64Gi")] * 4, durations={"fit": 2})
        assert len(plan.jobs) == calls
        assert plan.utilisation > 0.9
        return count.python + count.c

    few, many = await calls_to_plan(500), await calls_to_plan(2_000)
    assert few < many < 4.8 * few  # and a heap's depth


async def test_others_run_meanwhile_and_it_can_be_cancelled():
    calls_ = [(fit @ Cores(1))(n) for n in range(3_000)]
    fairness = 0

    async def count():
        nonlocal fairness
        while True:
            await anyio.lowlevel.checkpoint()
            fairness += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await dry_run(calls_, workers=[Cores(4)], durations={"fit": 1})
        group.cancel_scope.cancel()
    assert fairness > 10
    with anyio.CancelScope() as scope:
        scope.cancel()
        await dry_run(calls_, workers=[Cores(4)], durations={"fit": 1})
    assert scope.cancelled_caught


async def test_trace_and_picture(tmp_path):
    calls_ = [(fit @ Cores(2))(1), (wide @ Cores(1))(2)]
    plan = await dry_run(calls_, workers=[Cores(2), Cores(1)], durations={"fit": 2, "wide": 1})
    plan.trace(tmp_path / "plan.json")
    events = json.loads((tmp_path / "plan.json").read_text())["traceEvents"]
    bars = [(bar["name"], bar["tid"], bar["dur"]) for bar in events if bar["ph"] == "X"]
    assert sorted(bars) == [("fit", 0, 2e6), ("fit", 1, 2e6), ("wide", 0, 1e6)]
    assert next(bar for bar in events if bar["ph"] == "X")["args"]["status"] == "succeeded"
    plan.picture(str(tmp_path / "plan.svg"))
    texts = [text.text for text in Xml.parse(tmp_path / "plan.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert {"core 0", "core 1", "n1", "n2", "fit", "wide"} <= set(texts)


async def test_jobs_without_cores_are_planned_and_traced_but_not_drawn(tmp_path):
    plan = await dry_run((fit @ GPUs(0.5))(), (fit @ GPUs(0.5))(), workers=[GPUs(1)], durations={"fit": 2})
    assert [job.start_s for job in plan.jobs] == [0.0, 0.0]
    assert (plan.utilisation, plan.core_hours) == (0.0, 0.0)
    plan.trace(tmp_path / "plan.json")
    with pytest.raises(ValueError, match="nothing to draw"):
        plan.picture(tmp_path / "plan.svg")


async def test_nothing_to_do_is_a_plan_too():
    plan = await dry_run(local(), delayed_value(3), workers=[Cores(1)], durations={})
    assert (plan.jobs, plan.makespan_s, plan.utilisation) == ((), 0.0, 0.0)
    assert str(plan) == "0 jobs in 0 s on 1 worker with 1 core: 0.0% of the cores' time, 0 core-hours"


async def test_the_text_says_the_main_things():
    plan = await dry_run([(fit @ Cores(1))(n) for n in range(2_000)], workers=[Cores(10)] * 2, durations={"fit": 90})
    assert str(plan).splitlines() == [
        "2,000 jobs in 2:30:00 h on 2 workers with 20 cores: 100.0% of the cores' time, 50 core-hours",
        "  fit  2,000 jobs of 90 s, queued for 1:14:15 h on average and 2:28:30 h at most",
    ]
    assert repr(plan) == "<Plan: 2,000 jobs in 2:30:00 h on 2 workers with 20 cores>"


def test_no_executor_comes_of_it():
    """In a process of its own: nothing but an event loop, and neither a worker's code nor a child process."""
    program = (
        "import asyncio, sys\nfrom grainlike import Cores, delayed, dry_run\n"
        "r_ = (delayed(len) @ Cores(1))([])\n"
        "plan = asyncio.run(dry_run(r_, workers=[Cores(1)], durations={'len': 1}))\n"
        "assert plan.makespan_s == 1.0\n"
        "assert not [name for name in sys.modules if name.startswith('grainlike_worker')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S)


def test_functions_options_reach_the_simulation():
    """Same callable and same options: one function to the head, which learns its run times together."""
    call = merge.function.callable
    one, same, other = (
        delayed(call, isolate=True),
        delayed(call, isolate=True),
        delayed(call, isolate=True, retries=2),
    )
    calls = [node_of((function @ Cores(1))()) for function in (one, same, other)]
    found = rehearsed(calls, {"merge": 1}, None).workload
    assert [(plan.fn, plan.isolate, plan.awaits) for plan in found.jobs] == [(0, True, True)] * 2 + [(1, True, True)]
    assert [(plan.name, plan.is_async, plan.retries) for plan in found.functions] == [
        ("merge", True, 0),
        ("merge", True, 2),
    ]


async def test_what_others_run_already_is_planned_from_its_beginning():
    first_ = (fit @ Cores(1))()
    last_ = (wide @ Cores(1))(first_)
    node_of(first_).owner = object()
    plan = await dry_run(last_, workers=[Cores(4)], durations={"fit": 2, "wide": 1})
    assert [(job.name, job.start_s) for job in plan.jobs] == [("fit", 0.0), ("wide", 2.0)]


async def test_what_takes_exceptions_for_values_is_planned_behind_what_fails():
    late = delayed(fit.function.callable, name="late", timeout=2)
    failing_ = [(late @ Cores(1))(), (fit @ Cores(64))()]
    cancelled_ = (fit @ Cores(1))()
    node_of(cancelled_).cancel()
    good_ = (merge @ Cores(1))(gather(failing_[0], cancelled_, return_exceptions=True))
    bad_ = (wide @ Cores(1))(gather(failing_))
    plan = await dry_run(good_, bad_, workers=[Cores(1)], durations={}, default=5)
    assert starts(plan, "merge") == [2.0]
    assert starts(plan, "wide") == []


# --- bytes -----------------------------------------------------------------------------------------------------------

MB = 10**6


async def moved(*placeholders, seconds=5.0, **sizes):
    plan = await dry_run(
        *placeholders, workers=[Cores(2)] * 2, durations={"fit": 1.0, "wide": seconds, "merge": seconds}, sizes=sizes
    )
    assert not plan.unsatisfiable
    return plan.moved


async def test_a_value_is_moved_once_where_that_is_sooner_and_not_where_it_is_not():
    value_ = (fit @ Cores(1))()
    readers = [(wide @ Cores(1))(value_) for _ in range(8)]
    assert await moved(readers, fit=50 * MB) == 50 * MB
    assert await moved(readers, fit=50 * MB, seconds=0.002) == 0
    assert await moved(readers) == await moved(readers, fit=1_000) == 0


async def test_a_chain_stays_where_it_began():
    value_ = (fit @ Cores(1))()
    for _ in range(5):
        value_ = (wide @ Cores(1))(value_)
    assert await moved(value_, fit=50 * MB, wide=20 * MB) == 0


@pytest.mark.parametrize("way", [lambda parts: parts, gather, lambda parts: [gather(parts)]])
async def test_what_is_gathered_for_a_job_is_moved_to_it(way):
    parts = [(fit @ Cores(1))() for _ in range(4)]  # two at each worker
    assert await moved((merge @ Cores(1))(way(parts)), fit=50 * MB) == 100 * MB


async def test_moving_takes_time_and_the_text_says_how_much():
    parts = [(fit @ Cores(1))() for _ in range(4)]
    given = {"workers": [Cores(2)] * 2, "durations": {"fit": 1.0, "merge": 5.0}}
    plan = await dry_run((merge @ Cores(1))(parts), **given, sizes={"fit": 100 * MB})
    assert 7.0 < plan.makespan_s < 8.5  # 200 MB at 100 MB a second
    assert ", 200,000,000 bytes moved" in str(plan)
    assert "moved" not in str(await dry_run((merge @ Cores(1))(parts), **given))


async def test_every_store_has_room_for_all_values():
    """However little memory a worker offers: no plan foretells a disk, or a wait for room."""
    parts = [(fit @ Cores(1))() for _ in range(2)]
    given = {"workers": [Node(1, "1Gi")] * 2, "durations": {"fit": 1.0, "merge": 5.0}}
    plan = await dry_run((merge @ Cores(1))(parts), **given, sizes={"fit": 100_000 * MB})
    assert plan.moved == 100_000 * MB


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
async def test_a_size_that_is_none_is_refused(size, error):
    with pytest.raises(error, match=r"sizes\['fit'\]"):
        await dry_run((fit @ Cores(1))(), workers=[Cores(1)], durations={}, default=1.0, sizes={"fit": size})
