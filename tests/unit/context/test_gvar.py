import asyncio
import contextvars
import pickle
import threading
from pathlib import Path

import pytest

from grainlike.context import GVAR, JobInfo, JobNode, enter_job, leave_job, this_job
from grainlike.resources import NO_ALLOCATION, Cores, Memory

GIVEN = Cores([6, 7, 9]) & Memory("8Gi")
JOB = JobInfo(id=3, name="fit", attempt=1, deadline=None)


def in_new_context(function, *args):
    return contextvars.copy_context().run(function, *args)


def seen_by_bare_thread():
    """What a thread sees that copied nothing, as a library's own threads do before Python 3.14."""
    seen = []
    thread = threading.Thread(target=contextvars.Context().run, args=(lambda: seen.append(GVAR.res),))
    thread.start()
    thread.join()
    return seen[0]


def test_a_job_on_one_node_has_no_list_of_nodes():
    assert JOB.nodes == ()
    node = JobNode("n1", "127.0.0.1", GIVEN)
    assert JobInfo(id=3, name="fit", attempt=1, deadline=None, nodes=(node,)).nodes[0].allocation.cores == (6, 7, 9)


def test_what_is_known_of_a_job_equals_its_copy():
    job = JobInfo(3, "fit", 1, None, (), Path("scratch").joinpath)
    copy = pickle.loads(pickle.dumps(job))
    assert (copy, hash(copy), {copy}) == (job, hash(job), {job})
    assert copy == JOB
    assert copy != JobInfo(3, "fit", 2, None)
    assert copy.scratch == Path("scratch/3-1")


def test_outside_a_job_all_is_empty():
    assert GVAR.res.cores == ()
    assert not GVAR.res
    assert (GVAR.instance, GVAR.job, GVAR.context) == (None, None, None)


def test_g8_a_job_sees_its_allocation_and_itself():
    def job():
        enter_job(GIVEN, "n1", JOB, context={"server": 1})
        return GVAR.res.cores, GVAR.res.N, GVAR.res.memory, GVAR.instance, GVAR.job, GVAR.context

    assert in_new_context(job) == ((6, 7, 9), 3, 2**33, "n1", JOB, {"server": 1})
    assert GVAR.res is NO_ALLOCATION


def test_leaving_resets_to_empty():
    def job():
        enter_job(GIVEN, "n1", JOB, context=1)
        leave_job()
        return GVAR.res, GVAR.instance, GVAR.job, GVAR.context

    assert in_new_context(job) == (NO_ALLOCATION, None, None, None)


@pytest.mark.asyncio
async def test_g8_two_concurrent_jobs_see_different_ids_and_so_do_their_children():
    both_in = asyncio.Barrier(2)

    async def child():
        await both_in.wait()
        return GVAR.res.cores

    async def job(core):
        enter_job(Cores([core]), "n1", JOB)
        await both_in.wait()
        return (
            GVAR.res.cores,
            await asyncio.create_task(child()),
            await asyncio.to_thread(lambda: GVAR.res.cores),
        )

    one, two = await asyncio.gather(asyncio.create_task(job(1)), asyncio.create_task(job(2)))
    assert one == ((1,),) * 3
    assert two == ((2,),) * 3
    assert GVAR.res.cores == ()


def test_threads_without_context_see_the_one_job_of_a_whole_process():
    def job():
        enter_job(GIVEN, "n1", JOB, whole_process=True)
        try:
            return GVAR.res, seen_by_bare_thread()
        finally:
            leave_job(whole_process=True)

    assert in_new_context(job) == (GIVEN, GIVEN)
    assert seen_by_bare_thread() == NO_ALLOCATION


def test_other_jobs_are_not_shown_to_threads_without_context():
    def job():
        enter_job(GIVEN, "n1", JOB)
        return seen_by_bare_thread()

    assert in_new_context(job) == NO_ALLOCATION


def test_a_call_without_resources_sees_the_empty_one_inside_the_job_of_a_whole_process():
    def call():
        leave_job()
        return GVAR.res

    def job():
        enter_job(GIVEN, "n1", JOB, whole_process=True)
        try:
            return in_new_context(call), GVAR.res
        finally:
            leave_job(whole_process=True)

    assert in_new_context(job) == (NO_ALLOCATION, GIVEN)


def test_repr_shows_the_slots_and_the_job():
    def job():
        enter_job(GIVEN, "n1", JOB)
        return repr(GVAR)

    shown = in_new_context(job)
    assert "Cores([6, 7, 9])" in shown
    assert "'n1'" in shown
    assert "fit" in shown


def test_nobody_can_write_to_it():
    with pytest.raises(AttributeError):
        GVAR.res = GIVEN


def test_a_job_is_made_of_its_facts_when_it_is_looked_at_and_is_then_the_same() -> None:
    def inside() -> None:
        enter_job(GIVEN, "n1", (3, "fit", 1, None, (), None))
        view = this_job()
        assert view is not None
        assert view.job == JOB
        assert GVAR.job is view.job
        assert view.author is view.job

    in_new_context(inside)
