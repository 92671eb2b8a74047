"""A cluster in virtual time: the plan of a graph on nodes that come and go."""

import pytest

from grainlike import Cores, GraphError, delayed
from grainlike.testing import VirtualCluster


@delayed
def fit(seed):
    raise AssertionError("nothing runs")


def fits(count):
    return [(fit @ Cores(1))(seed) for seed in range(count)]


@pytest.mark.anyio
async def test_jobs_wait_for_the_only_node():
    plan = await VirtualCluster([Cores(1)], durations={"fit": 600}).run(fits(3))
    assert [(job.worker, job.start_s) for job in plan.jobs] == [("n1", 0), ("n1", 600), ("n1", 1200)]
    assert plan.makespan_s == 1800


@pytest.mark.anyio
async def test_a_node_that_joins_takes_what_waits():
    virtual = VirtualCluster([Cores(1)], durations={"fit": 600})
    assert virtual.start_worker(Cores(1), at=300) == "n2"
    plan = await virtual.run(fits(3))
    assert [(job.worker, round(job.start_s)) for job in plan.jobs] == [("n1", 0), ("n2", 300), ("n1", 600)]
    assert plan.makespan_s == 1200


@pytest.mark.anyio
async def test_jobs_of_a_node_that_leaves_run_elsewhere_from_their_beginning():
    virtual = VirtualCluster([Cores(1), Cores(1)], durations={"fit": 600})
    virtual.stop_worker("n1", at=200)
    plan = await virtual.run(fits(2))
    assert [(job.worker, job.start_s, job.status) for job in plan.jobs] == [
        ("n1", 0, "stopped"),
        ("n2", 0, "succeeded"),
        ("n2", 600, "succeeded"),
    ]
    assert plan.makespan_s == 1200
    stopped, other, again = (job.call for job in plan.jobs)
    assert stopped == again != other
    assert repr(plan) == "<Plan: 2 jobs (3 attempts) in 20:00 min on 2 workers with 2 cores>"
    assert "  fit  2 jobs (3 attempts) of " in str(plan)
    assert str(plan).endswith(", 1 stopped")


@pytest.mark.anyio
async def test_what_no_node_is_left_for_is_told():
    virtual = VirtualCluster([Cores(1)], durations={"fit": 600})
    virtual.stop_worker("n1", at=900)
    plan = await virtual.run(fits(2))
    assert [unsatisfiable.jobs for unsatisfiable in plan.unsatisfiable] == [1]


@pytest.mark.anyio
async def test_mistakes_are_told_where_they_are_made():
    virtual = VirtualCluster(durations={})
    with pytest.raises(GraphError, match="fit"):
        await virtual.run(fits(1))
    with pytest.raises(TypeError, match="placeholder"):
        await virtual.run(3)
    with pytest.raises(ValueError, match="one node or more"):
        VirtualCluster([], durations={})
    with pytest.raises(KeyError, match="n7"):
        virtual.stop_worker("n7", at=1)
    virtual.start_worker(at=50)
    for at in (0, 49, float("inf")):
        with pytest.raises(ValueError, match="joins after"):
            virtual.start_worker(at=at)
    with pytest.raises(ValueError, match="leaves after"):
        virtual.stop_worker("n2", at=50)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": Cores(4)}, r"nodes are what each of them offers, as \[Cores\(4\), Cores\(4\)\], not Cores\(4\)"),
        ({"nodes": 4}, "nodes are what each of them offers, .* not 4"),
        ({"nodes": [4]}, r"a node is what it offers, as Cores\(4\) & GPUs\(1\), not 4"),
        ({"durations": 5}, "durations is a mapping from function names to seconds, or a function, not int"),
        ({"durations": {"fit": "b"}}, r"durations\['fit'\] is a number of seconds, not str"),
        ({"default": "x"}, "default is a number of seconds, not str"),
        ({"sizes": 5}, "sizes is a mapping from function names to bytes, not int"),
    ],
)
def test_what_is_of_another_type_is_refused_where_it_is_written(wrong, words):
    with pytest.raises(TypeError, match=words):
        VirtualCluster(**{"nodes": [Cores(1)], "durations": {"fit": 1}, **wrong})


@pytest.mark.parametrize("at", ["x", None, True])
def test_times_are_numbers(at):
    virtual = VirtualCluster([Cores(1)], durations={})
    with pytest.raises(TypeError, match="at is a number of seconds, not"):
        virtual.start_worker(at=at)
    with pytest.raises(TypeError, match="at is a number of seconds, not"):
        virtual.stop_worker("n1", at=at)
    with pytest.raises(TypeError, match="a node is what it offers"):
        virtual.start_worker(4, at=1)
    with pytest.raises(KeyError, match="there is no node 'n7': there are n1"):
        virtual.stop_worker("n7", at=1)
