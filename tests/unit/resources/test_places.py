"""Grants by where ids lie: in one NUMA node where one has enough, spread, and devices next to their cores."""

import pytest

from grainlike.resources import UNIT, Allocation, Cores, GPUs, Ledger, NumaNode, Topology

TWO = Topology((NumaNode(0, 0, (0, 1, 2, 3)), NumaNode(1, 1, (4, 5, 6, 7))))
FOUR = Topology(tuple(NumaNode(n, n // 2, tuple(range(4 * n, 4 * n + 4))) for n in range(4)))
MIXED = Topology((NumaNode(0, 0, (0, 1, 2, 3), (0, 1)), NumaNode(1, 0, (4, 5, 6, 7), (2, 3))))


def ledger(topology, gpus=()):
    cores = [core for node in topology.nodes for core in node.cores]
    return Ledger(Allocation(ids={"cores": cores} | ({"gpus": gpus} if gpus else {})), topology)


def cores(state, request):
    grant = state.grant(request)
    return grant and grant.allocation.cores


def test_the_ids_of_a_grant_are_of_one_node_where_one_has_enough():
    state = ledger(TWO)
    assert cores(state, Cores(3)) == (0, 1, 2)
    assert cores(state, Cores(2)) == (4, 5)  # not 3 and 4, which are neighbours by number only
    assert cores(state, Cores(2)) == (6, 7)
    assert cores(state, Cores(1)) == (3,)


def test_of_the_nodes_that_have_enough_the_fullest_is_taken():
    state = ledger(FOUR)
    assert cores(state, Cores(3)) == (0, 1, 2)
    assert cores(state, Cores(2)) == (4, 5)
    assert cores(state, Cores(1)) == (3,)
    assert cores(state, Cores(1)) == (6,)
    assert cores(state, Cores(4)) == (8, 9, 10, 11)


def test_the_fullest_node_is_taken_though_its_socket_is_the_emptier():
    state = Ledger(Cores([0, 1, 2, 3, 8, 9, 10, 12, 13, 14]), FOUR)
    assert cores(state, Cores(3)) == (8, 9, 10)


def test_cores_numbered_by_turns_are_of_one_socket_all_the_same(sysfs):
    state = Ledger(Cores(range(80)), Topology.read(sysfs["xeon"]))
    assert cores(state, Cores(3)) == (0, 2, 4)
    assert cores(state, Cores(40)) == tuple(range(1, 80, 2))
    assert cores(state, Cores(37)) == tuple(range(6, 80, 2))


def test_what_no_node_has_is_gathered_from_as_few_as_can_be_and_of_one_socket():
    state = ledger(FOUR)
    assert cores(state, Cores(1)) == (0,)
    assert cores(state, Cores(1)) == (1,)
    assert cores(state, Cores(6)) == (2, 3, 4, 5, 6, 7)
    assert cores(state, Cores(7)) == (8, 9, 10, 11, 12, 13, 14)
    assert cores(state, Cores(2)) is None


def test_the_rest_of_a_gathered_grant_comes_from_the_nearest_socket_first():
    state = ledger(FOUR)
    for _ in range(3):
        state.grant(Cores(1))
    given = cores(state, Cores(8))
    assert given == tuple(range(8, 16))
    assert cores(state, Cores(5)) == (3, 4, 5, 6, 7)
    state = ledger(FOUR)
    assert cores(state, Cores(3)) == (0, 1, 2)
    assert cores(state, Cores(10)) == (4, 5, *range(8, 16))


def test_a_grant_that_needs_several_nodes_begins_at_a_socket_that_has_enough():
    state = Ledger(Cores([0, 1, 2, 4, 5, *range(8, 16)]), FOUR)
    assert cores(state, Cores(6)) == (8, 9, 10, 11, 12, 13)
    assert cores(state, Cores(5)) == (0, 1, 2, 4, 5)


def test_the_emptiest_nodes_of_a_socket_are_taken_first():
    topology = Topology(tuple(NumaNode(n, 0, tuple(range(4 * n, 4 * n + 4))) for n in range(3)))
    state = Ledger(Cores([0, 4, 5, 6, 8, 9]), topology)
    assert cores(state, Cores(5)) == (4, 5, 6, 8, 9)


def test_cores_that_need_several_nodes_are_of_the_socket_of_their_device():
    topology = Topology((*FOUR.nodes[:3], NumaNode(3, 1, (12, 13, 14, 15), (0,))))
    state = Ledger(Allocation(ids={"cores": [0, 1, 2, 4, 5, 6, *range(8, 16)], "gpus": [0]}), topology)
    assert state.grant(Cores(6) & GPUs(1)).allocation.cores == (8, 9, 12, 13, 14, 15)


def test_packed_cores_wait_for_a_node_that_has_enough():
    state = ledger(TWO)
    first, _ = state.grant(Cores(2)), state.grant(Cores(3))
    packed = Cores(3, pack="numa")
    assert not state.fits_now(packed)
    assert state.grant(packed) is None
    assert state.free["cores"] == 3 * UNIT
    assert state.fits_now(Cores(3))
    assert state.fits_ever(packed)
    assert not state.fits_ever(Cores(5, pack="numa"))
    assert state.fits_ever(Cores(5))
    state.release(first)
    assert cores(state, packed) == (0, 1, 2)


def test_packing_asks_nothing_where_nothing_is_known_of_nodes():
    state = Ledger(Cores(range(4)))
    assert state.fits_ever(Cores(4, pack="numa"))
    assert cores(state, Cores(2, pack="numa")) == (0, 1)
    assert cores(state, Cores(2, pack="spread")) == (2, 3)


def test_spread_cores_come_from_every_node_in_turn():
    state = ledger(TWO)
    assert cores(state, Cores(3, pack="spread")) == (0, 1, 4)
    assert cores(state, Cores(4, pack="spread")) == (2, 3, 5, 6)
    assert cores(state, Cores(1, pack="spread")) == (7,)
    assert cores(ledger(FOUR), Cores(4, pack="spread")) == (0, 4, 8, 12)


def test_cores_are_next_to_their_devices():
    state = ledger(MIXED, gpus=(0, 1, 2, 3))
    one = state.grant(Cores(3) & GPUs(1)).allocation
    assert (one.cores, one.gpus) == ((0, 1, 2), (0,))
    two = state.grant(Cores(3) & GPUs(1)).allocation  # device 1 is free, but only one core beside it
    assert (two.cores, two.gpus) == ((4, 5, 6), (2,))
    three = state.grant(Cores(1) & GPUs(1)).allocation
    assert (three.cores, three.gpus) == ((3,), (1,))


def test_where_no_node_has_both_the_cores_begin_beside_the_device():
    state = ledger(MIXED, gpus=(2,))
    given = state.grant(Cores(6) & GPUs(1)).allocation
    assert (given.cores, given.gpus) == ((0, 1, 4, 5, 6, 7), (2,))


def test_devices_are_of_one_node_where_one_has_enough():
    state = ledger(MIXED, gpus=(0, 1, 2, 3))
    assert state.grant(GPUs(1)).allocation.gpus == (0,)
    assert state.grant(GPUs(2)).allocation.gpus == (2, 3)
    assert ledger(MIXED, gpus=(0, 1, 2, 3)).grant(GPUs(3)).allocation.gpus == (0, 1, 2)


def test_cores_alone_leave_those_beside_free_devices():
    state = ledger(MIXED, gpus=(0, 1))
    assert cores(state, Cores(2)) == (4, 5)
    assert cores(state, Cores(3)) == (0, 1, 2)
    taken = ledger(MIXED, gpus=(0, 1))
    taken.grant(GPUs(2))
    assert cores(taken, Cores(2)) == (0, 1)


def test_a_fraction_fills_a_device_beside_free_cores():
    state = ledger(MIXED, gpus=(0, 1, 2, 3))
    first = state.grant(Cores(3) & GPUs(0.5)).allocation
    assert (first.cores, first.gpus) == ((0, 1, 2), (0,))
    near = state.grant(Cores(1) & GPUs(0.5)).allocation
    assert (near.cores, near.gpus) == ((3,), (0,))
    state.grant(GPUs(0.5))
    roomy = state.grant(Cores(4) & GPUs(0.5)).allocation
    assert (roomy.cores, roomy.gpus) == ((4, 5, 6, 7), (2,))
    crowded = state.grant(GPUs(0.5)).allocation
    assert crowded.gpus == (1,)


def test_ids_that_the_machine_does_not_have_are_a_place_of_their_own(sysfs):
    state = Ledger(Allocation(ids={"cores": range(8), "gpus": [0]}), Topology.read(sysfs["small"]))
    assert cores(state, Cores(1)) == (0,)
    assert cores(state, Cores(2)) == (2, 3)
    assert cores(state, Cores(2, pack="spread")) == (1, 4)
    given = state.grant(Cores(2) & GPUs(1)).allocation
    assert (given.cores, given.gpus) == ((5, 6), (0,))


def test_a_part_of_a_machine_is_offered(sysfs):
    state = Ledger(Allocation(ids={"cores": [10, 11, 52, 53, 180], "gpus": [0, 4]}), Topology.read(sysfs["epyc"]))
    assert not state.fits_ever(Cores(4, pack="numa"))
    given = state.grant(Cores(3) & GPUs(1)).allocation
    assert (given.cores, given.gpus) == ((52, 53, 180), (0,))
    assert cores(state, Cores(2)) == (10, 11)


@pytest.mark.parametrize("count", range(1, 257))
def test_every_width_of_a_large_machine_lies_in_as_few_nodes_as_can_be(sysfs, count):
    topology = Topology.read(sysfs["epyc"])
    given = cores(Ledger(Cores(range(256)), topology), Cores(count))
    nodes = [node for node in topology.nodes if {*given} & {*node.cores}]
    assert len(given) == len({*given}) == count
    assert len(nodes) == -(-count // 32)
    assert len({node.socket for node in nodes}) == (1 if count <= 128 else 2)
