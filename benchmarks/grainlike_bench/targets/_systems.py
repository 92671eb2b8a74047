"""The rows that compare systems of `grainlike bench`: which figure of which is beside which.

All of them come from one interleaved run. A row's figures are ratios within each round.

The default is `asyncio.run` with a worker's daemon over TLS. "Ours", in older rows, is plain functions on a worker
without TLS, that takes itself for one of another machine; it is told apart from one of this machine by large arrays
alone, which then do not go through shared memory. With TLS is the same with TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from grainlike_bench.compare import SYSTEMS, WORKLOADS, Figures

__all__ = ["ROWS", "Row", "figures_of", "needed"]

_DEFAULT, _RUN = "grainlike-default", "grainlike-embedded"
_PLAINTEXT, _TLS, _HERE = "grainlike-far-insecure", "grainlike-far", "grainlike"
_OTHERS = ("pool", "loky", "dask", "parsl", "executorlib", "grain-head")
"""Peers but Ray which serialize, and so carry an array between processes."""


@dataclass(frozen=True)
class Row:
    """A figure of ours over one of a system, the best of several, or of our own; alone where there is none."""

    ours: tuple[str, str]
    others: tuple[tuple[str, str], ...] = ()

    @property
    def figures(self) -> set[str]:
        return {figure for _, figure in (self.ours, *self.others)}

    @property
    def systems(self) -> set[str]:
        return {system for system, _ in (self.ours, *self.others)}


def _beside(ours: str, figure: str, *others: str) -> Row:
    return Row((ours, figure), tuple((other, figure) for other in others))


ROWS: dict[str, Row] = {
    "default-pool": _beside(_DEFAULT, "at once", "pool"),
    "run-pool": _beside(_RUN, "at once", "pool"),
    "run-trip-pool": _beside(_RUN, "p50", "pool"),
    "default-trip-pool": _beside(_DEFAULT, "p50", "pool"),
    "default-trip-hops": _beside(_DEFAULT, "p50", "hops"),
    "default-leases-pool": _beside(_DEFAULT, "a lease each", "pool"),
    "run-leases-pool": _beside(_RUN, "a lease each", "pool"),
    "default-short-pool": _beside(_DEFAULT, "jobs of 5 ms", "pool"),
    "run-short-pool": _beside(_RUN, "jobs of 5 ms", "pool"),
    "default-tree": Row((_DEFAULT, "tree"), ((_DEFAULT, "at once"),)),
    "default-chain": Row((_DEFAULT, "chain"), ((_DEFAULT, "at once"),)),
    "w1-pool": _beside(_PLAINTEXT, "at once", "pool"),
    "w1-ray": _beside(_PLAINTEXT, "at once", "ray"),
    "w1-dask": _beside(_PLAINTEXT, "at once", "dask"),
    "w1-grain": _beside(_PLAINTEXT, "at once", "grain-head"),
    "w1-limit": _beside(_PLAINTEXT, "at once", "limit-uvloop"),
    "w2-hops": _beside(_PLAINTEXT, "p50", "hops-uvloop"),
    "w2-pool": _beside(_PLAINTEXT, "p50", "pool"),
    "w2-p99": Row((_PLAINTEXT, "p99"), ((_PLAINTEXT, "p50"),)),
    "w3-ray": _beside(_HERE, "bulk", "ray"),
    "w3-ray-others": _beside(_HERE, "bulk", *_OTHERS),
    "w3b-ray": _beside(_HERE, "large", "ray"),
    "w3b-ray-others": _beside(_HERE, "large", *_OTHERS),
    "w3-limit": _beside(_PLAINTEXT, "bulk", "limit-uvloop"),
    "w3b-limit": _beside(_PLAINTEXT, "large", "limit-uvloop"),
    "w3-tls": Row((_TLS, "bulk")),
    "w3b-tls": Row((_TLS, "large")),
    "w4": Row((_PLAINTEXT, "tree"), ((_PLAINTEXT, "at once"),)),
    "w4b": Row((_PLAINTEXT, "chain"), ((_PLAINTEXT, "at once"),)),
    "tls": Row((_TLS, "at once"), ((_PLAINTEXT, "at once"),)),
}


def figures_of(row: Row, found: Mapping[str, Figures]) -> list[float]:
    """The row's figure of each round; of the others, those count that were measured."""
    ours = _rounds(found, row.ours)
    if not row.others:
        return list(ours)
    theirs = [rounds for other in row.others if (rounds := _rounds(found, other))]
    if not ours or not theirs:
        return []
    return [mine / max(best) for mine, *best in zip(ours, *theirs, strict=False)]


def _rounds(found: Mapping[str, Figures], of: tuple[str, str]) -> Sequence[float]:
    system, figure = of
    return found[system].rounds.get(figure, []) if system in found else []


def needed(rows: Iterable[Row], installed: Callable[[str], bool]) -> tuple[list[str], dict[str, int]]:
    """Systems and workloads, in their order, that these rows take."""
    taken = list(rows)
    systems = {system for row in taken for system in row.systems}
    figures = {figure for row in taken for figure in row.figures}
    workloads = {name: workload.size for name, workload in WORKLOADS.items() if figures & workload.units.keys()}
    return [name for name in SYSTEMS if name in systems and installed(name)], workloads
