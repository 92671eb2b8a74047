"""The minds: what runs where, in which order. Pure decisions over plain data.

Answers: `HeadMind` plans with amounts (which job to which worker, in what order), `NodeMind` is the authority on one
node (which concrete ids, in which runner). Both are `handle(event, now) -> list[action]`: no await, no clock, no dice,
no environment, no iteration over a set; the same events give the same actions.

Never waits, never unpickles, never touches a process or a socket: bodies (`grainlike.executor` for the head,
`grainlike_worker` for the node) feed events in and carry actions out. Neighbours: `resources` for the arithmetic,
`wire` for the messages that events and actions carry.
"""

from grainlike.scheduler._events import (
    AssignJobs,
    BarrierHeld,
    CancelJobs,
    FunctionDefined,
    HeadAction,
    HeadEvent,
    JobsCancelled,
    JobsLost,
    JobsPending,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobsUnsatisfiable,
    KillRunner,
    NodeAction,
    NodeEvent,
    RaiseBarrier,
    RetractJobs,
    RunnerCompleted,
    RunnerGone,
    SpawnRunner,
    StartLease,
    StopJobs,
    TellCompleted,
    TellEnded,
    TellStarted,
    TerminateRunner,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerLost,
    WorkerReported,
)
from grainlike.scheduler._explain import Explanation, Shortage
from grainlike.scheduler._head import HeadMind
from grainlike.scheduler._node import NodeMind
from grainlike.scheduler._states import JobState, transition_table
from grainlike.scheduler._statistics import RunTimes

__all__ = [
    "AssignJobs",
    "BarrierHeld",
    "CancelJobs",
    "Explanation",
    "FunctionDefined",
    "HeadAction",
    "HeadEvent",
    "HeadMind",
    "JobState",
    "JobsCancelled",
    "JobsLost",
    "JobsPending",
    "JobsSettled",
    "JobsStarted",
    "JobsSubmitted",
    "JobsUnsatisfiable",
    "KillRunner",
    "NodeAction",
    "NodeEvent",
    "NodeMind",
    "RaiseBarrier",
    "RetractJobs",
    "RunTimes",
    "RunnerCompleted",
    "RunnerGone",
    "Shortage",
    "SpawnRunner",
    "StartLease",
    "StopJobs",
    "TellCompleted",
    "TellEnded",
    "TellStarted",
    "TerminateRunner",
    "Ticked",
    "WakeAt",
    "WorkerJoined",
    "WorkerLost",
    "WorkerReported",
    "transition_table",
]
