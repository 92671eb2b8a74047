"""A head, and workers with stores, in virtual time, for the tests of values that stay."""

from scheduler_cluster import Cluster

from grainlike.resources import Cores
from grainlike.scheduler import (
    AssignJobs,
    FetchReplicas,
    GiveValues,
    InputsLost,
    JobsRevived,
    JobsSubmitted,
    ReleaseWorker,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
    ReplicationReached,
    Ticked,
    ValuesForgotten,
    ValuesLost,
    ValuesReleased,
    WorkerLost,
    WorkerReported,
)
from grainlike.wire import Code, Completed, LeaseStart

MB = 10**6


class ValueCluster(Cluster):
    """As `Cluster`; each job of `sizes` leaves a value of so many bytes. Copies arrive when a test says so."""

    def __init__(self, *offers, closed=False, has_data=False):
        self.has_data = has_data
        self.sizes, self.stores, self.under_way, self.inputs = {}, {}, {}, {}
        self.ways, self.reached, self.released = [], [], []
        self.given, self.lost, self.forgotten, self.revived, self.hopeless = [], [], [], [], []
        super().__init__(*offers, closed=closed)

    def join(self, offer, **known):
        self.stores[len(self.free_at_work) + 1] = set()
        super().join(offer, **{"has_data": self.has_data, **known})

    def call(self, request, seconds, *inputs, fn=1, size=0, n=1, client=0):
        """Submit jobs that need these values, and leave one of `size` bytes each."""
        jobs = [next(self._number) for _ in range(n)]
        self.length.update(dict.fromkeys(jobs, seconds))
        self.sizes.update(dict.fromkeys(jobs, size))
        self.inputs.update(dict.fromkeys(jobs, inputs))
        self.tell(JobsSubmitted(request, jobs, [fn] * n, client=client, inputs=(inputs,) * n))
        return jobs if n > 1 else jobs[0]

    def tell(self, event):
        before = len(self.actions)
        super().tell(event)
        for action in self.actions[before:]:
            self._note(action)

    def _note(self, action):
        match action:
            case FetchReplicas():
                columns = action.values, action.attempts, action.sources, action.relayed
                for value, attempt, source, relayed in zip(*columns, strict=True):
                    assert (value, attempt) in self.stores[source], f"v{value} is fetched from where it is not"
                    key = value, action.worker
                    assert key not in self.under_way, f"v{value} is on its way to n{action.worker} already"
                    self.under_way[key] = attempt, source
                    self.ways.append((value, source, action.worker, "relayed" if relayed else "direct"))
            case ReplicasDropped():
                self.stores[action.worker] -= set(zip(action.values, action.attempts, strict=True))
            case GiveValues():
                assert set(zip(action.values, action.attempts, strict=True)) <= self.stores[action.worker]
                self.given += [(value, action.worker) for value in action.values]
            case ReplicationReached():
                self.reached += action.values
            case ReleaseWorker():
                self.released.append(action.worker)
            case ValuesLost():
                self.lost += [(value, action.why) for value in action.values]
            case ValuesForgotten():
                self.forgotten += action.values
            case JobsRevived():
                self.revived += action.jobs
            case InputsLost():
                self.hopeless += [(job, action.value, action.why) for job in action.jobs]
            case AssignJobs(ahead=True):
                self._check_needs(action)

    def _start(self, worker, cls, job, attempt):
        action = self.actions[-1]
        assert isinstance(action, AssignJobs)
        self._check_needs(action)
        super()._start(worker, cls, job, attempt)

    def _check_needs(self, action):
        needs = action.needs or [[]] * len(action.jobs)
        for job, needed in zip(action.jobs, needs, strict=True):
            assert {need.value for need in needed} == set(self.inputs.get(job, ()))
            whole = {(need.value, need.attempt) for need in needed}
            assert whole <= self.stores[action.worker], f"job {job} begins on n{action.worker} without {whole}"

    def finish(self, job, worker, cls, attempt, code=Code.SUCCEEDED):
        self.ended[job] = self.now
        for name, amount in self.head.shapes[cls].units:
            self.free_at_work[worker][name] += amount
        size = self.sizes.get(job, 0) if code == Code.SUCCEEDED else 0
        if size:
            self.stores[worker].add((job, attempt))
        start = LeaseStart(job, cls, "", [job], [attempt], self.begun[job])
        columns = [job], [attempt], [int(code)], [0.0], [self.length[job]], [0.0], [0], [b""], []
        done = Completed(job, *columns, self.now, sizes=[size])
        self.tell(WorkerReported(worker, [start], [done], [job]))

    def arrive(self, value, worker):
        """Let a copy that is under way arrive."""
        attempt, _ = self.under_way.pop((value, worker))
        self.stores[worker].add((value, attempt))
        self.tell(ReplicasArrived(worker, [value], [attempt]))

    def arrive_all(self):
        """Let all copies arrive, and those that follow."""
        while self.under_way:
            for value, worker in list(self.under_way):
                self.arrive(value, worker)

    def fail(self, value, worker, *, unreachable=False, refused=False):
        """Let a copy that is under way fail."""
        attempt, _ = self.under_way.pop((value, worker))
        self.tell(ReplicasFailed(worker, [value], [attempt], "the link broke", unreachable, refused))

    def lose(self, worker):
        """Lose a worker with all that it has and runs."""
        for entry in [entry for entry in self._heap if entry[2] == worker]:
            self._heap.remove(entry)
        self._heap.sort()
        self.stores.pop(worker)
        self.under_way = {
            key: there for key, there in self.under_way.items() if key[1] != worker and there[1] != worker
        }
        self.tell(WorkerLost(worker, "it is gone"))

    def release(self, *values):
        """Let the owner let go of values."""
        self.tell(ValuesReleased(list(values)))

    def where(self, value):
        """The workers that have it."""
        return sorted(worker for worker, store in self.stores.items() if any(held == value for held, _ in store))

    @property
    def known(self):
        """The values that the head knows."""
        return set(self.head._state.values.values)


class Stores(ValueCluster):
    """Workers with one core and a store of so many megabytes each, of which `values` makes some at one worker."""

    def __init__(self, *megabytes, closed=False, cores=1):
        super().__init__(closed=closed, has_data=True)
        for size in megabytes:
            self.join(Cores(cores), store=size * MB)
        self.function(1)

    def join(self, offer, **known):
        self.stores[len(self.free_at_work) + 1] = set()
        super(ValueCluster, self).join(offer, **{"has_data": True, **known})

    def values(self, worker, *megabytes):
        """Have values made at a worker, with all others busy."""
        found = []
        for size in megabytes:
            number = self.call(Cores(1), 0.0, size=size * MB)
            self.run(self.now)
            made = self.started_on[number]
            while made != worker:  # move it there by hand
                value = self.head._state.values.values[number]
                self.head._state.transfers.copy(value, worker)
                self.tell(Ticked())
                self.arrive(number, worker)
                self.stores[made].discard((number, 1))
                self.gone(made, number)
                made = worker
            found.append(number)
        return found

    def gone(self, worker, value):
        self.tell(ReplicasGone(worker, [value], [1]))

    def later(self, seconds):
        self.now += seconds
        self.tell(Ticked())

    def spare_at(self):
        """The values of which each worker has a spare replica that has any."""
        return {worker: sorted(values) for worker, values in self.head._state.values.spare.items()}

    def why(self, job):
        found = self.head.explain(job, self.now)
        return found.reason, str(found)
