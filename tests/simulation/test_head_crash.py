"""Worlds whose head dies: its jobs are lost for who awaits them, and nothing of it goes on anywhere."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from grainlike.resources import Cores
from grainlike.scheduler import GRACE_S, NodeScheduler
from grainlike.simulation import FOREVER, Faults, FunctionPlan, JobPlan, Workload
from grainlike.simulation._client import Client
from grainlike.simulation._daemon import Daemon
from grainlike.wire import LOST_S, Code
from simtest import Trial, equal_nodes, simulate

SEEDS = max(1, int(os.environ.get("GRAINLIKE_TEST_SEEDS", "640")) // 16)
KINDS = ("any", "recursion", "gangs", "stream")
MEAN_S = 1.0


@cache
def world(kind, seed):
    """What was broken in it, and what happened there."""
    outcome = simulate(seed, kind, head_crash=MEAN_S)
    return outcome.violations, outcome.seen


@pytest.mark.parametrize("kind", KINDS)
def test_every_promise_is_kept(kind):
    broken = {seed: world(kind, seed)[0] for seed in range(SEEDS)}
    assert not {seed: violations for seed, violations in broken.items() if violations}


def test_the_worlds_see_every_path():
    seen = Counter()
    for seed in range(40):
        for kind in KINDS:
            seen.update(world(kind, seed)[1])
    assert seen["head died"] == 40 * len(KINDS)
    paths = ("lost with the head", "worker without a head", "told STOPPED", "worker given up", "worker leaving", "lent")
    assert min(seen[path] for path in paths) > 10, seen


def stalled(seconds, jobs=6):
    """Jobs that take no notice of a cancellation, on one node of four cores; the head dies within two seconds."""
    functions = (FunctionPlan("plain"), FunctionPlan("coroutine", is_async=True))
    plans = [JobPlan(at % 2, Cores(1), seconds, awaits=bool(at % 2), on_stop="goes on") for at in range(jobs)]
    workload = Workload("stalled", functions, tuple(plans))
    return lambda seed: Trial(seed, workload, equal_nodes(1, Cores(4)), faults=Faults(head_crash=1.0))


@pytest.mark.parametrize("seed", range(6))
def test_whatever_runs_ends_within_a_silence_and_the_grace_time(seed):
    """Whether links end or fall silent, and whether the jobs heed anything or not."""
    outcome = stalled(1000.0)(seed).run()
    assert outcome.violations == ()
    assert outcome.makespan <= 2.0 + LOST_S + GRACE_S + 1.0
    assert outcome.seen["lost with the head"] == 6


def test_a_head_whose_machine_is_gone_is_missed_after_a_silence():
    ends = sorted(stalled(1000.0)(seed).run().makespan for seed in range(12))
    assert ends[0] < 2.0 + GRACE_S + 1.0
    assert ends[-1] > 25.0


def test_what_has_ended_before_is_nobodys_loss():
    outcome = stalled(0.001)(0).run()
    assert outcome.violations == ()
    assert outcome.seen["settled SUCCEEDED"] == 6
    assert "lost with the head" not in outcome.seen


def test_nothing_comes_back():
    """Workers find no head to dial, and a job that kills its process is not run again."""
    plans = tuple(JobPlan(0, Cores(1), 0.2, kills=FOREVER) for _ in range(20))
    workload = Workload("poison", (FunctionPlan("poison"),), plans)
    faults = Faults(head_crash=0.5, node_kill=0.3, until=100.0)
    outcome = Trial(1, workload, equal_nodes(3, Cores(2)), faults=faults).run()
    assert outcome.violations == ()
    assert outcome.makespan < 1.0 + 0.5


def quick(seed):
    """Quick jobs, of which a node always has some that wait there when the head dies."""
    plans = tuple(JobPlan(0, Cores(1), 0.02) for _ in range(1000))
    workload = Workload("quick", (FunctionPlan("quick"),), plans)
    return Trial(seed, workload, equal_nodes(1, Cores(2)), faults=Faults(head_crash=3.0))


def test_what_waits_on_a_node_never_starts():
    outcome = quick(2).run()
    assert outcome.violations == ()
    assert outcome.seen["told RETURNED"] > 0


# --- the judge sees ---------------------------------------------------------------------------------------------------


def run_on(patch):
    """The node's scheduler ends nothing when its head is gone."""
    patch(NodeScheduler, "_stop_all", lambda self, now, out: None)


def notice_nothing(patch):
    """A worker never looks at its link."""
    patch(Daemon, "lose_head", lambda self, when_idle, patience: None)


def tell_no_awaiter(patch):
    """Those who wait for something that the head had accepted wait for ever."""
    patch(Client, "lose_head", lambda self: None)


def start_what_waits(patch):
    """What waits on a node gets the slots of what was stopped."""

    def stop_all(self, now, out):
        for lease in list(self._leases.values()):
            running = [job for job in lease.jobs.values() if job.stopped is None]
            for job in running:
                job.stopped = Code.STOPPED
            self._stop(lease, running, now, out)
        self._grant_all(now, out)

    patch(NodeScheduler, "_stop_all", stop_all)


@pytest.mark.parametrize("fault", [run_on, notice_nothing, tell_no_awaiter, start_what_waits])
def test_a_fault_is_seen(fault, monkeypatch):
    monkeypatch.setattr(NodeScheduler, "check", lambda self: None)
    fault(monkeypatch.setattr)
    outcomes = (simulate(seed, kind, head_crash=MEAN_S) for seed in range(40) for kind in ("any", "bursts"))
    assert any(quick(seed).run().violations for seed in range(3)) or any(outcome.violations for outcome in outcomes)


def test_a_door_that_is_left_open_is_seen(monkeypatch):
    """A head that goes on giving out jobs after its death."""
    monkeypatch.setattr("grainlike.simulation._site.Site.lose_head", lambda self, *, silent: None)
    assert stalled(1000.0)(0).run().violations
