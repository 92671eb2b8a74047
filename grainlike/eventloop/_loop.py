"""Detection and choice of the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["loop_options", "on_asyncio"]


def on_asyncio() -> bool:
    """Return True if the running task is asyncio's own; with trio in guest mode in an asyncio loop it is not."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def loop_options(backend: str = "asyncio") -> dict[str, Any]:
    """`backend_options` for `anyio.run`: on asyncio uvloop, where it is installed.

    Example::

        anyio.run(main, backend_options=loop_options())
    """
    if backend != "asyncio":
        return {}
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return {}
    return {"use_uvloop": True}
