"""An allocation as it was enforced, and as it was used."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Receipt:
    """Limits that were enforced on a job, read back by system calls inside it.

    Attributes:
        affinity: ids of the cores that it could run on, ascending.
        threads: the width of each thread pool, by the pool's name.
        devices: ids of the devices that it could see, ascending.
        memory_tier: what held it to its memory: `cgroup`, `watchdog` or `none`.
    """

    affinity: tuple[int, ...]
    threads: dict[str, int]
    devices: tuple[int, ...]
    memory_tier: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a job used.

    Attributes:
        wall_s: seconds from start to end.
        cpu_s: CPU seconds, all threads and children together.
        peak_rss: the most resident memory at one time, in bytes. Of a coroutine, that of the process which it shared,
            or of the largest program there, since that process began.
        cores_busy: CPU seconds per second: how many cores it kept busy on average.
    """

    wall_s: float
    cpu_s: float
    peak_rss: int
    cores_busy: float
