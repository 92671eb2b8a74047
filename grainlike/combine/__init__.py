"""Interface of the older Grain: wait-groups, subtasks, `exec1` and `run_combine`, on the executor.

Older programs import from here what they import from `grain`; a job reads its slots from `GVAR.res`, as before. The
room decides nothing and depends on no worker: a job is a delayed function, and the executor that is open runs it. New
programs do without it: `gather` and tasks of one's own do the same.

Below it is the executor; above it the command line.
"""

from grainlike.combine._run import run_combine
from grainlike.combine._waitgroup import WaitGroup, exec1, open_waitgroup

__all__ = ["WaitGroup", "exec1", "open_waitgroup", "run_combine"]
