"""Measures one system once and prints JSON: `python -m grainlike_bench.compare SYSTEM WORKLOAD=SIZE ...`.

`grainlike bench` starts one such process for each system and round. The last line is the result, whatever the system
printed before.
"""

from __future__ import annotations

import json
import sys

from grainlike_bench.compare._system import Session
from grainlike_bench.compare._workloads import WARM_UP, WORKLOADS
from grainlike_bench.compare.jobs import identity
from grainlike_bench.compare.systems import SYSTEMS

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Run one system with the given workloads, and print its figures."""
    name, *wanted = arguments
    sizes = [(item.partition("=")[0], int(item.partition("=")[2])) for item in wanted]
    figures: dict[str, float] = {}

    async def drive(session: Session) -> None:
        await session.at_once(identity, range(WARM_UP))
        for workload, size in sizes:
            figures.update(await WORKLOADS[workload].measure(session, size))

    SYSTEMS[name]().run(drive)
    print("\n" + json.dumps(figures), flush=True)  # the parent reads it


if __name__ == "__main__":
    main(sys.argv[1:])
