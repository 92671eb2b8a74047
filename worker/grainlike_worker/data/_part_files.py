"""Files of replicas that are being received.

The daemon makes each file, with room for all bytes, and may remove it at any time. No file is made here, because the
order to stop may arrive before that. While a pull is being stopped, a second pull may write to the same file for a
moment; both write the same bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

from grainlike.payload import crc_of_file, open_room
from grainlike.wire import Buffer

__all__ = ["PartFile", "write_all"]


class PartFile:
    """File `room` for the replica `path` of `size` bytes, of which the first `at` have arrived.

    A failed transfer leaves the file for the next transfer, which opens it again with the same `at`.

    Raises `OSError` if there is no such file, or if it has another size.

    Example::

        part = PartFile(room, replica_path(directory, 7, 1), size=200_064)
        part.write(data)
        part.close()
    """

    __slots__ = ("_fd", "at", "size")

    def __init__(self, room: Path, path: Path, size: int, at: int = 0) -> None:
        self.size = size
        self._fd = open_room(room, path, os.O_RDWR)
        if os.fstat(self._fd).st_size != size:
            self.close()
            raise OSError(f"{room} is of another size")
        self.at = at if 0 < at <= size else 0
        """Number of bytes that have arrived, from the first one, without a gap."""

    def write(self, data: Buffer) -> None:
        """Add the next bytes. Raises `OSError` if the file system fails."""
        view = memoryview(data)
        write_all(self._fd, view, self.at)
        self.at += view.nbytes

    def crc(self) -> int:
        """Return the CRC-32 of the file. Raises `OSError` if it cannot be read."""
        return crc_of_file(self._fd)

    def close(self) -> None:
        """Close the file, and leave its bytes as they are."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_all(fd: int, data: memoryview, at: int) -> None:
    """Write all bytes at a position of a file, however few the system takes at once. Raises `OSError`."""
    while data.nbytes:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count
