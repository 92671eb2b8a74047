import copy
import pickle
from decimal import Decimal

import numpy as np
import pytest

from grainlike.errors import ResourceSpecError
from grainlike.resources import (
    EMPTY,
    NO_ALLOCATION,
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Memory,
    Node,
    Request,
    Resource,
    as_allocation,
    as_request,
    parse,
)

JOB = Cores(4) & Memory("8Gi") & Resource("foo", 2)


def test_g7_cores_memory_and_named_resources_make_one_request():
    assert JOB.names == ("cores", "foo", "memory")
    assert dict(JOB.units) == {"cores": 4 * UNIT, "foo": 2 * UNIT, "memory": 2**33 * UNIT}
    assert (JOB["cores"], JOB["foo"], JOB["memory"]) == (4, 2, 2**33)
    assert (JOB.N, JOB.c, EMPTY.N) == (4, 4, 0)
    assert list(JOB) == ["cores", "foo", "memory"]
    assert "foo" in JOB
    assert "bar" not in JOB
    with pytest.raises(KeyError):
        JOB["bar"]


def test_r4_shorthands_are_the_names_in_every_mapping():
    assert Cores(4) == Resource("cores", 4) == Request({"cores": 4})
    assert GPUs(1) == Resource("gpus", 1)
    assert Memory(100) == Resource("memory", 100)
    assert Node(N=16, M="64Gi") == Node(16, "64Gi") == Cores(16) & Memory("64Gi")
    assert Node(2) == Cores(2)
    assert Resource("cpu", 1).names == ("cpu",)


def test_r4_fits_a_plain_mapping_of_amounts():
    assert JOB.fits({"cores": 4, "memory": "8Gi", "foo": 2.0, "other": 1})
    assert not JOB.fits({"cores": 4, "memory": "8Gi"})
    assert not JOB.fits({"cores": 3, "memory": "8Gi", "foo": 2})
    assert GPUs(0.5).fits({"gpus": Decimal("0.5")})
    assert EMPTY.fits({})


def test_fits_an_offer_and_another_request():
    assert Node(2, "1Gi").fits(Cores([6, 7]) & Memory("1Gi"))
    assert not Node(3, "1Gi").fits(Cores([6, 7]) & Memory("1Gi"))
    assert Cores(2).fits(Cores(2))
    assert Cores(2).fits_units(Cores(2).units)
    assert not Cores(2).fits_units(Cores(1).units)
    assert not Cores(2).fits_units({})


def test_a_request_is_at_most_another_where_every_amount_is():
    assert Cores(2) <= Cores(2)
    assert not Cores(2) < Cores(2)
    assert Cores(2) < Cores(2) & Memory(1)
    assert Node(4, 10) >= Node(4, 9)
    assert Node(4, 10) > Node(4, 9)
    assert not Cores(1) <= Memory(1)
    assert not Memory(1) <= Cores(1)
    with pytest.raises(TypeError):
        Cores(1) <= 4  # noqa: B015
    with pytest.raises(TypeError):
        Cores(1) < 4  # noqa: B015


def test_p2_requests_add_and_subtract_by_value_exactly():
    tenth = Resource("foo", "100m")
    total = tenth + tenth + tenth
    assert total == Resource("foo", 0.3)
    assert total - tenth - tenth == tenth
    assert (Cores(4) + Memory(5)) + Cores(1) == Cores(5) & Memory(5)


def test_p2_a_kind_that_reaches_zero_is_dropped():
    assert JOB - Cores(4) == Memory("8Gi") & Resource("foo", 2)
    assert JOB - JOB == EMPTY
    assert not JOB - JOB


@pytest.mark.parametrize("more", [Cores(5), Resource("bar", 1)])
def test_p2_below_zero_is_an_error_that_names_it(more):
    with pytest.raises(ResourceSpecError, match=r"(cores|bar)=-1: .* below zero"):
        JOB - more


def test_p3_excess_names_the_first_over_the_limit_and_none_at_equality():
    assert JOB.excess(JOB) is None
    assert JOB.excess({"cores": 4, "foo": 2, "memory": "8Gi"}) is None
    assert JOB.excess({"cores": 3, "foo": 1, "memory": 1}) == "cores"
    assert JOB.excess({"cores": 4, "foo": 1, "memory": 1}) == "foo"
    assert JOB.excess({"cores": 4}) == "foo"
    assert Resource("foo", "2000000001n").excess({"foo": 2}) == "foo"


def test_two_of_one_kind_are_refused_with_both_shown():
    with pytest.raises(ResourceSpecError, match="foo is there twice, as foo=1 and foo=2"):
        Cores(1) & Resource("foo", 1) & Resource("foo", 2)
    with pytest.raises(ResourceSpecError, match="cores is there twice"):
        Cores([1]) & Cores([2])


@pytest.mark.parametrize(
    ("write", "bad"),
    [
        (lambda: Cores(0), "cores=0: an amount must be greater than zero"),
        (lambda: Cores(-1), "cores=-1"),
        (lambda: Memory("-1Gi"), "memory=-1073741824"),
        (lambda: Resource("foo", 0), "foo=0"),
        (lambda: Cores(0.5), "cores=0.5: cores are whole"),
        (lambda: Cores("4Gi"), "cores=4Gi: cores are counted"),
        (lambda: GPUs("1Ki"), "gpus=1Ki: gpus are counted"),
        (lambda: Memory("500m"), "memory=0.5: memory is in whole bytes"),
        (lambda: Memory("8GB"), "memory: '8GB' has the unknown unit 'GB'"),
        (lambda: Memory(True), "memory: True is not an amount"),
        (lambda: Memory(None), "memory: None is not an amount"),
        (lambda: GPUs(1.5), "gpus=1.5: ask for whole devices"),
        (lambda: Resource("gpus", 1.5), "gpus=1.5: ask for whole devices"),
        (lambda: Resource("", 1), "'' is not a resource name"),
        (lambda: Resource("a b", 1), "'a b' is not a resource name"),
        (lambda: Resource("a=b", 1), "'a=b' is not a resource name"),
        (lambda: Resource("limit:db", 1), "'limit:db' is not a resource name"),
        (lambda: Resource("foo\n", 1), "is not a resource name"),
        (lambda: Resource(5, 1), "5 is not a resource name"),
        (lambda: Resource("walltime", 1), "'walltime' is a reserved word"),
        (lambda: Cores([]), r"cores=\[\]: at least one id"),
        (lambda: Cores([1, 2, 1]), "cores: the id 1 is there twice"),
        (lambda: Cores([-1]), "cores: -1 is not an id"),
        (lambda: Cores([True]), "cores: True is not an id"),
        (lambda: Cores([0.5]), "cores: 0.5 is not an id"),
        (lambda: Cores([2**16]), "cores: 65536 is not an id"),
        (lambda: GPUs([0, 1], 0.5), "gpus=0.5 with 2 ids: only one device can be shared"),
        (lambda: GPUs([0], 2), "gpus=2 with 1 ids"),
        (lambda: GPUs(1, 0.5), "a share goes with the id of a device"),
        (lambda: Allocation({"cores": 3}, {"cores": [1]}), "cores=3 with 1 ids"),
        (lambda: Allocation({}, {"foo": [1]}), "foo: only cores and gpus have ids"),
    ],
)
def test_a_bad_request_is_refused_where_it_is_written_and_the_part_named(write, bad):
    with pytest.raises(ResourceSpecError, match=bad):
        write()


def test_a_call_of_a_request_shows_where_the_brackets_belong():
    with pytest.raises(TypeError, match=r"calls Cores\(4\); write `\(fn @ Cores\(4\)\)\(\.\.\.\)`"):
        Cores(4)("data", key=1)


def test_only_the_empty_request_is_falsy():
    assert not EMPTY
    assert not NO_ALLOCATION
    assert Resource("foo", "1n")
    assert Cores([0])


def test_requests_are_values():
    assert hash(Cores(4) & Memory(1)) == hash(Memory(1) & Cores(4))
    assert {Cores(4): 1}[Resource("cores", 4)] == 1
    assert Cores(4) != Cores(5)
    assert Cores(4) != "cores=4"
    assert Cores(2) != Cores([0, 1])
    assert Cores([0, 1]) != Cores([0, 2])
    assert NO_ALLOCATION == EMPTY
    assert hash(NO_ALLOCATION) == hash(EMPTY)


@pytest.mark.parametrize("value", [JOB, EMPTY, Cores([6, 7]) & JOB - Cores(4), GPUs([3], 0.5)])
def test_requests_are_immutable_and_travel(value):
    before = str(value)
    with pytest.raises(AttributeError):
        value.units = {}
    with pytest.raises(AttributeError):
        del value.units
    with pytest.raises(AttributeError):
        value.colour = "red"
    with pytest.raises(TypeError):
        value.units["cores"] = 0
    for twin in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert twin == value
        assert type(twin) is type(value)
        assert hash(twin) == hash(value)
    assert str(value) == before


def test_g8_an_allocation_shows_its_ids():
    given = Cores([9, 6, 7]) & Memory("8Gi") & Resource("foo", 0.5)
    assert isinstance(given, Allocation)
    assert (given.cores, given.N, given.c, given.gpus, given.memory) == ((6, 7, 9), 3, 3, (), 2**33)
    assert given.walltime is None
    assert given["foo"] == Decimal("0.5")
    assert dict(given.ids) == {"cores": (6, 7, 9)}
    assert given.request == Cores(3) & Memory("8Gi") & Resource("foo", 0.5)
    assert type(given.request) is Request
    assert (NO_ALLOCATION.cores, NO_ALLOCATION.gpus, NO_ALLOCATION.memory) == ((), (), 0)


@pytest.mark.parametrize("ids", [[1, 2], (2, 1), range(1, 3), {1, 2}, frozenset({1, 2}), [np.int64(1), 2]])
def test_ids_come_in_any_collection_and_are_kept_as_plain_sorted_ints(ids):
    assert Cores(ids).cores == GPUs(ids).gpus == Node(ids, 5).cores == (1, 2)
    assert type(Cores(ids).cores[0]) is int
    assert Node(ids, 5).memory == 5


def test_a_share_of_a_device_shows_the_device_and_the_amount():
    share = GPUs([0], 0.5)
    assert share.gpus == (0,)
    assert share["gpus"] == Decimal("0.5")
    assert share.request == GPUs(0.5)


def test_an_allocation_joined_with_a_request_is_an_allocation_on_either_side():
    assert type(Memory(1) & Cores([1])) is Allocation
    assert type(Cores([1]) & Memory(1)) is Allocation
    assert Memory(1) & Cores([1]) == Cores([1]) & Memory(1)
    assert type(Cores(1) & Memory(1)) is Request


def test_sums_of_allocations_are_amounts():
    assert Cores([1, 2]) + Cores([7]) == Cores(3)
    assert type(Cores([1, 2]) - Cores([1])) is Request


def test_a_function_that_is_not_delayed_is_told_so():
    with pytest.raises(TypeError, match=r"len is not delayed: .*`delayed\(len\) @ Cores\(4\)`"):
        len @ Cores(4)
    with pytest.raises(TypeError, match=r"fn is not delayed: .*`delayed\(fn\) @ \(Cores\(4\) & Memory\(5\)\)`"):
        (lambda: 1) @ (Cores(4) & Memory(5))
    with pytest.raises(
        TypeError, match=r"`fn @ Cores\(4\)` takes a delayed function, not int; `await` and calls bind tighter"
    ):
        3 @ Cores(4)


@pytest.mark.parametrize("operate", ["__and__", "__add__", "__sub__"])
@pytest.mark.parametrize("left", [Cores(1), Cores([1])])
def test_other_operands_are_left_to_python(operate, left):
    assert getattr(left, operate)(5) is NotImplemented


def test_as_request_gives_back_what_a_job_may_ask_for():
    assert as_request(JOB) is JOB
    plain = as_request(as_allocation(Memory(5)))
    assert plain == Memory(5)
    assert type(plain) is Request


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (4, "4 is not a request"),
        ("cores=4", "'cores=4' is not a request"),
        (Cores, "is not a request"),
        (Cores([6, 7]), "a request names amounts, ids belong to offers"),
        (parse("gpus=1.5"), "gpus=1.5: ask for whole devices"),
    ],
)
def test_as_request_names_what_it_was_given(bad, why):
    with pytest.raises(ResourceSpecError, match=why):
        as_request(bad)


def test_as_allocation_keeps_an_allocation():
    given = Cores([1])
    assert as_allocation(given) is given
    assert type(as_allocation(Memory(1))) is Allocation
