"""Worlds of jobs that await jobs: every promise is kept, and a scheduler that breaks one is seen by the judge alone."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from grainlike.scheduler import HeadScheduler, NodeScheduler
from grainlike.scheduler import _deadlock_watch as standstill_module
from grainlike.scheduler.node import _lending as lending_module
from grainlike.scheduler.node._lending import Lending
from grainlike.simulation import CALM
from grainlike.wire import Wait
from simtest import simulate

SEEDS = max(1, int(os.environ.get("GRAINLIKE_TEST_SEEDS", "160")) // 4)
BLOCK = 20

# Seeds that once showed a fault: a tree whose oldest job has ended and lost its classes with it; shares of devices that
# lie so that a planned job cannot start; two assignments of one moment that the judge took for a change of order; a job
# that was lost after the one that waited for it; one that was given up because a silent worker started nothing.
REGRESSIONS = [6, 86, 877, 2042, 3440, 4473]


@cache
def world(seed):
    """What was broken in it, and what happened there."""
    outcome = simulate(seed, "recursion")
    return outcome.violations, outcome.seen


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_promise_is_kept(first):
    broken = {seed: world(seed)[0] for seed in range(first, min(first + BLOCK, SEEDS))}
    assert not {seed: violations for seed, violations in broken.items() if violations}


def test_the_worlds_see_every_path():
    seen = Counter()
    for seed in range(20):
        seen.update(world(seed)[1])
    assert min(seen[path] for path in ("lent", "went on", "stuck", "cancelled", "runner died", "worker died")) > 3, seen


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_broken_once_is_kept(seed):
    assert simulate(seed, "recursion").violations == ()


def go_on_without_its_cores(patch):
    def regain(self, lease, job, out):
        lease.grant.lent = {}
        self._tell(lease, job, Wait.NOTHING, lease.heard, out)
        out.append(lending_module.ResumeJob(lease.runner.id, job.id, job.attempt, str(lease.grant.allocation)))
        return True

    patch(Lending, "_regain", regain)


def lend_what_is_kept(patch):
    real = Lending.awaits

    def awaits(self, lease, job, heard, out):
        kept, job.fn.keep = job.fn.keep, False
        real(self, lease, job, heard, out)
        job.fn.keep = kept

    patch(Lending, "awaits", awaits)


def forget_who_wants_cores_back(patch):
    patch(Lending, "resume", lambda self, out: None)


def give_nobody_up(patch):
    patch(standstill_module, "find_deadlock", lambda *args: None)


def let_orphans_live(patch):
    patch(HeadScheduler, "_end_orphans", lambda self, out: None)


SEEN = [
    go_on_without_its_cores,
    lend_what_is_kept,
    forget_who_wants_cores_back,
    give_nobody_up,
    let_orphans_live,
]


@pytest.mark.parametrize("fault", SEEN, ids=lambda fault: fault.__name__)
def test_a_fault_is_seen(fault, monkeypatch):
    monkeypatch.setattr(HeadScheduler, "check", lambda self: None)
    monkeypatch.setattr(NodeScheduler, "check", lambda self: None)
    fault(monkeypatch.setattr)
    assert any(simulate(seed, "recursion", faults=CALM).violations for seed in range(40)), "nobody saw it"
