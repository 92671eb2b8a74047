"""Explanations of gangs: which workers would take part, who has not answered, and until when the others are held."""

from __future__ import annotations

from gang_cluster import PAIR, cluster_of, ended

from grainlike.resources import Cores, Nodes, WallTime
from grainlike.scheduler import (
    WorkerReported,
)
from grainlike.wire import Code


def test_explain_says_which_workers_would_take_part_and_how_many_are_missing():
    cluster = cluster_of(*[Cores(4)] * 3)
    busy = cluster.submit(Cores(3) & WallTime(10), 10)
    gang = cluster.submit(Nodes(3, each=Cores(2)), 1)
    said = cluster.head.explain(gang, cluster.now)
    assert (said.reason, said.nearest, said.members, said.lacking) == ("room", "n1", ("n2", "n3"), 1)
    assert said.holders == (busy,)
    assert said.would_start_with == Nodes(2, each=Cores(2))
    assert str(said) == (
        f"Job {gang} waits for room on 1 worker more: there is room on n2, n3; next is n1, short of cores (asked 2, "
        f"free 1 of 4), held by jobs {busy}. It can start in about 10 s. "
        "It would start now with Nodes(2, each=Cores(2))."
    )


def test_explain_tells_who_has_not_answered_and_where_it_runs():
    cluster = cluster_of(*[Cores(2)] * 3, answering=False)
    gang = cluster.submit(PAIR, 5)
    said = cluster.head.explain(gang, 0.0)
    assert (said.state, said.worker, said.members, said.lacking) == ("planned", "n1", ("n1", "n2"), 2)
    assert str(said) == f"Job {gang} waits for 2 of n1, n2 to hold its slots there."
    for worker in (1, 2):
        cluster.answer(worker)
    said = cluster.head.explain(gang, 0.0)
    assert (said.state, said.lacking) == ("leased", 0)
    assert str(said) == f"Job {gang} runs on n1, n2, attempt 1."
    cluster.submit(Cores(2), 5)
    other = cluster.submit(Nodes(2, each=Cores(1)), 5)
    said = cluster.head.explain(other, 0.0)
    assert (said.members, said.lacking, said.would_start_with) == ((), 2, None)
    assert "waits for room on 2 workers more: there is room on none" in str(said)


def test_explain_names_a_gang_as_the_holder_on_each_of_its_workers():
    cluster = cluster_of(Cores(2), Cores(4))
    gang = cluster.submit(PAIR, 5)
    other = cluster.submit(Cores(3), 5)
    said = cluster.head.explain(other, 0.0)
    assert (said.nearest, said.holders) == ("n2", (gang,))


def test_explain_of_one_that_can_never_run_or_is_kept_waiting():
    cluster = cluster_of(*[Cores(2)] * 2)
    never = cluster.submit(Nodes(3, each=Cores(1)), 1)
    said = cluster.head.explain(never, 0.0)
    assert said.reason == "never"
    assert "it needs 3 workers that can give cores=1; there are 2" in str(said)
    cluster.submit(Cores(1), 10)
    wide = cluster.submit(Nodes(2, each=Cores(2)), 1)
    kept = cluster.submit(Nodes(2, each=Cores(1)), 1)
    said = cluster.head.explain(kept, 0.0)
    assert (said.reason, said.holders) == ("reservation", (wide,))


def test_explain_knows_when_the_last_of_its_workers_is_free():
    cluster = cluster_of(*[Cores(2)] * 2)
    cluster.submit(Cores(2) & WallTime(10), 10)
    cluster.submit(Cores(2) & WallTime(30), 30)
    first, second = cluster.submit(PAIR, 1, n=2)
    assert cluster.head.explain(first, 0.0).starts_in_s == 30
    assert cluster.head.explain(second, 0.0).starts_in_s is None, "nobody knows for how long the first runs"


def test_explain_of_one_for_which_too_few_workers_have_time_left():
    cluster = cluster_of(Cores(2) & WallTime(100), Cores(2))
    cluster.now = 60
    gang = cluster.submit(PAIR & WallTime(50), 1)
    said = cluster.head.explain(gang, 60.0)
    assert (said.reason, said.nearest) == ("walltime", "n2")


def test_explain_of_one_that_too_few_workers_can_lay_out():
    cluster = cluster_of(Cores(2), Cores(2), answering=False)
    job = cluster.submit(PAIR, 5)
    cluster.unanswered.remove((2, 1, job, 1))
    cluster.tell(WorkerReported(2, [], [ended(0, job, 1, Code.UNFIT)], []))
    said = cluster.head.explain(job, 0.0)
    assert (said.reason, said.missing) == ("never", None)
    assert "pack=" in str(said)
