"""Offers of a cluster, queried at most once in a while: they are needed for every job.

Base of all backends: `with` blocks that shut them down.

Importing an engine's own package, which is an extra.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import anyio.to_thread

__all__ = ["CachedAnswer", "ClosesItself", "Offers", "extra"]


Offers = list[dict[str, float]]
"""Amounts by resource, of each worker."""

FRESH_S = 2.0
"""Seconds for which an answer is valid: workers come and go."""


class CachedAnswer:
    """Remembers the answer of `ask` for a moment."""

    def __init__(self, ask: Callable[[], Offers]) -> None:
        self._ask = ask
        self._told: Offers = []
        self._until = 0.0

    def __call__(self) -> Offers:
        """Return the last answer, or a new one. Called from any thread."""
        if time.monotonic() >= self._until:
            self._told = self._ask()
            self._until = time.monotonic() + FRESH_S
        return self._told

    def forget(self) -> None:
        """Query again when it is needed next: the cluster is another."""
        self._until = 0.0


class ClosesItself:
    """`with` and `async with` shut a backend down at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(self.shutdown, wait=True))

    def shutdown(self, wait: bool = True) -> Any:
        """End it."""
        raise NotImplementedError


def extra(module: str, who: str, extra_name: str) -> Any:
    """Return the module; ModuleNotFoundError that names the extra where it is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name.partition(".")[0]):
            raise  # it is there, and lacks something itself
        raise ModuleNotFoundError(
            f"{who} needs a package that is not installed: pip install 'grainlike[{extra_name}]'", name=error.name
        ) from None
