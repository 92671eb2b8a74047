"""An event loop that many jobs share: what would end it for all is refused to the one that tries."""

import asyncio
from collections.abc import Callable
from typing import Any

from grainlike.context import GVAR

__all__ = ["shared_loop"]


def shared_loop(kind: Any) -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes event loops of the class `kind` that no job can stop.

    `loop.stop()` in a job, or in a task or callback of one, raises `RuntimeError` there, and nobody else hears of it.

    Example::

        with asyncio.Runner(loop_factory=shared_loop(uvloop.Loop)) as runner:
            runner.run(serve())
    """

    class SharedLoop(kind):  # type: ignore[misc]
        def stop(self) -> None:
            job = GVAR.job
            if job is not None:
                raise RuntimeError(
                    f"{job.name} (job {job.id}) would stop the event loop of all coroutines of this worker; "
                    "one that has a loop to itself is had with isolate=True"
                )
            super().stop()

    return SharedLoop
