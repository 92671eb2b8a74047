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
    OwnValuesAdded,
    OwnValuesFreed,
    Ticked,
    ValuesReleased,
    WorkerDrained,
)
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
