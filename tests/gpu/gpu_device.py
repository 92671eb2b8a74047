"""The device as its driver tells of it, which takes no context of CUDA; and programs that use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread

__all__ = ["LIMIT_S", "PYTHONPATH", "Program", "StartProgram", "given_back", "left_beyond", "used", "uuids"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHONPATH = os.pathsep.join(map(str, (ROOT, ROOT / "worker", ROOT / "tests" / "helpers", HERE)))

LIMIT_S = 120.0
"""Seconds that a test may take at most: it loads PyTorch a few times, which takes some seconds each."""

_SLACK = 64
"""MiB that a driver may keep for itself."""

_GIVEN_BACK_S = 30.0
_LOOK_S = 0.2


def _ask(field: str) -> list[str]:
    argv = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return [line.strip() for line in said.stdout.splitlines() if line.strip()]


def uuids() -> list[str]:
    """Return the names of this machine's devices, which no mask changes."""
    return _ask("uuid")


def used() -> int:
    """Return the MiB of memory that are in use on the first device."""
    return int(_ask("memory.used")[0])


def left_beyond(before: int, within_s: float = _GIVEN_BACK_S) -> int:
    """Return the MiB that are in use beyond `before`, once there are none, or after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while (left := used() - before) > _SLACK:
        if time.monotonic() > deadline:
            return left
        time.sleep(_LOOK_S)
    return 0


async def given_back(before: int) -> None:
    """Return when no more memory is in use than `before`; fail if that does not come."""
    left = await anyio.to_thread.run_sync(left_beyond, before)
    assert not left, f"{left} MiB of the device's memory are still in use"


class Program:
    """A program of `gpu_programs.py` in an interpreter of its own, which is what uses the device beside its jobs."""

    def __init__(self, folder: Path, arguments: tuple[object, ...], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "gpu_programs.py"), *map(str, arguments)],
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def said(self) -> Any:
        """Return what it printed last, as JSON; fail with all that it wrote if it has failed."""
        out, errors = self._process.communicate(timeout=LIMIT_S)
        assert self._process.returncode == 0, f"{out[-4000:]}\n{errors[-4000:]}"
        return json.loads(out.splitlines()[-1])

    def kill(self) -> None:
        """End the program alone, so that it can clean nothing up."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Kill it with all of its processes, if it still runs."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()


class StartProgram(Protocol):
    """Type of the fixture `program`."""

    def __call__(self, *arguments: object, **environment: str) -> Program: ...
