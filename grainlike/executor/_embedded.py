"""Embedded worker: the only module that refers to the worker's package. It imports it by name and connects it by a
memory link.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from os import PathLike
from typing import Any, Protocol, cast

from grainlike.net import Link, memory_pair
from grainlike.resources import Allocation, Request

__all__ = ["Show", "embed", "hooked_streams", "offer_for", "store_limits_for"]

Show = Callable[[int, Any, str], object]


class _WorkerPackage(Protocol):
    """Interface of `grainlike_worker.embedded`, as far as the executor uses it."""

    def offer_for(self, what: Request | None) -> Allocation:
        """Return what this process can offer: `what` with concrete ids, or its own cores."""
        ...

    def warn_of_logical(self, offer: Allocation) -> None:
        """Log a warning if `offer` has cores that this machine does not have."""

    def StoreOptions(self, store: str | None, scratch: Any, scratch_limit: str | None) -> Any:  # noqa: N802 - a class
        """Return wishes for a store."""
        ...

    def store_limits(self, options: Any, offer: Allocation) -> Any:
        """Return the limits of a store, by wishes; raises `ResourceSpecError`."""
        ...

    async def serve(self, link: Link, offer: Allocation, *, name: str, show: Show | None, limits: Any) -> None:
        """Serve as a worker at the other end of `link` until it closes; leave nothing behind. `show` shows what jobs
        write, and `limits` are those of the values that it keeps.
        """

    def hooked_streams(self) -> AbstractContextManager[None]:
        """Context manager: standard output and error attribute output to its job; as `grainlike.context.author`."""
        ...


def hooked_streams() -> AbstractContextManager[None]:
    """Context manager during which this program's streams attribute output to the job that prints it: see
    `grainlike.context.author`.
    """
    return _worker_room().hooked_streams()


def offer_for(what: Request | None) -> Allocation:
    """Return what an embedded worker offers: `what` with concrete ids, or this process's own cores.

    Cores that this machine does not have are accepted, with a warning in the log that names them.

    Raises:
        ResourceSpecError: `what` is no offer.
    """
    room = _worker_room()
    offer = room.offer_for(what)
    room.warn_of_logical(offer)
    return offer


def store_limits_for(
    offer: Allocation, store: str | None, scratch: str | PathLike[str] | None, scratch_limit: str | None
) -> object:
    """Return the limits of the values that an embedded worker keeps.

    Raises:
        ResourceSpecError: there is not so much, or no such directory.
    """
    room = _worker_room()
    return room.store_limits(room.StoreOptions(store, scratch, scratch_limit), offer)


def embed(offer: Allocation, show: Show | None, limits: object) -> tuple[Link, Callable[[], Coroutine[Any, Any, None]]]:
    """Return an embedded worker: the head's end of its link, and what to run in a task for it to be there.

    `limits` are its `store_limits_for` values. `show` is called with a job's number, a stream of this process, and what
    the job has written; from any thread.
    """
    near, far = memory_pair()
    return near, partial(_worker_room().serve, far, offer, name="local", show=show, limits=limits)


def _worker_room() -> _WorkerPackage:
    """Import the worker's room by name: a static import would make `grainlike` depend on the worker's package."""
    module: Any = import_module("grainlike_worker.embedded")
    return cast("_WorkerPackage", module)
