"""Grants keep away from cores that others on the machine use, as long as there are enough."""

import pytest

from grainlike import Cores, GPUs
from grainlike.resources import Ledger, NumaNode, Topology, offer_of

FOUR = offer_of(Cores(range(4)), own_cores=range(4))
TWO_NODES = Topology((NumaNode(0, 0, (0, 1)), NumaNode(1, 1, (2, 3))))


def ids(ledger: Ledger, request) -> tuple[int, ...]:
    grant = ledger.grant(request)
    assert grant is not None
    return grant.allocation.cores


@pytest.mark.parametrize("topology", [None, TWO_NODES])
def test_others_cores_are_given_last(topology: Topology | None) -> None:
    ledger = Ledger(FOUR, topology)
    ledger.avoided = 0b0011
    assert ids(ledger, Cores(1)) == (2,)
    assert ids(ledger, Cores(1)) == (3,)
    assert ids(ledger, Cores(2)) == (0, 1)


@pytest.mark.parametrize("topology", [None, TWO_NODES])
def test_where_too_few_are_left_it_is_as_without(topology: Topology | None) -> None:
    ledger = Ledger(FOUR, topology)
    ledger.avoided = 0b0111
    assert ids(ledger, Cores(2)) == (0, 1)


def test_a_promised_node_goes_first() -> None:
    ledger = Ledger(FOUR, TWO_NODES)
    ledger.avoided = 0b0101
    assert ids(ledger, Cores(2, pack="numa")) in ((0, 1), (2, 3))


def test_busy_cores_are_those_granted_and_not_lent() -> None:
    ledger = Ledger(FOUR)
    grant = ledger.grant(Cores(3))
    assert grant is not None
    assert ledger.busy_cores == 0b0111
    ledger.lend(grant)
    assert ledger.busy_cores == 0
    assert ledger.reclaim(grant)
    ledger.release(grant)
    assert ledger.busy_cores == 0


def test_requests_without_cores_are_not_touched() -> None:
    ledger = Ledger(offer_of(Cores([0]) & GPUs([0, 1]), own_cores=[0]))
    ledger.avoided = 0b1
    grant = ledger.grant(GPUs(1))
    assert grant is not None
    assert grant.allocation.gpus == (0,)
