"""The way from a worker to its head, be it for the first time or anew."""

from __future__ import annotations

import logging

import anyio

from grainlike.errors import AuthenticationError, HeadLostError
from grainlike.net import Access, ByteLink, dial, find_access, waits

__all__ = ["Way"]

logger = logging.getLogger("grainlike.worker")


class Way:
    """`head` is an address or an access file; None for the current head of this user."""

    def __init__(self, head: str | None, *, insecure: bool) -> None:
        self._head = head
        self._insecure = insecure
        self._access: Access | None = None

    async def first(self, stop: anyio.Event | None = None) -> ByteLink | None:
        """A link to the head. With `stop`, it is waited for until there is one, or `stop` is set: None then.

        Raises, without `stop`:
            OSError: the access file is not there, or nobody answers.
        Raises in any case:
            AuthenticationError, ValueError: what the access file says can not be believed; it is not a worker's.
        """
        told = False
        for pause in waits():
            try:
                self._access = self._find()
                return await self._dial(self._access)
            except (AuthenticationError, PermissionError):
                raise
            except (OSError, HeadLostError) as error:
                if stop is None:
                    raise
                if not told:
                    logger.info("waiting for a head: %s", error)
                    told = True
                with anyio.move_on_after(pause):
                    await stop.wait()
                    return None
        raise AssertionError("it is tried for ever")

    async def again(self) -> ByteLink:
        """A link to the same head, which may listen elsewhere by now. Raises `OSError`."""
        assert self._access is not None
        access = self._find()
        if access.cluster == self._access.cluster:
            self._access = access
        return await self._dial(self._access)

    def _find(self) -> Access:
        access = find_access(self._head)
        if access.role != "worker":
            raise AuthenticationError(
                f"this access file is for a {access.role}; a worker needs the worker.json beside it"
            )
        return access

    async def _dial(self, access: Access) -> ByteLink:
        link = await dial(access, insecure=self._insecure)
        assert isinstance(link, ByteLink)
        return link
