"""Which executor does an `await` mean?

The innermost one open in this context; else the one open in this event loop; else, on asyncio, an implicit one of the
loop's own, over this process's cores. So a REPL or a notebook needs no set-up, and two executors open side by side are
an error rather than a guess. Inside a job on a worker there is no way to the head yet: unless the job opens an executor
of its own, calls without resources run there, calls with resources are refused.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

from grainlike.context import GVAR
from grainlike.executor._home import Home, here

if TYPE_CHECKING:
    from grainlike.executor._executor import Executor

__all__ = ["current", "entered", "find", "last_in_job", "left"]

logger = logging.getLogger("grainlike")

current: ContextVar[Executor | None] = ContextVar("grainlike_executor", default=None)
"""The innermost executor of this context."""

_open: dict[Home, list[Executor]] = {}
_implicit: dict[tuple[Home, bool], Executor] = {}


def entered(executor: Executor, home: Home) -> None:
    """An executor that users see was opened in a loop."""
    _open.setdefault(home, []).append(executor)


def left(executor: Executor, home: Home) -> None:
    """An executor closed; implicit ones too."""
    if executor in _open.get(home, ()):
        _open[home].remove(executor)
        if not _open[home]:
            del _open[home]
    for key in [key for key, implicit in _implicit.items() if implicit is executor]:
        del _implicit[key]


def last_in_job(home: Home) -> Executor | None:
    """The executor of a loop's embedded jobs, if none is left in the loop whose jobs they could be: close it too."""
    return None if home in _open or (home, False) in _implicit else _implicit.get((home, True))


def find() -> Executor:
    """The executor that an `await` here and now means.

    Raises:
        RuntimeError: outside an event loop; on trio with none open; with several open side by side and none in context.
    """
    home = here()
    job = GVAR.job
    in_job = job is not None
    executor = current.get()
    if executor is not None and executor.is_open and (not in_job or executor.opened_in is job):
        return executor
    if home is None:
        raise RuntimeError(
            "a placeholder is awaited inside an event loop: call grainlike.run(main), or asyncio.run(main())"
        )
    if not in_job:
        side_by_side = _open.get(home, [])
        if len(side_by_side) == 1:
            return side_by_side[0]
        if side_by_side:
            raise RuntimeError(
                f"{len(side_by_side)} executors are open in this loop and none in this context: await inside the "
                "`async with` block of the one you mean"
            )
        if home.backend == "trio":
            raise RuntimeError(
                "no executor is open, and on trio there is no implicit one: use grainlike.run(main, backend='trio') or "
                "`async with grainlike.Executor():`"
            )
    return _implicitly(home, in_job=in_job)


def _implicitly(home: Home, *, in_job: bool) -> Executor:
    from grainlike.executor._executor import Executor

    executor = _implicit.get((home, in_job))
    if executor is None:
        executor = _implicit[home, in_job] = Executor.implicit(home, in_job=in_job)
        if not in_job:
            logger.info("opened an implicit executor over %s for the %s", executor.offer, home)
    return executor
