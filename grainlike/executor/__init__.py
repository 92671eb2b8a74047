"""The executor as users hold it: `Executor` with its settings and lifecycle, `run`, and the current executor of an
`await`.

Answers: the arguments of an executor (`_settings`), when its parts start and stop (`_lifecycle`), which executor the
running task uses (`_current`), how the embedded worker is connected (`_embedded`), and how far the calls are
(`_progress`). The graph is run by `engine`, the jobs by `head` or a backend.
"""

from typing import TYPE_CHECKING

from grainlike._later import later
from grainlike.executor._current import find, find_for
from grainlike.executor._executor import Executor, offer_with
from grainlike.executor._registry import implicit_made
from grainlike.executor._reports import UnendedCalls
from grainlike.executor._run import run
from grainlike.graph import register

if TYPE_CHECKING:
    from grainlike.executor._blocking import result
    from grainlike.executor._connected import ConnectedExecutor, connect
    from grainlike.executor._pools import LaunchedPool
    from grainlike.executor._progress import Progress, progress
    from grainlike.executor._settings import NOT_GIVEN

__all__ = [
    "NOT_GIVEN",
    "ConnectedExecutor",
    "Executor",
    "LaunchedPool",
    "Progress",
    "UnendedCalls",
    "connect",
    "find",
    "implicit_made",
    "offer_with",
    "progress",
    "result",
    "run",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "NOT_GIVEN": "_settings",
            "ConnectedExecutor": "_connected",
            "LaunchedPool": "_pools",
            "Progress": "_progress",
            "progress": "_progress",
            "connect": "_connected",
            "result": "_blocking",
        },
    )

register(find_for)
