"""Reads from a connection between data servers."""

from __future__ import annotations

import ssl

__all__ = ["PART_BYTES", "read_exactly"]

PART_BYTES = 256 * 1024
"""Most bytes that are read or written at once."""


def read_exactly(peer: ssl.SSLSocket, count: int) -> bytes:
    """Return `count` bytes. Raises `ConnectionError` if the peer closes the connection before, and `TimeoutError`."""
    data = bytearray()
    while len(data) < count:
        some = peer.recv(count - len(data))
        if not some:
            raise ConnectionAbortedError("the other data server closed the connection")
        data += some
    return bytes(data)
