"""One large array given to many calls: how long they take, and how much shared memory they take at the most.

*Many calls* are those of a `gather` and of joblib, with the array in a file of joblib's own (its default for arrays of
more than a megabyte) and without; *loky* is joblib's own backend. The bytes are those of the files in the store: exact,
where the seconds are of one machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np

from grainlike import Cores, Executor, delayed, gather
from grainlike.adapters import register_joblib
from grainlike.payload import Store

MIB = 1024 * 1024
CALLS = 50
SIZES = (64, 200)
"""In MiB."""


def item(array: Any, at: int) -> float:
    return float(array[at])


@contextmanager
def stored() -> Iterator[list[int]]:
    """Give the most bytes in all stores of this process at once, once the block has ended."""
    found = [0]
    write = Store._write

    def noted(self: Store, name: str, buffers: Any) -> None:
        write(self, name, buffers)
        found[0] = max(found[0], sum(path.stat().st_size for path in self.directory.iterdir()))

    with patch.object(Store, "_write", noted):
        yield found


async def gathered(array: Any) -> tuple[float, int]:
    """Seconds and bytes of calls that a program gathers."""
    async with Executor(local=Cores(2)):
        call = delayed(item) @ Cores(1)
        await gather(call(array[:10], at) for at in range(10))
        with stored() as most:
            begun = time.perf_counter()
            await gather(call(array, at) for at in range(CALLS))
            return time.perf_counter() - begun, most[0]


def by_gather(array: Any) -> tuple[float, int]:
    """The same, from where no loop runs."""
    return asyncio.run(gathered(array))


def by_joblib(backend: str, array: Any, **options: Any) -> tuple[float, int]:
    """Seconds and bytes of calls that joblib makes, with processes that are up."""
    with joblib.parallel_config(backend, n_jobs=2), joblib.Parallel(**options) as parallel, stored() as most:
        parallel(joblib.delayed(item)(array[:10], at) for at in range(10))
        begun = time.perf_counter()
        parallel(joblib.delayed(item)(array, at) for at in range(CALLS))
        return time.perf_counter() - begun, most[0]


def array_of(size: int) -> Any:
    """An array of so many MiB, no two of whose numbers are the same."""
    return np.arange(size * MIB // 8, dtype=np.float64)


def main() -> None:
    register_joblib()
    for size in SIZES:
        array = array_of(size)
        rows = {
            "gather": by_gather(array),
            "joblib, in its file": by_joblib("grainlike", array),
            "joblib, as arguments": by_joblib("grainlike", array, max_nbytes=None),
            "loky, in its file": by_joblib("loky", array),
        }
        for name, (seconds, most) in rows.items():
            print(f"{size:4} MiB x {CALLS} calls  {name:22} {seconds:6.2f} s  {most / MIB:6.0f} MiB of shared memory")
