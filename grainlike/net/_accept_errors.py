"""Errors of accepting connections: a listening socket outlives a shortage, and what breaks a connection that waits."""

from __future__ import annotations

import errno
import logging

import anyio

__all__ = ["AcceptErrors"]

_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_SHORTAGE_PAUSE_S = 0.1

_PASSING = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH})
"""Errors that `accept` may raise for a connection that broke while it waited; the listening socket itself is intact.
"""


class AcceptErrors:
    """Errors of accepting at `address`, of which a shortage is logged through `logger` once, until it is over.

    Example::

        errors = AcceptErrors("127.0.0.1:9464", logger)
        while True:
            try:
                connection, _ = sock.accept()
            except OSError as error:
                await errors.survive(error)
            else:
                errors.over()
    """

    def __init__(self, address: object, logger: logging.Logger) -> None:
        self._address = address
        self._logger = logger
        self._short = False

    async def survive(self, error: OSError) -> None:
        """Return when accepting may be tried again: out of file descriptors or memory, after a pause.

        Raises:
            OSError: `error`, of the listening socket itself.
        """
        if error.errno in _SHORTAGE:
            if not self._short:
                self._logger.warning("%s takes no connections for now: %s", self._address, error.strerror)
                self._short = True
            await anyio.sleep(_SHORTAGE_PAUSE_S)
        elif error.errno not in _PASSING:
            raise error

    def over(self) -> None:
        """Take note that a connection was accepted: the next shortage is logged again."""
        self._short = False
