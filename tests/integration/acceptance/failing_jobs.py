"""Jobs that fail, in a module that workers import instead of the tests."""

from __future__ import annotations

import anyio.lowlevel

__all__ = ["OwnError", "async_failure", "plain_failure"]


class OwnError(Exception):
    def __init__(self, code, *, hint):
        super().__init__(code, hint)
        self.code = code
        self.hint = hint

    def __reduce__(self):
        return _own_error, (self.code, self.hint)


def _own_error(code, hint):
    return OwnError(code, hint=hint)


def plain_failure(x):
    values = {}
    return values[x]  # this line fails


async def async_failure(x):
    await anyio.lowlevel.checkpoint()
    return plain_failure(x)
