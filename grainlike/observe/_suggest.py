"""Suggested requests: what to ask for next time, from what jobs of a function asked for and used.

The rule is that of the recommender of Kubernetes' Vertical Pod Autoscaler, made stricter for jobs that cannot be moved:
it suggests the 90th percentile of peaks of memory and a margin of 15 %, and after an end for lack of memory 20 % more,
at the least 100 MiB (`--recommendation-margin-fraction`, `--oom-bump-up-ratio`, `--oom-min-bump-up-bytes`). A pod that
needs more is evicted and started again; a job may have run for a day by then, so here it is the largest peak, and 20 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from grainlike.errors import ResourceSpecError
from grainlike.resources import MEMORY, UNIT, Request, parse, with_amounts

__all__ = ["LEAST_JOBS", "LEAST_S", "percentile", "readable_bytes", "suggested_request", "why_unsuggested"]

LEAST_JOBS = 3
"""Jobs that must have been measured before anything is suggested."""

LEAST_S = 0.1
"""Seconds that a job must have run for its cores to count: what is shorter is mostly its start."""

_MARGIN = 1.2
_LEAST_BUMP = 100 << 20
_HIGH = 0.95
_IDLE = 0.1
"""Part of a core that is not worth another one."""

_CORES = "cores"
_MI, _GI = 1 << 20, 1 << 30
_STEPS = ((_GI, 50 * _MI), (4 * _GI, 256 * _MI), (16 * _GI, 512 * _MI))
"""Steps of sizes below a bound; above all of them it is 1 GiB."""


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of all do not exceed, by nearest rank. `values` is sorted, and not empty.

    Example:
        >>> percentile([1.0, 2.0, 3.0, 10.0], 0.5), percentile([1.0, 2.0, 3.0, 10.0], 0.95)
        (2.0, 10.0)
    """
    return values[max(0, math.ceil(part * len(values)) - 1)]


def readable_bytes(size: float) -> int:
    """Return a size rounded up to one that people write: a multiple of 50 MiB, from 1 GiB on of 256 MiB, from 4 GiB on
    of 512 MiB, and from 16 GiB on of 1 GiB.

    Example:
        >>> readable_bytes(860 << 20) >> 20, readable_bytes(1100 << 20) >> 20
        (900, 1280)
    """
    step = next((step for below, step in _STEPS if size < below), _GI)
    rounded = math.ceil(size / step) * step
    return min(rounded, _GI) if size <= _GI else rounded


def suggested_request(
    asked: str, busy: Sequence[float], peaks: Sequence[int], *, out_of_memory: bool = False
) -> str | None:
    """Return what to ask for in place of `asked`, as `parse` reads it; None without evidence.

    Memory is the largest peak and 20 % more, rounded up by `readable_bytes`; where jobs ended for lack of memory, at
    the least what was asked and 20 % or 100 MiB more. Cores are as many as 95 % of the jobs kept busy, rounded up, but
    for a tenth of a core; one at the least. Each is left as it was asked for where fewer than `LEAST_JOBS` jobs were
    measured, and none is added that was not asked for: workers may offer none of it. All else stays.

    There is none for a request with a choice, whose jobs may have run either way, or for a gang, of which only the
    first node is measured.

    Args:
        asked: the request.
        busy: cores that each job kept busy on average, of jobs that ran for `LEAST_S` or longer.
        peaks: bytes that each job had at most; 0 where that is not known.
        out_of_memory: True if some jobs ended for lack of memory: then peaks are cut off at what was asked.

    Example:
        >>> suggested_request("cores=4 memory=8589934592", [1.02, 0.98, 1.05], [700 << 20, 710 << 20, 750 << 20])
        'cores=1 memory=943718400'
    """
    try:
        request = parse(asked)
    except ResourceSpecError:
        return None
    if not request or len(request.options) > 1 or request.nodes > 1:
        return None
    amounts: dict[str, int] = {}
    if _CORES in request.units and len(busy) >= LEAST_JOBS:
        amounts[_CORES] = UNIT * max(1, math.ceil(percentile(sorted(busy), _HIGH) - _IDLE))
    memory = _memory(request, [peak for peak in peaks if peak], out_of_memory=out_of_memory)
    if memory:
        amounts[MEMORY] = UNIT * memory
    return _resized(request, amounts) if amounts else None


def why_unsuggested(asked: str, busy: Sequence[float], peaks: Sequence[int]) -> str:
    """Return why `suggested_request` has none for these, in words.

    Example:
        >>> why_unsuggested("cores=1", [0.9], [])
        'too little evidence: it takes 3 jobs that ran for 0.1 s or longer, 1 did'
    """
    try:
        request = parse(asked)
    except ResourceSpecError:
        return "what they asked for is not known"
    if len(request.options) > 1 or request.nodes > 1:
        return "of a choice, and of several nodes, it is not known what each took"
    lacks = []
    if _CORES in request.units and len(busy) < LEAST_JOBS:
        lacks.append(f"{LEAST_JOBS} jobs that ran for {LEAST_S:g} s or longer, {len(busy) or 'none'} did")
    known = sum(1 for peak in peaks if peak)
    if request.units.get(MEMORY) and known < LEAST_JOBS:
        lacks.append(f"{LEAST_JOBS} whose memory is known, {known or 'none'} has it")
    if not lacks:
        return "they asked for neither cores nor memory"
    return f"too little evidence: it takes {'; '.join(lacks)}"


def _memory(request: Request, peaks: Sequence[int], *, out_of_memory: bool) -> int:
    """Return the bytes to ask for; 0 without evidence, or where none were asked for."""
    asked = request.units.get(MEMORY, 0) // UNIT
    if not asked:
        return 0
    least = max(asked * _MARGIN, asked + _LEAST_BUMP) if out_of_memory else 0.0
    largest = max(peaks) * _MARGIN if len(peaks) >= LEAST_JOBS else 0.0
    return readable_bytes(max(least, largest))


def _resized(request: Request, amounts: dict[str, int]) -> str | None:
    text = str(with_amounts(request, amounts))
    try:
        parse(text)  # memory that may grow has a bound of its own, and node-wide layouts a least number of cores
    except ResourceSpecError:
        return None
    return text
