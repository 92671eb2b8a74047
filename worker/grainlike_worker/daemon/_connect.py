"""The way from a worker to its head."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net import Access, ByteLink, HeadLocator, find_access, waits

__all__ = ["to_head", "wait_for_head"]

logger = logging.getLogger("grainlike.worker")


def to_head(head: str | None, *, insecure: bool) -> HeadLocator:
    """Return the way to `head`: an address or an access file; None for the current head of this user."""

    def find() -> Access:
        access = find_access(head)
        if access.role != "worker":
            raise AuthenticationError(
                f"this access file is for a {access.role}; a worker needs the worker.json beside it"
            )
        return access

    return HeadLocator(find, insecure=insecure)


async def wait_for_head(
    way: HeadLocator, stop: anyio.Event, within: float, waits_on: Callable[[], object] = lambda: None
) -> ByteLink | None:
    """Return a link to the head, once there is one, within so many seconds; None when `stop` is set before. `waits_on`
    is called when there is none yet.

    Raises:
        AuthenticationError, PermissionError, ValueError: as `HeadLocator.first`, for waiting would not help.
        HeadLostError: as `HeadLocator.first`, when the time is over.
    """
    told = False
    deadline = anyio.current_time() + within
    for pause in waits():
        if stop.is_set():
            return None
        try:
            return await way.first()
        except (AuthenticationError, PermissionError):
            raise
        except (OSError, HeadLostError) as error:
            if anyio.current_time() >= deadline:
                raise
            if not told:
                logger.info("waiting for a head: %s", error)
                told = True
                waits_on()
            with anyio.move_on_after(pause):
                await stop.wait()
    raise AssertionError("it is tried for ever")
