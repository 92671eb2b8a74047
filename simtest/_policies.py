"""Policies of place, compared: makespans of workloads with large values under each, in worlds without faults.

`near` is what the head does: wait for the worker that has the inputs for as long as moving them would take. The others
are what it could do: start on the first worker with room, wherever the inputs are; start only where they are; not wait;
or wait for one second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast
from unittest.mock import patch

import msgspec

from grainlike.resources import Cores
from grainlike.scheduler.planning._near import NearPlacing
from grainlike.scheduler.values._homes import Homes
from grainlike.simulation import QUICK, Dice, Workload
from simtest._trial import Trial
from simtest._value_workloads import PATTERNS
from simtest._workloads import equal_nodes

__all__ = ["POLICIES", "Row", "compare", "describe"]

_RATES = (1e9, 1e8)
"""Bytes per second of each node's link: 10 Gbit/s, and 1 Gbit/s."""

_JOBS = {"broadcast": 200, "chains": 160, "tree": 256, "few_long": 100, "cheap": 400}
_WORKERS, _CORES = 4, 4


class Row(msgspec.Struct, frozen=True):
    """Outcome of a workload under a policy: seconds until the last job ended, and megabytes moved between workers."""

    workload: str
    policy: str
    bytes_per_s: float
    makespan: float
    moved: float


def _nobody(*_: object, **__: object) -> int:
    return -1


def _first_with_room(placing: NearPlacing, job: object, shape: object, _: float) -> object:
    """Return the first worker with room if it has all inputs, whichever others have."""
    found = [worker for worker in placing._workers.values() if worker.fits_now(shape)]  # type: ignore[arg-type]
    whole = placing.table.whole_at(job.inputs)  # type: ignore[attr-defined]
    return found[0] if found and found[0].id in whole else None


def _to_first(placing: NearPlacing, job: object, shape: object, now: float) -> object:
    found = [worker for worker in placing._workers.values() if worker.fits_now(shape)]  # type: ignore[arg-type]
    may = found and placing._may_go(found[0], job, shape, now)  # type: ignore[arg-type]
    return found[0] if may else None


@contextmanager
def _as_is() -> Iterator[None]:
    yield


@contextmanager
def _first_free() -> Iterator[None]:
    with (
        patch.object(Homes, "preferred", _nobody),
        patch.object(NearPlacing, "start_on", _first_with_room),
        patch.object(NearPlacing, "_lacks_least", _to_first),
    ):
        yield


@contextmanager
def _only_there() -> Iterator[None]:
    with patch.object(NearPlacing, "_is_due", lambda *_: False):
        yield


@contextmanager
def _no_wait() -> Iterator[None]:
    with patch.object(NearPlacing, "_is_due", lambda *_: True):
        yield


@contextmanager
def _a_second() -> Iterator[None]:
    def is_due(placing: NearPlacing, cls: object, *rest: object) -> bool:
        now = cast("float", rest[-1])
        since = getattr(cls, "could_since", None)
        if since is None:
            since = cls.could_since = now  # type: ignore[attr-defined]
        if now >= since + 1.0:
            return True
        placing.wake = since + 1.0
        return False

    with patch.object(NearPlacing, "_is_due", is_due):
        yield


POLICIES: dict[str, Callable[[], object]] = {
    "near": _as_is,
    "first free": _first_free,
    "preferred only": _only_there,
    "no wait": _no_wait,
    "wait 1 s": _a_second,
}
"""Policies of place by name: the rule of the head, and those that it is compared with."""


def compare(seed: int = 0) -> list[Row]:
    """Run each workload under each policy, on four nodes of four cores."""
    rows: list[Row] = []
    for bytes_per_s in _RATES:
        for name, made in PATTERNS.items():
            workload = made(Dice(seed).fork(name), _JOBS[name])
            for policy, using in POLICIES.items():
                run = partial(_run, seed, workload, bytes_per_s)
                with using():  # type: ignore[attr-defined]
                    makespan, moved = run()
                rows.append(Row(name, policy, bytes_per_s, makespan, moved))
    return rows


def _run(seed: int, workload: Workload, bytes_per_s: float) -> tuple[float, float]:
    network = msgspec.structs.replace(QUICK, bytes_per_s=bytes_per_s)
    nodes = equal_nodes(_WORKERS, Cores(_CORES))
    outcome = Trial(seed, workload, nodes, network=network, judged=False).run()
    assert not outcome.violations, outcome.violations
    return outcome.makespan, outcome.moved / 1e6


def describe(rows: list[Row]) -> list[str]:
    """Return the rows as a table: of each workload the seconds under each policy over the best, and megabytes moved."""
    lines = [f"{'workload':12} {'rate':>9}  " + "".join(f"{policy:>22}" for policy in POLICIES)]
    for bytes_per_s in _RATES:
        for name in PATTERNS:
            of = {row.policy: row for row in rows if (row.workload, row.bytes_per_s) == (name, bytes_per_s)}
            best = min(row.makespan for row in of.values())
            cells = [f"{row.makespan / best:6.2f} x  {row.moved:8.0f} MB " for row in of.values()]
            lines.append(f"{name:12} {bytes_per_s / 1e6:4.0f} MB/s  " + "".join(f"{cell:>22}" for cell in cells))
    return lines
