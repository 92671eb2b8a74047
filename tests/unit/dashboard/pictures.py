"""Clusters for tests of the dashboard: updates of a head that is made up, and the state that a page makes of them."""

import json
from itertools import count

from grainlike.wire import LiveIs, RunningRow, Totals, WorkerRow

__all__ = ["Cluster", "PageState"]


class Cluster:
    """Workers with cores and running jobs, told by `LiveIs` as a head does."""

    def __init__(self, workers, cores=16):
        self.cores = cores
        self.workers = {f"w{number}": {} for number in range(workers)}
        self.numbers = count(1)
        self.succeeded = 0
        self.at = 1000.0

    def row(self, name):
        ids = ",".join(map(str, range(self.cores)))
        return WorkerRow(name, f"cores=[{ids}]", [], 1, 0, 0, 0.0)

    def told(self, *, began=(), ended=(), workers=(), left=(), full=False):
        self.at += 0.25
        totals = Totals(
            succeeded=self.succeeded,
            failed=0,
            skipped=0,
            timed_out=0,
            cancelled=0,
            total_seconds=self.at,
            run_seconds=0.0,
        )
        columns = [job for job, _ in ended], [worker for _, worker in ended]
        rows = list(map(self.row, workers))
        return LiveIs(
            1, self.at, self.at - 1000, full, False, {"running": 1}, totals, 1, rows, list(left), list(began), columns
        )

    def first(self):
        return self.told(workers=self.workers, full=True)

    def turn_over(self, names=("fit", "score", "load")):
        """All jobs of all workers end, and a job begins on each core."""
        ended = [(job, worker) for worker, jobs in self.workers.items() for job in jobs]
        began = []
        for worker, jobs in self.workers.items():
            jobs.clear()
            for core in range(self.cores):
                job = next(self.numbers)
                jobs[job] = core
                name = names[job % len(names)]
                began.append(RunningRow(job, worker, f"cores=[{core}]", name, 1, self.at, 0, ""))
        self.succeeded += len(ended)
        return self.told(began=began, ended=ended)

    def held(self):
        """Return the job on each core of each worker."""
        return {
            worker: [next((job for job, at in jobs.items() if at == core), None) for core in range(self.cores)]
            for worker, jobs in self.workers.items()
        }


class PageState:
    """The state that the script of a page makes of updates (`live.js`), by the same rules."""

    def __init__(self):
        self.names = {}
        self.workers = {}
        self.slots = {}

    def take(self, text):
        told = json.loads(text)
        if told.get("anew"):
            self.names, self.workers, self.slots = {}, {}, {}
        for number, name in told.get("f", ()):
            self.names[number] = name
        for row in told.get("w", ()):
            self.workers[row[0]] = row
        for number, kind, first, part in told.get("c", ()):
            self.slots.setdefault(number, {})[kind, first] = part
        for number in told.get("x", ()):
            self.workers.pop(number, None)
            self.slots.pop(number, None)
        return told

    def held(self):
        found = {}
        for number, row in self.workers.items():
            cores = [None] * sum(many for _, many in row[8])
            for (kind, start), part in self.slots.get(number, {}).items():
                for first, many, _, job, _ in part if kind == 0 else ():
                    cores[start + first : start + first + many] = [job] * many
            found[row[1]] = cores
        return found
