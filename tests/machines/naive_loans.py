"""What a node must do with the cores of jobs that wait for jobs of their own: each lease a row, sums made anew."""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.resources import Allocation
from grainlike.wire import LeaseWait, Wait

__all__ = ["NaiveLoans"]


class _Row:
    """A lease: what it was granted, what it holds now, what it waits for, and whether it keeps its cores meanwhile, as
    the function of the job says that waits.
    """

    def __init__(self, granted: Allocation, runner: int) -> None:
        self.granted = granted
        self.holds = granted
        self.runner = runner
        self.keep = False
        self.waits = Wait.NOTHING


class NaiveLoans:
    """The leases of one node. `wanting`: those who want their cores back, in the order in which they asked."""

    def __init__(self, offer: Allocation) -> None:
        self._offer = offer
        self.rows: dict[int, _Row] = {}
        self.wanting: list[int] = []

    def granted(self, lease: int, allocation: Allocation, runner: int, *, ahead: bool) -> None:
        """A new lease. Cores go to those who want their own back, and what was sent ahead gets none that are lent."""
        cores = allocation.units.get("cores", 0)
        if cores:
            assert not (self.wanting and self.anybody_runs()), "cores went past those who want their own back"
            lent = sum(self._lent(row) for row in self.rows.values())
            assert not ahead or self._free() - lent >= cores, "what was sent ahead got cores that are lent"
        self.rows[lease] = _Row(allocation, runner)

    def ended(self, lease: int) -> None:
        """Its end: it lends and wants nothing any more."""
        del self.rows[lease]
        self.wanting = [other for other in self.wanting if other != lease]

    def terminating(self, runner: int) -> None:
        """Its process was told to die: none of its jobs will go on."""
        self.wanting = [lease for lease in self.wanting if self.rows[lease].runner != runner]

    def told(self, wait: LeaseWait, holds: Allocation) -> None:
        """The scheduler says what a lease waits for, and what it holds meanwhile."""
        row = self.rows[wait.lease]
        before, row.waits = row.waits, Wait(wait.waits)
        if row.waits is Wait.CHILDREN:
            assert before is not Wait.CORES
            assert wait.lent == ("cores" in row.granted.units and not row.keep), "who keeps its cores lends none"
        elif row.waits is Wait.CORES:
            assert before is Wait.CHILDREN
            others = [lease for lease in self.wanting if lease != wait.lease]
            assert (others and self.anybody_runs()) or self._lent(row) > self._free(), "it could have gone on at once"
            self.wanting.append(wait.lease)
        else:
            self._goes_on(wait.lease)
            assert not wait.lent
            assert holds.units == row.granted.units, "it goes on without what it was granted"
        row.holds = holds
        kept = {name: units for name, units in row.granted.units.items() if name != "cores" or not wait.lent}
        assert holds.units == kept, "only cores are lent"

    def _goes_on(self, lease: int) -> None:
        """Who asked first is first, unless nobody runs: then it is the first for whom there is room."""
        row = self.rows[lease]
        row.waits = Wait.CHILDREN
        runs = self.anybody_runs()
        blocked_ahead = self.wanting[: self.wanting.index(lease)] if lease in self.wanting else self.wanting
        if runs:
            assert not blocked_ahead, f"lease {lease} went on before {blocked_ahead}, which asked before"
        else:
            room = [
                blocked_class for blocked_class in blocked_ahead if self._lent(self.rows[blocked_class]) <= self._free()
            ]
            assert not room, f"lease {lease} went on before {room}, which asked before and have room"
        self.wanting = [other for other in self.wanting if other != lease]
        row.waits = Wait.NOTHING

    def anybody_runs(self) -> bool:
        """Whether a job runs here that waits for nothing."""
        return any(row.waits is Wait.NOTHING for row in self.rows.values())

    def held(self) -> Iterable[Allocation]:
        """What is not free."""
        return (row.holds for row in self.rows.values())

    def check(self, *, stopped: bool) -> None:
        """Nobody waits for cores that are free and come to him."""
        if stopped or not self.wanting:
            return
        first = self.wanting[:1] if self.anybody_runs() else self.wanting
        room = [lease for lease in first if self._lent(self.rows[lease]) <= self._free()]
        assert not room, f"leases {room} could go on, and wait"

    def _free(self) -> int:
        return self._offer.units.get("cores", 0) - sum(held.units.get("cores", 0) for held in self.held())

    def _lent(self, row: _Row) -> int:
        return row.granted.units.get("cores", 0) - row.holds.units.get("cores", 0)
