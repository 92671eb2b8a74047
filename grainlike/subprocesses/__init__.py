"""Other programs of this machine: started in a job's slots, and ended with everything that they started.

Answers: what a process has started, how all of that is ended (`end_children`; `end_programs` where others wait for
what is ended; and `end_with_pipe` for a group that ends with a process which is not its parent), how a process ends
with its parent (`die_with_parent`, and `go_on_with_pipe` for one that is stopped), how a coroutine runs a program in
its job's slots (`run_process`), and how a program is a job itself (`run_command`). `end_programs` and the last two
are loaded when they are first used: every runner starts with this room. Also what a process inherits and must not
depend on (`reset_signals`, `reserve_standard_descriptors`), whether MPI launchers number cores as the system does
(`cores_count_in_order`), and which cores other programs of the user offer and use (`choose_cores`, `open_core_locks`).

Independent of which processes are a worker's, and of their purpose. Siblings: `net` waits on sockets, `observe`
counts.
"""

from typing import TYPE_CHECKING

from grainlike.subprocesses._core_locks import CoreLocks, NoCoreLocks, choose_cores, open_core_locks
from grainlike.subprocesses._core_numbers import cores_count_in_order
from grainlike.subprocesses._descendants import LEFTOVER_GRACE_S, children, descendants, end_children, kill_all, reap
from grainlike.subprocesses._inherited import is_standard_for_children, reserve_standard_descriptors, reset_signals
from grainlike.subprocesses._lifeline import die_with_parent, end_with_pipe, go_on_with_pipe, prctl

if TYPE_CHECKING:
    from grainlike.subprocesses._command import run_command
    from grainlike.subprocesses._end_programs import Program, end_programs, identify
    from grainlike.subprocesses._run_process import in_slots, run_process

__all__ = [
    "LEFTOVER_GRACE_S",
    "CoreLocks",
    "NoCoreLocks",
    "Program",
    "children",
    "choose_cores",
    "cores_count_in_order",
    "descendants",
    "die_with_parent",
    "end_children",
    "end_programs",
    "end_with_pipe",
    "go_on_with_pipe",
    "identify",
    "in_slots",
    "is_standard_for_children",
    "kill_all",
    "open_core_locks",
    "prctl",
    "reap",
    "reserve_standard_descriptors",
    "reset_signals",
    "run_command",
    "run_process",
]


def __getattr__(name: str) -> object:
    if name in ("in_slots", "run_process"):
        from grainlike.subprocesses import _run_process

        return getattr(_run_process, name)
    if name in ("Program", "end_programs", "identify"):
        from grainlike.subprocesses import _end_programs

        return getattr(_end_programs, name)
    if name == "run_command":
        from grainlike.subprocesses._command import run_command

        return run_command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
