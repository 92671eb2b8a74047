"""Values that find no room where their jobs ran: who runs again, where, how often, and what is learned of it."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores, Memory, Nodes, Resource
from grainlike.scheduler import (
    FunctionDefined,
    JobsCommitted,
    JobsRequeued,
    JobsSettled,
    OutputsUnfit,
    Ticked,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.scheduler.planning import _planner
from grainlike.wire import Code, Completed, LeaseStart

FOREVER = 1e6


class Outputs(Stores):
    """As `Stores`; a job may end without room for its value."""

    def lacks_room(self, job, megabytes):
        """End a job that runs, whose value of so many megabytes found no room."""
        _, _, worker, cls, attempt = self.take_running(job)
        for name, amount in self.head.shapes[cls].units:
            self.free_at_work[worker][name] += amount
        start = LeaseStart(job, cls, "", [job], [attempt], self.begun[job])
        columns = [job], [attempt], [int(Code.FAILED)], [0.0], [1.0], [0.0], [0], [b""], []
        done = Completed(job, *columns, self.now, wanted={job: megabytes * MB})
        self.tell(WorkerReported(worker, [start], [done], [job]))

    def why_unfit(self, job):
        (found,) = [action.why for action in self.told(OutputsUnfit) if action.jobs == [job]]
        assert job not in self.head.jobs
        return found

    def settled(self):
        return [number for action in self.told(JobsSettled) for number in action.completed.jobs]


def test_a_job_whose_value_found_no_room_runs_once_at_each_worker_that_could_hold_it():
    world = Outputs(300, 400, 100)
    job = world.call(Cores(1), 1.0)
    tried = [world.started_on[job]]
    world.lacks_room(job, 250)
    assert world.told(JobsRequeued)[-1].jobs == [job]
    tried.append(world.started_on[job])
    assert sorted(tried) == [1, 2]
    assert world.head.jobs[job].attempt == 2
    world.lacks_room(job, 250)
    assert world.why_unfit(job) == (
        f"its value of 250 MB found no room at n{tried[0]} (store {300 if tried[0] == 1 else 400} MB) and "
        f"n{tried[1]} (store {300 if tried[1] == 1 else 400} MB); the largest store of all others that could run it, "
        "n3's, is 100 MB"
    )
    assert job not in world.settled()


def test_it_ends_well_where_there_is_room():
    world = Outputs(300, 300)
    job = world.call(Cores(1), 1.0, size=200 * MB)
    world.lacks_room(job, 200)
    world.run()
    assert job in world.settled()
    assert not world.told(OutputsUnfit)
    assert world.head.jobs == {}


def test_a_value_that_is_too_large_for_every_store_fails_at_once_and_the_largest_is_named():
    world = Outputs(100, 300)
    world.submit(Cores(1), FOREVER)
    job = world.call(Cores(1), 1.0)
    world.lacks_room(job, 500)
    others = {1: "n2's, is 300 MB", 2: "n1's, is 100 MB"}
    here = world.started_on[job]
    assert world.why_unfit(job) == (
        f"its value of 500 MB found no room at n{here} (store {100 if here == 1 else 300} MB); "
        f"the largest store of all others that could run it, {others[here]}"
    )
    assert world.head._functions[1].gives == 0  # it says nothing of where others have room


@pytest.mark.parametrize("where", ["alone", "bound"])
def test_it_fails_as_it_did_where_no_other_worker_could_run_it(where):
    world = Outputs(100)
    request = Cores(1)
    if where == "bound":
        world.join(Cores(1) & Resource("here", 1), store=100 * MB)
        world.join(Cores(1), store=900 * MB)
        request = Cores(1) & Resource("here", 1)
    job = world.call(request, 1.0)
    world.lacks_room(job, 60)
    assert job in world.settled()
    assert not world.told(OutputsUnfit)


def test_one_that_may_not_run_again_fails_and_that_is_said():
    world = Outputs(100, 900)
    world.tell(FunctionDefined(2, losses=0))
    busy = world.submit(Cores(1), FOREVER)
    job = world.call(Cores(1), 1.0, fn=2)
    here = world.started_on[job]
    world.lacks_room(job, 90)
    found = f"found no room at n{here} (store {100 if here == 1 else 900} MB)"
    assert world.why_unfit(job).endswith(f"{found}, and its function may not run again (losses=0)")
    assert set(world.head.jobs) == {busy}


def test_one_that_has_given_items_of_its_stream_away_does_not_run_again():
    world = Outputs(100, 900)
    job = world.call(Cores(1), 1.0)
    world.tell(JobsCommitted([job]))
    world.lacks_room(job, 90)
    assert job in world.settled()


def test_retries_come_after_the_other_workers_and_count_from_there():
    world = Outputs(100, 100)
    world.tell(FunctionDefined(2, retries=1))
    job = world.call(Cores(1), 1.0, fn=2)
    tried = [world.started_on[job]]
    world.lacks_room(job, 90)
    assert world.head.jobs[job].failures == 0
    tried.append(world.started_on[job])
    world.lacks_room(job, 90)
    assert world.head.jobs[job].failures == 1
    assert sorted(tried) == [1, 2]
    world.lacks_room(job, 90)
    assert "n1 (store 100 MB)" in world.why_unfit(job)


def test_one_that_is_tried_again_goes_to_a_worker_that_has_come_meanwhile():
    world = Outputs(100)
    world.tell(FunctionDefined(2, retries=1))
    job = world.call(Cores(1), 1.0, fn=2)
    world.lacks_room(job, 90)
    assert (world.head.jobs[job].attempt, world.started_on[job]) == (2, 1)
    world.join(Cores(1), store=100 * MB)
    world.lacks_room(job, 90)
    assert (world.head.jobs[job].attempt, world.started_on[job]) == (3, 2)


def test_a_gang_does_not_run_again_for_room():
    world = Outputs(100, 100, 900)
    job = world.submit(Nodes(2, each=Cores(1)), FOREVER)
    assert world.head._state.transfers.rooms.why_nowhere(world.head.jobs[job]) == ""
    world.head._state.transfers.rooms.lacked(world.head.workers[1], world.head.jobs[job], 90 * MB)


@pytest.mark.parametrize("few", [64, 0])
def test_it_waits_for_the_other_worker_while_that_is_busy_and_starts_at_the_first_when_that_is_gone(few, monkeypatch):
    monkeypatch.setattr(_planner, "FEW", few)
    world = Outputs(100)
    world.join(Cores(1) & Resource("there", 1), store=100 * MB)
    world.submit(Cores(1) & Resource("there", 1), FOREVER)
    job = world.call(Cores(1), 1.0)
    here, other = 1, 2
    world.lacks_room(job, 90)
    begun = world.begun[job]
    world.now += 1.0
    world.tell(Ticked())
    assert world.begun[job] == begun
    reason, words = world.why(job)
    assert reason == "store"
    assert f"n{here} had none for its value, n{other} may have" in words
    assert f"It ran before: its value of 90 MB found no room at n{here} (store 100 MB)." in words
    world.lose(other)
    assert (world.begun[job], world.started_on[job]) == (world.now, here)
    world.lacks_room(job, 90)
    assert job in world.settled()  # no other worker is there


def test_others_start_meanwhile_where_it_found_no_room():
    world = Outputs()
    for _ in range(2):
        world.join(Cores(1) & Memory("1Gi"), store=100 * MB)
    blocker, job = world.submit(Cores(1), FOREVER), world.call(Cores(1), 1.0)
    here = world.started_on[job]
    world.lacks_room(job, 90)
    later = world.submit(Cores(1) & Memory("1Mi"), 1.0)
    assert world.started_on[later] == here
    assert set(world.head.jobs) == {blocker, job, later}


def test_a_job_with_inputs_goes_where_its_value_has_room_with_them():
    world = Outputs(100, 300)
    (value,) = world.values(1, 40)
    job = world.call(Cores(1), 1.0, value)
    assert world.started_on[job] == 1
    world.lacks_room(job, 70)
    world.later(1.0)
    world.arrive_all()
    assert world.started_on[job] == 2
    world.lacks_room(job, 70)
    assert "n1 (store 100 MB) and n2 (store 300 MB)" in world.why_unfit(job)


def test_one_whose_inputs_leave_no_room_elsewhere_fails():
    world = Outputs(300, 100)
    (value,) = world.values(1, 40)
    job = world.call(Cores(1), 1.0, value)
    world.lacks_room(job, 70)  # 110 in all
    assert "n2's, is 100 MB" in world.why_unfit(job)


# --- what is learned -------------------------------------------------------------------------------------------------


def test_a_function_whose_jobs_have_all_failed_teaches_how_much_room_they_need():
    world = Outputs(100, 300)
    world.function(2)
    world.values(1, 50)  # half of it: that is not nearly full
    assert not world.head.workers[1].crowded
    blocker = world.submit(Cores(1), FOREVER)
    first = world.call(Cores(1), 1.0, fn=2)
    assert {world.started_on[blocker], world.started_on[first]} == {1, 2}
    world.lacks_room(first, 70)
    assert world.head._functions[2].gives == 70 * MB
    world = Outputs(100, 300)
    world.function(2)
    world.values(1, 50)
    world.head._functions[2].gives = 70 * MB
    jobs = world.call(Cores(1), 5.0, fn=2, n=2)
    assert world.started_on[jobs[0]] == 2
    assert jobs[1] not in world.begun
    assert world.why(jobs[1])[1].endswith("its function gave 70 MB, for which n1 has no room; n2 has.")
    world.run(world.now + 5.0)
    assert world.started_on[jobs[1]] == 2


@pytest.mark.parametrize("few", [64, 0])
def test_what_waits_for_room_starts_at_a_tight_worker_when_the_other_has_none_any_more(few, monkeypatch):
    monkeypatch.setattr(_planner, "FEW", few)
    world = Outputs(100)
    for _ in range(2):
        world.join(Cores(1) & Resource("there", 1), store=100 * MB)
    world.function(2)
    world.values(1, 50)
    world.head._functions[2].gives = 70 * MB
    world.submit(Cores(1) & Resource("there", 1), FOREVER, n=2)
    job = world.call(Cores(1), 5.0, fn=2)
    assert job not in world.begun
    world.lose(2)
    assert job not in world.begun
    world.tell(WorkerSuspected(3, broke=False))
    assert world.started_on[job] == 1


def test_nothing_is_sent_ahead_to_where_its_value_found_no_room():
    world = Outputs(100, 100)
    world.function(2, known_s=0.01)
    jobs = world.call(Cores(1), 0.01, fn=2, n=2)
    world.lacks_room(jobs[0], 90)
    assert not any(action.ahead and jobs[0] in action.jobs for action in world.actions if hasattr(action, "ahead"))
    assert jobs[0] not in world.head.workers[world.started_on[jobs[0]]].ahead


# --- jobs that wait for each other's room ----------------------------------------------------------------------------


def swapped(megabytes, kept=()):
    """Return a world of two workers, and a job at each that needs a value which does not fit beside that of the other.
    At the first worker there are values of so many megabytes (`kept`), too.
    """
    world = Outputs(100, 100)
    world.values(1, *kept)
    (one,), (two,) = world.values(1, 60), world.values(2, 60)
    jobs = [world.call(Cores(1), 1.0, value, size=megabytes * MB) for value in (one, two)]
    assert [world.started_on[job] for job in jobs] == [1, 2]
    world.release(one, two)
    return world, *jobs


def test_a_job_runs_once_more_where_its_value_found_no_room_if_all_others_wait_for_each_others_room():
    world, first, second = swapped(20)
    world.lacks_room(first, 20)
    begun = world.begun[first]
    world.later(0.1)
    assert world.begun[first] == begun  # the end of the other one could make room for its input
    world.lacks_room(second, 20)
    world.later(0.1)
    assert (world.begun[first], world.started_on[first]) == (world.now, 1)
    assert world.head.jobs[first].attempt == 2
    assert second not in world.head.workers[2].held  # the end of the first makes room for its input
    world.run()
    world.arrive_all()
    world.run()
    assert world.started_on[second] == 1
    assert {first, second} <= set(world.settled())
    assert not world.told(OutputsUnfit)


def test_it_runs_there_once_more_and_no_oftener():
    world, first, second = swapped(20)
    world.lacks_room(first, 20)
    world.lacks_room(second, 20)
    world.later(0.1)
    world.lacks_room(first, 20)
    world.later(0.1)
    assert first not in world.head.workers[1].held
    assert "found no room at n1 (store 100 MB)." in world.why(first)[1]
    assert (world.begun[second], world.started_on[second]) == (world.now, 2)  # its turn
    world.run()
    world.arrive_all()
    world.run()
    assert world.started_on[first] == 2
    assert {first, second} <= set(world.settled())


def test_it_waits_while_there_is_no_room_for_its_value_where_that_found_none():
    world, first, second = swapped(35, kept=[10])
    world.lacks_room(first, 35)
    world.lacks_room(second, 35)
    world.later(0.1)
    assert first not in world.head.workers[1].held
    assert (world.begun[second], world.started_on[second]) == (world.now, 2)  # there is room for its value
    world.lacks_room(second, 35)
    world.release(1)
    world.later(0.1)
    assert (world.begun[first], world.started_on[first]) == (world.now, 1)
