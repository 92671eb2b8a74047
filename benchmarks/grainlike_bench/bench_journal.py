"""The journal: what an append costs, beside the bare write, and how fast a journal is read again.

An append returns when the kernel has the record. Syncs run beside it, as they do in a head, in batches of what came
while the event loop was busy; how many there were is told, since how long they take is the disk's affair. `write` is
the least that could be done: one `os.writev` of as many bytes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

import anyio
import anyio.lowlevel

from grainlike.journal import Disk, Journal

ROUNDS = 5
BATCH = 500
SIZES = {100: 50_000, 1_000: 50_000, 100_000: 2_000, 10_000_000: 20}


class CountingDisk(Disk):
    """Counts its syncs."""

    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, file: int) -> None:
        super().sync(file)
        self.syncs += 1


async def append(journal: Journal, record: bytes, count: int) -> float:
    """Seconds for so many appends, while the journal syncs."""
    took = 0.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        await anyio.lowlevel.checkpoint()
        for first in range(0, count, BATCH):
            begun = time.perf_counter()
            for _ in range(min(BATCH, count - first)):
                journal.append([record[:20], record[20:]])
            took += time.perf_counter() - begun
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    return took


def write(path: Path, record: bytes, count: int) -> float:
    """Seconds for as many bare writes."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begun = time.perf_counter()
    for _ in range(count):
        os.writev(file, [record[:20], record[20:]])
    took = time.perf_counter() - begun
    os.close(file)
    path.unlink()
    return took


def recover(directory: Path) -> float:
    """Seconds to open a journal and read all that it holds."""
    begun = time.perf_counter()
    journal, found = Journal.open(directory)
    for _ in found.records:
        pass
    took = time.perf_counter() - begun
    journal.close()
    return took


def measure(size: int, count: int) -> tuple[float, float, float, int]:
    """Seconds to append, to write, and to read again, and the number of syncs."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        record, disk = os.urandom(size), CountingDisk()
        journal, _ = Journal.open(Path(folder, "journal"), disk=disk)
        appended = anyio.run(append, journal, record, count)
        journal.close()
        return appended, write(Path(folder, "bare"), record, count), recover(Path(folder, "journal")), disk.syncs


def main() -> None:
    print("journal: bytes a record, us an append, us a bare write, appends/s, MB/s, records/s read again, syncs")
    for size, count in SIZES.items():
        rounds = [measure(size, count) for _ in range(ROUNDS)]
        appended, written, recovered, syncs = (median(column) for column in zip(*rounds, strict=True))
        print(
            f"{size:>12,} {appended / count * 1e6:>9.1f} {written / count * 1e6:>9.1f} {count / appended:>12,.0f} "
            f"{size * count / appended / 1e6:>8,.0f} {count / recovered:>12,.0f} {syncs:>6.0f}"
        )


if __name__ == "__main__":
    main()
