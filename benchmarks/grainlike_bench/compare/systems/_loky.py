"""loky: the process pool of joblib, which survives crashes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, System, drive_blocking
from grainlike_bench.compare.systems._pool import FuturesSession

__all__ = ["Loky"]


class Loky(System):
    name = "loky"
    package = module = "loky"

    def run(self, drive: Drive) -> None:
        """Run with two processes."""
        loky: Any = import_module("loky")
        pool = loky.get_reusable_executor(max_workers=SLOTS, timeout=120)
        drive_blocking(drive, FuturesSession(pool))
        pool.shutdown(wait=True, kill_workers=True)
