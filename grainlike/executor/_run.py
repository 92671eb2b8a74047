"""`run`: from a plain script into an event loop with an executor."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from grainlike._tracebacks import folded_below, traceback_of
from grainlike.eventloop import here, loop_options
from grainlike.executor._executor import Executor
from grainlike.executor._settings import NOT_GIVEN, NotGiven
from grainlike.graph import Delayed
from grainlike.resources import Request
from grainlike.subprocesses import reserve_standard_descriptors

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from grainlike.executor._pools import Launch
    from grainlike.executor._progress import Progress

__all__ = ["run"]

T = TypeVar("T")


def run(
    main: Callable[..., Awaitable[T]],
    *args: Any,
    local: Request | NotGiven | None = NOT_GIVEN,
    listen: str | None = None,
    on_failure: Literal["fail_fast", "continue"] = "fail_fast",
    backend: Literal["asyncio", "trio"] = "asyncio",
    launch: Launch | None = None,
    progress: bool | Progress = False,
    dashboard: bool | str = False,
    logging: bool = True,
) -> T:
    """Run `await main(*args)` in a new event loop with an `Executor` open, and return what it returns.

    `local`, `listen`, `launch`, `on_failure`, `dashboard` and `logging` are `Executor`'s. With `progress=True` a
    terminal shows how far its calls are; `progress=progress(lines_every=60)` has options. Ctrl-C cancels what runs,
    waits until it has ended, and raises `KeyboardInterrupt`. The blocking entry point of a script; inside a running
    loop use `async with Executor()`.

    On asyncio the loop is uvloop's, where that is installed. It logs what a handler of `signal.signal` raises, and goes
    on, where asyncio's own loop would end `run` with it: let such a handler set a flag. For a loop of your choice, open
    an `Executor` in it.

    Raises:
        TypeError: `main` is not something to call, or what it gives cannot be awaited.
        RuntimeError: an event loop is running here already.
        Exception: what `main` raises, as it is.

    Example::

        print(run(main, local=Cores(4)))
    """
    if inspect.iscoroutine(main):
        main.close()
        raise TypeError("run takes the function itself: run(main), not run(main())")
    if isinstance(main, Delayed):
        raise TypeError("run takes a function, not a placeholder: write run(fn, x), not run(fn(x))")
    if not callable(main):
        raise TypeError(f"run takes an async function, not {main!r}")
    if here() is not None:
        name = getattr(main, "__name__", "main")
        raise RuntimeError(
            f"run starts an event loop, and one is running here already: write `await {name}()`, inside "
            "`async with Executor(...):` for other resources than this process's cores"
        )

    async def inside() -> T:
        async with Executor(
            local=local, listen=listen, on_failure=on_failure, launch=launch, dashboard=dashboard, logging=logging
        ):
            made = main(*args)
            if not inspect.isawaitable(made):
                name = getattr(main, "__qualname__", repr(main))
                raise TypeError(
                    f"run takes an async function, but {name} gave {type(made).__name__}, which cannot be awaited: "
                    "write `async def`"
                )
            with _shown(progress):
                return await made

    reserve_standard_descriptors()  # before the loop opens anything: libuv aborts where it was given one of these
    try:
        return anyio.run(inside, backend=backend, backend_options=loop_options(backend))
    except BaseException as error:  # noqa: BLE001 - it is raised
        trace = folded_below(traceback_of(error), inside.__code__)
        raise BaseException.with_traceback(error, trace)


def _shown(progress: bool | Progress) -> AbstractContextManager[object]:
    if progress is False:
        return nullcontext()
    from grainlike.executor._progress import Progress  # programs that show none do without

    return Progress() if progress is True else progress
