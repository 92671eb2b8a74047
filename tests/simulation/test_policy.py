"""The simulation holds no policy: a rule that is taken out of the schedulers is missed in its outcomes."""

from __future__ import annotations

import os
from statistics import median

import pytest

from grainlike.resources import Cores, Limit, Memory, Rate
from grainlike.simulation import CALM, Delay, Dice, FunctionPlan, JobPlan, Network, Workload
from simtest import Trial, draw_workload, equal_nodes, simulate

SEEDS = int(os.environ.get("GRAINLIKE_TEST_SEEDS", "2000"))
STEADY = Network(spawn=Delay(0.05, 0.05))


def narrow_stream_with_a_wide_job(seed):
    """Four cores, narrow jobs of 50 to 150 ms that never stop coming, one of four cores after a second."""
    dice = Dice(seed)
    jobs = [JobPlan(0, Cores(1), dice.between(0.05, 0.15), at=at * 0.028) for at in range(400)]
    jobs.append(JobPlan(1, Cores(4), 0.1, at=1.0))
    workload = Workload("stream with a wide job", (FunctionPlan("narrow"), FunctionPlan("wide")), tuple(jobs))
    return Trial(seed, workload, equal_nodes(1, Cores(4)), network=STEADY).run()


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_job_waits_for_what_runs_and_for_nothing_else(seed):
    outcome = narrow_stream_with_a_wide_job(seed)
    assert outcome.violations == ()
    assert outcome.starts[400] - 1.0 <= 0.3
    assert outcome.passed_over[0] <= 0.15


def test_without_reservations_it_starves(monkeypatch):
    monkeypatch.setattr("grainlike.scheduler.planning._reservations.reserve_on", lambda *_: None)
    outcome = narrow_stream_with_a_wide_job(0)
    assert outcome.violations == ()
    assert outcome.starts[400] - 1.0 > 5.0
    assert outcome.passed_over[0] > 5.0


def test_a_job_that_is_not_wide_is_passed_over_until_its_patience_ends():
    """Half of the cores are never free at once in a stream of jobs of one core, unless somebody keeps them free."""
    dice = Dice(3)
    jobs = [JobPlan(0, Cores(1), dice.between(0.05, 0.15), at=at * 0.024) for at in range(600)]
    jobs.append(JobPlan(1, Cores(2), 0.1, at=1.0))
    workload = Workload("half", (FunctionPlan("narrow"), FunctionPlan("half")), tuple(jobs))
    outcome = Trial(0, workload, equal_nodes(1, Cores(4)), network=STEADY).run()
    assert outcome.violations == ()
    assert 1.0 < outcome.starts[600] - 1.0 <= 5.0 + 0.3


def test_rations_are_used_up():
    """The last of twenty at ten a second is launched after 1.9 s, and two at a time take half as long as one."""
    functions = (FunctionPlan("quick"), FunctionPlan("steady"))
    jobs = [JobPlan(0, Cores(1) & Rate("api", 10), 0.01, at=3.0) for _ in range(20)]
    jobs += [JobPlan(1, Cores(1) & Limit("db", 2), 0.5, at=3.0) for _ in range(10)]
    outcome = Trial(
        0, Workload("start_limits", functions, tuple(jobs)), equal_nodes(1, Cores(16)), network=STEADY
    ).run()
    assert outcome.violations == ()
    starts = sorted(outcome.starts[at] - 3.0 for at in range(20))
    assert starts == pytest.approx([at / 10 for at in range(20)], abs=0.06)
    assert 2.5 <= max(outcome.starts[at] - 3.0 for at in range(20, 30)) + 0.5 <= 2.7


def test_what_waits_behind_a_surprise_runs_elsewhere():
    """Quick jobs are sent ahead to both workers; where one turns out long, those behind it are taken back."""
    jobs = [JobPlan(0, Cores(1), 0.002) for _ in range(300)]
    jobs[296] = JobPlan(0, Cores(1), 5.0)
    workload = Workload("surprise", (FunctionPlan("quick"),), tuple(jobs))
    outcome = Trial(0, workload, equal_nodes(2, Cores(1)), network=STEADY).run()
    assert outcome.violations == ()
    assert max(start for at, start in outcome.starts.items() if at != 296) < 1.0


@pytest.mark.parametrize("limits", [(0.05,), (0.05, 0.2)])
@pytest.mark.parametrize("seed", range(5))
def test_the_time_limit_of_a_job_in_a_run_list_counts_from_its_own_beginning(seed, limits):
    """Tiny jobs with short limits share leases; some never end, and those behind each of them run elsewhere."""
    dice = Dice(seed)
    stuck = {100 + dice.below(300) for _ in range(8)}
    jobs = tuple(JobPlan(at % len(limits), Cores(1), 5.0 if at in stuck else 0.0002) for at in range(400))
    functions = tuple(FunctionPlan(f"hurried {limit:g}", timeout=limit, on_timeout=False) for limit in limits)
    workload = Workload("hurried", functions, jobs)
    network = Network(spawn=Delay(0.05, 0.05), stop=Delay(0.0, 0.0))
    outcome = Trial(seed, workload, equal_nodes(1, Cores(1)), network=network).run()
    assert outcome.violations == ()
    for at in stuck:
        begun = outcome.starts[at]
        behind = min((start for start in outcome.starts.values() if start > begun), default=begun)
        assert behind - begun <= limits[at % len(limits)] + network.spawn.most + 0.005


def test_without_sending_ahead_tiny_jobs_are_slow(monkeypatch):
    def makespan():
        jobs = tuple(JobPlan(0, Cores(1), 0.0002) for _ in range(1000))
        workload = Workload("tiny", (FunctionPlan("tiny"),), jobs)
        return Trial(0, workload, equal_nodes(1, Cores(2)), network=STEADY, judged=False).run().makespan

    quick = makespan()
    monkeypatch.setattr("grainlike.scheduler.planning._ahead.AHEAD_MOST", 0)
    assert makespan() > 3 * quick


def test_an_urgent_job_waits_for_one_end_only():
    """Quick jobs are sent ahead; a job of higher priority that fits in what one of them leaves starts next."""
    jobs = [JobPlan(0, Cores(1), 0.01) for _ in range(2000)]
    jobs.append(JobPlan(1, Cores(1) & Memory("1G"), 0.01, at=1.0, priority=1))
    workload = Workload("urgent", (FunctionPlan("quick"), FunctionPlan("urgent")), tuple(jobs))
    outcome = Trial(0, workload, equal_nodes(1, Cores(4) & Memory("4G")), network=STEADY, judged=False).run()
    assert outcome.starts[2000] - 1.0 < 0.1


def tree_of_sums(leaf_s, sum_s, request):
    """Of 512 leaves and the sums of eights, those of sums included, on four cores each of two nodes."""
    dice = Dice(5)
    jobs = [JobPlan(0, Cores(1), dice.between(0.8, 1.2) * leaf_s) for _ in range(512)]
    level = list(range(512))
    while len(level) > 1:
        groups = [tuple(level[at : at + 8]) for at in range(0, len(level), 8)]
        level = list(range(len(jobs), len(jobs) + len(groups)))
        jobs += [JobPlan(1, request, sum_s, after=group) for group in groups]
    workload = Workload("sums", (FunctionPlan("leaf"), FunctionPlan("sum")), tuple(jobs))
    return Trial(0, workload, equal_nodes(2, Cores(4) & Memory("8G")), network=STEADY).run()


@pytest.mark.parametrize("request_of_sums", [Cores(1), Cores(1) & Memory("1G")], ids=["alike", "other"])
@pytest.mark.parametrize(("leaf_s", "sum_s"), [(0.3, 0.3), (0.02, 0.02), (0.02, 0.3), (0.3, 0.005)])
def test_a_tree_is_drained_as_it_is_filled(leaf_s, sum_s, request_of_sums, monkeypatch):
    """At the most two or three times as many values wait as there are slots, and inputs on each level of the tree:
    where leaves are quick and sums are not, what was sent ahead has to be taken back.
    """
    outcome = tree_of_sums(leaf_s, sum_s, request_of_sums)
    assert outcome.violations == ()
    assert outcome.values_most <= (3 if leaf_s < 0.1 < sum_s else 2) * (8 + 8 * 3)
    monkeypatch.setattr("grainlike.simulation._client.Client._inherit", lambda *_: None)
    by_own_age = tree_of_sums(leaf_s, sum_s, request_of_sums)
    assert by_own_age.violations == ()
    assert by_own_age.values_most > 400
    assert outcome.makespan <= 1.15 * by_own_age.makespan


def test_nobody_is_passed_over_for_longer_than_was_said():
    """Patience (5 s; functions that run for longer are not the ones that wait here) and the longest run, 5 s."""
    for seed in range(max(60, SEEDS // 30)):
        outcome = simulate(seed, jobs=60, faults=CALM)
        assert outcome.violations == ()
        assert outcome.passed_over[0] <= 5.0 + 5.0 + 1.0, seed


@pytest.mark.parametrize(("workload", "most"), [("mixed", 1.05), ("mixed_widest_first", 1.04)])
def test_w5_makespan_is_near_the_lower_bound(workload, most):
    assert median(simulate(seed, workload, judged=False).ratio for seed in range(5)) <= most


def test_w6b_the_wide_job_starts_early_and_costs_little():
    outcomes = [simulate(seed, "one_wide", judged=False) for seed in range(5)]
    assert median(outcome.widest_start / outcome.makespan for outcome in outcomes) <= 0.12
    assert median(outcome.ratio for outcome in outcomes) <= 1.10


def test_the_lower_bound_is_none_that_anybody_beats():
    for seed in range(30):
        outcome = simulate(seed, "layers", faults=CALM, judged=False)
        assert (
            outcome.seen.get("cancelled") or outcome.makespan >= outcome.lower_bound or outcome.seen["settled FAILED"]
        )


def test_workloads_of_one_seed_are_the_same():
    assert draw_workload(Dice(3), "bursts", 40) == draw_workload(Dice(3), "bursts", 40)
