"""Failures by reason: how many jobs of which function failed with which error on which worker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from grainlike.wire import EndedJob

__all__ = ["FailureGroup", "failures_by_reason"]

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|(?:(?<![\w.)\]])-)?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
"""Number in a text. A minus is part of it where nothing stands before that could be subtracted from, as in x=-1.5."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """FailureGroup of jobs that failed alike.

    Attributes:
        name: the name of their function.
        reason: the first line of their error. Numbers in which they differ are `#`.
        worker: the worker that they were on; empty where they had none.
        jobs: how many they are.
        latest: the number of the one that ended last.
        ended_at: when that ended, as `time.time()` has it.
    """

    name: str
    reason: str
    worker: str
    jobs: int
    latest: int
    ended_at: float


def failures_by_reason(jobs: Iterable[EndedJob]) -> list[FailureGroup]:
    """Return the groups of alike failures among ended jobs, the latest first of which were given: the largest first.

    Those are alike that are of one function, on one worker, with errors that differ in numbers alone.
    """
    groups: dict[tuple[str, str, str], list[EndedJob]] = {}
    for job in jobs:
        if job.outcome in ("failed", "timed_out"):
            groups.setdefault((job.name, _NUMBER.sub("#", job.error), job.worker), []).append(job)
    found = [_group(reason, alike) for (_, reason, _), alike in groups.items()]
    return sorted(found, key=lambda group: (-group.jobs, group.name, group.reason, group.worker))


def _group(reason: str, alike: list[EndedJob]) -> FailureGroup:
    last = alike[0]
    same = len({job.error for job in alike}) == 1
    return FailureGroup(last.name, last.error if same else reason, last.worker, len(alike), last.job, last.ended_at)
