"""World: schedulers, drivers without real waiting, random numbers and virtual time, all decided by one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grainlike.scheduler import HeadAction, HeadScheduler, NodeAction, NodeScheduler
from grainlike.simulation._clock import Clock
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._dice import Dice
from grainlike.simulation._head import SimulatedHead
from grainlike.simulation._journal import StepJournal
from grainlike.simulation._nests import Call
from grainlike.simulation._outcome import Outcome, lower_bound
from grainlike.simulation._plans import CALM, Faults, Network, NodePlan, Workload
from grainlike.simulation._site import Site
from grainlike.simulation._witness import Witness
from grainlike.simulation.judge._referee import Referee
from grainlike.wire import Completed, LeaseStart, LeaseWait

__all__ = ["World"]

_STEPS_PER_JOB = 2_000
_STEPS_AT_LEAST = 200_000

_LONGEST_SILENCE_S = 45.0
_LONGEST_BLINK_S = 10.0


class World:
    """A world with its nodes, workload, faults and network, before its beginning.

    Args:
        seed: seeds all random numbers in it.
        closed: no worker joins later, and none that is lost comes back.
        judged: check every promise after every step, and compute the digest. Without it a world only measures.
        witness: makes the observer of a world that is not judged.
        show: called with a line for a person, for every step.

    Example::

        world = World(7, workload, nodes, faults=Faults(node_kill=10.0, until=60.0))
        assert not world.run().violations
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
        judged: bool = True,
        witness: Callable[[Clock], Witness] = Witness,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.workload = workload
        self.nodes = nodes
        self.faults = faults
        self.network = network if network is not None else Network()
        self.closed = closed
        self.judged = judged
        self.clock = Clock()
        self.dice = Dice(seed).fork("bodies")
        self.witness: Witness = (
            Referee(self.clock, workload.functions, closed=closed) if judged else witness(self.clock)
        )
        self.head = SimulatedHead(self, closed=closed)
        self.sites = [Site(self, plan) for plan in nodes]
        self._journal = StepJournal(show)
        self._last_worker = 0

    def run(self) -> Outcome:
        """Run until nothing more will happen, or a promise is broken."""
        violations: tuple[str, ...] = ()
        try:
            self.begin()
            while self.advance(_STEPS_AT_LEAST):
                pass
            if self.judged:
                self._check_end()
        except AssertionError as broken:
            violations = (f"at {self.clock.now:.6f} s: {broken or 'an invariant of a scheduler is broken'}",)
        except Exception as error:  # noqa: BLE001 - a scheduler that raises is a violation too
            violations = (f"at {self.clock.now:.6f} s: {type(error).__name__}: {error}",)
        return self._outcome(violations)

    def begin(self) -> None:
        """Start the nodes and the head, and schedule the faults. `run` does this; then it advances to the end."""
        for site in self.sites:
            if site.plan.joins_at:
                self.clock.at(site.plan.joins_at, site.start)
            else:
                site.start()
        self.head.start()
        faults, chance = self.faults, Dice(self.seed).fork("faults")
        for mean, strike in (
            (faults.runner_kill, Site.kill_runner),
            (faults.node_kill, Site.kill),
            (faults.freeze, lambda site: site.freeze(chance.between(0.0, _LONGEST_SILENCE_S))),
            (faults.partition, lambda site: site.partition(chance.between(0.0, _LONGEST_SILENCE_S))),
            (faults.stop, Site.stop),
            (faults.reset, Site.reset),
        ):
            if mean:
                self._strike_later(chance, mean, strike)
        if faults.blink:  # with random numbers of their own, so that the other faults stay the same
            dice = Dice(self.seed).fork("blinks")
            self._strike_later(dice, faults.blink, lambda site: site.blink(dice.between(0.0, _LONGEST_BLINK_S)))
        if faults.head_crash:
            chance = Dice(self.seed).fork("head")
            self.clock.at(chance.between(0.0, 2.0 * faults.head_crash), self._crash_head, chance.chance(0.5))

    def _crash_head(self, silent: bool) -> None:
        """End the head's process; if `silent`, its machine, so that links do not even end.

        It keeps no journal, so nothing of it comes back. A head with a journal would be started again here: with
        another `SimulatedHead` in its place, where sites look for it when they connect.
        """
        for site in self.sites:
            site.lose_head(silent=silent)
        self.head.die()

    def _strike_later(self, chance: Dice, mean: float, strike: Callable[[Site], None]) -> None:
        at = self.clock.now + chance.between(0.0, 2.0 * mean)
        if at < self.faults.until:
            self.clock.at(at, self._strike, chance, mean, strike)

    def _strike(self, chance: Dice, mean: float, strike: Callable[[Site], None]) -> None:
        strike(chance.pick(self.sites))
        self._strike_later(chance, mean, strike)

    def advance(self, steps: int) -> bool:
        """Process up to `steps` calls of the clock; return False once none are left.

        Raises:
            AssertionError: more calls were made than the jobs can need.
        """
        most = _STEPS_AT_LEAST + _STEPS_PER_JOB * len(self.workload.jobs)
        going_on = self.clock.run(min(steps, most - self.clock.steps))
        assert self.clock.steps < most, f"{most} steps, and {self.head.client.unsettled} jobs have no outcome"
        return going_on

    def _check_end(self) -> None:
        """Check that nothing runs, all amounts are free exactly, and no job was forgotten."""
        assert isinstance(self.witness, Referee)
        self.witness.check_idle()
        if not self.head.alive:
            left = [site.daemon.worker for site in self.sites if site.daemon is not None]
            assert not left, f"workers {left} outlived the head"
            return
        for worker in self.head.scheduler.workers.values():
            assert worker.free == worker.capacity, f"worker {worker.id} is idle, and the head has {worker.free} free"
            assert not worker.held, f"the head still has {list(worker.held)} at worker {worker.id}"
        for site in self.sites:
            if site.daemon is not None:
                assert site.daemon.scheduler.idle, f"worker {site.daemon.worker} has jobs or leases left"
        left = [job for job in self.head.scheduler.jobs if job in self.witness.outcome]
        assert not left, f"the head still has {left}, which are settled"

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
        """Record one step of a scheduler, and check the scheduler's invariants."""
        if self.judged:
            self._journal.note(self.clock.now, who, event, actions)
            scheduler.check()

    def _widest_start(self, starts: dict[int, float]) -> float | None:
        cores = [max(option.units.get("cores", 0) for option in plan.request.options) for plan in self.workload.jobs]
        most = max(cores, default=0)
        return min((start for at, start in starts.items() if cores[at] == most), default=None)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _outcome(self, violations: tuple[str, ...]) -> Outcome:
        witness, offers = self.witness, [plan.offer for plan in self.nodes]
        cores = sum(offer.units.get("cores", 0) for offer in offers)
        seconds = witness.last_end
        number_of = self.head.client.number_of
        starts = {at: witness.begun[number] for at, number in number_of.items() if number in witness.begun}
        return Outcome(
            seed=self.seed,
            workload=self.workload.name,
            workers=len(self.nodes),
            jobs=len(self.workload.jobs),
            makespan=seconds,
            lower_bound=lower_bound(self.workload, offers),
            utilisation=witness.busy.get("cores", 0.0) / (cores * seconds) if cores and seconds else 0.0,
            starts=starts,
            widest_start=self._widest_start(starts),
            passed_over=witness.passed_over,
            steps=self.clock.steps,
            seen=dict(sorted(witness.seen.items())),
            violations=violations,
            digest=self._journal.digest if self.judged else "",
        )
