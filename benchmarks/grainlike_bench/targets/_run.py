"""Runs what the chosen rows take, and keeps what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Self

from grainlike_bench.compare import SYSTEMS, WORKLOADS, Figures, facts, installed, measure
from grainlike_bench.targets._goals import GOALS, Goal
from grainlike_bench.targets._parts import PARTS, Found
from grainlike_bench.targets._systems import ROWS, figures_of, needed

__all__ = ["Run", "run"]

PART_LIMIT_S = 900.0
SYSTEM_LIMIT_S = 300.0

_ROOT = () if os.geteuid() == 0 else ("--map-root-user",)
_APART = ("unshare", "--net", *_ROOT, "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Runs a program in a network of its own, of which there is loopback alone: what that carries is the program's."""


@dataclass
class Run:
    """What was measured, as it is kept in a file."""

    day: str = ""
    rounds: int = 0
    machine: str = ""
    found: Found = field(default_factory=dict)
    """Of each row, its figure of every round."""
    systems: dict[str, Any] = field(default_factory=dict)
    """What `grainlike bench` says of its part: see `facts`."""
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, row: str | None) -> float | None:
        """None where it was not measured."""
        values = self.found.get(row or "")
        return median(values) if values else None

    def write(self, path: Path) -> None:
        """Keep it."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """What was kept."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def run(goals: Collection[Goal], rounds: int, say: Callable[[str], None]) -> Run:
    """Measure these rows; a part that fails leaves its rows out, and says why."""
    done = Run(datetime.now(UTC).date().isoformat(), rounds, str(facts([], {})["machine"]))
    wanted = {goal.row for goal in goals}
    for name, part in PARTS.items():
        if wanted & set(part.rows):
            say(f"{name}: about {part.seconds} s")
            begun = time.monotonic()
            _part(name, rounds, done)
            done.failures.update({module: "not installed" for module in part.needs if find_spec(module) is None})
            say(f"{name}: took {time.monotonic() - begun:.0f} s")
    if wanted & ROWS.keys():
        _compare(goals, rounds, done, say)
    return done


def _part(name: str, rounds: int, done: Run) -> None:
    command = [*(_APART if PARTS[name].apart else ()), sys.executable, "-m", "grainlike_bench.targets._part"]
    command += [name, str(rounds)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PART_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        done.failures[name] = f"not done after {PART_LIMIT_S:g} s"
        return
    except FileNotFoundError as error:
        done.failures[name] = f"{error.filename} is not installed"
        return
    if ended.returncode:
        done.failures[name] = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    else:
        done.found.update(json.loads(ended.stdout.splitlines()[-1]))


def _compare(goals: Collection[Goal], rounds: int, done: Run, say: Callable[[str], None]) -> None:
    """All systems and workloads where all rows are wanted, for they are shown beside each other as well."""
    rows = [goal.also[1] for goal in goals if goal.also is not None] + [goal.row for goal in goals]
    systems, sizes = needed([ROWS[row] for row in rows if row in ROWS], installed)
    if len(goals) == len(GOALS):
        systems = [name for name in SYSTEMS if installed(name)]
        sizes = {name: workload.size for name, workload in WORKLOADS.items()}
    say(f"{len(systems)} systems, {rounds} rounds: {', '.join(systems)}")
    found = measure(systems, sizes, rounds=rounds, limit_s=SYSTEM_LIMIT_S, progress=say)
    keep(found, sizes, done)


def keep(found: list[Figures], sizes: dict[str, int], done: Run) -> None:
    """The ratios of what the systems did, and all that they did."""
    by_name = {figures.system: figures for figures in found}
    done.found.update({row: values for row, its in ROWS.items() if (values := figures_of(its, by_name))})
    done.systems = facts(found, sizes)
    done.failures.update({figures.system: figures.failure for figures in found if figures.failure})
