"""Runs of the systems, interleaved, each round of each in a fresh process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

__all__ = ["Figures", "measure"]


@dataclass
class Figures:
    """Figures of one system: for each of them its value in every round; or the reason why it has none."""

    system: str
    rounds: dict[str, list[float]] = field(default_factory=dict)
    failure: str | None = None

    def median(self, figure: str) -> float | None:
        """Return the figure's median over the rounds; None where the system has none."""
        values = self.rounds.get(figure)
        return median(values) if values else None


def measure(
    systems: Sequence[str],
    sizes: Mapping[str, int],
    *,
    rounds: int,
    limit_s: float,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Figures]:
    """Run every system `rounds` times, in turn, and collect its figures.

    Args:
        systems: names of `SYSTEMS`.
        sizes: for each workload to run, its size.
        rounds: how often each system runs.
        limit_s: seconds after which one run of one system is given up; it then has no more turns.
        progress: called with a line of text before each run.
    """
    table = {name: Figures(name) for name in systems}
    for turn in range(1, rounds + 1):
        for figures in table.values():
            if figures.failure is None:
                progress(f"round {turn} of {rounds}: {figures.system}")
                _run(figures, sizes, limit_s)
    return list(table.values())


def _run(figures: Figures, sizes: Mapping[str, int], limit_s: float) -> None:
    command = [sys.executable, "-m", "grainlike_bench.compare", figures.system]
    command += [f"{name}={size}" for name, size in sizes.items()]
    code, said, complaints = _output(command, limit_s)
    if code is None:
        figures.failure = f"not done after {limit_s:g} s"
    elif code:
        figures.failure = (complaints.strip().splitlines() or [f"exit code {code}"])[-1]
    else:
        try:
            found = json.loads(said.splitlines()[-1])
        except (ValueError, IndexError):
            figures.failure = "it printed no figures"
            return
        for name, value in found.items():
            figures.rounds.setdefault(name, []).append(value)


def _output(command: list[str], limit_s: float) -> tuple[int | None, str, str]:
    """Run in a session of its own, so that a system that is given up goes with all its processes; None for its code."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PATH": _with_scripts()},
    ) as process:
        try:
            said, complaints = process.communicate(timeout=limit_s)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            process.communicate()
            return None, "", ""
    return process.returncode, said, complaints


def _with_scripts() -> str:
    """Return the search path with this interpreter's own scripts first: some systems start theirs by name."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
