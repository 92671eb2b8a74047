"""Locator of a head, which connects and reconnects, for workers and for clients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from grainlike.errors import HeadLostError
from grainlike.net._access import Access, read_access
from grainlike.net._byte_link import ByteLink
from grainlike.net._guard import state_directory
from grainlike.net._reach import dial

__all__ = ["HeadLocator"]


class HeadLocator:
    """Finds a head and connects to it. `find` returns its access: it raises as `find_access` does, and more where the
    file is not for us.

    Example::

        way = Way(lambda: find_access(address, "client"), insecure=False)
        link = LastingLink(await way.first(), way.again, LOST_S)
    """

    def __init__(self, find: Callable[[], Access], *, insecure: bool) -> None:
        self._find = find
        self._insecure = insecure
        self._access: Access | None = None

    @property
    def access(self) -> Access | None:
        """The access by which it connected last."""
        return self._access

    async def first(self) -> ByteLink:
        """Return a link to the head.

        Raises:
            HeadLostError: there is no access file, or no address answers.
            AuthenticationError, ValueError: the access file is malformed, or not ours.
        """
        self._access = self._find()
        return await self._dial(self._access)

    async def again(self) -> ByteLink:
        """Return a link to the same head, which may listen elsewhere by now. Raises `OSError`."""
        assert self._access is not None
        self._access = self._found_again(self._access)
        return await self._dial(self._access)

    def _found_again(self, last: Access) -> Access:
        """The newest access to the head: by the words that led there, by its cluster, or the one that there was."""
        for find in (self._find, lambda: read_access(state_directory() / last.cluster / f"{last.role}.json")):
            with suppress(HeadLostError):
                access = find()
                if access.cluster == last.cluster:
                    return access
        return last

    async def _dial(self, access: Access) -> ByteLink:
        link = await dial(access, insecure=self._insecure)
        assert isinstance(link, ByteLink)
        return link
