"""Base of all backends: `with` blocks that shut them down."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio.to_thread

__all__ = ["Life"]


class Life:
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
