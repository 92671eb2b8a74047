"""CPU time of a process with all that came from it, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["cpu_seconds", "processes"]


def processes(root: int) -> list[int]:
    """A process and its descendants that are there now."""
    found = [root]
    for process in found:
        for task in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def cpu_seconds(pids: list[int]) -> float:
    """What all threads of these processes have used so far."""
    tasks = [task for process in pids for task in Path(f"/proc/{process}/task").iterdir()]
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9
