"""A trial: one world, lived through to its end under faults that come by chance, judged, and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grainlike.scheduler import HeadAction, HeadScheduler, NodeAction, NodeScheduler
from grainlike.simulation import CALM, Clock, Dice, Faults, Network, NodePlan, Site, Witness, Workload, World
from grainlike.simulation._daemon import Daemon
from simtest._journal import StepJournal
from simtest._outcome import Outcome, lower_bound
from simtest.judge._referee import Referee

__all__ = ["Trial"]

_STEPS_AT_A_TIME = 200_000

_LONGEST_SILENCE_S = 45.0
_LONGEST_BLINK_S = 10.0


class Trial(World):
    """A world that is run to its end, with faults.

    Args:
        seed: of all chance in it.
        closed: no worker joins later, and none that is lost comes back.
        judged: check every promise after every step, and keep the journal. Without it a trial only measures.
        show: called with a line for a person, for every step.

    Example::

        trial = Trial(7, workload, nodes, faults=Faults(node_kill=10.0, until=60.0))
        assert not trial.run().violations
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
        show: Callable[[str], None] | None = None,
    ) -> None:
        def referee(clock: Clock) -> Referee:
            return Referee(clock, workload.functions, closed=closed, slowest=_slowest(network or Network()))

        witness: Callable[[Clock], Witness] = referee if judged else Witness
        super().__init__(seed, workload, nodes, faults=faults, network=network, closed=closed, witness=witness)
        self.judged = judged
        self._journal = StepJournal(show)

    def run(self) -> Outcome:
        """Live until nothing more will ever happen, or a promise is broken."""
        violations: tuple[str, ...] = ()
        try:
            self.begin()
            while self.advance(_STEPS_AT_A_TIME):
                pass
            if self.judged:
                self._check_end()
        except AssertionError as broken:
            violations = (f"at {self.clock.now:.6f} s: {broken or 'a law of a scheduler is broken'}",)
        except Exception as error:  # noqa: BLE001 - a scheduler that raises has broken its word
            violations = (f"at {self.clock.now:.6f} s: {type(error).__name__}: {error}",)
        return self._outcome(violations)

    def begin(self) -> None:
        """Start the nodes and the head, and let the faults loose."""
        super().begin()
        faults, chance = self.faults, Dice(self.seed).fork("faults")
        if faults.damage:
            dice = Dice(self.seed).fork("damage")
            self._strike_later(dice, faults.damage, lambda site: self._damage(site, dice))
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
        if faults.evict:
            evicts = Dice(self.seed).fork("evicts")
            self._strike_later(evicts, faults.evict, lambda site: self._evict(site, evicts))
        if faults.drain:
            self._strike_later(Dice(self.seed).fork("drains"), faults.drain, Site.drain)
        if faults.blink:  # by dice of their own: what else breaks is as it was without them
            dice = Dice(self.seed).fork("blinks")
            self._strike_later(dice, faults.blink, lambda site: site.blink(dice.between(0.0, _LONGEST_BLINK_S)))
        if faults.head_crash:
            chance = Dice(self.seed).fork("head")
            self.clock.at(chance.between(0.0, 2.0 * faults.head_crash), self._crash_head, chance.chance(0.5))

    def _crash_head(self, silent: bool) -> None:
        """The head's process dies; or its machine, and no message is sent.

        It keeps no journal, so nothing of it comes back. One that does would be started again from here: with another
        `SimulatedHead` in its place, alive, for sites look for it there when they dial.
        """
        for site in self.sites:
            site.lose_head(silent=silent)
        self.head.die()

    def _damage(self, site: Site, dice: Dice) -> None:
        if site.daemon is not None and site.daemon.worker in self.head.peers:
            self.head.values.damage(site.daemon, dice)

    def _evict(self, site: Site, dice: Dice) -> None:
        if site.daemon is not None and site.daemon.worker in self.head.peers:
            self.head.values.evict(site.daemon, dice)

    def _strike_later(self, chance: Dice, mean: float, strike: Callable[[Site], None]) -> None:
        at = self.clock.now + chance.between(0.0, 2.0 * mean)
        if at < self.faults.until:
            self.clock.at(at, self._strike, chance, mean, strike)

    def _strike(self, chance: Dice, mean: float, strike: Callable[[Site], None]) -> None:
        strike(chance.pick(self.sites))
        self._strike_later(chance, mean, strike)

    def noted(
        self,
        who: str,
        event: object,
        actions: list[HeadAction] | list[NodeAction],
        scheduler: HeadScheduler | NodeScheduler,
    ) -> None:
        """Keep the answer of a scheduler to an event, and hold the scheduler to its laws."""
        if self.judged:
            self._journal.note(self.clock.now, who, event, actions)
            scheduler.check()

    def _check_end(self) -> None:
        """When nothing runs, free == capacity, bit for bit; and no job was forgotten."""
        assert isinstance(self.witness, Referee)
        for site in self.sites if self.head.alive else ():
            if site.daemon is not None:
                self._check_over(site.daemon)
        self.witness.check_idle()
        if not self.head.alive:
            left = [site.daemon.worker for site in self.sites if site.daemon is not None]
            assert not left, f"workers {left} outlived the head"
            return
        for worker in self.head.scheduler.workers.values():
            assert worker.free == worker.capacity, f"worker {worker.id} is idle, and the head believes {worker.free}"
            assert not worker.held, f"the head believes that worker {worker.id} holds {list(worker.held)}"
        for site in self.sites:
            if site.daemon is not None:
                assert site.daemon.scheduler.idle, f"worker {site.daemon.worker} believes that it is busy"
                if site.daemon.rooms is not None:
                    site.daemon.rooms.check_at_rest({one: self.witness.size_of(one[0]) for one in site.daemon.store})
        self.witness.check_values(list(self.head.peers), self.head.scheduler.values_known)
        left = [
            job for job in self.head.scheduler.jobs if job in self.witness.outcome and not self.witness.is_reviving(job)
        ]
        assert not left, f"the head still has {left}, which are settled"

    def _check_over(self, daemon: Daemon) -> None:
        """A worker has told the head how much it has beyond what it may keep."""
        daemon.look_at_store()
        known = self.head.scheduler.workers[daemon.worker].over
        words = f"worker {daemon.worker} has {daemon.over} bytes beyond what it may keep"
        assert known == daemon.over, f"{words}, and the head believes {known}"

    def _widest_start(self, starts: dict[int, float]) -> float | None:
        cores = [max(option.units.get("cores", 0) for option in plan.request.options) for plan in self.workload.jobs]
        most = max(cores, default=0)
        return min((start for at, start in starts.items() if cores[at] == most), default=None)

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
            values_most=self.head.client.values_most,
            passed_over=witness.passed_over,
            steps=self.clock.steps,
            seen=dict(sorted(witness.seen.items())),
            violations=violations,
            digest=self._journal.digest if self.judged else "",
            moved=witness.moved,
        )


def _slowest(network: Network) -> float:
    """Return bytes that a copy has in a second at the least, where two go into a worker and two out of one."""
    relayed = network.relayed_bytes_per_s
    return min(network.bytes_per_s / 4, network.bytes_per_s if relayed is None else relayed)
