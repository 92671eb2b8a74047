"""A ledger under any sequence of grants, loans and releases, against records kept by hand."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from grainlike.errors import ResourceError
from grainlike.resources import EMPTY, UNIT, Allocation, Cores, Ledger, NumaNode, Request, Topology, number

CORES = st.sets(st.integers(0, 40), min_size=1, max_size=10)
GPUS = st.sets(st.integers(0, 7), min_size=1, max_size=3)
NODES = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 15), st.integers(0, 3)), max_size=4)
PACKS = st.sampled_from([None, None, "numa", "spread"])
TENTHS = st.integers(1, 9).map(lambda n: number(n * UNIT // 10))


def machine(nodes):
    """Give a topology of nodes of so many cores and devices each, from id 0 on."""
    made, core, gpu = [], 0, 0
    for number_, (socket, cores, gpus) in enumerate(nodes):
        made.append(NumaNode(number_, socket, tuple(range(core, core + cores)), tuple(range(gpu, gpu + gpus))))
        core, gpu = core + cores, gpu + gpus
    return Topology(tuple(made))


def check_place(cores, pack, free):
    """Check that `cores` lie in one node of `free` where one had enough, or evenly in all, as `pack` says."""
    shares = [len(node & {*cores}) for node in free]
    if pack == "spread":
        assert all(one >= max(shares) - 1 for one, node in zip(shares, free, strict=True) if one < len(node))
    elif any(len(node) >= len(cores) for node in free):
        assert max(shares) == len(cores)


class FleetRecords(RuleBasedStateMachine):
    grants = Bundle("grants")
    gone = Bundle("gone")

    @initialize(cores=CORES, gpus=GPUS, foo=st.integers(1, 5), nodes=NODES)
    def open(self, cores, gpus, foo, nodes):
        self.offer = Allocation({"foo": foo}, {"cores": cores, "gpus": gpus})
        self.topology = machine(nodes)
        self.ledger = Ledger(self.offer, self.topology)
        self.held = []

    def devices(self):
        """Give how much of each device is in use, counted from the grants."""
        used = Counter(dict.fromkeys(self.offer.gpus, 0))
        for grant in self.held:
            given = grant.allocation
            for one in given.gpus:
                used[one] += given.units["gpus"] // len(given.gpus)
        return used

    def free_by_node(self):
        """Give the free cores of each node, and of none."""
        free = {*self.offer.cores} - {core for grant in self.held for core in grant.allocation.cores}
        nodes = [free & {*node.cores} for node in self.topology.nodes]
        return [*nodes, free - {core for node in nodes for core in node}]

    def fits(self, cores, gpus, foo, pack):
        given = [grant.allocation for grant in self.held]
        if pack == "numa" and cores > max(map(len, self.free_by_node())):
            return False
        free_cores = len(self.offer.cores) - sum(one.N for one in given)
        free_foo = self.offer["foo"] - sum(one["foo"] for one in given if "foo" in one)
        left = [UNIT - used for used in self.devices().values()]
        whole = left.count(UNIT) >= gpus if gpus >= 1 else max(left) >= gpus * UNIT
        return cores <= free_cores and foo <= free_foo and whole

    @rule(target=grants, cores=st.integers(0, 6), gpus=st.integers(0, 2) | TENTHS, foo=st.integers(0, 3), pack=PACKS)
    def grant(self, cores, gpus, foo, pack):
        asked = {"gpus": gpus, "foo": foo}
        request = Request({name: amount for name, amount in asked.items() if amount})
        request = request & (Cores(cores, pack=pack) if cores else EMPTY)
        expected, free = self.fits(cores, gpus, foo, pack), self.free_by_node()
        assert self.ledger.fits_now(request) == expected
        grant = self.ledger.grant(request)
        assert (grant is not None) == expected
        if grant is None:
            return multiple()
        assert dict(grant.allocation.units) == dict(request.units)
        assert len(grant.allocation.cores) == cores
        assert len(grant.allocation.gpus) == (gpus if gpus >= 1 else bool(gpus))
        check_place(grant.allocation.cores, pack, free)
        self.held.append(grant)
        return grant

    @rule(grant=grants, name=st.sampled_from(["cores", "cores", "gpus", "foo"]))
    def lend_or_reclaim(self, grant, name):
        asked = number(grant.request.units.get(name, 0))
        if name in grant.lent:
            wanted = {"cores": 0, "gpus": 0, "foo": 0} | {name: asked}
            before = self.ledger.free[name]
            expected, free = self.fits(**wanted, pack=grant.request.pack), self.free_by_node()
            assert self.ledger.reclaim(grant, name) == expected
            assert (name in grant.lent) != expected
            assert self.ledger.free[name] == before - expected * grant.request.units[name]
            assert len(grant.allocation.ids.get(name, ())) == (ceil(asked) if expected and name != "foo" else 0)
            if expected and name == "cores" and grant.request.pack == "numa":
                check_place(grant.allocation.cores, "numa", free)
        elif asked:
            self.ledger.lend(grant, name)
        else:
            with pytest.raises(ResourceError, match="has no"):
                self.ledger.lend(grant, name)

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


TestRecords = FleetRecords.TestCase
TestRecords.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
