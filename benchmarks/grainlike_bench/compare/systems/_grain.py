"""The older Grain (0.17), on trio: with its local worker in the calling process, or its head and a worker as two
processes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from time import sleep
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, Session, System

__all__ = ["Grain", "GrainHead"]

_OPEN_S = 10.0

_LARGEST = 100e6
"""Bytes in a message above which it never answers."""


class _GrainSession(Session):
    def __init__(self, grain: Any, cores: Any, largest: float = inf) -> None:
        self.largest = largest
        self._grain = grain
        self._cores = cores
        self._made: dict[Callable[..., Any], Any] = {}

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Wait with `each`, its function for many jobs."""
        values: list[Any] = await self._grain.each([self._job(function, item) for item in items])
        return values

    async def one(self, function: Callable[..., Any], item: Any) -> Any:
        """Await one job."""
        return await self._job(function, item)

    def _job(self, function: Callable[..., Any], item: Any) -> Any:
        """Make a job. `@` applies to the next call only: without it, that call would run here, unscheduled."""
        if function not in self._made:
            self._made[function] = self._grain.delayed(partial(_called, function))
        return (self._made[function] @ self._cores)(item)


async def _called(function: Callable[..., Any], item: Any) -> Any:
    return function(item)


class Grain(System):
    name = "Grain 0.17, local worker"
    package = "grain-scheduler"
    module = "grain"

    def run(self, drive: Drive) -> None:
        """Run with a node of two cores."""
        grain: Any = import_module("grain.delayed")
        resource: Any = import_module("grain.resource")
        session = _GrainSession(grain, resource.Cores(1))
        grain.run(partial(drive, session), local=resource.Node(N=SLOTS, M=8), config_file=False)


class GrainHead(System):
    name = "Grain 0.17, its Go head and a worker"
    package = "grain-scheduler"
    module = "grain"

    def run(self, drive: Drive) -> None:
        """Run with a worker of two cores, over Unix sockets: functions and values are serialized, as in a cluster."""
        grain: Any = import_module("grain.delayed")
        resource: Any = import_module("grain.resource")
        session = _GrainSession(grain, resource.Cores(1), _LARGEST)
        with tempfile.TemporaryDirectory() as folder:
            head, workers = f"unix://{folder}/head", f"unix://{folder}/workers"
            config = Path(folder, "grain.toml")
            config.write_text(f'address = "{workers}"\n', encoding="utf-8")
            with _started([_head_program(), "-hurl", head, "-wurl", workers, "-n", "8", "-t", "30m"]):
                _wait_for(Path(folder, "head"))
                offer = f'{{"Node": {{"N": {SLOTS}, "M": 8}}}}'
                with _started([sys.executable, "-m", "grain.worker", "--url", workers, "--res", offer]):
                    grain.run(partial(drive, session), config_file=str(config), gnaw=head)


def _head_program() -> str:
    """Return the path of its head, which the package installs beside the interpreter."""
    beside = Path(sys.executable).with_name("gnaw")
    found = str(beside) if beside.exists() else shutil.which("gnaw")
    if found is None:
        raise FileNotFoundError("gnaw, the head that grain-scheduler brings, is not installed")
    return found


@contextmanager
def _started(command: list[str]) -> Iterator[None]:
    """A process as long as the block runs."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def _wait_for(path: Path) -> None:
    for _ in range(int(_OPEN_S / 0.05)):
        if path.exists():
            return
        sleep(0.05)
    raise TimeoutError(f"{path} did not appear")
