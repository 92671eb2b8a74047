"""The table of targets as data: the performance page of the design, section "Targets", row by row.

Where a row there has two conditions, or the same one beside several systems, there are as many here, so that each has a
figure of its own. Rows of large values are those of the page of large values, and those of the default are of their own
table. Some numbers are ours: "flat" is a quarter more at most, "no growth" one percent, nothing on the network is a
thousandth, and a call of ours with a large array takes as long as one of joblib at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["GOALS", "Bound", "Goal", "Verdict", "chosen"]

Verdict = Literal["met", "at the least", "missed", "not measured"]


@dataclass(frozen=True)
class Bound:
    """At least, or at most, so much."""

    sense: Literal["≥", "≤", "<"]
    limit: float

    def holds(self, value: float) -> bool:
        """Whether a figure keeps it."""
        if self.sense == "≥":
            return value >= self.limit
        return value <= self.limit if self.sense == "≤" else value < self.limit

    def __str__(self) -> str:
        return f"{self.sense} {self.limit:,g}"


@dataclass(frozen=True)
class Goal:
    """One row: what the median of its figure is to keep, and what it must keep at the least."""

    row: str
    words: str
    beside: str
    unit: str
    target: Bound
    least: Bound | None = None
    also: tuple[str, str] | None = None
    """Another figure to show, in words and as a row."""
    least_is_also: bool = False
    """Whether `least` is about that other figure."""

    def verdict(self, value: float | None, also: float | None = None) -> Verdict:
        """What the row has come to, by its median and that of `also`."""
        if value is None:
            return "not measured"
        if self.target.holds(value):
            return "met"
        tried = also if self.least_is_also else value
        if self.least is not None and tried is not None and self.least.holds(tried):
            return "at the least"
        return "missed"


def _over(row: str, words: str, beside: str, target: float, least: float | None = None, unit: str = "x") -> Goal:
    return Goal(row, words, beside, unit, Bound("≥", target), None if least is None else Bound("≥", least))


def _under(row: str, words: str, beside: str, target: float, least: float | None = None, unit: str = "x") -> Goal:
    return Goal(row, words, beside, unit, Bound("≤", target), None if least is None else Bound("≤", least))


_OTHERS = "best of the other peers"


_POOL = "ProcessPoolExecutor"
_AT_ONCE = "W1 10 000 at once"
_NOTHING = ""
"""The figure stands for itself."""

GOALS: tuple[Goal, ...] = (
    _over("default-pool", "W1 10 000 at once, default", _POOL, 8, 6),
    _over("run-pool", "W1 10 000 at once, `run()`", _POOL, 10, 8),
    _under("run-trip-pool", "W2 one after another, p50, `run()`", f"{_POOL}, p50", 1, 1.25),
    _under("default-trip-pool", "W2 one after another, p50, default", f"{_POOL}, p50", 1.75, 2.25),
    _under("default-trip-hops", "W2 one after another, p50, default", "two bare hops on asyncio, p50", 1.75, 2.25),
    _over("default-leases-pool", "a lease each, default", _POOL, 1, 0.8),
    _over("run-leases-pool", "a lease each, `run()`", _POOL, 1, 0.8),
    _over("default-short-pool", "jobs of 5 ms, default", _POOL, 1, 0.8),
    _over("run-short-pool", "jobs of 5 ms, `run()`", _POOL, 1, 0.8),
    _over("default-tree", "W4 tree of 4 095, default", "its own W1", 0.7, 0.6),
    _over("default-chain", "W4b chain of 1 000, default", "its own W1", 0.7, 0.5),
    _under("default-sleepers", "100 ms jobs on 128 slots, default: over ideal", _NOTHING, 3, 4, "%"),
    _under("default-queued", "W1b memory of a job that waits, default", _NOTHING, 400, 450, "bytes"),
    _over("w1-pool", _AT_ONCE, _POOL, 10, 5),
    _over("w1-ray", _AT_ONCE, "Ray", 40),
    _over("w1-dask", _AT_ONCE, "Dask, saturation inf", 40),
    _over("w1-grain", _AT_ONCE, "Grain, its Go head", 25),
    _over("w1-limit", _AT_ONCE, "limit: a bare hop on uvloop", 0.5, 0.25),
    _over("w1-embedded", "W1 coroutines, embedded worker", "create_task and await", 0.5, 0.35),
    _under("w1b", "W1b memory of a job that waits", _NOTHING, 400, 600, "bytes"),
    _under("w2-hops", "W2 one after another, p50", "two bare hops on uvloop, p50", 2, 3),
    _under("w2-pool", "W2 one after another, p50", f"{_POOL}, p50", 1, 1.5),
    _under("w2-p99", "W2 one after another, p99", "its own p50", 3),
    Goal("w3-ray", "W3 8 MB, same node", "Ray", "x", Bound("≥", 1), Bound("≥", 1), (_OTHERS, "w3-ray-others"), True),
    Goal("w3b-ray", "W3b 200 MB, same node", "Ray", "x", Bound("≥", 1), Bound("≥", 0.8), (_OTHERS, "w3b-ray-others")),
    _over("w3-limit", "W3 8 MB, over TCP", "limit on uvloop, out of band", 0.8),
    _over("w3b-limit", "W3b 200 MB, over TCP", "limit on uvloop, out of band", 0.8),
    _over("w3-tls", "W3 8 MB, over TLS", _NOTHING, 250, unit="MB/s"),
    _over("w3b-tls", "W3b 200 MB, over TLS", _NOTHING, 250, unit="MB/s"),
    _over("w4", "W4 tree of 4 095", "our own W1", 0.7, 0.5),
    _over("w4b", "W4b chain of 1 000", "our own W1", 0.7, 0.4),
    _over("plain-with", "plain functions, with run-lists", _POOL, 8, 4),
    _over("plain-turns", "plain functions, two in turn", _POOL, 1, 0.8),
    _over("plain-timeouts", "plain functions, two timeouts in turn", _POOL, 1, 0.8),
    _over("plain-isolated", "plain functions, `isolate=True`", _POOL, 1, 0.8),
    _over("plain-without", "plain functions, a lease each", _POOL, 1, 0.8),
    _over("amap", "`amap` of tiny plain functions", "joblib, batching itself", 0.5, 0.3),
    _under("w5-random", "W5 mixed jobs, random order", "lower bound", 1.03, 1.05),
    _under("w5-widest", "W5 mixed jobs, widest first", "lower bound", 1.03, 1.04),
    _under("w6", "W6 the last of four starts", _NOTHING, 0.02, unit="s"),
    _under("w6b-start", "W6b the wide job starts", "its makespan", 0.12, 0.15),
    _under("w6b-dask", "W6b makespan", "Dask's", 1),
    _under("w7-embedded", "W7 cold to first result, plain", _NOTHING, 0.30, 0.40, "s"),
    _under("w7-daemon", "W7 the same, starting a daemon", _NOTHING, 0.30, 0.40, "s"),
    _under("w7b", "W7b import", _NOTHING, 0.08, 0.10, "s"),
    _over("tls", "W1 over TLS", "the same without", 0.9, 0.85),
    _under("graph-chain", "100 000 operators, a chain", _NOTHING, 10, 20, "µs a node"),
    _under("graph-tree", "100 000 operators, a tree", _NOTHING, 10, 20, "µs a node"),
    _under("graph-pairs", "100 000 operators, a gather", _NOTHING, 10, 20, "µs a node"),
    Goal(
        "million-rate",
        "1 000 000 jobs: the last tenth's rate",
        "the first tenth's",
        "x",
        Bound("≥", 0.9),
        also=("by CPU time", "million-cpu"),
    ),
    _under("million-memory", "1 000 000 jobs: memory after all", "after a tenth", 1.01),
    Goal("scheduler", "scheduler pass, p99", _NOTHING, "ms", Bound("<", 5), Bound("<", 10)),
    _over("simulation", "10 000 simulated workers, 1 000 000 jobs", _NOTHING, 50_000, 25_000, "events/s"),
    _under("simulation-flat", "an event with 10 000 workers, 60 000 jobs", "with 10 workers", 1.25),
    Goal(
        "sweep",
        "CPU-bound sweep, 2 cores",
        "a loop on one",
        "x",
        Bound("≥", 1.9),
        Bound("≥", 1.8),
        (_POOL, "sweep-pool"),
    ),
    _under("sleepers", "100 ms jobs on 128 slots: over ideal", _NOTHING, 3, 5, "%"),
    _under("spread-program", "50 MB to 8 jobs on 2 nodes: bytes of the program", "the value", 0.01, 0.02),
    _under("spread-growth", "50 MB to 8 jobs on 2 nodes: the program grows", _NOTHING, 5, 10, "MB"),
    _under("spread-dask", "50 MB to 8 jobs on 2 nodes: time", "Dask", 1, 1.3),
    _under("spread-ray", "50 MB to 8 jobs on 2 nodes: time", "Ray", 1, 1.3),
    _under("spread-array", "the program's 50 MB to 8 jobs: out of it", "the array", 1.02, 1.1),
    _under("spread-value", "the same as a `delayed_value`: out of it", "the value", 1.02, 1.1),
    _under("spread-chain-network", "chain of 10 x 20 MB, far worker: on the network", "its values", 0.001, 0.01),
    _under("spread-chain-ray", "chain of 10 x 20 MB, far worker: time", "Ray", 1, 1.5),
    _under("broadcast-first", "100 MB to 7 other nodes: out of the first", "one transfer", 3, 4),
    _under("broadcast-time", "100 MB to 7 other nodes: time", "one transfer", 4, 6),
    _under("pressure-dask", "working set of 3 x the store: time", "Dask", 1, 1.3),
    _under("pressure-daemons", "working set of 3 x the store: daemons grow", _NOTHING, 32, 64, "MB"),
    _under("tree-peak", "tree of 4 096 leaves: most values stored", "slots + fan-in x depth", 2, 4),
    _under("loss-time", "a third of the nodes killed half-way: time", "undisturbed", 1.6, 2),
    _under("loss-again", "a third of the nodes killed half-way: jobs again", "values lost and needed", 1.2, 1.5),
    _under("stays-value", "head's memory for a value that stays", _NOTHING, 500, 800, "bytes"),
    _under("stays-replica", "head's memory for one more replica", _NOTHING, 64, 128, "bytes"),
    _over("data-link", "200 MB from worker to worker, TLS", "the bare link", 0.8, 0.6),
    _under("shared-joblib", "joblib, 200 MiB to 50 calls: time", "loky", 1),
    _under("shared-gather", "gather, 8 MiB to 50 calls: time", "joblib on loky", 1),
    Goal("idle-head", "idle head", _NOTHING, "% of a core", Bound("<", 1)),
    Goal("idle-worker", "idle worker", _NOTHING, "% of a core", Bound("<", 1)),
)


def chosen(names: list[str]) -> list[Goal]:
    """The rows of these names, or of names that begin so (`w1` has `w1-pool`, not `w1b`); all of them for none.

    Raises:
        ValueError: there is no such row.
    """
    found = [goal for goal in GOALS if not names or any(f"{goal.row}-".startswith(f"{name}-") for name in names)]
    for name in names:
        if not any(f"{goal.row}-".startswith(f"{name}-") for goal in found):
            raise ValueError(f"no row is named {name!r}; --list says which there are")
    return found
