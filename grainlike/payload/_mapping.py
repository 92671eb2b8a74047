"""Mapping of files without keeping their descriptors, and pages of 2 MiB for files in shared memory.

Before Python 3.13, `mmap.mmap` holds a duplicate of the descriptor while the memory is mapped, so a program that keeps
a thousand arrays would run out of descriptors. On these versions the C library is called directly. So it is for large
files on all versions, because a file's huge pages are mapped as such only at an address that is a multiple of their
size.

Most systems give files in shared memory pages of 4 KiB. To allocate these for a value of 50 MB takes longer than to
copy its bytes there, and each process that reads the value maps them once more. Since Linux 6.1 a process may ask for
huge pages for a part of a file (`MADV_COLLAPSE`), whatever the system gives by itself. If the kernel refuses, or has no
huge page at hand, the file has small pages, and nothing else is different.
"""

import errno
import mmap
import os
import sys
import time
import weakref
from functools import cache
from typing import Any

from grainlike._memory import HUGE

__all__ = ["allocate_memory", "private_map", "take_huge_pages"]

HUGE_PAGE = 2 * 1024 * 1024

_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
_NO_ACCESS = 0
_FIXED = 0x10
"""`MAP_FIXED`, which `mmap` does not name."""

_COLLAPSE = 25
"""`MADV_COLLAPSE`, which `mmap` does not name."""

_STEP = 8 * HUGE_PAGE
"""Most bytes that are asked for at once."""

_SLOW_S = 0.01
"""Seconds of this thread for that, in which small pages are allocated and mapped by a few readers. A huge page takes
long if the kernel has to move others for it, or if a virtual machine first gets the memory from its host.
"""

_refused: list[int] = []
"""Number of the error by which this kernel has refused huge pages, which it will do every time."""


def private_map(fd: int, size: int) -> memoryview:
    """Return the first `size` bytes of a file, at least one, as private writable memory, which is unmapped when unused.

    Raises `OSError` if the system refuses.
    """
    if size < HUGE and sys.version_info >= (3, 13):
        return memoryview(mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=_PROTECTION, trackfd=False))
    import ctypes  # most programs map nothing, and what Python 3.13 maps needs none of it

    address = _aligned_map(fd, size, mmap.MAP_PRIVATE) if size >= HUGE else _map(None, size, mmap.MAP_PRIVATE, fd)
    held = (ctypes.c_char * size).from_address(address)
    unmap = weakref.finalize(held, _libc().munmap, address, size)
    unmap.atexit = False
    return memoryview(held).cast("B")


def allocate_memory(fd: int, size: int) -> None:
    """Allocate `size` bytes for an empty file in shared memory, in huge pages as far as the kernel gives them. Raises
    `OSError` if there is no room.
    """
    take_huge_pages(fd, size)
    os.posix_fallocate(fd, 0, size)


def take_huge_pages(fd: int, size: int) -> int:
    """Give an empty file in shared memory, open for reading and writing, huge pages for its first `size` bytes, as far
    as the kernel gives them; what is left is a hole. Return the number of the error that was in the way, or 0. Raises
    `OSError` if there is no room.
    """
    if size < HUGE or _refused or not _has_room(fd, size):
        return 0
    whole = size - size % HUGE_PAGE
    os.ftruncate(fd, size)
    try:
        address = _aligned_map(fd, whole, mmap.MAP_SHARED)
    except OSError as error:
        return error.errno or 0
    try:
        number = _collapse(fd, address, whole)
    finally:
        _libc().munmap(address, whole)
    if number == errno.EINVAL:
        _refused.append(number)
    return number


def _has_room(fd: int, size: int) -> bool:
    """Return True if the file system has room for so many bytes, or no limit, like that of a `memfd`."""
    found = os.fstatvfs(fd)
    return not found.f_blocks or found.f_bavail * found.f_frsize >= size


def _collapse(fd: int, address: int, size: int) -> int:
    """Replace the pages of a file, which is mapped at `address`; return the number of an error, or 0."""
    import ctypes  # only for large files

    for at in range(0, size, HUGE_PAGE):
        os.pwrite(fd, b"\0", at)  # the kernel replaces a page, and gives none where there is only a hole
    for at in range(0, size, _STEP):
        begun = time.thread_time()
        if _libc().madvise(address + at, min(_STEP, size - at), _COLLAPSE):
            return ctypes.get_errno()
        if time.thread_time() - begun > _SLOW_S:
            break
    return 0


def _aligned_map(fd: int, size: int, flags: int) -> int:
    """Map the first `size` bytes of a file, and return the address, a multiple of `HUGE_PAGE`.

    Raises `OSError` if the system refuses.
    """
    unmap = _libc().munmap
    end = size + -size % mmap.PAGESIZE
    place = _map(None, end + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, _NO_ACCESS)
    skipped = -place % HUGE_PAGE
    address = place + skipped
    try:
        _map(address, size, flags | _FIXED, fd)
    except OSError:
        unmap(place, end + HUGE_PAGE)
        raise
    if skipped:
        unmap(place, skipped)
    unmap(address + end, HUGE_PAGE - skipped)
    return address


def _map(address: int | None, size: int, flags: int, fd: int, protection: int = _PROTECTION) -> int:
    import ctypes

    found = _libc().mmap(address, size, protection, flags, fd, 0)
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "cannot map shared memory")
    return int(found)


@cache
def _libc() -> Any:
    """Return the C library, with the functions that map memory."""
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
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
