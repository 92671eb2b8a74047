"""World: schedulers, drivers without real waiting, random numbers and virtual time, all decided by one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grainlike.scheduler import HeadAction, HeadScheduler, NodeAction, NodeScheduler
from grainlike.simulation._clock import Clock
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._dice import Dice
from grainlike.simulation._head import SimulatedHead
from grainlike.simulation._nests import Call
from grainlike.simulation._plans import CALM, Faults, Network, NodePlan, Workload
from grainlike.simulation._site import Site
from grainlike.simulation._witness import Witness
from grainlike.wire import Completed, LeaseStart, LeaseWait

__all__ = ["World"]

_STEPS_PER_JOB = 2_000
_STEPS_AT_LEAST = 200_000


class World:
    """A world with its nodes, workload, faults and network, before its beginning.

    Args:
        seed: seeds all random numbers in it.
        closed: no worker joins later, and none that is lost comes back.
        witness: makes the observer of all events; one that judges raises `AssertionError`.

    Example::

        world = World(7, workload, nodes, witness=RunRecorder)
        world.begin()
        while world.advance(1000):
            pass
    """

    def __init__(
        self,
        seed: int,
        workload: Workload,
        nodes: Sequence[NodePlan],
        *,
        faults: Faults = CALM,
        network: Network | None = None,
        closed: bool = False,
        witness: Callable[[Clock], Witness] = Witness,
    ) -> None:
        self.seed = seed
        self.workload = workload
        self.nodes = nodes
        self.faults = faults
        self.network: Network = network if network is not None else Network()
        self.closed = closed
        self.clock: Clock = Clock()
        self.dice: Dice = Dice(seed).fork("bodies")
        self.witness: Witness = witness(self.clock)
        self.head: SimulatedHead = SimulatedHead(self, closed=closed)
        self.sites: list[Site] = [Site(self, plan) for plan in nodes]
        self._last_worker = 0

    def begin(self) -> None:
        """Start the nodes and the head."""
        for site in self.sites:
            if site.plan.joins_at:
                self.clock.at(site.plan.joins_at, site.start)
            else:
                site.start()
        self.head.start()

    def advance(self, steps: int) -> bool:
        """Process up to `steps` calls of the clock; return False once none are left.

        Raises:
            AssertionError: more calls were made than the jobs can need.
        """
        most = _STEPS_AT_LEAST + _STEPS_PER_JOB * len(self.workload.jobs)
        going_on = self.clock.run(min(steps, most - self.clock.steps))
        assert self.clock.steps < most, f"{most} steps, and {self.head.client.unsettled} jobs have no outcome"
        return going_on

    # --- calls of the drivers ----------------------------------------------------------------------------------------

    def new_daemon(self, plan: NodePlan) -> Daemon:
        """Return a new daemon for a node."""
        self._last_worker += 1
        return Daemon(self, self._last_worker, plan)

    def leaving(self, worker: int) -> None:
        """Deliver to the head that a worker stops."""
        self.head.leaving(worker)

    def report(
        self,
        worker: int,
        started: list[LeaseStart],
        completed: list[Completed],
        ended: list[int],
        waits: list[LeaseWait],
    ) -> None:
        """Deliver a report to the head."""
        self.head.report(worker, started, completed, ended, waits)

    def nested(self, worker: int, parent: int, attempt: int, calls: list[Call]) -> None:
        """Deliver to the head the jobs that a job submits."""
        self.head.nested(worker, parent, attempt, calls)

    def withdrawn(self, worker: int, parent: int, attempt: int, children: list[int]) -> None:
        """Deliver to the head which of its own jobs a job cancels."""
        self.head.withdrawn(worker, parent, attempt, children)

    def noted(
        self,
        who: str,
        event: object,
        actions: list[HeadAction] | list[NodeAction],
        scheduler: HeadScheduler | NodeScheduler,
    ) -> None:
        """Record one step of a scheduler; a world that only measures keeps nothing of it."""
