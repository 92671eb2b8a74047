"""Native thread pools (BLAS, OpenMP) of a warm process: found cheaply, held to a width, read back.

Which native libraries are in this process.
"""

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeAlias

__all__ = ["NativePools", "loaded_any"]


Pool: TypeAlias = Any  # threadpoolctl.LibController, whose attributes its own checks know better than a type checker

_SIGNS = (b"blas", b"mkl_", b"omp", b"blis")


class NativePools:
    """The pools that are loaded in this process.

    Looking for them costs a walk through all loaded libraries, so it is done again only when a module was imported
    since; and threadpoolctl itself is imported only once a library shows that looks like a pool.
    """

    __slots__ = ("_modules", "_pools")

    def __init__(self) -> None:
        self._modules = 0
        self._pools: list[Pool] = []

    def limit(self, width: int) -> None:
        """Hold every pool that is loaded now to `width` threads. Pools loaded later follow the environment."""
        if len(sys.modules) != self._modules:
            self._look()
        for pool in self._pools:
            if pool.num_threads != width:
                pool.set_num_threads(width)

    def widths(self) -> dict[str, int]:
        """Ask each pool for its width. Where two libraries bring the same pool, the wider one counts."""
        widths: dict[str, int] = {}
        if len(sys.modules) != self._modules:
            self._look()
        for pool in self._pools:
            threads = pool.num_threads
            if threads is not None:
                widths[pool.internal_api] = max(threads, widths.get(pool.internal_api, 0))
        return widths

    def _look(self) -> None:
        with suppress(OSError, ImportError):  # a job has used up the descriptors: this process is replaced after it
            self._pools = _find()
            self._modules = len(sys.modules)


def _find() -> list[Pool]:
    if "threadpoolctl" not in sys.modules and not loaded_any(_SIGNS, unknown=True):
        return []
    from threadpoolctl import ThreadpoolController

    controllers: list[Pool] = ThreadpoolController().lib_controllers
    return controllers


def loaded_any(names: Iterable[bytes], *, unknown: bool) -> bool:
    """Return True if a library is loaded whose file name, a slash before it, has any of `names` in it; `unknown` where
    the system does not say.
    """
    if sys.platform != "linux":
        return unknown
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123 - pathlib costs more than the reading
        text = maps.read()
    if not any(name in text for name in names):
        return False
    files = {b"/" + line.rpartition(b"/")[2] for line in text.splitlines()}  # a folder `compose` is no sign of OpenMP
    return any(name in file for name in names for file in files)
