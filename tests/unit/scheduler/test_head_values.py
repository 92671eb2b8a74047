"""Values that stay at workers: births, interest, drops, moves to where jobs run, and losses."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Nodes
from grainlike.scheduler import (
    AssignJobs,
    CancelJobs,
    CopiesLost,
    CopyMade,
    FetchReplicas,
    FunctionDefined,
    JobsCancelled,
    JobsRevived,
    JobState,
    LineageDropped,
    ReplicasDropped,
    ReplicasGone,
    ReplicationAsked,
    Ticked,
    ValuesGiven,
    ValuesWanted,
    WorkerHeard,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.wire import Code, Completed, LeaseStart


def cluster(*offers, **options):
    made = ValueCluster(*(offers or (Cores(1), Cores(1))), **options)
    made.function(1)
    return made


def a_value(world, size=50 * MB, *, fn=1):
    """A value that has just been made."""
    job = world.call(Cores(1), 0.0, fn=fn, size=size)
    world.run(world.now)
    return job


def later(world, seconds):
    world.now += seconds
    world.tell(Ticked())


def dropped(world):
    """Replicas whose removal was ordered: value, attempt and worker."""
    drops = [action for action in world.actions if isinstance(action, ReplicasDropped)]
    return [(*row, one.worker) for one in drops for row in zip(one.values, one.attempts, strict=True)]


# --- interest ---------------------------------------------------------------------------------------------------------


def test_a_value_goes_in_the_turn_in_which_its_owner_lets_go():
    world = cluster()
    value = a_value(world)
    assert world.where(value) == [1]
    world.release(value)
    assert world.where(value) == []
    assert world.forgotten == [value]
    assert not world.known


def test_a_value_whose_readers_have_ended_keeps_no_table_of_them():
    world = cluster()
    value = a_value(world)
    record = world.head._values._table.values[value]
    readers = world.call(Cores(1), 1.0, value, n=2)
    assert list(record.users) == readers
    world.run()
    assert record.users is None  # an empty dict takes 224 bytes of the head for each value
    assert world.where(value)[0] == 1


def test_a_job_that_needs_it_keeps_it_until_that_has_ended():
    world = cluster()
    value = a_value(world)
    reader = world.call(Cores(1), 1.0, value)
    world.release(value)
    assert world.started_on[reader] == 1
    assert world.where(value) == [1]
    world.run()
    assert world.where(value) == []
    assert not world.known


def test_lineage_outlives_the_bytes_of_inputs():
    world = cluster()
    first = a_value(world)
    second = world.call(Cores(1), 0.0, first, size=MB)
    world.run()
    world.release(first)
    assert world.where(first) == []
    assert world.where(second) == [1]
    assert world.known == {first, second}
    world.release(second)
    assert world.forgotten == [second, first]


def test_a_stale_attempt_leaves_no_bytes():
    world = cluster(Cores(1))
    job = world.call(Cores(1), 1.0, size=MB)
    world.tell(JobsCancelled([job]))
    world.run()
    assert world.where(job) == []
    assert not world.known


def test_a_job_whose_input_nobody_has_kept_is_told():
    world = cluster()
    job = world.call(Cores(1), 1.0, 77)
    assert [(lost, value) for lost, value, _ in world.hopeless] == [(job, 77)]
    assert job not in world.head.jobs


def test_a_cancelled_reader_wants_nothing_wherever_it_is():
    world = cluster(Cores(1), Cores(4))
    value = a_value(world)
    world.call(Cores(1), 9.0)
    for _ in range(2):
        world.call(Cores(1), 9.0)
    queued = world.call(Cores(1), 1.0, value)
    moving = world.call(Cores(2), 1.0, value)
    assert world.head.jobs[moving].state is JobState.MOVING
    world.release(value)
    world.tell(JobsCancelled([queued, moving]))
    world.arrive(value, 2)
    world.run(5.0)
    assert world.where(value) == []


# --- where jobs run ---------------------------------------------------------------------------------------------------


def test_a_chain_stays_on_its_worker_while_others_are_idle():
    world = cluster(Cores(1), Cores(1), Cores(1))
    value = a_value(world)
    for _ in range(10):
        before, value = value, world.call(Cores(1), 1.0, value, size=20 * MB)
        world.release(before)
        world.run()
        assert world.where(value) == [1]
    assert not world.told(FetchReplicas)


def test_cheap_readers_move_nothing_and_long_ones_use_both_nodes():
    world = cluster()
    world.function(2)
    value = a_value(world)
    cheap = world.call(Cores(1), 0.002, value, fn=2, n=200)
    world.run()
    assert {world.started_on[job] for job in cheap} == {1}
    long = world.call(Cores(1), 0.5, value, n=8)
    later(world, 0.6)  # moving takes 0.5 s at 100 MB/s, and a millisecond
    world.arrive(value, 2)
    world.run()
    assert {world.started_on[job] for job in long} == {1, 2}
    assert len(world.told(FetchReplicas)) == 1


def test_a_broadcast_uses_both_nodes_after_one_move():
    world = cluster(Cores(4), Cores(4))
    value = a_value(world)
    readers = world.call(Cores(1), 1.0, value, n=100)
    later(world, 0.6)
    world.arrive(value, 2)
    world.run()
    used = [world.started_on[job] for job in readers]
    assert 45 <= used.count(2) <= 55
    assert len(world.told(FetchReplicas)) == 1


def test_a_job_waits_for_its_worker_as_long_as_moving_takes():
    world = cluster()
    value = a_value(world)
    world.call(Cores(1), 9.0, value)
    reader = world.call(Cores(1), 1.0, value)
    later(world, 0.5)
    assert not world.under_way
    later(world, 0.002)
    assert list(world.under_way) == [(value, 2)]
    assert world.head.jobs[reader].state is JobState.MOVING


def test_missing_inputs_move_to_the_worker_that_has_most():
    world = cluster(Cores(1), Cores(1))
    big = a_value(world, 50 * MB)
    world.call(Cores(1), 0.5)
    small = a_value(world, 5 * MB)
    assert world.where(small) == [2]
    both = world.call(Cores(1), 1.0, big, small)
    assert list(world.under_way) == [(small, 1)]
    world.run()
    world.arrive(small, 1)
    assert world.started_on[both] == 1


def test_no_slot_waits_for_bytes():
    world = cluster()
    big, other = a_value(world), world.call(Cores(1), 0.5)
    small = a_value(world, 5 * MB)
    world.run()
    both = world.call(Cores(1), 1.0, big, small)
    assert world.head.jobs[both].state is JobState.MOVING
    another = world.call(Cores(1), 1.0)
    assert {world.started_on[another], other} <= {1, 2, other}
    assert world.begun[another] == world.now


def test_two_transfers_at_once_go_into_a_worker_and_the_oldest_job_comes_first():
    world = cluster(Cores(8), Cores(8))
    values = [a_value(world, 50 * MB) for _ in range(6)]
    assert {where for value in values for where in world.where(value)} == {1}
    readers = [world.call(Cores(8), 9.0, values[0])]
    readers += [world.call(Cores(2), 1.0, value) for value in values[1:]]
    later(world, 0.6)
    assert [world.head.jobs[job].state is JobState.MOVING for job in readers[1:]] == [True] * 5
    assert list(world.under_way) == [(values[1], 2), (values[2], 2)]
    world.arrive(values[2], 2)
    assert list(world.under_way) == [(values[1], 2), (values[3], 2)]
    assert world.started_on[readers[2]] == 2


def test_a_failed_pair_rests_and_the_next_source_goes_on():
    world = cluster(Cores(1), Cores(1), Cores(1))
    value = a_value(world)
    world.call(Cores(1), 9.0)
    world.call(Cores(1), 9.0)
    world.call(Cores(1), 9.0)
    world.call(Cores(1), 1.0, value)
    assert not world.under_way
    world.finish(*world.take_running(3)[1:])
    later(world, 0.6)
    world.fail(value, world.started_on[3])
    assert not world.under_way
    later(world, 1.1)
    later(world, 0.6)
    assert list(world.under_way) == [(value, world.started_on[3])]


def on_its_way(*workers):
    """A cluster, and a value that is on its way to n2 for nobody's sake."""
    world = cluster(*workers, has_data=True)
    value = a_value(world)
    state = world.head._state
    state.transfers.copy(state.values.values[value], 2)
    later(world, 0.0)
    assert world.under_way == {(value, 2): (1, 1)}
    return world, value


@pytest.mark.parametrize("unreachable", [True, False])
def test_what_has_come_of_a_copy_that_failed_goes_if_nobody_needs_the_value(unreachable):
    world, value = on_its_way()
    world.release(value)
    assert dropped(world) == [(value, 1, 1)]
    world.fail(value, 2, unreachable=unreachable)
    assert dropped(world) == [(value, 1, 1), (value, 1, 2)]


def test_what_has_come_of_a_copy_goes_if_its_source_is_lost_and_nobody_needs_the_value():
    world, value = on_its_way()
    world.release(value)
    world.lose(1)
    assert dropped(world) == [(value, 1, 1), (value, 1, 2)]


def test_what_has_come_of_a_copy_that_failed_stays_while_the_value_is_needed():
    world, value = on_its_way()
    world.fail(value, 2)
    assert dropped(world) == []


def test_replicas_that_cannot_be_made_keep_no_value_that_its_owner_lets_go_of():
    world = cluster(has_data=True)
    value = a_value(world)
    world.tell(ReplicationAsked([value], 2))
    world.fail(value, 2)  # and again, as there is no room
    world.release(value)
    assert world.where(value) == []
    assert not world.known


def test_a_gang_is_led_by_the_worker_that_has_its_inputs():
    world = cluster(Cores(2), Cores(2))
    a_value(world)
    world.call(Cores(1), 0.5)
    other = world.call(Cores(2), 0.0, size=50 * MB)
    world.run()
    assert world.where(other) == [2]
    gang = world.call(Nodes(2, each=Cores(2)), 1.0, other)
    assert world.told(type(world.actions[-1]))[-1].workers[0] == 2
    assert world.head.jobs[gang].worker == 2


# --- losses -----------------------------------------------------------------------------------------------------------


def test_a_lost_value_is_made_again_when_a_job_needs_it_and_not_before():
    world = cluster()
    value = a_value(world)
    world.lose(1)
    assert not world.revived
    reader = world.call(Cores(1), 1.0, value)
    assert world.revived == [value]
    world.run()
    assert world.ended[reader] > 0.0
    assert world.where(value) == [2]


@pytest.mark.parametrize("killed", ["runner", "worker"])
@pytest.mark.parametrize("losses", [1, 3])
def test_the_loss_of_a_value_is_the_first_over_the_job_that_makes_it_again(losses, killed):
    world = cluster(*[Cores(1)] * (losses + 2))
    world.tell(FunctionDefined(2, losses=losses))
    value = a_value(world, fn=2)
    world.length[value] = 1.0
    world.lose(1)
    reader = world.call(Cores(1), 1.0, value)
    assert world.revived == [value]
    for _ in range(losses):
        assert not world.hopeless
        _, _, worker, cls, attempt = world.take_running(value)
        if killed == "runner":
            world.finish(value, worker, cls, attempt, Code.CRASHED)
        else:
            start = LeaseStart(value, cls, "", [value], [attempt], world.now)
            world.tell(WorkerReported(worker, [start], [], []))
            world.lose(worker)
    why = "worker n1 was lost with it, and its function gave no value when it was run again"
    assert world.hopeless == [(reader, value, why)]
    assert len([job for action in world.told(AssignJobs) for job in action.jobs if job == value]) == 1 + losses
    assert world.revived == [value]


def test_lineage_is_made_again_by_worklist():
    world = cluster()
    chain = [a_value(world)]
    for _ in range(50):
        chain.append(world.call(Cores(1), 0.0, chain[-1], size=5 * MB))
        world.run()
    world.release(*chain[:-1])
    world.lose(1)
    world.tell(ValuesWanted([chain[-1]]))
    world.run()
    assert sorted(world.revived) == chain
    assert world.given == [(chain[-1], 2)]
    assert world.where(chain[0]) == []
    world.tell(ValuesGiven([chain[-1]]))
    world.release(chain[-1])
    assert not world.known


def test_a_suspects_replicas_count_again_when_it_is_back():
    world = cluster()
    value = a_value(world)
    world.tell(WorkerSuspected(1))
    reader = world.call(Cores(1), 1.0, value)
    assert not world.revived
    assert world.head.jobs[reader].state is JobState.MOVING
    world.tell(WorkerHeard(1))
    assert world.started_on[reader] == 1


def test_a_function_that_may_not_run_again_leaves_a_second_replica():
    world = cluster()
    world.tell(FunctionDefined(2, losses=0))
    value = a_value(world, fn=2)
    assert list(world.under_way) == [(value, 2)]
    world.arrive(value, 2)
    world.lose(1)
    reader = world.call(Cores(1), 1.0, value)
    assert world.started_on[reader] == 2
    world.lose(2)
    assert [(lost, value) for lost, value, _ in world.hopeless] == [(reader, value)]
    assert not world.revived


def test_a_value_with_a_copy_elsewhere_is_read_from_there_and_by_what_its_reader_asked_for():
    world = cluster()
    world.tell(FunctionDefined(2, losses=0))
    value, reader = a_value(world, fn=2), a_value(world)
    for event in (CopyMade(value, reader), CopyMade(value, 99), CopyMade(99, reader)):
        world.tell(event)
    world.release(reader)
    for worker in (1, 2):
        world.lose(worker)
    assert not world.revived
    world.join(Cores(1))
    world.tell(ValuesWanted([value]))
    assert [(action.jobs, action.by_copy) for action in world.told(JobsRevived)] == [([value], True)]
    world.run()
    assert world.given == [(value, 3)]
    assert world.known == {value}
    assert world.head._state.values.values[value].recomputed == 0


def test_a_copy_that_cannot_be_read_is_tried_once_and_then_the_lineage_counts():
    world = cluster()
    source = a_value(world)
    value = world.call(Cores(1), 0.0, source, size=5 * MB)
    world.run()
    reader = a_value(world)
    world.tell(CopyMade(value, reader))
    world.lose(1)
    world.inputs[value] = ()  # of the call that reads
    world.tell(ValuesWanted([value]))
    (job,) = world.revived
    assert world.head.jobs[job].inputs == ()
    world.inputs[value] = (source,)
    _, _, worker, cls, attempt = world.take_running(job)
    world.finish(job, worker, cls, attempt, Code.FAILED)
    assert [action.values for action in world.told(CopiesLost)] == [[value]]
    assert [(action.jobs, action.by_copy) for action in world.told(JobsRevived)][:2] == [
        ([value], True),
        ([value], False),
    ]
    world.run()
    assert world.given
    assert world.head._state.values.values[value].recomputed == 1


@pytest.mark.parametrize("because", ["losses", "lineage"])
def test_who_wants_a_value_that_cannot_be_made_again_hears_why(because):
    world = cluster(Cores(1))
    world.tell(FunctionDefined(2, losses=0 if because == "losses" else 2))
    value = a_value(world, fn=2)
    if because == "lineage":
        world.tell(LineageDropped([value]))
    assert world.head.why_lost(value) == ""  # it is there
    world.lose(1)
    assert "n1" in world.head.why_lost(value)  # before anybody wants it
    world.tell(ValuesWanted([value]))
    ((lost, why),) = world.lost
    assert lost == value
    assert "n1" in why
    assert world.head.why_lost(value) == why
    assert ("losses=0" if because == "losses" else "not kept") in why


def test_a_reviver_that_nobody_needs_is_cancelled():
    world = cluster()
    value = a_value(world)
    world.lose(1)
    reader = world.call(Cores(1), 1.0, value)
    assert world.revived == [value]
    world.release(value)
    world.tell(JobsCancelled([reader]))
    assert world.told(CancelJobs)[-1].jobs == [value]
    world.run()
    assert not world.known
    assert not world.head.jobs
    assert world.where(value) == []


def test_a_damaged_replica_is_gone_and_another_one_counts():
    world = cluster()
    value = a_value(world)
    world.call(Cores(1), 2.0, value)
    world.call(Cores(1), 1.0, value)
    later(world, 0.6)
    world.arrive(value, 2)
    assert world.where(value) == [1, 2]
    world.stores[1].clear()
    world.tell(ReplicasGone(1, [value], [1]))
    world.run()
    third = world.call(Cores(1), 1.0, value)
    assert world.started_on[third] == 2
    assert not world.revived


def test_a_giver_that_is_lost_is_replaced():
    world = cluster()
    value = a_value(world)
    world.tell(ValuesWanted([value]))
    world.lose(1)
    assert world.revived == [value]
    world.run()
    assert world.given == [(value, 1), (value, 2)]


@pytest.mark.parametrize("losses", [0, 2])
def test_a_value_whose_last_reader_ends_is_kept_for_one_that_is_made_again_of_it_in_that_turn(losses):
    world = cluster()
    world.tell(FunctionDefined(2, losses=losses))
    world.tell(FunctionDefined(3, losses=0))
    first = a_value(world, fn=2)
    second = world.call(Cores(1), 0.0, first, size=5 * MB)
    world.run()
    last_reader = world.call(Cores(1), 9.0, first, fn=3)
    world.call(Cores(1), 0.1, first)
    later(world, 0.6)
    world.arrive(first, 2)
    world.run(1.0)
    world.release(first)
    world.tell(ValuesWanted([second]))
    world.lose(1)  # the last reader ends with it, and the second value is gone
    assert last_reader not in world.head.jobs
    assert not world.lost
    assert world.revived == [second]
    assert world.where(first) == [2]
    world.run()
    assert world.given == [(second, 1), (second, 2)]
    assert world.where(first) == []
    world.tell(ValuesGiven([second]))
    world.release(second)
    assert not world.known


# --- words ------------------------------------------------------------------------------------------------------------


def test_it_is_told_what_a_job_waits_for():
    world = cluster()
    big = a_value(world, 2_100 * MB)
    world.call(Cores(1), 99.0, big)
    waiting = world.call(Cores(1), 1.0, big)
    found = world.head.explain(waiting, world.now)
    assert (found.reason, found.nearest) == ("preferred", "n1")
    assert str(found) == (
        f"Job {waiting} waits for n1: n1 has 2.1 GB of its inputs and is full; from 21.0 s on it may start elsewhere."
    )
    later(world, 22.0)
    found = world.head.explain(waiting, world.now)
    assert (found.reason, found.state, found.nearest) == ("moving", "moving", "n2")
    assert str(found) == f"Job {waiting} waits for 2.1 GB from n1, on their way to n2."
    asked: list[tuple[int, int]] = []

    def arrived(worker: int, value: int) -> int:
        asked.append((worker, value))
        return 1_302 * MB

    found = world.head.explain(waiting, world.now, arrived)
    assert str(found) == f"Job {waiting} waits for 2.1 GB from n1, 62 % there, on their way to n2."
    assert asked == [(2, big)]


def test_it_is_told_that_a_copy_failed_and_when_it_is_tried_again():
    world = cluster(Cores(1), Cores(4))
    value = a_value(world)
    reader = world.call(Cores(2), 1.0, value)
    world.fail(value, 2)
    later(world, 0.2)
    told = world.head.explain(reader, world.now)
    assert told.reason == "moving"
    assert f"Job {reader} waits for inputs that could not be copied to n2: tried again in 0.8 s." in str(told)
    later(world, 0.9)
    assert (value, 2) in world.under_way


def test_it_is_told_that_an_input_is_made_again():
    world = cluster()
    value = a_value(world)
    world.lose(1)
    assert world.head.why_lost(value) == ""  # it can be made again
    reader = world.call(Cores(1), 1.0, value)
    found = world.head.explain(reader, world.now)
    assert str(found) == f"Job {reader} waits for 1 of its inputs, which is made again (job {value})."
    world.run()
    assert world.head._state.values.values[value].recomputed == 1


def test_an_input_that_a_job_did_not_find_is_made_again_or_fetched():
    world = cluster()
    value = a_value(world)
    reader = world.call(Cores(1), 1.0, value)
    _, job, worker, cls, attempt = world.take_running(reader)
    world.free_at_work[worker]["cores"] += world.head.shapes[cls].units[0][1]
    world.stores[worker].clear()
    start = LeaseStart(job, cls, "", [job], [attempt], world.now)
    columns = [job], [attempt], [int(Code.INPUT_GONE)], [0.0], [0.0], [0.0], [0], [b""], []
    done = Completed(job, *columns, world.now, gone=[value])
    world.tell(WorkerReported(worker, [start], [done], [job]))
    assert world.revived == [value]
    world.run()
    assert world.ended[reader] >= 0.0
    assert world.head._state.values.values[value].recomputed == 1
