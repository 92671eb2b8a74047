"""A ledger under any sequence of grants and releases, against books kept by hand."""

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from grainlike.errors import ResourceError
from grainlike.resources import UNIT, Allocation, Ledger, Request, number

CORES = st.sets(st.integers(0, 40), min_size=1, max_size=10)
GPUS = st.sets(st.integers(0, 7), min_size=1, max_size=3)
TENTHS = st.integers(1, 9).map(lambda n: number(n * UNIT // 10))


class Books(RuleBasedStateMachine):
    grants = Bundle("grants")
    gone = Bundle("gone")

    @initialize(cores=CORES, gpus=GPUS, foo=st.integers(1, 5))
    def open(self, cores, gpus, foo):
        self.offer = Allocation({"foo": foo}, {"cores": cores, "gpus": gpus})
        self.ledger = Ledger(self.offer)
        self.held = []

    def devices(self):
        """Give how much of each device is in use, counted from the grants."""
        used = Counter(dict.fromkeys(self.offer.gpus, 0))
        for grant in self.held:
            given = grant.allocation
            for one in given.gpus:
                used[one] += given.units["gpus"] // len(given.gpus)
        return used

    def fits(self, cores, gpus, foo):
        given = [grant.allocation for grant in self.held]
        free_cores = len(self.offer.cores) - sum(one.N for one in given)
        free_foo = self.offer["foo"] - sum(one["foo"] for one in given if "foo" in one)
        left = [UNIT - used for used in self.devices().values()]
        whole = left.count(UNIT) >= gpus if gpus >= 1 else max(left) >= gpus * UNIT
        return cores <= free_cores and foo <= free_foo and whole

    @rule(target=grants, cores=st.integers(0, 6), gpus=st.integers(0, 2) | TENTHS, foo=st.integers(0, 3))
    def grant(self, cores, gpus, foo):
        asked = {"cores": cores, "gpus": gpus, "foo": foo}
        request = Request({name: amount for name, amount in asked.items() if amount})
        expected = self.fits(cores, gpus, foo)
        assert self.ledger.fits_now(request) == expected
        grant = self.ledger.grant(request)
        assert (grant is not None) == expected
        if grant is None:
            return multiple()
        assert grant.allocation.request == request
        assert len(grant.allocation.cores) == cores
        assert len(grant.allocation.gpus) == (gpus if gpus >= 1 else bool(gpus))
        self.held.append(grant)
        return grant

    @rule(target=gone, grant=consumes(grants))
    def release(self, grant):
        self.ledger.release(grant)
        self.held.remove(grant)
        return grant

    @rule(grant=gone)
    def release_again(self, grant):
        with pytest.raises(ResourceError):
            self.ledger.release(grant)

    @invariant()
    def ids_are_disjoint_and_offered(self):
        cores = [core for grant in self.held for core in grant.allocation.cores]
        assert len(cores) == len(set(cores))
        assert set(cores) <= set(self.offer.cores)
        used = self.devices()
        assert set(used) <= set(self.offer.gpus)
        assert all(amount <= UNIT for amount in used.values())

    @invariant()
    def free_and_held_make_the_capacity(self):
        held = Counter()
        for grant in self.held:
            held.update(grant.allocation.units)
        assert {name: free + held[name] for name, free in self.ledger.free.items()} == dict(self.offer.units)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
