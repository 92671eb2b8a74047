"""Rehearsal: a world without faults or delays, in which only the jobs take time, run in slices."""

from __future__ import annotations

from collections.abc import Sequence

from grainlike.resources import Allocation
from grainlike.simulation._channel import Delay
from grainlike.simulation._plans import Network, NodePlan, Workload
from grainlike.simulation._recorder import AttemptRun, RunRecorder
from grainlike.simulation._world import World

__all__ = ["Rehearsal"]

_AT_ONCE = Network(link=Delay(), pipe=Delay(), spawn=Delay(), rest=Delay(), stop=Delay())


class Rehearsal:
    """Runs of a workload by the schedulers on workers: one for each offer or plan of a node, named n1, n2, and so on.

    Links and processes cost no time: all seconds are the jobs' own. The same arguments give the same runs.

    Example::

        rehearsal = Rehearsal(workload, [plan.offer for plan in equal_nodes(4)])
        while rehearsal.advance(1000):
            pass
        rehearsal.makespan, rehearsal.runs()
    """

    def __init__(self, workload: Workload, offers: Sequence[Allocation | NodePlan]) -> None:
        nodes = [offer if isinstance(offer, NodePlan) else NodePlan(offer) for offer in offers]
        self._world = World(0, workload, nodes, network=_AT_ONCE, closed=True, witness=RunRecorder)
        witness = self._world.witness
        assert isinstance(witness, RunRecorder)
        self._recorder = witness
        self._world.begin()

    def advance(self, steps: int) -> bool:
        """Process up to `steps` calls of the clock; return False once none are left."""
        return self._world.advance(steps)

    @property
    def makespan(self) -> float:
        """Time at which the last job ended."""
        return self._recorder.last_end

    def busy(self, name: str) -> float:
        """Return the seconds times amounts that jobs used while they ran; amounts in billionths."""
        return self._recorder.busy.get(name, 0.0)

    @property
    def moved(self) -> int:
        """Bytes of values that were copied from worker to worker."""
        return self._recorder.moved

    def runs(self) -> list[tuple[int, AttemptRun]]:
        """Return all runs in the order of their begins, each with the job's position in the workload."""
        position_of = {number: position for position, number in self._world.head.client.number_of.items()}
        return [(position_of[run.job], run) for run in self._recorder.runs.values()]

    def never_submitted(self) -> list[int]:
        """Return the positions of jobs that were never submitted, because a job that they need has no value."""
        submitted = self._world.head.client.number_of
        plans = self._world.workload.jobs
        return [at for at, plan in enumerate(plans) if plan.request and at not in submitted]

    def stuck(self) -> dict[int, str]:
        """Return by position why jobs never end that were refused or still wait. Call it at the end."""
        scheduler, now, recorder = self._world.head.scheduler, self._world.clock.now, self._recorder
        said: dict[int, str] = {}
        for position, number in self._world.head.client.number_of.items():
            if number in recorder.refusals:
                said[position] = str(recorder.refusals[number] or "no worker can lay it out as it is asked for")
            elif number not in recorder.closed:
                said[position] = str(scheduler.explain(number, now))
        return said
