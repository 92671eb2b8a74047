"""Many classes near a worker: a pass looks at those alone that something may have helped since the last look."""

import pytest
from value_cluster import MB, ValueCluster

from grainlike.resources import Cores, Memory
from grainlike.scheduler import JobsCancelled, Ticked, ValuesReleased, WorkerHeard, WorkerSuspected
from grainlike.scheduler.planning import _near

MANY = 100
GIB = 1 << 30


def reads(i):
    # Memory that grows is never rounded, so each request has a class of its own.
    return Cores(1) & Memory(GIB + i, grow=2)


@pytest.fixture
def looks(monkeypatch):
    """The jobs that were looked at, in order."""
    seen = []
    look = _near.NearPlacing.send_off

    def noted(self, cls, job, now):
        seen.append(job.id)
        return look(self, cls, job, now)

    monkeypatch.setattr(_near.NearPlacing, "send_off", noted)
    return seen


def cluster(*, busy, readers=MANY, store=-1):
    """A worker with a value that takes ten seconds to move, and its readers, of which four run; another worker, on
    which all cores are busy or none. Both may have stores that say how large they are.
    """
    made = ValueCluster()
    for _ in range(2):
        made.join(Cores(4) & Memory(400 * GIB), store=store)
    made.function(1)
    if readers > MANY:
        made.head.check = lambda: None  # it walks over everything
    made.value = made.call(reads(0), 0.0, size=1000 * MB)
    made.run(0.0)
    fillers = [made.submit(reads(0), 1000.0) for _ in range(8 if busy else 0)]
    made.readers = [made.call(reads(i), 1.0 + i / 1000, made.value) for i in range(readers)]
    if busy:
        for filler in fillers:
            if made.started_on[filler] == 1:
                made.tell(JobsCancelled([filler]))
                _, job, worker, cls, attempt = made.take_running(filler)
                made.finish(job, worker, cls, attempt)
    assert sum(reader in made.begun for reader in made.readers) == 4
    return made


def end_one(world):
    """End the job that ends next."""
    world.run(world._heap[0][0])


@pytest.mark.parametrize("store", [-1, 2000 * MB])
@pytest.mark.parametrize("busy", [True, False])
def test_an_end_costs_as_much_with_many_classes_as_with_few(busy, store, looks):
    found = []
    for readers in (MANY, 4 * MANY):
        world = cluster(busy=busy, readers=readers, store=store)
        end_one(world)
        looks.clear()
        for _ in range(5):
            end_one(world)
        found.append(len(looks))
        assert [reader in world.begun for reader in world.readers].count(True) == 10
    assert found[0] == found[1] <= 10


def test_those_that_are_due_go_elsewhere_on_time(looks):
    world = cluster(busy=False)
    waiting = [reader for reader in world.readers if reader not in world.begun]
    looks.clear()
    world.now = 10.0
    world.tell(Ticked())
    assert not looks
    world.now = 10.001
    world.tell(Ticked())
    assert looks[:4] == waiting[:4]
    assert world.under_way == {(world.value, 2): (1, 1)}
    world.arrive_all()
    assert [world.started_on.get(reader) for reader in waiting[:5]] == [2, 2, 2, 2, None]


def test_their_clocks_begin_anew_where_the_room_elsewhere_was_taken_meanwhile():
    world = cluster(busy=False)
    first = next(reader for reader in world.readers if reader not in world.begun)
    fillers = [world.submit(reads(0), 1.0, priority=1) for _ in range(4)]
    assert {world.started_on[filler] for filler in fillers} == {2}
    world.now = 0.5
    world.tell(Ticked())
    assert world.head.jobs[first].cls.could_since is None
    for filler in fillers:
        world.now = 0.7
        _, job, worker, cls, attempt = world.take_running(filler)
        world.finish(job, worker, cls, attempt)
    assert world.head.jobs[first].cls.could_since == 0.7


def test_all_of_them_go_on_when_their_worker_is_silent_and_again_when_it_is_heard(looks):
    world = cluster(busy=True)
    world.tell(WorkerSuspected(1))
    waiting = len(world.head.jobs) - sum(job.worker != 0 for job in world.head.jobs.values())
    assert len(world.head._state.values.parked) == waiting > MANY // 2
    world.tell(WorkerHeard(1))
    assert not world.head._state.values.parked


def test_nothing_is_left_of_those_that_have_ended():
    world = cluster(busy=False)
    dormant = world.head._planner.waiting.dormant
    assert len(dormant) > MANY // 2
    world.tell(JobsCancelled([reader for reader in world.readers if reader not in world.begun]))
    world.run()
    world.tell(ValuesReleased([world.value]))
    assert not dormant
    indexes = (dormant._of_worker, dormant._of_turn, dormant._of_shape, dormant._of_value, dormant._of_rates)
    assert [len(index) for index in indexes] == [0] * len(indexes)
