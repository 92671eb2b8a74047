"""The one place that knows of an embedded worker: it loads the worker's room by name and joins it by a memory link."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from grainlike.net import Link
from grainlike.resources import Allocation, Request

__all__ = ["worker_room"]


class WorkerRoom(Protocol):
    """What the executor uses of `grainlike_worker.embedded`."""

    def offer_for(self, what: Request | None) -> Allocation:
        """What this process can give: `what`, or its own cores."""
        ...

    async def serve(self, link: Link, offer: Allocation, *, name: str, secret: bytes) -> None:
        """Be a worker at the other end of `link` until it closes; leave nothing behind."""


def worker_room() -> WorkerRoom:
    """The worker's room. By name, because nothing here may import it: a worker is somebody else's process."""
    module: Any = import_module("grainlike_worker.embedded")
    return cast("WorkerRoom", module)
