"""A waiting job lends its cores, and takes as many again, with exact records all the while."""

import pytest

from grainlike.errors import ResourceError
from grainlike.resources import (
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Ledger,
    Memory,
    NumaNode,
    Resource,
    Token,
    Topology,
    WallTime,
)

OFFER = Allocation({"memory": 10, "foo": 3, "token": "a", "walltime": 60}, {"cores": range(4), "gpus": [0, 1]})
JOB = Cores(2) & Memory(4) & GPUs(0.5) & Resource("foo", 1) & Token("a") & WallTime(9)


def test_cores_are_lent_and_the_rest_stays_held():
    ledger = Ledger(OFFER)
    grant = ledger.grant(JOB)
    given = grant.allocation
    ledger.lend(grant)
    assert ledger.free["cores"] == 4 * UNIT
    assert ledger.free["memory"] == 6 * UNIT
    assert grant.allocation == Allocation(
        {"memory": 4, "gpus": 0.5, "foo": 1, "token": "a", "walltime": 9}, {"gpus": [0]}
    )
    assert grant.allocation.cores == ()
    assert dict(grant.lent) == {"cores": Cores([0, 1])}
    assert ledger.reclaim(grant)
    assert grant.allocation == given
    assert list(grant.allocation.units) == sorted(given.units)
    assert dict(grant.lent) == {}
    ledger.release(grant)
    assert dict(ledger.free) == dict(OFFER.units)


def test_reclaimed_cores_may_be_others():
    ledger = Ledger(OFFER)
    grant = ledger.grant(Cores(2))
    ledger.lend(grant)
    other = ledger.grant(Cores(1))
    assert other.allocation.cores == (0,)
    assert ledger.reclaim(grant)
    assert grant.allocation.cores == (1, 2)
    assert ledger.free["cores"] == UNIT


def test_the_same_cores_come_back_where_they_are_free_though_lower_ones_are_too():
    ledger = Ledger(OFFER)
    low, grant = ledger.grant(Cores(2)), ledger.grant(Cores(2))
    ledger.lend(grant)
    ledger.release(low)
    assert ledger.reclaim(grant)
    assert grant.allocation.cores == (2, 3)


def test_without_room_nothing_is_reclaimed_until_there_is():
    ledger = Ledger(OFFER)
    grant = ledger.grant(Cores(3) & Memory(1))
    ledger.lend(grant)
    other = ledger.grant(Cores(2))
    before = dict(ledger.free)
    assert ledger.reclaim(grant) is False
    assert dict(ledger.free) == before
    assert grant.allocation == Memory(1)
    ledger.release(other)
    assert ledger.reclaim(grant) is True
    assert grant.allocation == Cores([0, 1, 2]) & Memory(1)


@pytest.mark.parametrize(
    ("name", "part"), [("gpus", GPUs([0], 0.5)), ("foo", Resource("foo", 1)), ("memory", Memory(4))]
)
def test_any_kind_can_be_lent(name, part):
    ledger = Ledger(OFFER)
    grant = ledger.grant(JOB)
    held, free = grant.allocation, ledger.free[name]
    ledger.lend(grant, name)
    assert ledger.free[name] == free + part.units[name]
    assert name not in grant.allocation
    assert dict(grant.lent) == {name: part}
    ledger.lend(grant)
    assert sorted(grant.lent) == sorted({name, "cores"})
    assert ledger.reclaim(grant, name)
    assert ledger.free[name] == free
    assert ledger.reclaim(grant)
    assert grant.allocation == held


def test_a_shared_device_is_not_overbooked_by_a_reclaim():
    ledger = Ledger(Allocation(ids={"gpus": [0]}))
    grant = ledger.grant(GPUs(0.5))
    ledger.lend(grant, "gpus")
    other = ledger.grant(GPUs(0.75))
    assert ledger.reclaim(grant, "gpus") is False
    ledger.release(other)
    whole = ledger.grant(GPUs(1))
    assert ledger.reclaim(grant, "gpus") is False
    ledger.release(whole)
    assert ledger.reclaim(grant, "gpus")


def test_a_named_amount_that_is_taken_is_not_reclaimed():
    ledger = Ledger(OFFER)
    grant = ledger.grant(Resource("foo", 2))
    ledger.lend(grant, "foo")
    other = ledger.grant(Resource("foo", 2))
    assert ledger.reclaim(grant, "foo") is False
    ledger.release(other)
    assert ledger.reclaim(grant, "foo")


def test_a_grant_that_lends_is_released_once_and_gives_nothing_twice():
    ledger = Ledger(OFFER)
    grant = ledger.grant(JOB)
    ledger.lend(grant)
    other = ledger.grant(Cores(4))
    ledger.release(grant)
    assert ledger.free["cores"] == 0
    ledger.release(other)
    assert dict(ledger.free) == dict(OFFER.units)


def test_what_is_wrong_is_an_error_and_changes_nothing():
    ledger, foreign = Ledger(OFFER), Ledger(OFFER)
    grant, theirs = ledger.grant(JOB), foreign.grant(JOB)
    gone = ledger.grant(Cores(1))
    ledger.release(gone)
    wrong = [
        (lambda: ledger.reclaim(grant), "cannot be reclaimed: it lends none"),
        (lambda: ledger.lend(grant, "bar"), "bar of .* cannot be lent: it has no bar"),
        (lambda: ledger.lend(theirs), "cannot be lent: another ledger gave it"),
        (lambda: ledger.reclaim(theirs), "cannot be reclaimed: another ledger gave it"),
        (lambda: ledger.lend(gone), "cannot be lent: it was released before"),
        (lambda: ledger.reclaim(gone), "cannot be reclaimed: it was released before"),
    ]
    for do, why in wrong:
        before, held = dict(ledger.free), grant.allocation
        with pytest.raises(ResourceError, match=why):
            do()
        assert (dict(ledger.free), grant.allocation) == (before, held)
    ledger.lend(grant)
    with pytest.raises(ResourceError, match="cannot be lent: it is lent already"):
        ledger.lend(grant)
    ledger.reclaim(grant)
    with pytest.raises(ResourceError, match="it lends none"):
        ledger.reclaim(grant)
    ledger.lend(grant)


def test_reclaimed_cores_lie_as_the_request_said():
    topology = Topology((NumaNode(0, 0, (0, 1, 2, 3), (0,)), NumaNode(1, 1, (4, 5, 6, 7), (1,))))
    ledger = Ledger(Allocation(ids={"cores": range(8), "gpus": [0, 1]}), topology)
    near, packed, spread = (
        ledger.grant(request) for request in (Cores(1) & GPUs(1), Cores(2, pack="numa"), Cores(2, pack="spread"))
    )
    assert [grant.allocation.cores for grant in (near, packed, spread)] == [(0,), (1, 2), (3, 4)]
    for grant in (near, packed, spread):
        ledger.lend(grant)
    ledger.grant(Cores(3, pack="spread"))  # 0, 1 and 4
    for grant in (near, packed, spread):
        assert ledger.reclaim(grant)
    assert near.allocation.cores == (2,)
    assert packed.allocation.cores == (5, 6)
    assert spread.allocation.cores == (3, 7)
    assert not ledger.free["cores"]


def test_reclaimed_cores_are_next_to_the_device_that_stayed_held():
    topology = Topology((NumaNode(0, 0, (0, 1, 2, 3)), NumaNode(1, 1, (4, 5, 6, 7), (0,))))
    ledger = Ledger(Allocation(ids={"cores": range(8), "gpus": [0]}), topology)
    grant = ledger.grant(Cores(1) & GPUs(1))
    assert grant.allocation.cores == (4,)
    ledger.lend(grant)
    assert ledger.grant(Cores(2, pack="spread")).allocation.cores == (0, 4)
    assert ledger.reclaim(grant)
    assert grant.allocation.cores == (5,)


def test_packed_cores_are_reclaimed_in_one_node_or_not_yet():
    ledger = Ledger(Cores(range(4)), Topology((NumaNode(0, 0, (0, 1)), NumaNode(1, 1, (2, 3)))))
    grant = ledger.grant(Cores(2, pack="numa"))
    ledger.lend(grant)
    other = ledger.grant(Cores(2, pack="spread"))
    assert ledger.reclaim(grant) is False
    ledger.release(other)
    assert ledger.reclaim(grant)
