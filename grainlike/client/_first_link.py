"""The connection to a head that may not be there yet."""

from __future__ import annotations

import anyio

from grainlike.errors import HeadLostError
from grainlike.net import ByteLink, Way, waits

__all__ = ["LOOK_S", "first_link"]

LOOK_S = 2.0
"""Longest pause between two attempts to find a head, in seconds."""


async def first_link(way: Way, wait: float) -> ByteLink:
    """Connect to the head, which may take up to `wait` seconds to be there.

    Raises:
        HeadLostError, ConnectionError: no head answered within that time.
        AuthenticationError, ValueError: as `Way.first`, at once: to wait would not mend it.
    """
    until = anyio.current_time() + wait
    pauses = waits()
    while True:
        try:
            return await way.first()
        except (HeadLostError, ConnectionError):
            pause = min(next(pauses), LOOK_S, until - anyio.current_time())
            if pause <= 0:
                raise
            await anyio.sleep(pause)
