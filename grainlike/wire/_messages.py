"""The closed union of all messages that links carry; loaded by who needs those of which it has no class.

By sender and receiver: any two ends `_connection`, the head to a worker `_orders`, a worker to the head `_reports`, a
worker and its runners `_runners`. Values that stay at workers are in `_values`, streams and output in `_flows`, jobs
submitted by jobs in `_nested`, and messages between clients and the head in `_questions`.

Messages hold *columns*: one `Assign` carries many jobs as parallel lists, so that a batch costs one write and one
decoding however many jobs it holds. Job, lease, class and function are named by small integers that the head (or, for
leases, the worker) hands out; an attempt number travels with each job, so that a late answer is recognised.

Times are seconds on the sender's monotonic clock, made comparable by the `sent_at` of the message around them.
"""

from __future__ import annotations

from grainlike.wire._connection import Ack, Beat, Goodbye, Hello, Refused, Welcome
from grainlike.wire._data import DataSetup, PullInto, Received
from grainlike.wire._flows import Credit, Follow, Items, Output
from grainlike.wire._logged import ClientRecords, LoggedRecords
from grainlike.wire._nested import Outcomes, OutcomesHeard, ReleaseFunctions, Submit, Withdraw
from grainlike.wire._orders import Assign, Cancel, Define, Depart, Gang, Hold, Retract, TimeLeft, Undefine
from grainlike.wire._questions import FromClient, ToClient
from grainlike.wire._reports import Blocked, Completed, Leaving, Report
from grainlike.wire._runners import Awaits, GoesOn, Halted, Ready, Renew, Resumed, Room, RoomIs, Run, Setup, Stop
from grainlike.wire._values import (
    DropOwnValues,
    DropReplicas,
    DurableCopy,
    EncloseValues,
    Evicted,
    Fetched,
    OwnValues,
    Pulled,
    PullReplica,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    SpareReplicas,
    StopTransfer,
    Stored,
    Unsent,
    ValueComes,
    ValueInterest,
    ValuesAt,
    ValuesGone,
)

__all__ = ["AnyMessage"]

AnyMessage = (
    Hello
    | Welcome
    | Refused
    | Beat
    | Ack
    | Goodbye
    | Define
    | Undefine
    | Assign
    | Cancel
    | Retract
    | Hold
    | Gang
    | Depart
    | TimeLeft
    | Report
    | Completed
    | Blocked
    | Halted
    | Leaving
    | Setup
    | Run
    | Stop
    | Awaits
    | GoesOn
    | Resumed
    | Renew
    | Ready
    | Items
    | Credit
    | Follow
    | Output
    | Submit
    | Withdraw
    | ReleaseFunctions
    | Outcomes
    | OutcomesHeard
    | FromClient
    | ToClient
    | LoggedRecords
    | ClientRecords
    | SendReplica
    | ReplicaPart
    | ReplicaCredit
    | Fetched
    | Unsent
    | StopTransfer
    | DropReplicas
    | PullReplica
    | Pulled
    | Room
    | RoomIs
    | Stored
    | SpareReplicas
    | Evicted
    | DataSetup
    | PullInto
    | Received
    | OwnValues
    | DropOwnValues
    | EncloseValues
    | ValueInterest
    | DurableCopy
    | ValueComes
    | ValuesGone
    | ValuesAt
)
