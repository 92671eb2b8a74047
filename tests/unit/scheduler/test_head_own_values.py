"""Values of a program's own: that program is a source of them while no worker has them, and of one copy at a time."""

from value_cluster import MB, ValueCluster

from grainlike.resources import Cores
from grainlike.scheduler import (
    PROGRAM,
    JobsCancelled,
    OwnValuesAdded,
    OwnValuesFreed,
    OwnValuesLost,
    ReplicationAsked,
    Ticked,
    WorkerHeard,
    WorkerSuspected,
)

MINE = 1 << 40


class Origin(ValueCluster):
    """As `ValueCluster`, with values of the program's own."""

    def __init__(self, count=3):
        self.freed = []
        super().__init__(*[Cores(1)] * count, has_data=True)
        self.stores[PROGRAM] = set()
        self.function(1)

    def add(self, value=MINE, size=50 * MB, origin=PROGRAM):
        self.stores.setdefault(origin, set()).add((value, 1))
        self.tell(OwnValuesAdded(origin, [value], [size]))
        return value

    def _note(self, action):
        super()._note(action)
        if isinstance(action, OwnValuesFreed):
            self.freed += action.values

    @property
    def from_program(self):
        return [target for value, source, target, _ in self.ways if source == PROGRAM]

    def why(self, job):
        return self.head.explain(job, self.now).why


def test_it_goes_to_one_worker_and_from_there_to_the_others():
    world = Origin()
    value = world.add()
    jobs = world.call(Cores(1), 5.0, value, n=6)
    (first,) = world.from_program
    assert "from the program" in world.why(jobs[0])
    world.arrive(value, first)
    assert sorted(target for _, source, target, way in world.ways if (source, way) == (first, "direct")) == [
        worker for worker in (1, 2, 3) if worker != first
    ]
    world.arrive_all()
    world.run(100.0)
    assert world.from_program == [first]
    assert all(job in world.ended for job in jobs)
    again = world.call(Cores(1), 1.0, value, n=3)
    world.run(200.0)
    assert all(job in world.ended for job in again)
    assert len(world.ways) == 3
    world.release(value)
    assert (world.freed, world.forgotten, world.where(value), world.known) == ([value], [value], [PROGRAM], set())


def test_it_is_given_again_when_the_last_worker_that_had_it_is_lost():
    world = Origin(2)
    value = world.add()
    world.call(Cores(1), 1.0, value)
    (first,) = world.from_program
    world.arrive(value, first)
    world.run(50.0)
    world.lose(first)
    job = world.call(Cores(1), 1.0, value)
    other = 3 - first
    assert world.from_program == [first, other]
    world.arrive(value, other)
    world.run(100.0)
    assert job in world.ended
    assert not world.revived


def test_jobs_that_waited_for_a_suspect_with_it_go_on_when_that_is_lost():
    world = Origin(2)
    value = world.add()
    world.call(Cores(1), 1.0, value)
    (first,) = world.from_program
    world.arrive(value, first)
    world.run(50.0)
    world.tell(WorkerSuspected(first, broke=True))
    job = world.call(Cores(1), 1.0, value)
    assert world.from_program == [first]  # that may come back with it
    world.lose(first)
    assert world.from_program == [first, 3 - first]
    world.arrive_all()
    world.run(100.0)
    assert job in world.ended


def test_a_suspect_that_is_back_gives_it():
    world = Origin(2)
    value = world.add()
    world.call(Cores(1), 1.0, value)
    (first,) = world.from_program
    world.arrive(value, first)
    world.run(50.0)
    world.tell(WorkerSuspected(first, broke=True))
    job = world.call(Cores(1), 1.0, value)
    world.tell(WorkerHeard(first))
    world.run(100.0)
    assert job in world.ended
    assert world.from_program == [first]


def test_a_copy_that_failed_is_tried_elsewhere_or_after_a_rest():
    world = Origin(1)
    value = world.add()
    job = world.call(Cores(1), 1.0, value)
    world.fail(value, 1)
    assert world.from_program == [1]
    world.now += 1.5
    world.tell(Ticked())
    assert world.from_program == [1, 1]
    world.arrive_all()
    world.run(100.0)
    assert job in world.ended


def test_jobs_hear_that_its_program_cannot_give_it():
    world = Origin(1)
    value = world.add()
    job = world.call(Cores(1), 1.0, value)
    world.tell(OwnValuesLost([value]))
    world.fail(value, 1)
    assert [(lost, of) for lost, of, _ in world.hopeless] == [(job, value)]
    assert "its program could not give it" in world.hopeless[0][2]
    world.release(value)
    assert not world.known


def test_one_that_a_worker_has_outlives_its_program():
    world = Origin(1)
    value = world.add()
    world.call(Cores(1), 1.0, value)
    world.arrive_all()
    world.tell(OwnValuesLost([value]))
    job = world.call(Cores(1), 1.0, value)
    world.run(100.0)
    assert job in world.ended
    world.release(value)
    assert (world.freed, world.where(value)) == ([], [PROGRAM])


def test_one_that_nobody_needs_is_given_up_on_its_way():
    world = Origin(1)
    value = world.add()
    job = world.call(Cores(1), 1.0, value)
    world.tell(JobsCancelled([job]))
    assert world.freed == []
    world.release(value)
    assert (world.freed, world.forgotten) == ([value], [value])
    world.fail(value, 1)
    assert not world.known


def test_a_copy_of_one_that_nobody_needs_keeps_no_room_though_its_lineage_is_known():
    world = Origin()
    value = world.add()
    world.call(Cores(1), 0.0, value, size=5 * MB)
    (first,) = world.from_program
    world.arrive(value, first)
    world.run()
    world.lose(first)
    world.tell(ReplicationAsked([value], 2))
    ((_, target),) = world.under_way
    world.release(value)
    assert world.freed == [value]
    assert list(world.head._state.transfers.known) == [(value, target)]


def test_what_was_made_of_it_is_made_again_while_the_program_has_it():
    world = Origin(2)
    value = world.add()
    made = world.call(Cores(1), 1.0, value, size=20 * MB)
    (first,) = world.from_program
    world.arrive(value, first)
    world.run(50.0)
    world.lose(first)
    job = world.call(Cores(1), 1.0, made)
    assert world.revived == [made]
    world.arrive_all()
    world.run(100.0)
    world.arrive_all()
    world.run(200.0)
    assert job in world.ended


def test_what_was_made_of_one_that_is_gone_is_lost():
    world = Origin(2)
    value = world.add()
    made = world.call(Cores(1), 1.0, value, size=20 * MB)
    (first,) = world.from_program
    world.arrive(value, first)
    world.run(50.0)
    world.release(value)
    assert world.freed == [value]
    world.lose(first)
    job = world.call(Cores(1), 1.0, made)
    assert job in [hopeless for hopeless, _, _ in world.hopeless]


def test_replicas_of_it_are_made_though_no_job_needs_it():
    world = Origin(3)
    value = world.add()
    world.tell(ReplicationAsked([value], 2))
    assert len(world.from_program) == 1
    world.arrive_all()
    assert world.reached == [value]
    assert len(world.where(value)) == 3
    assert len(world.from_program) == 1


def test_two_programs_do_not_hold_each_other_up():
    world = Origin(3)
    mine = [world.add(MINE + number) for number in range(4)]
    other = world.add(MINE + 10, origin=77)
    world.call(Cores(1), 1.0, *mine)
    world.call(Cores(1), 1.0, other, n=3)
    assert len(world.from_program) == 2
    assert [(source, way) for value, source, _, way in world.ways if value == other] == [(77, "relayed")]
