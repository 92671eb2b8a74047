"""Schedulers: pure decisions over plain data about which job runs where, and in which order.

`HeadScheduler` plans in amounts (which job goes to which worker, in what order); `NodeScheduler` has the last word on
one node (which concrete ids, in which runner). Both are `handle(event, now) -> list[action]` without await, clock,
random numbers, environment or iteration over a set, so the same events give the same actions. docs/architecture.md
lists their parts.

Nothing here waits, unpickles, or touches a process or a socket: drivers (`grainlike.head` for the head,
`grainlike_worker` for the node) feed events in and perform the actions. Uses `resources` for the arithmetic, and `wire`
for the messages that events and actions carry.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.scheduler._events import (
        AHEAD_QUICK_S,
        MAX_LOSSES,
        AssembleGang,
        AssignJobs,
        CancelJobs,
        Deadlock,
        FunctionDefined,
        FunctionsDropped,
        FunctionTimed,
        HeadAction,
        HeadEvent,
        Holder,
        JobsBackedOff,
        JobsCancelled,
        JobsCommitted,
        JobsDeadlocked,
        JobsLost,
        JobsMoved,
        JobsOrphaned,
        JobsPending,
        JobsRequeued,
        JobsSettled,
        JobsStarted,
        JobsSubmitted,
        JobsUnsatisfiable,
        ReleaseWorker,
        RetractJobs,
        ShapesForgotten,
        StartsPaused,
        Ticked,
        WakeAt,
        WorkerDrained,
        WorkerHeard,
        WorkerJoined,
        WorkerLeaving,
        WorkerLost,
        WorkerQuarantined,
        WorkerReleased,
        WorkerReported,
        WorkerStored,
        WorkerSuspected,
        WorkerTimed,
    )
    from grainlike.scheduler._explanation import Explanation, Shortage
    from grainlike.scheduler._head import HeadScheduler
    from grainlike.scheduler._records import HeadJob
    from grainlike.scheduler._scale_hint import PoolOffer, Trials, lacks, wanted_in_pools
    from grainlike.scheduler._states import JobState, transition_table
    from grainlike.scheduler._statistics import RunTimes
    from grainlike.scheduler._value_events import (
        PROGRAM,
        CopiesLost,
        CopyMade,
        FetchReplicas,
        GiveValues,
        InputsLost,
        InputsTravel,
        InputsUnfit,
        JobsRevived,
        LineageDropped,
        OutputsUnfit,
        OverdraftUnpaid,
        OwnValuesAdded,
        OwnValuesFreed,
        OwnValuesLost,
        ReplicasArrived,
        ReplicasDropped,
        ReplicasFailed,
        ReplicasGone,
        ReplicasSpared,
        ReplicasUnfit,
        ReplicationAsked,
        ReplicationReached,
        ValueAction,
        ValuesForgotten,
        ValuesGiven,
        ValuesLost,
        ValuesReleased,
        ValuesWanted,
    )
    from grainlike.scheduler._workers import WorkerState
    from grainlike.scheduler.node._events import (
        AssignSized,
        BarrierHeld,
        CoresTaken,
        JobAwaits,
        JobGoesOn,
        KillRunner,
        NodeAction,
        NodeEvent,
        NodeStopped,
        RaiseBarrier,
        ResumeJob,
        RunnerAnswered,
        RunnerCompleted,
        RunnerGone,
        RunnerKind,
        RunnerReady,
        RunnerRenewed,
        RunnerRetired,
        SpawnRunner,
        StartApart,
        StartLease,
        StopJobs,
        TellCompleted,
        TellEnded,
        TellHeld,
        TellStarted,
        TellWaits,
        TerminateRunner,
    )
    from grainlike.scheduler.node._runners import GRACE_S
    from grainlike.scheduler.node._scheduler import NodeScheduler

__all__ = [
    "AHEAD_QUICK_S", "GRACE_S", "MAX_LOSSES", "PROGRAM", "AssembleGang", "AssignJobs", "AssignSized", "BarrierHeld",
    "CancelJobs", "CopiesLost", "CopyMade", "CoresTaken", "Deadlock", "Explanation", "FetchReplicas", "FunctionDefined",
    "FunctionTimed", "FunctionsDropped", "GiveValues", "HeadAction", "HeadEvent", "HeadJob", "HeadScheduler", "Holder",
    "InputsLost", "InputsTravel", "InputsUnfit", "JobAwaits", "JobGoesOn", "JobState", "JobsBackedOff", "JobsCancelled",
    "JobsCommitted", "JobsDeadlocked", "JobsLost", "JobsMoved", "JobsOrphaned", "JobsPending", "JobsRequeued",
    "JobsRevived", "JobsSettled", "JobsStarted", "JobsSubmitted", "JobsUnsatisfiable", "KillRunner", "LineageDropped",
    "NodeAction", "NodeEvent", "NodeScheduler", "NodeStopped", "OutputsUnfit", "OverdraftUnpaid", "OwnValuesAdded",
    "OwnValuesFreed", "OwnValuesLost", "PoolOffer", "RaiseBarrier", "ReleaseWorker", "ReplicasArrived",
    "ReplicasDropped", "ReplicasFailed", "ReplicasGone", "ReplicasSpared", "ReplicasUnfit", "ReplicationAsked",
    "ReplicationReached", "ResumeJob", "RetractJobs", "RunTimes", "RunnerAnswered", "RunnerCompleted", "RunnerGone",
    "RunnerKind", "RunnerReady", "RunnerRenewed", "RunnerRetired", "ShapesForgotten", "Shortage", "SpawnRunner",
    "StartApart", "StartLease", "StartsPaused", "StopJobs", "TellCompleted", "TellEnded", "TellHeld", "TellStarted",
    "TellWaits", "TerminateRunner", "Ticked", "Trials", "ValueAction", "ValuesForgotten", "ValuesGiven", "ValuesLost",
    "ValuesReleased", "ValuesWanted", "WakeAt", "WorkerDrained", "WorkerHeard", "WorkerJoined", "WorkerLeaving",
    "WorkerLost", "WorkerQuarantined", "WorkerReleased", "WorkerReported", "WorkerState", "WorkerStored",
    "WorkerSuspected", "WorkerTimed", "lacks", "transition_table", "wanted_in_pools",
]  # fmt: skip

_NAMES = {
    "_events": """
        AHEAD_QUICK_S MAX_LOSSES AssembleGang AssignJobs CancelJobs Deadlock FunctionDefined FunctionsDropped
        FunctionTimed HeadAction HeadEvent Holder JobsBackedOff JobsCancelled JobsCommitted JobsDeadlocked JobsLost
        JobsMoved JobsOrphaned JobsPending JobsRequeued JobsSettled JobsStarted JobsSubmitted JobsUnsatisfiable
        ReleaseWorker RetractJobs ShapesForgotten StartsPaused Ticked WakeAt WorkerDrained WorkerHeard WorkerJoined
        WorkerLeaving WorkerLost WorkerQuarantined WorkerReleased WorkerReported WorkerStored WorkerSuspected
        WorkerTimed
    """,
    "_explanation": "Explanation Shortage",
    "_head": "HeadScheduler",
    "_records": "HeadJob",
    "_scale_hint": "PoolOffer Trials lacks wanted_in_pools",
    "_states": "JobState transition_table",
    "_statistics": "RunTimes",
    "_value_events": """
        PROGRAM CopiesLost CopyMade FetchReplicas GiveValues InputsLost InputsTravel InputsUnfit JobsRevived
        LineageDropped OutputsUnfit OverdraftUnpaid OwnValuesAdded OwnValuesFreed OwnValuesLost ReplicasArrived
        ReplicasDropped ReplicasFailed ReplicasGone ReplicasSpared ReplicasUnfit ReplicationAsked ReplicationReached
        ValueAction ValuesForgotten ValuesGiven ValuesLost ValuesReleased ValuesWanted
    """,
    "_workers": "WorkerState",
    "node._events": """
        AssignSized BarrierHeld CoresTaken JobAwaits JobGoesOn KillRunner NodeAction NodeEvent NodeStopped RaiseBarrier
        ResumeJob RunnerAnswered RunnerCompleted RunnerGone RunnerKind RunnerReady RunnerRenewed RunnerRetired
        SpawnRunner StartApart StartLease StopJobs TellCompleted TellEnded TellHeld TellStarted TellWaits
        TerminateRunner
    """,
    "node._runners": "GRACE_S",
    "node._scheduler": "NodeScheduler",
}
"""Names of this room, by the module that has them."""

if not TYPE_CHECKING:  # else any name would be there
    # A worker needs nothing of the head's side, which is most of this room.
    __getattr__ = later(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})
