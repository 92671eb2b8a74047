import pytest

from grainlike.errors import ResourceSpecError
from grainlike.resources import (
    EMPTY,
    NO_ALLOCATION,
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Ledger,
    Memory,
    Node,
    Resource,
    Short,
    Token,
    logical_cores,
    missing,
    offer_of,
)

OWN = (2, 3, 6)


def test_cores_are_this_process_own_and_beyond_those_the_integers_that_follow():
    assert offer_of(Cores(2), own_cores=OWN).cores == (2, 3)
    assert offer_of(Cores(5), own_cores=OWN).cores == (2, 3, 6, 7, 8)
    assert offer_of(Cores(2), own_cores=()).cores == (0, 1)
    assert offer_of(Cores(1), own_cores=(6, 2)).cores == (2,)


def test_cores_that_are_not_own_are_logical():
    assert logical_cores(offer_of(Cores(5), own_cores=OWN), OWN) == (7, 8)
    assert logical_cores(offer_of(Cores([2, 9]), own_cores=OWN), OWN) == (9,)
    assert logical_cores(NO_ALLOCATION, OWN) == ()


def test_ids_that_are_there_stay():
    offer = offer_of(Cores([6, 7, 9]) & Memory("8Gi"), own_cores=OWN)
    assert offer == Cores([6, 7, 9]) & Memory("8Gi")
    assert offer_of(GPUs([3], 0.5), own_cores=OWN) == GPUs([3], 0.5)


def test_devices_are_counted_from_zero_and_the_rest_is_kept():
    offer = offer_of(Node(2, "8Gi") & GPUs(2) & Resource("foo", 0.1), own_cores=OWN)
    assert offer == Cores([2, 3]) & GPUs([0, 1]) & Memory("8Gi") & Resource("foo", 0.1)
    assert offer_of(Cores([5]) & GPUs(1), own_cores=OWN) == Cores([5]) & GPUs([0])


@pytest.mark.parametrize("what", [Memory(5), EMPTY, NO_ALLOCATION])
def test_without_ids_it_is_an_allocation_all_the_same(what):
    offer = offer_of(what, own_cores=OWN)
    assert offer == what
    assert type(offer) is Allocation


def test_every_offer_can_be_kept_records_of():
    offer = offer_of(Node(3, 5) & GPUs(1) & Resource("foo", 1), own_cores=OWN)
    assert Ledger(offer).fits_now(Cores(3) & GPUs(1))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (4, "4 is not an offer"),
        ("cores=4", "is not an offer"),
        (GPUs(0.5), "gpus=0.5: an offer has whole devices"),
        (Cores("1T"), "cores=1000000000000: one worker offers at most 65536"),
    ],
)
def test_what_is_no_offer_is_refused(bad, why):
    with pytest.raises(ResourceSpecError, match=why):
        offer_of(bad, own_cores=OWN)


WORKERS = [("n1", Cores([0, 1]) & Memory(10)), ("n2", Cores([0, 1, 2, 3]) & Resource("foo", 7))]


def test_nothing_is_missing_where_one_worker_has_it_all():
    assert missing(Cores(4) & Resource("foo", 7), WORKERS) is None
    assert missing(Cores(2) & Memory(10), WORKERS) is None


def test_k2_missing_names_are_listed_sorted():
    why = missing(Resource("zzz", 1) & Resource("aaa", 1) & Cores(1), WORKERS)
    assert why.absent == ("aaa", "zzz")
    assert why.short == ()
    assert "no worker has aaa, zzz" in str(why)


def test_a_name_with_a_slip_is_told_what_may_have_been_meant():
    asked = Resource("corse", 1) & Resource("licence", 1) & Resource("zzz", 1) & Token("nig")
    why = missing(asked, [("n1", Cores([0]) & Resource("license", 1) & Token("big"))])
    assert why.meant == (("corse", "cores"), ("licence", "license"))
    assert "no worker has corse (did you mean cores?), licence (did you mean license?), token=nig, zzz; " in str(why)


def test_memory_that_is_short_is_told_in_units():
    why = missing(Memory("8Gi"), [("n1", Memory("4Gi")), ("n2", Memory(1000001))])
    assert "too little memory (asked 8Gi, at most 4Gi)" in str(why)


def test_k8_an_amount_above_every_capacity_is_short_with_the_best_there_is():
    why = missing(Cores(9) & Resource("foo", 7.5), WORKERS)
    assert why.absent == ()
    assert why.short[0] == Short("cores", asked=9 * UNIT, best=4 * UNIT)
    assert "too few cores (asked 9, at most 4); too little foo (asked 7.5, at most 7)" in str(why)


def test_the_nearest_worker_lacks_fewest_names_then_least_of_them():
    assert missing(Cores(4) & Memory(10), WORKERS).nearest == "n1"
    assert missing(Cores(9) & Memory(5), WORKERS).nearest == "n1"
    assert missing(Cores(9), WORKERS).nearest == "n2"
    assert missing(Cores(9), [WORKERS[0], ("n3", WORKERS[0][1])]).nearest == "n1"


def test_one_name_wholly_lacking_is_nearer_than_two_almost_there():
    almost, half = Cores(range(9)) & Memory(9), Cores(range(10)) & Resource("foo", 1)
    assert missing(Cores(10) & Memory(10), [("almost", almost), ("half", half)]).nearest == "half"


def test_no_single_worker_may_have_it_all_though_each_name_is_somewhere():
    why = missing(Memory(10) & Resource("foo", 7) & Cores(3), WORKERS)
    assert (why.absent, why.short, why.nearest, why.lacking) == ((), (), "n2", ("memory",))
    assert str(why).endswith("never be given: no single worker has all of it; nearest is n2, short of memory")


def test_without_workers_everything_is_missing():
    why = missing(Cores(1) & Memory(1), [])
    assert why.absent == why.lacking == ("cores", "memory")
    assert (why.short, why.nearest) == ((), None)
    assert str(why) == "cores=1 memory=1 can never be given: no worker has cores, memory"
