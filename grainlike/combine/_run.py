"""The entry point of a program in the older style."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from grainlike.combine._waitgroup import open_waitgroup
from grainlike.executor import run
from grainlike.resources import Request

__all__ = ["run_combine"]

Main = Callable[[], Awaitable[Any]]


def run_combine(
    main: Main | Sequence[Main],
    workers: Sequence[str] = (),
    resources: Request | None = None,
    *,
    listen: str | None = None,
    backend: Literal["asyncio", "trio"] = "asyncio",
) -> Any:
    """Run `await main()` in a new event loop with an executor open, and return what it returns.

    Args:
        main: a coroutine function, or several, which run side by side; then a list of what they return.
        workers: always empty. The older Grain connected to its workers; here they connect, at `listen`.
        resources: offer of the worker in this program, as `Node(4, "8Gi")`: by default this process's own cores,
            and with `listen` none.
        listen: an address at which workers may connect (`"tcp://0.0.0.0:7777"`), with `grainlike worker start`. Jobs
            wait until there is one.
        backend: the event loop: `"trio"` for programs that use it, as older ones do.

    Raises:
        ValueError: `workers` are named.
        Whatever `main` raises, as it is; the other errors are those of `Executor` and `run`.

    Example::

        run_combine(main, resources=Node(4, "8Gi"))
    """
    if workers:
        raise ValueError(
            f"workers connect by themselves: leave {list(workers)!r} out, give listen=, and run "
            "`grainlike worker start` on each of them"
        )
    offer: dict[str, Any] = {} if resources is None else {"local": resources}
    if callable(main):
        return run(main, **offer, listen=listen, backend=backend)
    return run(_side_by_side, main, **offer, listen=listen, backend=backend)


async def _side_by_side(mains: Sequence[Main]) -> list[Any]:
    async with open_waitgroup() as group:
        for main in mains:
            group.start_subtask(main)
    return group.results
