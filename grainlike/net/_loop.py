"""Which event loop drives us."""

from __future__ import annotations

import asyncio

__all__ = ["on_asyncio"]


def on_asyncio() -> bool:
    """Whether the running task is asyncio's own; with trio as a guest in an asyncio loop it is not."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False
