"""A head and workers in virtual time that also hold slots for gangs."""

from __future__ import annotations

from collections import deque

from scheduler_cluster import Cluster

from grainlike.resources import Cores, Nodes
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    WorkerLost,
    WorkerReported,
)
from grainlike.wire import Code, Completed, LeaseStart

PAIR = Nodes(2, each=Cores(2))


def ended(lease, job, attempt, code):
    return Completed(lease, [job], [attempt], [int(code)], [0.0], [0.0], [0.0], [0], [b""], [], 0.0)


class GangCluster(Cluster):
    """Workers that also hold what they are asked to; with `answering` off, when the test says so."""

    def __init__(self, *offers, answering=True, **options):
        self.answering = answering
        self.held, self.unanswered, self._events, self._lease = {}, [], deque(), 10**6
        super().__init__(*offers, **options)

    def tell(self, event):
        self._events.append(event)
        if len(self._events) > 1:
            return
        while self._events:
            for action in self.head.handle(self._events[0], self.now):
                self.actions.append(action)
                self._obey(action)
            self.head.check()
            self._events.popleft()

    def _obey(self, action):
        match action:
            case AssembleGang():
                self.unanswered += [(worker, action.cls, action.job, action.attempt) for worker in action.workers]
                while self.answering and self.unanswered:
                    self.answer(self.unanswered[0][0])
            case CancelJobs():
                for job, attempt in zip(action.jobs, action.attempts, strict=True):
                    self._release(action.worker, job, attempt)
            case AssignJobs() if not action.ahead:
                for job, attempt in zip(action.jobs, action.attempts, strict=True):
                    self._start(action.worker, action.cls, job, attempt)
            case _:
                pass

    def answer(self, worker):
        """A worker grants the oldest hold that it was asked for."""
        asked = next(asked for asked in self.unanswered if asked[0] == worker)
        self.unanswered.remove(asked)
        _, cls, job, attempt = asked
        self._use(worker, cls, 1)
        self._lease += 1
        self.held[worker, job, attempt] = self._lease, cls
        slots = f"cores=[{worker}]"
        self.tell(WorkerReported(worker, [LeaseStart(self._lease, cls, slots, [job], [attempt], self.now)], [], []))

    def _release(self, worker, job, attempt):
        asked = [found for found in self.unanswered if found[0] == worker and found[2:] == (job, attempt)]
        self.unanswered = [found for found in self.unanswered if found not in asked]
        lease, cls = self.held.pop((worker, job, attempt), (0, 0))
        if lease:
            self._use(worker, cls, -1)
        if lease or asked:
            self.tell(WorkerReported(worker, [], [ended(lease, job, attempt, Code.CANCELLED)], [lease] * bool(lease)))

    def _use(self, worker, cls, sign):
        for name, amount in self.head.shapes[cls].units:
            self.free_at_work[worker][name] -= sign * amount
            assert self.free_at_work[worker][name] >= 0, f"{name} of n{worker} is over-allocated"

    def _start(self, worker, cls, job, attempt):
        self.leading = getattr(self, "leading", {})
        if (worker, job, attempt) in self.held:
            lease, _ = self.leading[job, attempt] = self.held.pop((worker, job, attempt))
            self._use(worker, cls, -1)
            self.tell(WorkerReported(worker, [LeaseStart(lease, cls, "", [job], [attempt], self.now)], [], []))
        super()._start(worker, cls, job, attempt)

    def finish(self, job, worker, cls, attempt, code=Code.SUCCEEDED):
        if (job, attempt) not in self.leading:
            super().finish(job, worker, cls, attempt, code)
            return
        self.ended[job] = self.now
        self._use(worker, cls, -1)
        lease, _ = self.leading.pop((job, attempt))
        self.tell(WorkerReported(worker, [], [ended(lease, job, attempt, code)], [lease]))

    def lose(self, worker):
        self.held = {key: value for key, value in self.held.items() if key[0] != worker}
        self.unanswered = [asked for asked in self.unanswered if asked[0] != worker]
        self.tell(WorkerLost(worker, "its connection is gone"))

    def end(self, job, code=Code.SUCCEEDED):
        _, _, worker, cls, attempt = self.take_running(job)
        self.finish(job, worker, cls, attempt, code)

    def is_idle(self):
        return not self.held and all(worker.free == worker.capacity for worker in self.head.workers.values())


def cluster_of(*offers, **options):
    cluster = GangCluster(*offers, **options)
    cluster.function(1)
    return cluster
