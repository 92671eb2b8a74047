import pytest

from grainlike.errors import ResourceError, ResourceSpecError
from grainlike.resources import (
    NO_ALLOCATION,
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Ledger,
    Memory,
    Request,
    Resource,
    as_allocation,
    parse,
)
from grainlike.resources._pools import DevicePool


def given(ledger: Ledger, request: Request) -> Allocation:
    grant = ledger.grant(request)
    assert grant is not None
    return grant.allocation


def test_g3_a_grant_has_distinct_ids_that_nobody_else_has():
    ledger = Ledger(Cores([6, 7, 9, 11]) & Memory("8Gi"))
    one, two = given(ledger, Cores(2) & Memory("1Gi")), given(ledger, Cores(2))
    assert one == Cores([6, 7]) & Memory("1Gi")
    assert two == Cores([9, 11])
    assert ledger.grant(Cores(1)) is None


def test_g6_slots_come_back_and_what_did_not_fit_fits_again():
    ledger = Ledger(Cores(range(4)))
    grant = ledger.grant(Cores(3))
    assert not ledger.fits_now(Cores(2))
    assert ledger.grant(Cores(2)) is None
    ledger.release(grant)
    assert ledger.fits_now(Cores(4))
    assert given(ledger, Cores(2)).cores == (0, 1)


def test_k1_two_of_five_on_seven_one_after_the_other_and_on_twelve_together():
    small, large = (Ledger(as_allocation(Resource("foo", n))) for n in (7, 12))
    first = small.grant(Resource("foo", 5))
    assert small.grant(Resource("foo", 5)) is None
    small.release(first)
    assert small.grant(Resource("foo", 5))
    assert large.grant(Resource("foo", 5))
    assert large.grant(Resource("foo", 5))


def test_r2_free_is_exact_over_all_names_and_live():
    ledger = Ledger(Cores([0, 1]) & Resource("foo", "300m"))
    free = ledger.free
    grant = ledger.grant(Cores(2) & Resource("foo", "100m"))
    assert dict(free) == {"cores": 0, "foo": UNIT // 5}
    ledger.release(grant)
    assert dict(free) == dict(ledger.capacity.units)
    with pytest.raises(TypeError):
        free["cores"] = 5


def test_p4_a_request_that_fits_in_part_takes_nothing():
    ledger = Ledger(Cores([0, 1]) & GPUs([0]) & Memory(5))
    before = dict(ledger.free)
    for request in (Cores(1) & Memory(6), Cores(1) & Resource("bar", 1), Cores(1) & GPUs(2)):
        assert ledger.grant(request) is None
        assert dict(ledger.free) == before
    assert given(ledger, Cores(2) & GPUs(1) & Memory(5)).cores == (0, 1)


def test_neighbours_come_first_and_the_lowest_ids_otherwise():
    ledger = Ledger(Cores([0, 1, 2, 5, 6, 7, 8, 12]))
    low = ledger.grant(Cores(1))
    assert low.allocation.cores == (0,)
    assert given(ledger, Cores(3)).cores == (5, 6, 7)
    assert given(ledger, Cores(2)).cores == (1, 2)
    ledger.release(low)
    assert given(ledger, Cores(3)).cores == (0, 8, 12)


@pytest.mark.parametrize("count", range(1, 18))
def test_a_run_of_any_length_is_found_above_a_shorter_one(count):
    short = range(count - 1)
    run = range(20, 20 + count)
    assert given(Ledger(Cores([*short, *run])), Cores(count)).cores == tuple(run)


def test_fractions_share_one_device_and_never_span_two():
    ledger = Ledger(GPUs([2, 5]))
    half, rest = ledger.grant(GPUs(0.5)), ledger.grant(GPUs(0.3))
    assert half.allocation == GPUs([2], 0.5)
    assert rest.allocation == GPUs([2], 0.3)
    assert given(ledger, GPUs(0.9)).gpus == (5,)
    assert ledger.free["gpus"] == UNIT * 3 // 10
    assert not ledger.fits_now(GPUs(0.3))
    assert ledger.grant(GPUs(0.3)) is None
    assert ledger.fits_now(GPUs(0.2))


def test_a_shared_device_is_whole_again_only_when_all_shares_are_back():
    ledger = Ledger(GPUs([0]))
    one, two = ledger.grant(GPUs(0.5)), ledger.grant(GPUs(0.5))
    ledger.release(one)
    assert not ledger.fits_now(GPUs(1))
    ledger.release(two)
    assert given(ledger, GPUs(1)).gpus == (0,)
    assert not ledger.fits_now(GPUs(0.1))


def test_a_fraction_fills_the_fullest_device_so_that_others_stay_whole():
    ledger = Ledger(GPUs([0, 1]))
    whole = ledger.grant(GPUs(1))
    ledger.grant(GPUs(0.5))
    ledger.release(whole)
    assert given(ledger, GPUs(0.5)).gpus == (1,)
    assert given(ledger, GPUs(1)).gpus == (0,)


def test_an_offered_share_of_a_device_is_never_given_as_a_whole_one():
    ledger = Ledger(GPUs([3], 0.5))
    assert not ledger.fits_ever(GPUs(1))
    grant = ledger.grant(GPUs(0.5))
    assert grant.allocation == GPUs([3], 0.5)
    ledger.release(grant)
    assert dict(ledger.free) == {"gpus": UNIT // 2}


def test_a_share_alone_holds_no_whole_device():
    assert not DevicePool((3,), UNIT // 2).holds(UNIT)


def test_r3_fits_ever_looks_at_capacity_not_at_use():
    ledger = Ledger(Cores([0, 1]) & GPUs([0, 1]))
    ledger.grant(Cores(2))
    assert ledger.fits_ever(Cores(2))
    assert not ledger.fits_ever(Cores(3))
    assert not ledger.fits_ever(Resource("foo", 1))
    assert not ledger.fits_ever(parse("gpus=1.5"))
    assert not ledger.fits_now(parse("gpus=1.5"))


def test_a_second_release_is_refused_and_changes_nothing():
    ledger = Ledger(Cores([0, 1]))
    grant = ledger.grant(Cores(1))
    ledger.release(grant)
    again = ledger.grant(Cores(1))
    with pytest.raises(ResourceError, match="released before"):
        ledger.release(grant)
    assert dict(ledger.free) == {"cores": UNIT}
    ledger.release(again)


def test_a_foreign_release_is_refused_and_changes_nothing():
    mine, theirs = Ledger(Cores([0])), Ledger(Cores([0]))
    grant, _ = theirs.grant(Cores(1)), mine.grant(Cores(1))
    with pytest.raises(ResourceError, match="another ledger gave it"):
        mine.release(grant)
    assert dict(mine.free) == {"cores": 0}


def test_a_request_that_names_ids_is_refused():
    with pytest.raises(ResourceSpecError, match="ids belong to offers"):
        Ledger(Cores([0, 1])).grant(Cores([1]))


@pytest.mark.parametrize("offer", [Cores(2), GPUs(1), Cores([1]) & GPUs(1)])
def test_an_offer_without_ids_is_refused(offer):
    with pytest.raises(ResourceSpecError, match="needs their ids"):
        Ledger(as_allocation(offer))


def test_an_empty_node_grants_nothing_but_nothing():
    ledger = Ledger(NO_ALLOCATION)
    assert ledger.grant(Cores(1)) is None
    assert given(ledger, Request()) == NO_ALLOCATION


def test_a_grant_says_what_it_is():
    grant = Ledger(Cores([4])).grant(Cores(1))
    assert repr(grant) == "<Grant 1: cores=[4]>"
