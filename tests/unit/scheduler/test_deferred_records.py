"""Records of jobs that are made late: whoever asks for one finds it, and those that nobody asks for take no memory."""

import pytest

from grainlike._deferred import CHUNK
from grainlike.resources import Cores, offer_of
from grainlike.scheduler import (
    FunctionDefined,
    HeadScheduler,
    JobsCancelled,
    JobsSubmitted,
    JobState,
    Ticked,
    WorkerJoined,
)

JOBS = 4 * CHUNK
CLASS = Cores(1)


def a_head(*, jobs=JOBS, first=1, cores=0):
    head = HeadScheduler(closed=False)
    head.defer_records()
    for fn in (1, 2):
        head.handle(FunctionDefined(fn), 0.0)
    if cores:
        head.handle(WorkerJoined(1, "n1", offer_of(Cores(cores), own_cores=range(cores))), 0.0)
    submit(head, range(first, first + jobs))
    return head


def submit(head, numbers, fn=1, **more):
    return head.handle(JobsSubmitted(CLASS, list(numbers), [fn] * len(numbers), **more), 0.0)


def made(head):
    """Number of records that there are."""
    return dict.__len__(head.jobs)


def test_of_many_jobs_the_first_have_records():
    head = a_head()
    (cls,) = head.classes.values()
    assert made(head) == len(cls.queue) == CHUNK
    assert len(head.jobs) == cls.queued == JOBS


@pytest.mark.parametrize("ask", [lambda jobs: jobs[JOBS], lambda jobs: jobs.get(JOBS)], ids=["item", "get"])
def test_a_job_that_is_asked_for_has_a_record(ask):
    head = a_head()
    job = ask(head.jobs)
    assert (job.id, job.state, job.cls, job.fn.id) == (JOBS, JobState.QUEUED, *head.classes.values(), 1)
    assert [job.id for job in job.cls.queue] == list(range(1, JOBS + 1))
    head.check()


def test_a_question_for_what_is_not_there_makes_nothing():
    head = a_head()
    assert head.jobs.get(JOBS + 1) is None
    assert JOBS + 1 not in head.jobs
    assert JOBS in head.jobs
    with pytest.raises(KeyError):
        head.jobs[JOBS + 1]
    assert made(head) == CHUNK


def test_all_jobs_come_in_the_order_of_their_numbers():
    head = a_head(first=1)
    head.handle(JobsSubmitted(Cores(2), list(range(5_001, 5_001 + JOBS)), [1] * JOBS), 0.0)
    submit(head, range(9_001, 9_011))
    numbers = [*range(1, JOBS + 1), *range(5_001, 5_001 + JOBS), *range(9_001, 9_011)]
    assert 5_000 + JOBS in head.jobs
    assert head.jobs[5_000 + JOBS].id == 5_000 + JOBS  # those of the other class are made first
    for found in (list(head.jobs), list(head.jobs.keys()), [job.id for job in head.jobs.values()]):
        assert found == numbers
    assert [number for number, _ in head.jobs.items()] == numbers
    head.check()


def test_later_jobs_stand_behind_those_without_records():
    head = a_head()
    submit(head, range(JOBS + 1, JOBS + 3), fn=2)
    submit(head, [JOBS + 3])
    assert made(head) == CHUNK
    (cls,) = head.classes.values()
    assert [(job.id, job.fn.id) for job in cls.live()][JOBS - 1 :] == [
        (JOBS, 1),
        (JOBS + 1, 2),
        (JOBS + 2, 2),
        (JOBS + 3, 1),
    ]


def test_calls_of_several_functions_stand_behind_those_before_them():
    head = a_head()
    head.handle(JobsSubmitted(CLASS, [JOBS + 1, JOBS + 2], [1, 2]), 0.0)
    (cls,) = head.classes.values()
    assert [job.id for job in cls.queue] == list(range(1, JOBS + 3))
    assert len(head.jobs) == JOBS + 2


def test_a_queue_from_which_all_are_taken_goes_on_with_those_without_records():
    head = a_head()
    (cls,) = head.classes.values()
    for job in list(cls.queue):
        cls.remove(job)
    assert [job.id for job in cls.queue] == list(range(CHUNK + 1, 2 * CHUNK + 1))


@pytest.mark.parametrize(
    "more",
    [{"ages": [1] * JOBS}, {"sizes": [10**6] * JOBS}, {"priority": 1, "sizes": [1] + [0] * (JOBS - 1)}],
    ids=["ages", "sizes", "priority"],
)
def test_jobs_of_which_more_is_told_have_records_at_once(more):
    head = a_head(jobs=1)
    submit(head, range(2, JOBS + 2), **more)
    assert made(head) == JOBS + 1
    head.check()


def test_older_jobs_go_before_those_without_records():
    head = a_head(first=100)
    submit(head, [100 + JOBS], ages=[1])
    (cls,) = head.classes.values()
    assert next(iter(cls.live())).id == 100 + JOBS
    assert len(cls.live()) == JOBS + 1
    head.check()


def test_a_job_without_a_record_can_be_cancelled():
    head = a_head()
    assert head.handle(JobsCancelled([JOBS]), 0.0) == []
    assert JOBS not in head.jobs
    assert len(head.jobs) == JOBS - 1
    (cls,) = head.classes.values()
    assert [job.id for job in cls.live()] == list(range(1, JOBS))


def test_all_can_be_cancelled():
    head = a_head()
    head.handle(JobsCancelled(list(range(1, JOBS + 1))), 0.0)
    assert not head.jobs
    assert all(cls.head() is None for cls in head.classes.values())
    head.check()


def test_a_cancelled_chunk_is_followed_by_the_next():
    head = a_head()
    (cls,) = head.classes.values()
    for job in list(cls.queue):
        job.cancelled = True
        del head.jobs[job.id]
    assert cls.head().id == CHUNK + 1
    assert cls.deferred is not None


def test_workers_are_given_jobs_that_had_no_record():
    head = a_head(cores=CHUNK + 2)
    head.handle(Ticked(), 0.0)  # one pass places a chunk at most
    assert made(head) == 2 * CHUNK
    assert head.jobs[CHUNK + 2].state is JobState.PLANNED
    assert head.jobs[CHUNK + 3].state is JobState.QUEUED
    head.check()
