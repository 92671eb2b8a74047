"""Mapping of files without keeping their descriptors.

Before Python 3.13, `mmap.mmap` holds a duplicate of the descriptor while the memory is mapped, so a program that keeps
a thousand arrays would run out of descriptors. On these versions the C library is called directly.
"""

import mmap
import sys
import weakref
from functools import cache
from typing import Any

__all__ = ["private_map"]

_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE


def private_map(fd: int, size: int) -> memoryview:
    """Return the first `size` bytes of a file, at least one, as private writable memory, which is unmapped when unused.

    Raises `OSError` if the system refuses.
    """
    if sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=_PROTECTION, trackfd=False))
    import ctypes  # most programs map nothing, and what Python 3.13 maps needs none of it

    libc = _libc()
    address = libc.mmap(None, size, _PROTECTION, mmap.MAP_PRIVATE, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, "cannot map shared memory")
    held = (ctypes.c_char * size).from_address(address)
    unmap = weakref.finalize(held, libc.munmap, address, size)
    unmap.atexit = False
    return memoryview(held).cast("B")


@cache
def _libc() -> Any:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc
