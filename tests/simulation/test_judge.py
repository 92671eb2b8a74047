"""Faults made by hand in the minds: the judge must see each of them, or its silence means nothing."""

from __future__ import annotations

import pytest

from grainlike.scheduler import HeadMind, NodeMind
from grainlike.scheduler import _head as head_module
from grainlike.scheduler._books import WorkerBook
from grainlike.scheduler._planning import Planner
from grainlike.simulation import simulate
from grainlike.wire import Code

MOST_SEEDS = 400


def skip_a_release(patch):
    real = NodeMind._end

    def end(self, lease, out):
        if lease.lease % 5:
            real(self, lease, out)
        else:
            del self._leases[lease.lease], lease.runner.leases[lease.lease]

    patch(NodeMind, "_end", end)


def release_before_the_process_is_gone(patch):
    def maybe_end(self, lease, out):
        if not lease.jobs:
            self._end(lease, out)

    real = NodeMind._stop
    patch(NodeMind, "_maybe_end", maybe_end)

    def stop(self, lease, jobs, now, out):
        real(self, lease, jobs, now, out)
        if lease.runner.doomed:
            self._tell_unstarted(jobs, Code.CANCELLED, now, out)
            lease.jobs.clear()
            self._maybe_end(lease, out)

    patch(NodeMind, "_stop", stop)


def accept_a_stale_attempt(patch):
    patch(HeadMind, "_current", lambda self, worker, number, attempt: self.jobs.get(number))


def keep_the_attempt_of_a_lost_worker(patch):
    real = HeadMind._worker_lost

    def lost(self, event, out):
        worker = self.workers.get(event.worker)
        held = list(worker.held.values()) if worker else []
        real(self, event, out)
        for job in held:
            if job.job in self.jobs and job.worker == 0:
                job.attempt = max(1, job.attempt - 1)

    patch(HeadMind, "_worker_lost", lost)


def swap_first_in_first_out(patch):
    real = HeadMind._submitted

    def submitted(self, event, now, out):
        real(self, event, now, out)
        self.class_of(event.request, event.priority, event.isolate).queue.reverse()

    patch(HeadMind, "_submitted", submitted)


def return_what_was_running(patch):
    real = NodeMind._abandon

    def abandon(self, lease, event, now, out):
        jobs = [job for job in lease.jobs.values() if job.stopped is None]
        if lease.runner.kind == "own" and event.started >= 0:
            lease.jobs = {at: job for at, job in lease.jobs.items() if job.stopped is not None}
            self._keep(jobs)
        real(self, lease, event, now, out)

    patch(NodeMind, "_abandon", abandon)


def barrier_one_too_low(patch):
    real = NodeMind._barrier_held

    def held(self, event, now, out):
        real(self, type(event)(event.runner, event.lease, event.started - 1), now, out)

    patch(NodeMind, "_barrier_held", held)


def never_isolate_a_suspect(patch):
    real = HeadMind._lost

    def lost(self, job, worker, reason, out, back, *, suspect=True):
        real(self, job, worker, reason, out, back, suspect=False)

    patch(HeadMind, "_lost", lost)


def give_up_after_two_losses(patch):
    patch(head_module, "MAX_LOSSES", 2)


def fail_with_retries_left(patch):
    real = HeadMind._runs_again

    def again(self, job, code, worker, completed, out, back):
        return False if code == Code.FAILED else real(self, job, code, worker, completed, out, back)

    patch(HeadMind, "_runs_again", again)


def settle_what_was_cancelled(patch):
    real = HeadMind._completed

    def completed(self, worker, completed, out):
        for number in completed.jobs:
            if number in worker.held:
                worker.held[number].cancelled = False
        real(self, worker, completed, out)

    patch(HeadMind, "_completed", completed)


def warn_nobody(patch):
    patch(HeadMind, "_complain", lambda self, now, out: None)


def forget_what_came_back(patch):
    def requeue(self, jobs):
        for job in jobs:
            del self.jobs[job.job]

    patch(HeadMind, "_requeue", requeue)


def count_no_lease(patch):
    real = WorkerBook.take

    def take(self, shape):
        real(self, shape)
        if shape.shape % 2:
            for name, amount in shape.units:
                self.free[name] += amount

    patch(WorkerBook, "take", take)


def never_plan_again_after_a_loss(patch):
    real = Planner.plan

    def plan(self, now, out):
        if not any(type(action).__name__ == "JobsLost" for action in out):
            real(self, now, out)
        else:
            self._classes.clear()

    patch(Planner, "plan", plan)


SEEN_BY_THE_JUDGE = [
    skip_a_release,
    release_before_the_process_is_gone,
    accept_a_stale_attempt,
    keep_the_attempt_of_a_lost_worker,
    swap_first_in_first_out,
    return_what_was_running,
    barrier_one_too_low,
    never_isolate_a_suspect,
    give_up_after_two_losses,
    fail_with_retries_left,
    settle_what_was_cancelled,
    warn_nobody,
    forget_what_came_back,
    never_plan_again_after_a_loss,
    count_no_lease,
]


@pytest.mark.parametrize("fault", SEEN_BY_THE_JUDGE, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("laws", ["judge alone", "with the minds' own laws"])
def test_a_fault_in_the_minds_is_seen(fault, laws, monkeypatch):
    if laws == "judge alone":
        monkeypatch.setattr(HeadMind, "check", lambda self: None)
        monkeypatch.setattr(NodeMind, "check", lambda self: None)
    fault(monkeypatch.setattr)
    assert any(simulate(seed).violations for seed in range(MOST_SEEDS)), "nobody saw it"
