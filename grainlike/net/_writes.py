"""From the pieces of many frames to as few writes as possible, without copying what is large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grainlike.wire import Buffer

__all__ = ["CHUNK", "writes"]

CHUNK = 256 * 1024
"""The most bytes in one write of a large buffer: before 3.12, asyncio copies what the socket has no room for."""

_LARGE = 64 * 1024


def writes(pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield what to write, in order: small neighbours joined, large pieces as slices of at most `CHUNK` bytes."""
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < _LARGE:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        view = memoryview(piece)
        for start in range(0, len(view), CHUNK):
            yield view[start : start + CHUNK]
    if small:
        yield b"".join(small)
