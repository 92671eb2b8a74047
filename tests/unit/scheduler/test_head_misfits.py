"""Values of programs' own for which no store has room: they travel with the jobs that need them."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Resource
from grainlike.scheduler import (
    PROGRAM,
    FunctionDefined,
    InputsTravel,
    InputsUnfit,
    JobsBackedOff,
    OverdraftUnpaid,
    OwnValuesAdded,
    OwnValuesFreed,
    Ticked,
    ValuesReleased,
    WorkerDrained,
    WorkerStored,
)
from grainlike.scheduler.values._overdrafts import PAYBACK_S
from grainlike.scheduler.values._rooms import KEPT_SCHEMA
from grainlike.wire import OWN_VALUES, Code

FOREVER = 1e6
CLIENT = 7


class Programs(ValueCluster):
    """Workers with one core and a store of so many megabytes each, and programs with values of their own."""

    def __init__(self, *megabytes, closed=False):
        super().__init__(closed=closed, has_data=True)
        self.stores[PROGRAM] = set()
        for size in megabytes:
            self.join(Cores(1), store=size * MB)
        self.function(1)

    def own(self, megabytes, origin=PROGRAM):
        number = OWN_VALUES + len(self.head._state.values.values)
        self.stores[PROGRAM].add((number, 1))
        self.tell(OwnValuesAdded(origin, [number], [megabytes * MB]))
        return number

    def join(self, offer, **known):
        self.stores[len(self.free_at_work) + 1] = set()
        super(ValueCluster, self).join(offer, **{"has_data": True, **known})

    def _check_needs(self, action):
        for travel in self.told(InputsTravel):
            self.inputs.update(zip(travel.jobs, map(tuple, travel.others), strict=True))
        super()._check_needs(action)

    def later(self, seconds):
        self.now += seconds
        self.tell(Ticked())

    @property
    def travelled(self):
        return {
            job: values
            for action in self.told(InputsTravel)
            for job, values in zip(action.jobs, action.values, strict=True)
        }


@pytest.mark.parametrize("closed", [False, True])
def test_a_value_that_no_store_could_hold_travels_with_each_job_and_all_run(closed):
    world = Programs(30, 10, closed=closed)
    value = world.own(40)
    jobs = world.call(Cores(1), 1.0, value, n=4)
    assert world.told(InputsTravel) == [InputsTravel(jobs, [[value]] * 4, [[]] * 4)]
    assert not world.told(InputsUnfit)
    assert {world.started_on[job] for job in jobs[:2]} == {1, 2}
    assert {world.head.jobs[job].size for job in jobs} == {40 * MB}
    world.run(10.0)
    assert set(world.ended) == set(jobs)
    assert [world.begun[job] for job in jobs] == sorted(world.begun[job] for job in jobs)
    world.tell(ValuesReleased([value]))
    assert world.told(OwnValuesFreed) == [OwnValuesFreed([value])]
    world.head.check()


def test_one_that_some_store_could_hold_goes_there():
    world = Programs(30, 50)
    value = world.own(40)
    job = world.call(Cores(1), 1.0, value)
    assert not world.travelled
    assert world.head._state.transfers.known.keys() == {(value, 2)}
    assert job in world.head.jobs


def test_several_travel_that_fit_alone_and_not_together():
    world = Programs(30)
    one, two = world.own(20), world.own(20)
    both, single = world.call(Cores(1), 1.0, one, two), world.call(Cores(1), 1.0, one)
    assert world.travelled == {both: [one, two]}
    world.run(2.0)
    assert world.head._state.transfers.known.keys() == {(one, 1)}
    assert single in world.head.jobs


def test_inputs_that_jobs_made_stay_where_they_are():
    world = Programs(30, 30)
    made = world.call(Cores(1), 0.1, size=20 * MB)
    world.run(1.0)
    value = world.own(20)
    job = world.call(Cores(1), 1.0, made, value)
    assert world.told(InputsTravel) == [InputsTravel([job], [[value]], [[made]])]
    assert world.started_on[job] == world.started_on[made]


def test_nothing_travels_where_that_would_not_help():
    world = Programs(30, 30)
    pair = world.call(Cores(1), 0.1, size=20 * MB, n=2)
    world.run(1.0)
    assert {world.started_on[made] for made in pair} == {1, 2}
    value = world.own(40)
    job = world.call(Cores(1), 1.0, *pair, value)
    assert not world.travelled
    assert [action.failed for action in world.told(InputsUnfit)] == [False]
    assert job in world.head.jobs


def test_it_travels_where_the_only_workers_that_could_run_the_job_have_too_little_room():
    world = Programs(90)
    world.join(Cores(1) & Resource("gpu", 1), store=30 * MB)
    value = world.own(40)
    job = world.call(Cores(1) & Resource("gpu", 1), 1.0, value)
    assert world.travelled == {job: [value]}
    assert world.started_on[job] == 2


def test_it_travels_when_the_first_worker_has_no_room_and_stays_where_it_has():
    for megabytes, travels in ((30, True), (50, False)):
        world = Programs()
        value = world.own(40)
        job = world.call(Cores(1), 1.0, value)
        assert not world.travelled
        world.join(Cores(1), store=megabytes * MB)
        assert world.travelled == ({job: [value]} if travels else {})


@pytest.mark.parametrize("gone", ["lost", "drained"])
def test_it_travels_when_the_one_worker_with_room_has_gone(gone):
    world = Programs(50, 30)
    world.submit(Cores(1), FOREVER, n=2)
    value = world.own(40)
    job = world.call(Cores(1), 1.0, value)
    assert not world.travelled
    if gone == "lost":
        world.lose(1)
    else:
        world.tell(WorkerDrained(1))
    assert world.travelled == {job: [value]}
    world.head.check()


def test_a_job_of_a_client_is_dropped_and_to_be_submitted_again():
    world = Programs(30)
    value = world.own(40, CLIENT)
    job = world.call(Cores(1), 1.0, value, client=CLIENT)
    assert world.travelled == {job: [value]}
    assert job not in world.head.jobs
    assert value in world.head._state.values.values
    world.head.check()


def test_a_job_of_a_session_waits_for_a_larger_store():
    """Other calls of the session may know it by its number, so its program cannot submit it again."""
    world = Programs(30)
    value = world.own(40, CLIENT)
    job = world.call(Cores(1), 1.0, value, client=CLIENT + 1)
    assert not world.travelled
    assert [action.failed for action in world.told(InputsUnfit)] == [False]
    assert job in world.head.jobs
    world.head.check()


def test_a_job_of_a_client_that_has_failed_before_waits():
    world = Programs(50)
    world.tell(FunctionDefined(2, retries=1, backoff=(1.0, 1.0, 1.0)))
    value = world.own(40, CLIENT)
    world.stores[CLIENT] = {(value, 1)}
    job = world.call(Cores(1), 1.0, value, fn=2, client=CLIENT)
    world.arrive_all()
    _, _, worker, cls, attempt = world.take_running(job)
    world.finish(job, worker, cls, attempt, code=Code.FAILED)
    assert world.told(JobsBackedOff)
    world.join(Cores(1), store=30 * MB)
    world.lose(1)
    world.later(5.0)
    assert not world.travelled
    assert [action.jobs for action in world.told(InputsUnfit)] == [[job]]
    assert job in world.head.jobs


LEAF, HUB = Cores(1) & Resource("leaf", 1), Cores(1) & Resource("hub", 1)


class FullStore(Programs):
    """A leaf with three values of 14 MB that jobs made, and room for 19 MB. The program has a value of 20 MB."""

    def __init__(self):
        super().__init__()
        self.join(LEAF, store=61 * MB)
        self.made = self.call(LEAF, 0.1, size=14 * MB, n=3)
        self.run(1.0)
        self.value = self.own(20)

    def call_each(self, *inputs, **known):
        """Submit a job for each value at the leaf, which lacks `inputs`; the program lets go of what jobs made."""
        jobs = [self.call(LEAF, 1.0, made, *inputs, **known) for made in self.made]
        self.release(*self.made)
        return jobs

    def wait_for_long(self):
        for _ in range(4):
            self.later(PAYBACK_S)


def test_one_travels_after_a_while_where_what_jobs_need_leaves_no_room_for_it_and_the_others_go_on():
    world = FullStore()
    first, *others = [*world.call_each(world.value), world.call(LEAF, 1.0, world.value)]
    world.later(PAYBACK_S - 0.5)
    assert not world.travelled
    world.later(0.5)
    assert world.travelled == {first: [world.value]}
    world.later(0.1)
    world.run(world.now + 2.0)
    world.arrive_all()
    world.run(world.now + 10.0)
    assert {first, *others} <= world.ended.keys()
    assert world.travelled == {first: [world.value]}
    world.head.check()


def test_one_of_a_client_travels_so_too():
    world = FullStore()
    world.value = world.own(20, CLIENT)
    first, *others = world.call_each(world.value, client=CLIENT)
    world.later(PAYBACK_S)
    assert world.travelled == {first: [world.value]}
    assert first not in world.head.jobs
    assert set(others) <= world.head.jobs.keys()
    world.head.check()


def test_one_travels_before_a_job_is_given_up_for_an_overdraft():
    world = FullStore()
    world.tell(WorkerStored(1, 5 * MB))
    first, *_ = world.call_each(world.value)
    world.later(PAYBACK_S)
    assert world.travelled == {first: [world.value]}
    world.later(0.1)
    assert world.started_on[first] == 1
    assert not world.told(OverdraftUnpaid)


def test_none_travels_while_a_program_may_let_go_of_what_no_job_needs():
    world = FullStore()
    job = world.call(LEAF, 1.0, world.made[0], world.value)
    world.wait_for_long()
    assert not world.travelled
    assert world.head.wakes_at is None
    world.release(*world.made[1:])
    world.arrive_all()
    world.run(world.now + 10.0)
    assert job in world.ended
    assert not world.travelled


def test_none_travels_with_a_job_that_would_lack_room_for_another_input():
    world = FullStore()
    world.join(HUB, store=20 * MB)
    far = world.call(HUB, 0.1, size=20 * MB)
    world.run(2.0)
    world.call_each(far, world.value)
    world.wait_for_long()
    assert not world.travelled
    assert world.head.wakes_at is None


def test_the_wait_for_room_begins_anew_once_a_worker_that_could_give_some_has_gone():
    world = FullStore()
    world.call_each(world.value)
    world.later(PAYBACK_S - 0.5)
    world.join(LEAF, store=61 * MB)
    world.later(0.1)
    world.lose(2)
    world.later(PAYBACK_S - 0.5)
    assert not world.travelled
    world.later(0.5)
    assert world.travelled


def test_by_the_rule_of_earlier_journals_jobs_wait_for_ever():
    world = FullStore()
    world.head.decide_as(KEPT_SCHEMA - 1)
    jobs = world.call_each(world.value)
    world.wait_for_long()
    assert not world.travelled
    assert set(jobs) <= world.head.jobs.keys()
