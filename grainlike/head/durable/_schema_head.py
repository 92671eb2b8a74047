"""Schema of images: the records of the head, its connections and messages; `_schema` has the form of these lines."""

__all__ = ["RECORDS"]

RECORDS = """
BaseMessage wire._base.BaseMessage:
Hello wire._connection.Hello: role protocol_low protocol_high python serializers name incarnation pid offer logical
    memory memory_tier process received resumes session block node host
    left_s replicas data data_key store scratch
Welcome wire._connection.Welcome: cluster heartbeat_s paths name store process received returns own_values
Refused wire._connection.Refused: kind reason
Beat wire._connection.Beat: number
Ack wire._connection.Ack: received
Goodbye wire._connection.Goodbye: reason
Items wire._flows.Items: job attempt data counts
Credit wire._flows.Credit: job attempt items size
OutputStream wire._flows.OutputStream: 0 1 2 3 4 5
Follow wire._flows.Follow: job follower on
Output wire._flows.Output: job attempt streams data follower caught_up last_words
LargeBuffer wire._large.LargeBuffer: _aside _at _base _counted _length _most _wanted data kept passed
RetrySpec wire._nested.RetrySpec: times losses backoff on on_timeout on_memory
SubmittedFunction wire._nested.SubmittedFunction: digest name is_async timeout retry many keep here stream logs stays
    internal
Submit wire._nested.Submit: parent attempt request priority isolate functions children fns data counts names
    ages sizes inputs needs goes_on
OutcomesHeard wire._nested.OutcomesHeard: children
ReleaseFunctions wire._nested.ReleaseFunctions: digests
Withdraw wire._nested.Withdraw: parent attempt children skipped
Outcomes wire._nested.Outcomes: parent attempt children good workers slots attempts wall cpu rss receipts data
    counts jobs sizes
AskOutcome wire._nested.AskOutcome: ask child at
OutcomeIs wire._nested.OutcomeIs: ask at data end checksum
FunctionSpec wire._orders.FunctionSpec: fn digest name is_async timeout many keep paths on on_memory
    logs stays
ClassSpec wire._orders.ClassSpec: cls request isolate
Define wire._orders.Define: functions classes
Undefine wire._orders.Undefine: functions classes
Assign wire._orders.Assign: cls ahead jobs attempts fns data counts hard_s memory ages needs
Cancel wire._orders.Cancel: jobs attempts
Retract wire._orders.Retract: jobs attempts
Hold wire._orders.Hold: cls jobs attempts
NodeSpec wire._orders.NodeSpec: name host allocation
Gang wire._orders.Gang: job attempt nodes hostfile
Depart wire._orders.Depart: kill
TimeLeft wire._orders.TimeLeft: left_s grace_s
Code wire._reports.Code: 0 1 2 3 4 5 6 7 9 10 11 8
Wait wire._reports.Wait: 0 1 2
ReceiptSpec wire._reports.ReceiptSpec: pid affinity threads devices memory_tier
LeaseStart wire._reports.LeaseStart: lease cls allocation jobs attempts at memory
LeaseWait wire._reports.LeaseWait: lease job attempt waits heard lent allocation
Completed wire._reports.Completed: lease jobs attempts codes begun wall cpu rss data counts sent_at awaited receipt
    details final never_ran sizes gone wanted
Report wire._reports.Report: sent_at started completed ended waits
Blocked wire._reports.Blocked: job seconds stack
Leaving wire._reports.Leaving: reason
ValueNeed wire._values.Need: value attempt size
SendReplica wire._values.SendReplica: transfer value attempt at credit
ReplicaPart wire._values.ReplicaPart: transfer value attempt at size
ReplicaCredit wire._values.ReplicaCredit: transfer credit
Fetched wire._values.Fetched: transfer value attempt
Unsent wire._values.Unsent: transfer why gone at unreachable
ValueInterest wire._values.ValueInterest: wanted unwanted released replicated copies
DurableCopy wire._values.DurableCopy: value reader
OwnValues wire._values.OwnValues: values sizes directory
DropOwnValues wire._values.DropOwnValues: values
EncloseValues wire._values.EncloseValues: child values inputs data counts
ValueComes wire._values.ValueComes: transfer value attempt size directory
ValuesGone wire._values.ValuesGone: values words
ValuesAt wire._values.ValuesAt: values workers recomputed reached attempts
PullReplica wire._values.PullReplica: transfer value attempt size at address name
Pulled wire._values.Pulled: transfers at
StopTransfer wire._values.StopTransfer: transfer
DropReplicas wire._values.DropReplicas: values attempts
Stored wire._values.Stored: spilled lost over
SpareReplicas wire._values.SpareReplicas: values attempts is_spare
Evicted wire._values.Evicted: values attempts
ResendBuffer wire._resend_buffer.ResendBuffer: _acknowledged _allowed _kept _told _unsaid received sent_in_all size
Window wire._window.Window: _items _size
Debt wire._window.Debt: _items _size
Connection head._peers.Connection: number name link hello session taken_over heard
Blob head._functions._Blob: data keys owners
FunctionTable head._functions.FunctionTable: _define _numbers _specs _blobs _last _known _collected _by_client
    _by_job _unowned _unowned_bytes _swept_jobs _swept_at dropped_bytes large quick_s
KeptCalls head._kept_calls.KeptCalls: _functions _calls _readers nbytes
RevivedJob head._kept_calls.RevivedJob: fn id node placement travels former name request timeout
RelayedJob head._nested.RelayedJob: fn id node placement travels attempt_of child finished name reply_to request
    timeout waiters window
RelayedJobs head._nested.RelayedJobs: _jobs _functions _number _tell _counters _children outbox
    _owners _graphs
CallGraph jobs._call_graph.CallGraph: calls nbytes unpinned
GraphCall jobs._call_graph.GraphCall: age child good goes_on held inputs isolate job missing name needs outcome
    priority request size users
WorkerConnection head._peers.WorkerConnection: number name link hello session taken_over heard offer suspect beats
    leaving skew receipts follows _functions _classes
LinkTransfer head.values._transfers.LinkTransfer: attempt begun client generation granted mapped memory number paused
    received sender size source target value waits written
DirectTransfer head.values._transfers.DirectTransfer: attempt number size source target value written
ValueOwners head.values._owners.ValueOwners: _owners _values wanted replicating pins unreferred
HeadState head._state.HeadState: scheduler peers jobs counters functions nested last_job last_peer last_listener
    transfers direct begun origins last_transfer told_late kept owners
ClientConnection head.server._client.ClientConnection: number name link hello session taken_over heard tasks
    listening paths reply_to
KeptFile head.server._sessions.KeptFile: name size checksum
Spill head.server._sessions.Spill: fresh gone
NamedCall head.server._sessions.NamedCall: apart began child function job name outcome request size
NamedSession head.server._sessions.NamedSession: _by_child _calls _held _last_child _spill connection graph jobs name
    number since size
Sessions head.server._sessions.Sessions: _named spill
Placement jobs._job.Placement: worker attempt earlier slots began ended used receipt last_words blocks_since
    streamed again_at size recomputed
Job jobs._job.Job: fn id node placement travels
FirstOfChain jobs._job.FirstOfChain: fn id node placement travels _links _runs
Totals wire._totals.Totals: succeeded failed skipped timed_out cancelled total_seconds run_seconds
    moved relayed sent fetched recomputed
JobCounters jobs._job.JobCounters: succeeded failed skipped timed_out cancelled run_seconds opened
    recomputed sent
ResumableSession net._resumable_session.ResumableSession: _transcript _link over tells
"""
