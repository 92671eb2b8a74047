"""How do programs for the older Grain look here? Wait-groups, subtasks, `exec1` and `run_combine`, on the executor.

What older programs import from `grain` they import from here; what a job sees of its slots is `GVAR.res`, as ever. The
room decides nothing and knows no worker: a job is a delayed function, and the executor that is open runs it. New
programs do without it: `gather` and tasks of one's own say the same.

Below it is the executor; above it the command line.
"""

from grainlike.combine._run import run_combine
from grainlike.combine._waitgroup import WaitGroup, exec1, open_waitgroup

__all__ = ["WaitGroup", "exec1", "open_waitgroup", "run_combine"]
