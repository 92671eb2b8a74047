"""Cutting a line of jobs, or the levels of a graph, into parts of about equal cost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["depths", "evenly", "in_depth", "split_levels"]


def evenly(weights: Sequence[float], k: int) -> list[int]:
    """Return the number of the slice of each item of a line; there are `k` slices, none empty.

    No slice weighs more than the mean and the heaviest item: each boundary lies within half an item of where it
    should. `k` is at most the number of items.
    """
    sums = [0.0, *accumulate(weights)]
    split_by_bytes: list[int] = []
    begin = 0
    for number in range(k):
        end = len(weights)
        if number < k - 1:
            end = _nearest(sums, sums[-1] * (number + 1) / k)
            end = min(max(end, begin + 1), len(weights) - (k - 1 - number))
        split_by_bytes.extend([number] * (end - begin))
        begin = end
    return split_by_bytes


def _nearest(sums: Sequence[float], ideal: float) -> int:
    after = bisect_left(sums, ideal)
    if after == len(sums):  # rounding: the ideal can be a hair beyond the whole
        return after - 1
    return after - 1 if after and ideal - sums[after - 1] < sums[after] - ideal else after


def depths(needs: Sequence[Sequence[int]]) -> list[int]:
    """Return the level of each job: how many others are before it on the longest path that leads to it."""
    levels: list[int] = []
    for before in needs:
        levels.append(1 + max((levels[need] for need in before), default=-1))
    return levels


def split_levels(levels: Sequence[int], costs: Sequence[float], k: int) -> list[int]:
    """Parts of jobs of like levels: some for each level, or some levels for each part, whichever there are more of."""
    members: list[list[int]] = [[] for _ in range(max(levels) + 1)]
    for job, level in enumerate(levels):
        members[level].append(job)
    weights = [sum(costs[job] for job in jobs) for jobs in members]
    parts = [0] * len(levels)
    if len(members) >= k:
        for jobs, part in zip(members, evenly(weights, k), strict=True):
            for job in jobs:
                parts[job] = part
        return parts
    first = 0
    for jobs, share in zip(members, _shares(members, weights, k), strict=True):
        for job, part in zip(jobs, evenly([costs[job] for job in jobs], share), strict=True):
            parts[job] = first + part
        first += share
    return parts


def _shares(members: Sequence[Sequence[int]], weights: Sequence[float], k: int) -> list[int]:
    """Return how many parts each level gets: one, and a further one where parts are heaviest, while there are any."""
    shares = [1] * len(members)
    for _ in range(k - len(members)):
        wide = [level for level, jobs in enumerate(members) if shares[level] < len(jobs)]
        shares[max(wide, key=lambda level: weights[level] / shares[level])] += 1
    return shares


def in_depth(needs: Sequence[Sequence[int]]) -> list[int]:
    """An order in which jobs could run that goes on with what was just begun, so that neighbours belong together."""
    following: list[list[int]] = [[] for _ in needs]
    missing = []
    for job, before in enumerate(needs):
        distinct = set(before)
        missing.append(len(distinct))
        for need in distinct:
            following[need].append(job)
    ready = [job for job in range(len(needs) - 1, -1, -1) if not missing[job]]
    order = []
    while ready:
        job = ready.pop()
        order.append(job)
        for later in reversed(following[job]):
            missing[later] -= 1
            if not missing[later]:
                ready.append(later)
    return order
