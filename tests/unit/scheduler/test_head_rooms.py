"""Room in the stores of workers: what a job's inputs need, who gets it, and what can never have any."""

import pytest
from value_cluster import MB, Stores

from grainlike.resources import Cores, Resource, fits_tiers
from grainlike.scheduler import InputsUnfit, ReplicationAsked, WorkerStored
from grainlike.scheduler.values._rooms import LOOKED_AT_MOST

FOREVER = 1e6


@pytest.mark.parametrize(
    ("sizes", "memory", "scratch", "fits"),
    [
        ([], 0, 0, True),
        ([10], 10, 0, True),
        ([11], 10, 10, False),
        ([6, 6], 10, 10, True),
        ([6, 6, 6], 10, 10, False),
        ([5, 5, 6, 4], 10, 10, True),
        ([7, 7, 3, 3], 10, 10, True),
        ([9, 6, 5], 11, 9, True),
        ([1] * 40, 39, 0, False),
        ([1] * 40, 39, 1, True),
    ],
)
def test_values_are_packed_into_two_tiers_whole(sizes, memory, scratch, fits):
    assert fits_tiers(sizes, memory, scratch) is fits


def test_a_job_whose_inputs_fit_into_no_store_fails_where_no_worker_may_come():
    world = Stores(30, 30, closed=True)
    (one,), (two,) = world.values(1, 20), world.values(2, 20)
    job = world.call(Cores(1), 1.0, one, two)
    assert world.told(InputsUnfit) == [
        InputsUnfit([job], "its inputs are 40 MB; n1 has room for 30 MB at most", failed=True)
    ]
    assert job not in world.head.jobs
    assert not world.under_way


def test_where_workers_may_come_it_waits_is_warned_of_once_and_starts_when_one_comes_with_room():
    world = Stores(30, 30)
    (one,), (two,) = world.values(1, 20), world.values(2, 20)
    jobs = world.call(Cores(1), 1.0, one, two, n=3)
    warned = world.told(InputsUnfit)
    assert [action.failed for action in warned] == [False]
    assert not world.under_way
    assert world.why(jobs[0]) == (
        "store",
        f"Job {jobs[0]} waits for room in a store: its inputs are 40 MB; n1 has room for 30 MB at most.",
    )
    world.join(Cores(1), store=40 * MB)
    world.arrive_all()
    assert world.started_on[jobs[0]] == 3


def test_a_worker_that_has_all_inputs_runs_the_job_however_small_its_store_is():
    world = Stores(30, closed=True)
    job = world.call(Cores(1), 1.0, *world.values(1, 20, 20))
    assert world.started_on[job] == 1
    assert not world.told(InputsUnfit)


def test_a_disk_counts_until_it_is_given_up():
    world = Stores(30, 10, closed=True)
    world.head.workers[2].store = 30 * MB, 30 * MB
    (one,), (two,) = world.values(1, 25), world.values(2, 25)
    busy = world.submit(Cores(1), FOREVER, n=2)
    job = world.call(Cores(1), 1.0, one, two)
    assert job in world.head.jobs
    world.tell(WorkerStored(2, 0, lost=True))
    assert [action.jobs for action in world.told(InputsUnfit)] == [[job]]
    assert set(world.head.jobs) == set(busy)


def test_the_loss_of_the_one_worker_with_room_fails_a_job_where_none_may_come():
    world = Stores(30, 30, 90, closed=True)
    (one,), (two,) = world.values(1, 20), world.values(2, 20)
    world.submit(Cores(1), FOREVER, n=3)
    job = world.call(Cores(1), 1.0, one, two)
    assert not world.told(InputsUnfit)
    world.lose(3)
    assert [action.jobs for action in world.told(InputsUnfit)] == [[job]]


def test_all_inputs_of_a_job_have_room_or_none_is_sent():
    world = Stores(100, 30)
    first, second, third = world.values(1, 10, 10, 10)
    (kept,) = world.values(2, 10)
    world.submit(Cores(1), FOREVER)  # the first worker is busy
    (busy,) = [worker for worker in (1, 2) if not world.head.workers[worker].free["cores"]]
    assert busy == 1
    job = world.call(Cores(1), 1.0, first, second, third)
    world.later(10.0)
    assert not world.under_way
    reason, words = world.why(job)
    assert reason == "store"
    assert "its inputs are 30 MB; n2 has room for 20 MB of them now" in words
    world.release(kept)
    world.later(1.0)  # as long as moving them takes
    assert {worker for _, worker in world.under_way} == {2}
    world.arrive_all()
    assert world.started_on[job] == 2


def test_the_oldest_job_has_what_room_there_will_be_and_younger_ones_do_not_take_it():
    world = Stores(200, 40, cores=2)
    big = world.values(1, 18, 18)
    small = world.values(1, 10, 10, 10)
    world.submit(Cores(1), FOREVER, n=2)
    assert world.head.workers[1].free["cores"] == 0
    running = world.call(Cores(1), 100.0, small[0])
    world.later(10.0)
    world.arrive_all()
    assert world.started_on[running] == 2
    old = world.call(Cores(1), 1.0, *big)  # 36 of 40 MB, of which 10 are in use
    young = world.call(Cores(1), 1.0, small[1])
    world.later(10.0)
    assert not world.under_way
    assert world.why(old)[0] == "store"
    assert world.why(young)[1].endswith(f"the room of n2 is kept for the inputs of job {old}, which is older.")
    world.run(world.now + 100)
    world.later(1.0)
    assert {value for value, _ in world.under_way} == set(big)
    world.arrive_all()
    assert world.started_on[old] == 2


def crowd_of_readers(*, kept=0):
    """A world where an old job waits for room that readers of a spare replica use, one after another."""
    world = Stores(200, 40, cores=2)
    big, (small,) = world.values(1, 18, 18), world.values(1, 10)
    keeps = world.values(2, kept) if kept else []
    world.submit(Cores(1), FOREVER, n=2)
    first = world.call(Cores(1), 3.0, small)
    world.later(10.0)
    world.arrive_all()
    assert world.started_on[first] == 2
    old = world.call(Cores(1), 1.0, *big)
    readers = world.call(Cores(1), 3.0, small, n=4)
    return world, old, readers, keeps


def test_younger_jobs_do_not_begin_with_spare_replicas_whose_room_the_oldest_waits_for():
    world, old, readers, _ = crowd_of_readers()
    assert not any(job in world.begun for job in readers)
    world.run(world.now + 3.0)
    world.later(1.0)
    world.arrive_all()
    assert world.started_on[old] == 2


def test_a_job_that_waits_has_the_room_as_soon_as_there_will_be_some():
    world, old, readers, keeps = crowd_of_readers(kept=10)
    assert readers[0] in world.begun
    world.release(*keeps)
    world.run(world.now + 3.0)
    world.later(1.0)
    world.arrive_all()
    assert world.started_on[old] == 2
    assert sum(job in world.begun for job in readers) == 1


def test_a_spare_replica_whose_room_is_promised_to_copies_is_not_used():
    world = Stores(200, 40, cores=2)
    big, (small,) = world.values(1, 18, 18), world.values(1, 10)
    world.submit(Cores(1), FOREVER, n=2)
    first = world.call(Cores(1), 3.0, small)
    world.later(10.0)
    world.arrive_all()
    world.run(world.now + 3.0)
    assert first in world.ended
    old = world.call(Cores(1), 1.0, *big)
    world.later(1.0)
    assert {worker for _, worker in world.under_way} == {2}
    reader = world.call(Cores(1), 3.0, small)
    assert reader not in world.begun
    world.arrive_all()
    assert world.started_on[old] == 2


def test_who_will_have_no_room_holds_up_nobody():
    world = Stores(200, 40, cores=2)
    big, (small,) = world.values(1, 18, 18), world.values(1, 10)
    world.values(2, 20)  # somebody keeps it
    world.submit(Cores(1), FOREVER, n=2)
    old = world.call(Cores(1), 1.0, *big)
    young = world.call(Cores(1), 1.0, small)
    world.later(10.0)
    world.arrive_all()
    assert world.started_on.get(young) == 2
    assert old not in world.started_on


def test_a_job_whose_preferred_worker_has_no_room_for_the_rest_goes_elsewhere_at_once():
    world = Stores(40, 100, 100)
    (one, _), (two,) = world.values(1, 20, 10), world.values(2, 15)
    job = world.call(Cores(1), 1.0, one, two)
    assert {worker for _, worker in world.under_way} == {2}
    world.arrive_all()
    assert world.started_on[job] == 2


def test_nothing_is_sent_to_a_worker_beyond_its_budget_until_that_is_paid_back():
    world = Stores(100, 100)
    (value,) = world.values(1, 20)
    world.submit(Cores(1), FOREVER)
    world.tell(WorkerStored(2, over=5 * MB))
    job = world.call(Cores(1), 1.0, value)
    world.later(10.0)
    assert not world.under_way
    assert world.why(job)[1].endswith("n2 keeps 5 MB more than it has room for.")
    world.tell(WorkerStored(2, over=0))
    world.later(10.0)
    assert world.under_way
    world.arrive_all()
    assert world.started_on[job] == 2


def test_jobs_on_their_way_to_a_worker_that_exceeds_its_budget_go_elsewhere():
    world = Stores(300, 300, 300)
    first, second, third = world.values(1, 20, 20, 20)
    world.submit(Cores(1), FOREVER)
    world.head._state.workers[3].shut_for("quarantine", "for now")
    job = world.call(Cores(1), 1.0, first, second, third)
    world.later(10.0)
    assert {worker for _, worker in world.under_way} == {2}
    world.head._state.workers[3].open_again("quarantine")
    world.tell(WorkerStored(2, over=MB))
    world.later(10.0)
    world.arrive_all()
    assert world.started_on[job] == 3


# --- overdrafts -----------------------------------------------------------------------------------------------------


def test_what_a_worker_keeps_beyond_its_budget_moves_to_one_with_room_largest_first_and_is_spare_then():
    world = Stores(40, 30, 100)
    small, large, middle = world.values(1, 10, 25, 20)
    world.tell(WorkerStored(1, over=15 * MB))
    assert set(world.under_way) == {(large, 3)}
    world.arrive(large, 3)
    assert world.spare_at() == {1: [large]}
    assert not world.under_way  # enough is spare
    world.gone(1, large)
    world.tell(WorkerStored(1, over=0))
    assert world.where(small) == world.where(middle) == [1]


def test_where_the_overdraft_is_paid_back_otherwise_the_older_replica_counts_again():
    world = Stores(40, 100)
    (value,) = world.values(1, 25)
    world.tell(WorkerStored(1, over=5 * MB))
    world.arrive(value, 2)
    assert world.spare_at() == {1: [value]}
    world.tell(WorkerStored(1, over=0))
    assert world.spare_at() == {2: [value]}


def test_what_a_job_uses_stays_and_what_fits_nowhere_waits_until_there_is_room():
    world = Stores(40, 30)
    used, other = world.values(1, 20, 10)
    (kept,) = world.values(2, 25)
    job = world.call(Cores(1), 100.0, used)
    assert world.started_on[job] == 1
    world.tell(WorkerStored(1, over=5 * MB))
    assert not world.under_way
    world.release(kept)
    assert set(world.under_way) == {(other, 2)}


def test_what_is_dropped_counts_until_its_worker_reports_and_no_more_than_that_is_moved_meanwhile():
    world = Stores(60, 100)
    dropped, *kept = world.values(1, 20, 20, 20, 20)
    (other,) = world.values(2, 100)
    world.tell(WorkerStored(1, over=20 * MB))
    assert not world.under_way
    world.release(dropped, other)  # of which their workers report in a tenth of a second
    assert set(world.under_way) == {(kept[0], 2)}
    world.release(kept.pop())  # the head looks again
    assert set(world.under_way) == {(kept[0], 2)}
    world.arrive_all()
    world.tell(WorkerStored(1, over=0))
    assert not world.under_way
    assert world.spare_at() == {2: [kept[0]]}  # the older replica counts again


def test_replicas_that_were_asked_for_do_not_go_to_a_worker_beyond_its_budget():
    world = Stores(100, 100, 100)
    (value,) = world.values(1, 20)
    world.tell(WorkerStored(2, over=MB))
    world.tell(ReplicationAsked([value], 0))
    assert set(world.under_way) == {(value, 3)}
    world.arrive_all()
    assert world.reached == [value]
    world.tell(WorkerStored(2, over=0))
    assert set(world.under_way) == {(value, 2)}


@pytest.mark.parametrize("rounds", [1, 3])
def test_of_many_that_wait_for_room_each_is_looked_at_though_nothing_happens_meanwhile(rounds):
    world = Stores()
    hub, leaf = Cores(1) & Resource("hub", 1), Cores(1) & Resource("leaf", 1)
    world.join(Cores(2) & Resource("hub", 2), store=95 * MB)
    world.join(Cores(2) & Resource("leaf", 2), store=100 * MB)
    kept, other, large, small = [
        world.call(request, 0.0, size=size * MB) for request, size in ((leaf, 50), (leaf, 40), (hub, 60), (hub, 30))
    ]
    world.run()
    world.call(leaf, 1.0, large, n=rounds * LOOKED_AT_MOST)
    last = world.call(leaf, 1.0, small)
    world.release(other)
    turns = 0
    while (at := world.head.wakes_at) is not None:
        world.later(at - world.now)
        turns += 1
    assert turns == rounds
    assert set(world.under_way) == {(small, 2)}
    world.arrive_all()
    assert world.started_on[last] == 2
    assert world.where(kept) == [2]


@pytest.mark.parametrize("schema", [7, 8])
def test_what_waits_for_a_lost_value_keeps_no_room_that_the_job_needs_which_makes_it_again(schema):
    world = Stores()
    world.head.decide_as(schema)
    leaf = Cores(1) & Resource("leaf", 1)
    world.join(Cores(1) & Resource("leaf", 1), store=60 * MB)
    world.join(Cores(1), store=1000 * MB)
    source, *others = world.values(2, 50, 20, 16)
    value = world.call(leaf, 1.0, source, size=5 * MB)
    world.arrive_all()
    world.run(world.now + 1.0)
    world.head._state.transfers.copy(world.head._state.values.values[value], 2)
    world.later(0.0)
    world.arrive(value, 2)
    world.gone(1, value)
    reader = world.call(leaf, 1.0, *others, value)
    assert set(world.under_way) == {(other, 1) for other in others}  # the third copy waits for these
    world.gone(2, value)
    assert world.revived == [value]
    world.arrive_all()
    world.run(world.now + 10.0)
    world.arrive_all()
    assert (world.started_on.get(reader) == 1) is (schema == 8)
