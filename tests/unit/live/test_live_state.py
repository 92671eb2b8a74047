"""The state that viewers make of a head's updates."""

from grainlike.live import LiveState, Slot, Throughput
from grainlike.wire import LiveIs, RunningRow, Totals, WorkerRow


def totals(succeeded=0, failed=0, timed_out=0) -> Totals:
    return Totals(
        succeeded=succeeded,
        failed=failed,
        skipped=0,
        timed_out=timed_out,
        cancelled=0,
        total_seconds=0.0,
        run_seconds=0.0,
    )


def worker(name: str, resources: str, shut: str = "") -> WorkerRow:
    return WorkerRow(name, resources, [], 1, 0, 0, 0.0, shut=shut)


def runs(job: int, worker: str, slots: str) -> RunningRow:
    return RunningRow(job, worker, slots, "train", 1, 5.0, 0, "")


def update(at=1.0, *, full=False, more=False, workers=(), left=(), began=(), ended=((), ()), done=0) -> LiveIs:
    ends = list(ended[0]), list(ended[1])
    return LiveIs(1, at, 9.0, full, more, {"running": 1}, totals(done), 2, list(workers), list(left), list(began), ends)


def test_a_job_is_on_the_slots_that_it_holds_until_it_ends() -> None:
    state = LiveState()
    one, two = runs(7, "n1", "cores=[0,2] gpus=[1]"), runs(8, "n1", "gpus=[1]")
    state.take(update(full=True, workers=[worker("n1", "cores=[0,1,2] gpus=[0,1] memory=8Gi")], began=[one, two]))
    assert state.slots("n1") == [
        Slot("cores", 0, (one,)),
        Slot("cores", 1, ()),
        Slot("cores", 2, (one,)),
        Slot("gpus", 0, ()),
        Slot("gpus", 1, (one, two)),
    ]
    state.take(update(ended=([7], ["n1"])))
    assert [slot.jobs for slot in state.slots("n1")] == [(), (), (), (), (two,)]
    assert state.running("n1") == [two]


def test_a_gang_that_ends_on_one_worker_stays_on_the_other() -> None:
    state = LiveState()
    workers = [worker("n1", "cores=[0]"), worker("n2", "cores=[0]")]
    state.take(update(full=True, workers=workers, began=[runs(3, "n1", "cores=[0]"), runs(3, "n2", "cores=[0]")]))
    assert [job.worker for job in state.all_running()] == ["n1", "n2"]
    state.take(update(ended=([3], ["n2"])))
    assert [job.worker for job in state.all_running()] == ["n1"]


def test_a_worker_that_leaves_takes_its_jobs_along_and_may_come_back_empty() -> None:
    state = LiveState()
    state.take(update(full=True, workers=[worker("n1", "cores=[0]")], began=[runs(1, "n1", "cores=[0]")]))
    state.take(update(left=["n1"]))
    assert (state.workers, state.slots("n1"), list(state.all_running())) == ({}, [], [])
    state.take(update(workers=[worker("n1", "cores=[0]", shut="silent")]))
    assert (state.workers["n1"].shut, state.slots("n1")) == ("silent", [Slot("cores", 0, ())])


def test_jobs_that_move_to_other_slots_are_told_as_an_end_and_a_beginning() -> None:
    state = LiveState()
    state.take(update(full=True, workers=[worker("n1", "cores=[0,1]")], began=[runs(1, "n1", "cores=[0]")]))
    state.take(update(began=[runs(1, "n1", "cores=[1]")]))
    assert [bool(slot.jobs) for slot in state.slots("n1")] == [False, True]


def test_a_moment_of_several_messages_is_whole_with_the_last() -> None:
    state = LiveState()
    assert not state.take(update(full=True, more=True, workers=[worker("n1", "cores=[0]")]))
    assert state.take(update(workers=[worker("n2", "cores=[0]")]))
    assert list(state.workers) == ["n1", "n2"]


def test_a_full_update_replaces_all_that_was_known() -> None:
    state = LiveState()
    state.take(
        update(1.0, full=True, workers=[worker("old", "cores=[0]")], began=[runs(1, "old", "cores=[0]")], done=5)
    )
    state.take(update(2.0, full=True, workers=[worker("new", "cores=[0]")], done=0))
    assert (list(state.workers), list(state.all_running())) == (["new"], [])
    assert state.throughput.rate(2.0) == 0.0


def test_the_rate_is_of_the_last_ten_seconds_and_falls_to_nothing_without_updates() -> None:
    pace = Throughput()
    assert pace.rate(0.0) == 0.0
    pace.add(0.0, totals())
    assert pace.rate(0.0) == 0.0
    for second in range(1, 31):
        pace.add(float(second), totals(100 * second, failed=second // 2))
    assert 99 < pace.rate(30.0) < 102
    assert 0.4 < pace.failures(30.0) < 0.6
    assert 45 < pace.rate(35.0) < 60
    assert pace.rate(41.0) == 0.0


def test_failures_and_timeouts_count_as_ends_and_cancelled_jobs_do_not() -> None:
    pace = Throughput()
    pace.add(0.0, totals())
    pace.add(2.0, totals(4, failed=2, timed_out=2))
    assert (pace.rate(2.0), pace.failures(2.0)) == (4.0, 2.0)
