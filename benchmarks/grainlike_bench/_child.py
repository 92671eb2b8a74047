"""Child processes that are given up with all that they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["MeasurementError", "figures_of", "with_scripts"]


class MeasurementError(Exception):
    """A measurement that gave no figures, with the reason."""


def figures_of(
    command: Sequence[str], limit_s: float, *, environment: Mapping[str, str], cwd: Path | None = None
) -> dict[str, Any]:
    """Run a program, and return the JSON object that is its last line.

    Raises:
        MeasurementError: it failed, said something else, or had not ended in time, when all its processes were killed.
    """
    code, said, complaints = _output(command, limit_s, environment, cwd)
    if code is None:
        raise MeasurementError(f"not done after {limit_s:g} s")
    if code:
        raise MeasurementError((complaints.strip().splitlines() or [f"exit code {code}"])[-1])
    try:
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        raise MeasurementError("it printed no figures") from None
    return found


def _output(
    command: Sequence[str], limit_s: float, environment: Mapping[str, str], cwd: Path | None
) -> tuple[int | None, str, str]:
    """Run in a session of its own, so that a system that is given up goes with all its processes; None for its code."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
        cwd=cwd,
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


def with_scripts(python: Path) -> str:
    """Return the search path with an interpreter's own scripts first: some systems start theirs by name."""
    return os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
