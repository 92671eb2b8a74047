"""Fresh memory for what is large, in pages of 2 MiB where the system has them.

The system zeroes memory page by page as it is first written, which for pages of 4 KiB takes longer than the copy that
goes there. Many systems give huge pages to those alone that ask for them, as `malloc` does not.
"""

import mmap
import sys
from contextlib import suppress

__all__ = ["HUGE", "copied", "mapped_memory"]

HUGE = 4 * 1024 * 1024
"""Bytes from which memory of its own is mapped for a buffer: less would hold hardly a huge page."""


def mapped_memory(size: int) -> memoryview | None:
    """Return `size` zeroed bytes of which only pages that are written take memory; released with the last view of
    them.

    None where it cannot be had like this. `MemoryError` where the system has not so much.
    """
    if sys.platform != "linux":
        return None
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        raise MemoryError(f"no memory for {size} bytes") from None
    with suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def copied(buffer: bytes | bytearray | memoryview) -> bytearray | memoryview:
    """Return a writable copy of a buffer. `MemoryError` where there is no room for it.

    >>> copied(b"few")
    bytearray(b'few')
    """
    view = memoryview(buffer)
    memory = mapped_memory(view.nbytes) if view.nbytes >= HUGE else None
    if memory is None:
        return bytearray(buffer)
    memory[:] = view.cast("B")
    return memory
