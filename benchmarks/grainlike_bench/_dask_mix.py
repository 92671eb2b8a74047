"""W6b on Dask: a job that needs all 16 cores, submitted as the tenth of 200 one-core jobs of 0.1 s.

Cores are a resource of its one worker, as its documentation says: it counts them, and 16 threads run what it lets.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

__all__ = ["makespan"]

CORES = 16


def makespan() -> float:
    """Seconds from the first submission until all have ended."""
    distributed: Any = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=CORES, processes=True, dashboard_address=None, resources={"cores": CORES}
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.gather([client.submit(time.sleep, 0, pure=False) for _ in range(CORES)])
        begun = time.monotonic()
        wide = [CORES if number == 9 else 1 for number in range(201)]
        client.gather([client.submit(time.sleep, 0.1, pure=False, resources={"cores": cores}) for cores in wide])
        return time.monotonic() - begun
