"""Gangs in simulated worlds: whatever breaks, all workers of a gang hold its slots or none does, and all gangs end."""

from __future__ import annotations

from collections import Counter
from statistics import mean

import pytest

from grainlike.resources import Cores, Nodes
from grainlike.scheduler import CancelJobs, HeadScheduler, NodeScheduler
from grainlike.scheduler._gang_events import GangEvents
from grainlike.scheduler.node._holds import NodeHolds
from grainlike.scheduler.planning._gangs import Gangs
from grainlike.simulation import CALM, Dice, Faults, FunctionPlan, JobPlan, Workload
from simtest import Trial, equal_nodes, simulate

SEEDS = 100


def test_every_promise_is_kept_and_the_worlds_see_every_path():
    seen = Counter()
    broken = {}
    for seed in range(SEEDS):
        outcome = simulate(seed, "gangs")
        seen.update(outcome.seen)
        if outcome.violations:
            broken[seed] = outcome.violations
    assert not broken
    rare = {"gang", "hold", "worker died", "worker given up", "lost", "refused", "pending", "cancelled"}
    assert not {path for path in rare if seen[path] < 10}, seen


def overlapping(seed, count=40):
    """Gangs of two to five nodes, all of which want all of each worker that they get."""
    dice = Dice(seed)
    jobs = [JobPlan(0, Nodes(2 + dice.below(4), each=Cores(2)), dice.between(0.1, 1.0)) for _ in range(count)]
    return Workload("overlapping", (FunctionPlan("gang"),), tuple(jobs))


@pytest.mark.parametrize("faults", [CALM, Faults(node_kill=3.0, partition=5.0, until=20.0)], ids=["calm", "stormy"])
def test_gangs_that_want_each_others_workers_all_end(faults):
    utilisation = []
    for seed in range(5):
        outcome = Trial(seed, overlapping(seed), equal_nodes(6, Cores(2)), faults=faults).run()
        assert outcome.violations == ()
        assert sum(outcome.seen.get(end, 0) for end in ("settled SUCCEEDED", "lost")) == 40
        utilisation.append(outcome.utilisation)
    assert faults is not CALM or mean(utilisation) > 0.72


def narrow_stream_with_a_gang(seed):
    """Three workers of two cores, narrow jobs that never stop coming, a gang of all six cores after a second."""
    dice = Dice(seed)
    jobs = [JobPlan(0, Cores(1), dice.between(0.05, 0.15), at=at * 0.018) for at in range(400)]
    jobs.append(JobPlan(1, Nodes(3, each=Cores(2)), 0.1, at=1.0))
    workload = Workload("stream with a gang", (FunctionPlan("narrow"), FunctionPlan("gang")), tuple(jobs))
    return Trial(seed, workload, equal_nodes(3, Cores(2))).run()


@pytest.mark.parametrize("seed", range(3))
def test_a_gang_waits_for_what_runs_and_for_nothing_else(seed):
    outcome = narrow_stream_with_a_gang(seed)
    assert outcome.violations == ()
    assert outcome.starts[400] - 1.0 <= 0.4


def test_without_reservations_it_starves(monkeypatch):
    monkeypatch.setattr("grainlike.scheduler.planning._reservations.reserve_on", lambda *_: [])
    assert narrow_stream_with_a_gang(0).starts[400] - 1.0 > 3.0


# --- the judge -------------------------------------------------------------------------------------------------------


def never_let_go(patch):
    real = Gangs.disband

    def disband(self, job, out):
        told = len(out)
        real(self, job, out)
        del out[told:]

    patch(Gangs, "disband", disband)


def start_when_the_first_has_answered(patch):
    real = Gangs.granted

    def granted(self, hold, lease, allocation):
        gang = self._gangs.get(hold.job.id)
        if gang is None or gang.assembled or hold.released:
            hold.lease, hold.allocation = lease, allocation
            return None
        for held in gang.holds:
            held.lease, held.allocation = held.lease or -1, held.allocation or allocation
        return real(self, hold, lease, allocation)

    patch(Gangs, "granted", granted)


def ask_one_worker_twice(patch):
    real = Gangs.assemble

    def assemble(self, job, shape, workers, now):
        return real(self, job, shape, [workers[0], *workers[:-1]], now)

    patch(Gangs, "assemble", assemble)


def run_on_slots_of_its_own(patch):
    patch(NodeHolds, "pop", lambda self, event: None)


def let_the_others_go_while_it_runs(patch):
    real = HeadScheduler.handle

    def handle(self, event, now):
        out = real(self, event, now)
        for gang in [gang for gang in self._gangs._gangs.values() if gang.assembled and gang.job.lease]:
            for hold in gang.holds[1:]:
                if not hold.released and not hold.worker.gone:
                    out.append(CancelJobs(hold.worker.id, [gang.job.id], [gang.job.attempt]))
                hold.released = True
        return out

    patch(HeadScheduler, "handle", handle)


def take_no_notice_of_a_lost_member(patch):
    patch(GangEvents, "break_up", lambda self, hold, reason, out, back: None)


def wait_again_with_the_same_attempt(patch):
    real = GangEvents.break_up

    def break_(self, hold, reason, out, back):
        waiting = len(back)
        real(self, hold, reason, out, back)
        for job in back[waiting:]:
            job.attempt -= 1

    patch(GangEvents, "break_up", break_)


@pytest.mark.parametrize(
    "fault",
    [
        never_let_go,
        start_when_the_first_has_answered,
        ask_one_worker_twice,
        run_on_slots_of_its_own,
        let_the_others_go_while_it_runs,
        take_no_notice_of_a_lost_member,
        wait_again_with_the_same_attempt,
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_in_the_minds_is_seen_by_the_judge_alone(fault, monkeypatch):
    monkeypatch.setattr(HeadScheduler, "check", lambda self: None)
    monkeypatch.setattr(NodeScheduler, "check", lambda self: None)
    fault(monkeypatch.setattr)
    assert any(simulate(seed, "gangs").violations for seed in range(200)), "nobody saw it"
