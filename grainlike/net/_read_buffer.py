"""Memory to read into, one piece for all links of a thread: a thousand workers shall not cost a thousand of them."""

from __future__ import annotations

import threading

__all__ = ["READ_SIZE", "ReadBuffer"]

READ_SIZE = 256 * 1024
"""The most bytes in one read."""


class ReadBuffer(threading.local):
    """Read buffer: `buffer` holds the last read until it is decoded, which is done before this thread reads again."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_SIZE))
