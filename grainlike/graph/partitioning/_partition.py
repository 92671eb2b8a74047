"""`Partition`: into which parts a graph is cut, so that each travels as one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, get_args

from grainlike.errors import GraphError
from grainlike.graph._named_checks import nearest
from grainlike.graph.partitioning._kernighan_lin import Cut
from grainlike.graph.partitioning._slicing import depths, evenly, in_depth, split_levels

__all__ = ["Partition", "Strategy"]

Strategy: TypeAlias = Literal["level_based", "balanced", "communication_min"]

_STRATEGIES: tuple[str, ...] = get_args(Strategy)


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition for `dag.run(partition=...)`: how a graph is cut into parts, each of which is sent as one job.

    For graphs of very many small jobs, where sending each job would cost more than running it. Two parts never wait for
    each other, directly or through others, so each part can run as a whole. Parts that do not depend on each other run
    at the same time.

    - `"level_based"`: jobs equally far from the beginning of the graph go together. A level is split into parts that
      run beside each other while there are parts to spare; otherwise neighbouring levels are one part.
    - `"balanced"`: equal costs, as far as jobs can be divided: no part costs more than the mean and the costliest job.
    - `"communication_min"`: few edges between parts. It begins with the balanced parts and moves jobs between them by
      the method of Kernighan and Lin, in at most `max_iterations` passes. The number of these edges never grows.

    Args:
        k: number of parts; there are fewer if there are fewer jobs.
        strategy: one of the three.
        max_iterations: the most passes, for `"communication_min"`.
        max_imbalance: by how much a part may become costlier than the mean, as a fraction of the mean, for
            `"communication_min"`; parts that were costlier from the beginning may stay so.

    Raises:
        GraphError: an unknown strategy, or a number out of range.

    Example::

        report = await dag.run(partition=Partition(k=4, strategy="communication_min"))
    """

    k: int
    strategy: Strategy = "communication_min"
    max_iterations: int = 20
    max_imbalance: float = 0.3

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            known = ", ".join(map(repr, _STRATEGIES))
            raise GraphError(f"strategy= is one of {known}, not {self.strategy!r}{nearest(self.strategy, _STRATEGIES)}")
        _check_count("k", self.k, least=1)
        _check_count("max_iterations", self.max_iterations, least=0)
        spread = self.max_imbalance
        if not isinstance(spread, int | float) or isinstance(spread, bool) or not (spread >= 0 and isfinite(spread)):
            raise GraphError(f"max_imbalance= is a fraction that is not negative, as 0.3, not {spread!r}")

    def parts(self, needs: Sequence[Sequence[int]], costs: Sequence[float]) -> list[int]:
        """Return the part of each job. `needs[i]` are the jobs that job `i` waits for, all of them before it.

        Parts are numbered from 0 without gaps, and no job waits for one in a part with a higher number.
        """
        k = min(self.k, len(needs))
        if k <= 1:
            return [0] * len(needs)
        if self.strategy == "level_based":
            return split_levels(depths(needs), costs, k)
        order = in_depth(needs)
        split_by_bytes = evenly([costs[job] for job in order], k)
        parts = [0] * len(order)
        for job, part in zip(order, split_by_bytes, strict=True):
            parts[job] = part
        if self.strategy == "communication_min":
            cut = Cut(needs, costs, parts, k, self.max_imbalance)
            cut.improve(self.max_iterations)
        return parts


def _check_count(what: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise GraphError(f"{what}= is a whole number from {least} on, not {value!r}")
