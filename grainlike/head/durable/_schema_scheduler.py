"""Schema of images: the records of the schedulers, requests and allocations; `_schema` has the form of these lines."""

__all__ = ["RECORDS"]

RECORDS = """
Allocation resources._allocation.Allocation: _hash _text ids terms units
Either resources._request.Either: _hash _text ids terms units _options
Capacity resources._fit.Capacity: units terms
ResourceKind resources._kinds.ResourceKind: name unit whole indexed shared word
Grant resources._ledger.Grant: _ledger allocation generation lent request
Ledger resources._ledger.Ledger: _all_cores _cores _devices _free _generation _given _held _places _pools avoided
    capacity free
Short resources._missing.Short: name asked best
Missing resources._missing.Missing: request option absent short nearest lacking meant
Need resources._missing._Need: name asked has
Lack resources._missing._Lack: worker needs
NodeShare resources._places.NodeShare: socket cores gpus
NodeShares resources._places.NodeShares: _all _core_masks _devices
CorePool resources._pools.CorePool: free
DevicePool resources._pools.DevicePool: free shares
Receipt resources._records.Receipt: affinity threads devices memory_tier
Usage resources._records.Usage: wall_s cpu_s peak_rss cores_busy
Request resources._request.Request: _hash _text ids terms units
Growth resources._terms.Growth: factor most
Terms resources._terms.Terms: walltime soft group tokens limits rates nodes pack growth
NumaNode resources._topology.NumaNode: number socket cores gpus
Topology resources._topology.Topology: nodes
RetryPolicy scheduler._attempts.RetryPolicy: quarantine isolated _books=_state _closed
BackoffQueue scheduler._backoff.BackoffQueue: _heap _jobs=waiting _seed
Catalogue scheduler._catalogue.Catalogue: classes shapes doubted may_be_full _workers _trees _class_ids _last_class
    _last_shape _options _trees_most _at_work _groups _shape_ids _alike _near_ids
Holder scheduler._events.Holder: job worker held waits_for
Deadlock scheduler._events.Deadlock: job request holders
Simulation scheduler._deadlock._Simulation: queued stranded waiting _free _workers _limits
DeadlockWatch scheduler._deadlock_watch.DeadlockWatch: _books=_state _closed _look_at _stuck_since wake
Ticked scheduler._events.Ticked:
WakeAt scheduler._events.WakeAt: at
FunctionDefined scheduler._events.FunctionDefined: fn retries losses backoff on_timeout quick_s
FunctionsDropped scheduler._events.FunctionsDropped: fns
FunctionTimed scheduler._events.FunctionTimed: fn walls
JobsSubmitted scheduler._events.JobsSubmitted: request jobs fns priority isolate client parent more
    ages sizes inputs
JobsCancelled scheduler._events.JobsCancelled: jobs
JobsCommitted scheduler._events.JobsCommitted: jobs
WorkerJoined scheduler._events.WorkerJoined: worker name offer left_s has_data store scratch
WorkerStored scheduler._events.WorkerStored: worker over lost
WorkerTimed scheduler._events.WorkerTimed: worker left_s
WorkerLost scheduler._events.WorkerLost: worker reason
WorkerSuspected scheduler._events.WorkerSuspected: worker broke
WorkerHeard scheduler._events.WorkerHeard: worker
WorkerLeaving scheduler._events.WorkerLeaving: worker
WorkerDrained scheduler._events.WorkerDrained: worker
StartsPaused scheduler._events.StartsPaused: why
WorkerReported scheduler._events.WorkerReported: worker started completed ended waits
AssembleGang scheduler._events.AssembleGang: cls job attempt workers
AssignJobs scheduler._events.AssignJobs: worker cls ahead jobs attempts fns hard_s gang memory
    ages needs
RetractJobs scheduler._events.RetractJobs: worker jobs attempts
CancelJobs scheduler._events.CancelJobs: worker jobs attempts
JobsStarted scheduler._events.JobsStarted: worker start rows
JobsSettled scheduler._events.JobsSettled: worker completed rows
JobsLost scheduler._events.JobsLost: jobs worker reason losses
WorkerQuarantined scheduler._events.WorkerQuarantined: worker why
WorkerReleased scheduler._events.WorkerReleased: worker
JobsBackedOff scheduler._events.JobsBackedOff: jobs seconds
JobsRequeued scheduler._events.JobsRequeued: jobs
JobsUnsatisfiable scheduler._events.JobsUnsatisfiable: jobs missing
ReleaseWorker scheduler._events.ReleaseWorker: worker
JobsPending scheduler._events.JobsPending: request job waiting missing
JobsDeadlocked scheduler._events.JobsDeadlocked: deadlock failed
JobsOrphaned scheduler._events.JobsOrphaned: jobs
ShapesForgotten scheduler._events.ShapesForgotten: shapes
ValuesReleased scheduler._value_events.ValuesReleased: values
ValuesWanted scheduler._value_events.ValuesWanted: values
ValuesGiven scheduler._value_events.ValuesGiven: values
ReplicasArrived scheduler._value_events.ReplicasArrived: worker values attempts
ReplicasFailed scheduler._value_events.ReplicasFailed: worker values attempts why unreachable refused
ReplicasGone scheduler._value_events.ReplicasGone: worker values attempts
LineageDropped scheduler._value_events.LineageDropped: values
OwnValuesAdded scheduler._value_events.OwnValuesAdded: origin values sizes
OwnValuesLost scheduler._value_events.OwnValuesLost: values
OwnValuesFreed scheduler._value_events.OwnValuesFreed: values
ReplicationAsked scheduler._value_events.ReplicationAsked: values copies
ReplicationReached scheduler._value_events.ReplicationReached: values
FetchReplicas scheduler._value_events.FetchReplicas: worker values attempts sizes sources relayed
ReplicasSpared scheduler._value_events.ReplicasSpared: worker values attempts is_spare
GiveValues scheduler._value_events.GiveValues: worker values attempts sizes
ReplicasDropped scheduler._value_events.ReplicasDropped: worker values attempts
JobsRevived scheduler._value_events.JobsRevived: jobs by_copy
CopyMade scheduler._value_events.CopyMade: value reader
CopiesLost scheduler._value_events.CopiesLost: values
ValuesLost scheduler._value_events.ValuesLost: values why
ValuesForgotten scheduler._value_events.ValuesForgotten: values
InputsLost scheduler._value_events.InputsLost: jobs value why
InputsTravel scheduler._value_events.InputsTravel: jobs values others
InputsUnfit scheduler._value_events.InputsUnfit: jobs why failed
ReplicasUnfit scheduler._value_events.ReplicasUnfit: value why
OutputsUnfit scheduler._value_events.OutputsUnfit: jobs why
OverdraftUnpaid scheduler._value_events.OverdraftUnpaid: jobs why
JobsMoved scheduler._events.JobsMoved: job allocation
HeadScheduler scheduler._head.HeadScheduler: paused closed late _state jobs workers classes shapes _catalogue
    _functions _job_tree _planner _gangs _attempts _standstill _now _wake _gang_events _values
    _worker_events
ChildJobs scheduler._records.ChildJobs: children heard lease told waits
JobTree scheduler._job_tree.JobTree: orphans trees waiting
Record scheduler._quarantine._Record: kind level strikes until why
Quarantine scheduler._quarantine.Quarantine: _records=records _look_at
DeepestFirst scheduler._records.DeepestFirst: _heap
RequestClass scheduler._records.RequestClass: aged blocked_job blocked_since claim client could_since deferred early
    entry id in_order is_simple isolate kind may_be_ahead names near needs passed_since place priority queue request
    root shapes timed visits warned wide_on
HeadFunction scheduler._records.HeadFunction: backoff gives id losses on_timeout quick_s retries times
HeadJob scheduler._records.HeadJob: age attempt cancelled cls fn id own rare sent shape state worker
ExtraState scheduler._records.ExtraState: again_at cancelled_at committed data depth failures family losses parent
    root size tree_age tried
RoomTries scheduler.values._inputs.RoomTries: size workers
Shape scheduler._records.Shape: group id isolate limits may_be_ahead nodes plain rates rationed request share tokens
    units users varied walltime walltime_soft with_inputs
LeaseState scheduler._records.LeaseState: begun client fn id lent root shape
GangHold scheduler._workers.GangHold: allocation job lease planned_at released shape worker
ChangeLog scheduler._workers.ChangeLog: entries epoch shifts
WorkerState scheduler._workers.WorkerState: _fits _log ahead ahead_bytes ahead_in ahead_last ahead_of ahead_s capacity
    crowded draining free gone has_data held holds id kind lasts leases leaving lenders lent name offer over recalled
    shut store store_left tokens until using version
SchedulerState scheduler._state.SchedulerState: backoffs catalogue functions gangs homes job_tree jobs leaving
    overdrafts planner relocations replication spares transfers values workers
GangEvents scheduler._gang_events.GangEvents: _attempts _books=_state _gangs
JobState scheduler._states.JobState: 0 1 2 3 4 5
RunTimes scheduler._statistics.RunTimes: awaits count mean memory variance
AheadPlanner scheduler.planning._ahead.AheadPlanner: fresh left _workers _classes _waiting _reserving _shares near
    consumers _room _holders _heeded=_looked_at
Candidates scheduler.planning._candidates.Candidates: _admits _epoch _heap _log _read _shape _workers
PlacedGang scheduler.planning._gangs.PlacedGang: assembled broken holds job lost since
Gangs scheduler.planning._gangs.Gangs: _shares _gangs assembling
WorkerKinds scheduler.planning._kinds.WorkerKinds: _workers _kinds _capacities _are_many _least
NearPlacing scheduler.planning._near.NearPlacing: wake now _workers _transfers=transfers rooms table _log _admits
    _elsewhere look _lacked_room
Homes scheduler.values._homes.Homes: _catalogue _table _transfers _workers
JobInputs scheduler.values._inputs.JobInputs: attempts claim inputs lacks remakes target
CopyReader scheduler.values._records.CopyReader: cls fn own
ValueState scheduler.values._records.ValueState: age asked attempt cls copies durable first_to fn givers
    heirs=dependents id inputs is_kept last maker origin own owned recomputed replicas size unreached users
    why
ReplicaCopy scheduler.values._records.ReplicaCopy: attempt began direct is_safety jobs size source target value weight
ValueTable scheduler.values._table.ValueTable: _workers bare=unavailable bound cramped=awaiting_room crowded drops ended
    filled forgotten freed idle moved parked placed primaries single spare stirred=unsettled stored tight unwanted
    values
Spares scheduler.values._spares.Spares: _leaving _overdrafts _table _told=_announced
Consumers scheduler.planning._consumers.Consumers: _active _rooms _start_on _table
Overdrafts scheduler.values._overdrafts.Overdrafts: _leaving _table _transfers _workers still workers
NeededValues scheduler.values._overdrafts._NeededValues: _free _kept _movable _table
Primaries scheduler.values._primaries.Primaries: listed
Relocation scheduler.values._relocations.Relocation: job target
Relocations scheduler.values._relocations.Relocations: _last _leaving _table _transfers _workers jobs moves under_way
Replication scheduler.values._replication.Replication: _leaving _table _transfers _workers due kept told=warned
LeavingWorker scheduler.values._leaving._LeavingWorker: held owes until
Departures scheduler.values._leaving.Departures: _table _transfers _workers held wake workers
Reach scheduler.values._reach.Reach: _blocked _direct_rate _relayed_rate _rests _workers changes
Rooms scheduler.values._rooms.Rooms: _coming _known _table _workers claims cramped=without_room misfits parked
    refusals rules told=warned
Transfers scheduler.values._transfers.Transfers: _going_in _going_out _waiting _workers claims coming is_due known
    reach rooms rules table turned wake
Look scheduler.planning._dormant.Look: due elsewhere ends is_settled mean near passed rooms shape turns
Dormancy scheduler.planning._dormant.Dormancy: cls job look number
DormantClasses scheduler.planning._dormant.DormantClasses: _classes=records _dues _ends _last _of_fn _of_rates _of_room
    _of_shape _of_turn _of_value _of_worker
Resting scheduler.planning._resting.Resting: _known _log _read _reserving _transfers _version _waiting _workers
Misfits scheduler.values._misfits.Misfits: _books=_state _rooms _table
Values scheduler.values._values.Values: _books=_state _leaving _replication _spares _table _transfers
    _unseen misfits revived room_wake
WorkerEvents scheduler._worker_events.WorkerEvents: _attempts _books=_state _values
Patience scheduler.planning._patience.Patience: _classes _is_first passed unpassed _due _pushed
Planner scheduler.planning._planner.Planner: _job_tree _lend_to_all log start_limits shares gangs wake whole waiting
    reserving near ahead consumers _blocked _all_anew _lending _workers _classes _candidates _read _resting
Reservation scheduler.planning._reservation.Reservation: job shape spare start worker
Reservations scheduler.planning._reservations.Reservations: by_worker by_class members near reopened search _workers
    _classes _waiting kinds _wide
SearchProgress scheduler.planning._search.SearchProgress: again cursor failed found fruitless queue seen
Search scheduler.planning._search.Search: turns _waiting _classes _workers _reservations _reserved _changed _kinds
    _now _version=version _rooms _everywhere _wide_limits _patient_limit
Shares scheduler.planning._shares.Shares: _held
StartLimits scheduler.planning._start_limits.StartLimits: _running _next _awaited
ClassIndex scheduler.planning._class_index.ClassIndex: _blocks=blocks _floor=floor _lasts _least
ClientQueue scheduler.planning._waiting.ClientQueue: always lines new patient size wide
WaitingClasses scheduler.planning._waiting.WaitingClasses: _classes dormant queues size of_shape are_few few
    _touched patience
"""
