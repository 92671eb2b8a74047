"""A head and workers in virtual time, for the tests of the head's policy."""

from heapq import heapify, heappop, heappush
from itertools import count

from grainlike.resources import offer_of
from grainlike.scheduler import AssignJobs, FunctionDefined, HeadScheduler, JobsSubmitted, WorkerJoined, WorkerReported
from grainlike.wire import Code, Completed, LeaseStart


class Cluster:
    """A head and workers that start what they are sent at once, each job on a lease of its own, in virtual time."""

    def __init__(self, *offers, closed=False):
        self.now = 0.0
        self.head = HeadScheduler(closed=closed)
        self.begun, self.ended, self.actions, self.started_on = {}, {}, [], {}
        self.length, self._heap, self._number = {}, [], count(1)
        self.free_at_work = {}
        for offer in offers:
            self.join(offer)

    def join(self, offer, **known):
        worker = len(self.free_at_work) + 1
        self.free_at_work[worker] = dict(offer_of(offer, own_cores=range(64)).units)
        self.tell(WorkerJoined(worker, f"n{worker}", offer_of(offer, own_cores=range(64)), **known))

    def function(self, fn, known_s=None, **policy):
        self.tell(FunctionDefined(fn, **policy))
        if known_s is not None:
            self.head._functions[fn].times.add([known_s] * 8)

    def submit(self, request, seconds, *, fn=1, n=1, priority=0, client=0):
        jobs = [next(self._number) for _ in range(n)]
        self.length.update(dict.fromkeys(jobs, seconds))
        self.tell(JobsSubmitted(request, jobs, [fn] * n, priority, client=client))
        return jobs if n > 1 else jobs[0]

    def tell(self, event):
        for action in self.head.handle(event, self.now):
            self.actions.append(action)
            if isinstance(action, AssignJobs) and not action.ahead:
                for job, attempt in zip(action.jobs, action.attempts, strict=True):
                    self._start(action.worker, action.cls, job, attempt)
        self.head.check()

    def _start(self, worker, cls, job, attempt):
        for name, amount in self.head.shapes[cls].units:
            self.free_at_work[worker][name] -= amount
            assert self.free_at_work[worker][name] >= 0, f"{name} of n{worker} is over-allocated"
        self.begun[job], self.started_on[job] = self.now, worker
        heappush(self._heap, (self.now + self.length[job], job, worker, cls, attempt))

    def run(self, until=float("inf"), arrivals=None):
        """End jobs in order; `arrivals(now)` may submit more after each end."""
        while self._heap and self._heap[0][0] <= until:
            self.now, job, worker, cls, attempt = heappop(self._heap)
            self.finish(job, worker, cls, attempt)
            if arrivals is not None:
                arrivals()

    def finish(self, job, worker, cls, attempt, code=Code.SUCCEEDED):
        self.ended[job] = self.now
        for name, amount in self.head.shapes[cls].units:
            self.free_at_work[worker][name] += amount
        start = LeaseStart(job, cls, "", [job], [attempt], self.begun[job])
        done = Completed(job, [job], [attempt], [int(code)], [0.0], [self.length[job]], [0.0], [0], [b""], [], self.now)
        self.tell(WorkerReported(worker, [start], [done], [job]))

    def take_running(self, job):
        """Take a job out of what runs, to end it by hand."""
        found = next(entry for entry in self._heap if entry[1] == job)
        self._heap.remove(found)
        heapify(self._heap)
        return found

    def told(self, kind):
        return [action for action in self.actions if isinstance(action, kind)]
