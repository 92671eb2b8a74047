"""What a request can ask for besides amounts: alternatives, tokens, walltimes, limits, rates, growth; fair shares."""

from __future__ import annotations

import pytest
from scheduler_cluster import Cluster

from grainlike.resources import Cores, GPUs, Limit, Memory, Rate, Resource, Token, WallTime
from grainlike.scheduler import AssignJobs, JobsPending, JobsSettled, JobsUnsatisfiable, Ticked, WakeAt, WorkerReported
from grainlike.wire import Code, LeaseStart


def test_of_two_alternatives_the_preferred_one_that_can_start_now_is_taken():
    cluster = Cluster(Cores(8) & GPUs(1))
    cluster.function(1)
    either = GPUs(1) | Cores(4)
    first, second, third = (cluster.submit(either, 5) for _ in range(3))
    fourth = cluster.submit(either, 5)
    shapes = [str(cluster.head.shapes[action.cls].request) for action in cluster.told(AssignJobs)]
    assert shapes == ["gpus=1", "cores=4", "cores=4"]
    assert {first, second, third} == set(cluster.begun)
    cluster.run()
    assert cluster.begun[fourth] == 5


def test_alternatives_of_which_none_can_ever_be_given_are_refused():
    cluster = Cluster(Cores(2), closed=True)
    cluster.function(1)
    cluster.submit(Cores(4) | GPUs(1), 1)
    (refusal,) = cluster.told(JobsUnsatisfiable)
    assert "cores" in str(refusal.missing)
    good = cluster.submit(Cores(4) | Cores(1), 1)
    assert good in cluster.begun


def test_tokens_choose_the_worker():
    cluster = Cluster(Cores(8), Cores(8) & Token("big"))
    cluster.function(1)
    jobs = [cluster.submit(Cores(1) & Token("big"), 1) for _ in range(3)]
    assert {cluster.started_on[job] for job in jobs} == {2}


def test_a_token_that_no_worker_carries_is_missing():
    cluster = Cluster(Cores(8))
    cluster.function(1)
    cluster.submit(Cores(1) & Token("big"), 1)
    (warning,) = cluster.told(JobsPending)
    assert "big" in str(warning.missing)


def test_a_walltime_starts_only_where_so_much_time_is_left():
    cluster = Cluster(Cores(4) & WallTime(100))
    cluster.function(1)
    assert cluster.submit(Cores(1) & WallTime(50), 10) in cluster.begun
    cluster.now = 60
    late = cluster.submit(Cores(1) & WallTime(50), 10)
    short = cluster.submit(Cores(1) & WallTime(30), 10)
    assert late not in cluster.begun
    assert short in cluster.begun
    assert cluster.head.explain(late, cluster.now).reason == "walltime"
    cluster.join(Cores(4) & WallTime(100))
    assert cluster.started_on[late] == 2


def test_a_walltime_that_no_worker_ever_has_is_refused():
    cluster = Cluster(Cores(2) & WallTime(100), closed=True)
    cluster.function(1)
    cluster.submit(Cores(2) & WallTime(200), 1)
    (refusal,) = cluster.told(JobsUnsatisfiable)
    assert "too little walltime (asked 0:03:20, at most 0:01:40)" in str(refusal.missing)
    assert cluster.submit(Cores(2) & WallTime(200, soft=50), 1) in cluster.begun


def test_no_worker_is_kept_for_a_job_that_its_life_is_too_short_for():
    cluster = Cluster(Cores(2) & WallTime(100))
    cluster.function(1)
    cluster.now = 60
    cluster.submit(Cores(2) & WallTime(50), 1)
    assert cluster.submit(Cores(1), 30) in cluster.begun


def test_a_reservation_ends_when_the_time_that_is_left_becomes_too_short():
    cluster = Cluster(Cores(2) & WallTime(100))
    cluster.function(1)
    overdue = cluster.submit(Cores(1), 60)
    cluster.submit(Cores(2) & WallTime(50), 1)
    narrow = cluster.submit(Cores(1), 10)
    assert narrow not in cluster.begun
    cluster.run(until=55)
    cluster.now = 55
    cluster.tell(Ticked())
    assert overdue in cluster.begun
    assert cluster.begun[narrow] == 55


def test_a_declared_walltime_bounds_the_reservation():
    """A job that must end before the wide one can start is let in, though nobody ever measured its function."""
    cluster = Cluster(Cores(4))
    cluster.function(1)
    cluster.submit(Cores(2) & WallTime(10), 10)
    wide = cluster.submit(Cores(4), 1)
    assert cluster.submit(Cores(1) & WallTime(8), 8) in cluster.begun
    assert cluster.submit(Cores(1) & WallTime(20), 20) not in cluster.begun
    cluster.run()
    assert cluster.begun[wide] == 10


def test_g14_a_group_learns_its_limits_from_eight_runs():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    request = Cores(1) & WallTime(group="fit")
    for seconds in (9, 11, 9, 11, 9, 11, 9, 11):
        cluster.submit(request, seconds)
    cluster.run()
    assert [action.hard_s for action in cluster.told(AssignJobs)] == [None] * 8
    cluster.submit(request, 10)
    learned = cluster.told(AssignJobs)[-1].hard_s
    assert learned == pytest.approx(10 + 5 * 1.0)
    assert cluster.head.shapes[1].soft_s == pytest.approx(10 + 2 * 1.0)


def test_a_limit_holds_over_all_workers():
    cluster = Cluster(Cores(8), Cores(8))
    cluster.function(1, known_s=0.001)
    jobs = [cluster.submit(Cores(1) & Limit("db", 2), 1) for _ in range(6)]
    other = cluster.submit(Cores(1), 1)
    assert set(cluster.begun) == {*jobs[:2], other}
    assert cluster.head.explain(jobs[2], 0.0).ration == "limit:db"
    cluster.run()
    assert [cluster.begun[job] for job in jobs] == [0, 0, 1, 1, 2, 2]


def test_a_rate_spaces_launches_and_asks_to_be_woken():
    cluster = Cluster(Cores(8))
    cluster.function(1)
    jobs = [cluster.submit(Cores(1) & Rate("api", 10), 1) for _ in range(3)]
    assert set(cluster.begun) == {jobs[0]}
    assert cluster.told(WakeAt)[-1].at == pytest.approx(0.1)
    for tenth in (1, 2):
        cluster.now = tenth / 10 + 1e-9
        cluster.tell(Ticked())
    assert [cluster.begun[job] for job in jobs] == pytest.approx([0, 0.1, 0.2])


def test_a_rate_keeps_its_pace_though_the_clock_rings_late():
    cluster = Cluster(Cores(500))
    cluster.function(1)
    jobs = cluster.submit(Cores(1) & Rate("api", 1000), 1, n=100)
    while len(cluster.begun) < len(jobs):
        cluster.now = cluster.told(WakeAt)[-1].at + 0.0015
        cluster.tell(Ticked())
    assert max(cluster.begun.values()) < 0.102
    assert all(cluster.begun[job] >= at / 1000 - 1e-9 for at, job in enumerate(jobs))


def test_of_a_late_clock_little_is_made_up_for_and_of_idle_time_nothing():
    cluster = Cluster(Cores(500))
    cluster.function(1)
    cluster.submit(Cores(1) & Rate("api", 1000), 1, n=100)
    cluster.now = 0.05
    cluster.tell(Ticked())
    assert len(cluster.begun) == pytest.approx(1 + 0.02 * 1000, abs=1)
    idle = Cluster(Cores(500))
    idle.function(1)
    idle.submit(Cores(1) & Rate("api", 1000), 1)
    idle.now = 10.0
    idle.submit(Cores(1) & Rate("api", 1000), 1, n=5)
    assert len(idle.begun) == 1 + 1


def test_after_a_memory_error_a_growing_request_is_tried_larger():
    cluster = Cluster(Memory("4G") & Cores(1))
    cluster.function(1)
    job = cluster.submit(Memory("1G", grow=2, max="4G"), 1)
    sizes = []
    for _ in range(3):
        _, _, worker, cls, attempt = cluster.take_running(job)
        sizes.append(cluster.head.shapes[cls].request["memory"])
        cluster.finish(job, worker, cls, attempt, Code.OUT_OF_MEMORY)
    assert sizes == [10**9, 2 * 10**9, 4 * 10**9]
    assert len(cluster.told(JobsSettled)) == 1


def test_two_clients_get_the_same_share_whoever_came_first():
    cluster = Cluster(Cores(4))
    cluster.function(1)
    mine = cluster.submit(Cores(1), 1, n=20, client=1)
    yours = cluster.submit(Cores(1), 1, n=20, client=2)
    cluster.run(until=6)
    begun = [sum(job in cluster.begun for job in jobs) for jobs in (mine, yours)]
    assert abs(begun[0] - begun[1]) <= 4
    cluster.run()


def test_explain_names_what_is_short_who_holds_it_and_what_would_start():
    cluster = Cluster(Cores(4))
    cluster.function(1, known_s=2.0)
    holder = cluster.submit(Cores(3), 2)
    waiting = cluster.submit(Cores(2), 2)
    behind = cluster.submit(Cores(2), 2)
    cluster.now = 0.5
    answer = cluster.head.explain(waiting, cluster.now)
    assert (answer.reason, answer.nearest, answer.holders) == ("room", "n1", (holder,))
    assert [(s.name, s.asked, s.free, s.capacity) for s in answer.short] == [("cores", 2, 1, 4)]
    assert answer.would_start_with == Cores(1)
    assert answer.starts_in_s == pytest.approx(1.5)
    assert "would start now with Cores(1)" in str(answer)
    assert cluster.head.explain(behind, cluster.now).before == 1
    assert cluster.head.explain(holder, cluster.now).state == "planned"
    assert cluster.head.explain(99, cluster.now) is None


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        (GPUs(0.5), "on its way to n1, where it may wait for the memory of its devices, attempt 1."),
        (GPUs(3) | Cores(1), "on its way to n1, attempt 1."),
    ],
)
def test_explain_says_that_a_job_may_wait_for_memory_of_devices_until_it_runs(asks, said):
    cluster = Cluster(Cores(1) & GPUs(1))
    cluster.function(1)
    job = cluster.submit(asks, 1)
    assert str(cluster.head.explain(job, cluster.now)).endswith(said)
    (sent,) = cluster.told(AssignJobs)
    cluster.tell(WorkerReported(1, [LeaseStart(job, sent.cls, "", [job], [1], cluster.now)], [], []))
    assert str(cluster.head.explain(job, cluster.now)) == f"Job {job} runs on n1, attempt 1."


@pytest.mark.parametrize(
    ("run_s", "said"),
    [
        (0.00796, "about 0.81 s"),
        (0.0005, "about 51 ms"),
        (1.0, "about 100 s"),
        (60.0, "about 100 min"),
        (3600, "about 100 h"),
    ],
)
def test_an_estimate_counts_those_that_go_first_and_has_two_digits(run_s, said):
    cluster = Cluster(Cores(4))
    cluster.function(1, known_s=run_s)
    cluster.submit(Cores(1), run_s, n=4)
    waiting = cluster.submit(Cores(1), run_s, n=403)
    last = cluster.head.explain(waiting[-1], 0.0)
    assert last.reason == "turn"
    assert last.starts_in_s == pytest.approx(run_s * (1 + 402 / 4)), "some of the 402 may have been sent ahead"
    assert said in str(last)


def test_a_start_is_not_estimated_where_a_run_time_or_a_limit_on_the_way_makes_that_a_guess():
    cluster = Cluster(Cores(4))
    cluster.function(1, known_s=1.0)
    cluster.function(2)
    cluster.submit(Cores(4), 1)
    cluster.submit(Cores(2), 1, fn=2)
    behind = cluster.submit(Cores(2), 1)
    assert (cluster.head.explain(behind, 0.0).before, cluster.head.explain(behind, 0.0).starts_in_s) == (1, None)
    limited = cluster.submit(Cores(1) & Limit("licence", 1), 1, n=3)
    assert (cluster.head.explain(limited[2], 0.0).reason, cluster.head.explain(limited[2], 0.0).starts_in_s) == (
        "turn",
        None,
    )


def test_explain_says_for_whom_the_room_is_kept():
    cluster = Cluster(Cores(4))
    cluster.function(1)
    cluster.submit(Cores(2), 5)
    wide = cluster.submit(Cores(4), 5)
    kept_out = cluster.submit(Cores(1), 5)
    answer = cluster.head.explain(kept_out, 0.0)
    assert (answer.reason, answer.holders) == ("reservation", (wide,))


def test_explain_says_that_no_worker_is_here_and_what_none_could_give():
    cluster = Cluster()
    cluster.function(1)
    job = cluster.submit(Memory("600Gi"), 1)
    assert "none is connected" in str(cluster.head.explain(job, 0.0))
    cluster.join(Memory("8Gi") & Resource("foo", 1))
    answer = cluster.head.explain(job, 0.0)
    assert answer.reason == "never"
    said = f"Job {job} waits for a worker that can give memory=600Gi: too little memory "
    assert str(answer).startswith(said)  # it is not refused: a worker that can may still come


def test_a_layout_that_no_node_can_grant_is_refused_and_blocks_nobody():
    """Only the node knows its sockets: the head's amounts fit, and the node says that it never can."""
    cluster = Cluster(Cores(8), closed=True)
    cluster.function(1)
    job = cluster.submit(Cores(8, pack="numa"), 1)
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.finish(job, worker, cls, attempt, Code.UNFIT)
    (refusal,) = cluster.told(JobsUnsatisfiable)
    assert (refusal.jobs, refusal.missing) == ([job], None)
    assert cluster.submit(Cores(8), 1) in cluster.begun


def test_with_more_workers_it_is_tried_on_another():
    cluster = Cluster(Cores(8), Cores(8))
    cluster.function(1)
    job = cluster.submit(Cores(8, pack="numa"), 1)
    _, _, worker, cls, attempt = cluster.take_running(job)
    cluster.finish(job, worker, cls, attempt, Code.UNFIT)
    _, _, other, cls, attempt = cluster.take_running(job)
    assert other != worker
    cluster.finish(job, other, cls, attempt, Code.UNFIT)
    assert cluster.head.explain(job, cluster.now).reason == "never"
    assert len(cluster.told(JobsPending)) == 1


def test_g14_a_written_time_holds_until_its_group_has_learned():
    cluster = Cluster(Cores(1))
    cluster.function(1)
    request = Cores(1) & WallTime(100, group="fit")
    for _ in range(9):
        cluster.submit(request, 10)
        cluster.run()
    assert [action.hard_s for action in cluster.told(AssignJobs)] == [100] * 8 + [pytest.approx(10)]
