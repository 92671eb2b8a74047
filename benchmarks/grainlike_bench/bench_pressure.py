"""A working set of three times the store, the rest of it on a disk, beside Dask: seconds, and memory of the daemons.

One worker of two slots, with 256 MB for values in memory: jobs make 48 values of 16 MB, and each is read twice, in the
order in which they were made. Dask's worker has as much for values before it writes them to the disk (`target`), and
neither pauses nor looks at other memory. Daemons are the worker's own and its data server, if that is called for. They
grow by what their largest resident size is over that after 20 other values have come and gone, some of them to disk.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from grainlike import Cores, Executor, delayed, gather, wait
from grainlike_bench._far_workers import far_workers
from grainlike_bench._processes import processes

VALUE, VALUES = 16_000_000, 48
STORE = 256_000_000
READS, SLOTS, WARM = 2, 2, 20
_DASK_LIMIT = 4_000_000_000


def made(number: int) -> Any:
    return np.full(VALUE // 8, float(number))


def read(array: Any) -> float:
    return float(array.sum())


TOTAL = float(VALUE // 8 * sum(range(VALUES)))
"""Sum of what one read of all values finds."""


@dataclass
class Pressure:
    """Seconds, and bytes by which daemons grew."""

    seconds: float
    growth: int = 0


def _daemons(worker: int) -> list[int]:
    """Return a worker's daemon, and its data server where there is one."""
    found = [worker]
    for process in processes(worker):
        with suppress(OSError):
            if b"grainlike_worker.data" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def _resident(process: int, line: str) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return next(int(text.split()[1]) * 1024 for text in status.splitlines() if text.startswith(f"{line}:"))


def _begun(process: int) -> int:
    """Return the resident size, and have the kernel look for the largest from now on."""
    Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")
    return _resident(process, "VmRSS")


async def _ours(scratch: str) -> Pressure:
    offer = ["--resources", f"cores={SLOTS}", "--store", str(STORE), "--scratch", scratch, "--scratch-limit", "4G"]
    make, use = delayed(made) @ Cores(1), delayed(read) @ Cores(1)
    async with far_workers({"n0": offer}) as (executor, workers):
        warm = await wait([make(number) for number in range(WARM)])
        await gather(map(use, warm))
        assert _on_disk(executor), "nothing was written to the disk"
        warm.clear()
        while _on_disk(executor):  # noqa: ASYNC110 - the worker tells of it
            await asyncio.sleep(0.01)
        before = sum(map(_begun, _daemons(workers["n0"].pid)))
        begun = time.perf_counter()
        values = await wait([make(number) for number in range(VALUES)])
        for _ in range(READS):
            assert sum(await gather(map(use, values))) == TOTAL
        seconds = time.perf_counter() - begun
        most = sum(_resident(process, "VmHWM") for process in _daemons(workers["n0"].pid))
        return Pressure(seconds, most - before)


def _on_disk(executor: Executor) -> int:
    (worker,) = executor.workers()
    return worker.spilled


def _dask(scratch: str) -> Pressure:
    distributed: Any = import_module("distributed")
    dask: Any = import_module("dask")
    memory = {"target": STORE / _DASK_LIMIT, "spill": False, "pause": False, "terminate": False}
    with (
        dask.config.set({f"distributed.worker.memory.{name}": value for name, value in memory.items()}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=SLOTS,
            memory_limit=_DASK_LIMIT,
            local_directory=scratch,
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        warm = client.map(made, range(WARM), pure=False)
        client.gather(client.map(read, warm, pure=False))
        assert list(Path(scratch).rglob("storage/*")), "nothing was written to the disk"
        del warm
        begun = time.perf_counter()
        values = client.map(made, range(VALUES), pure=False)
        distributed.wait(values)
        for _ in range(READS):
            assert sum(client.gather(client.map(read, values, pure=False))) == TOTAL
        return Pressure(time.perf_counter() - begun)


def measure(rounds: int) -> dict[str, list[Pressure]]:
    """Return what each installed system took in every round, in turn."""
    found: dict[str, list[Pressure]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            found.setdefault("grainlike", []).append(asyncio.run(_ours(scratch)))
        if find_spec("distributed") is not None:
            with tempfile.TemporaryDirectory() as scratch:
                found.setdefault("dask", []).append(_dask(scratch))
    return found


def main() -> None:
    for name, rounds in measure(1).items():
        for way in rounds:
            print(f"{name:10} {way.seconds:6.2f} s  daemons grew by {way.growth / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
