"""What a request says beside its amounts: times, tokens, limits, rates, gangs, packing, growth."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.errors import ResourceSpecError
from grainlike.resources import (
    EMPTY,
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Ledger,
    Limit,
    Memory,
    Nodes,
    Rate,
    Request,
    Resource,
    Token,
    WallTime,
    as_allocation,
    as_request,
    offer_of,
    parse,
)

ALL = (
    Cores(8, pack="numa")
    & Memory("4G", grow=2, max="64G")
    & Token("b")
    & Token("a")
    & WallTime("1:30:00", soft="1:00:00", group="fit")
    & Limit("db", 1)
    & Rate("api", 10)
)


def test_every_term_is_there_and_the_amounts_are_as_without():
    assert ALL.units == (Cores(8) & Memory("4G")).units
    assert (ALL.walltime, ALL.walltime_soft, ALL.walltime_group) == (5400.0, 3600.0, "fit")
    assert ALL.tokens == ("a", "b")
    assert dict(ALL.limits) == {"db": UNIT}
    assert dict(ALL.rates) == {"api": 10 * UNIT}
    assert (ALL.nodes, ALL.pack, ALL.options, ALL.each) == (1, "numa", (ALL,), ALL)
    assert ALL.parts == ("cores", "limit:db", "memory", "rate:api", "token", "walltime")


def test_without_terms_there_is_none():
    plain = Cores(1)
    assert (plain.walltime, plain.walltime_soft, plain.walltime_group, plain.pack) == (None, None, None, None)
    assert (plain.tokens, dict(plain.limits), dict(plain.rates), plain.nodes) == ((), {}, {}, 1)
    assert plain.grown() is None


def test_few_cores_are_one_object_and_terms_are_a_part_of_the_hash():
    assert Cores(4) is Cores(4)
    assert Cores(10**6) is not Cores(10**6)
    assert len({hash(request) for request in (Cores(4), Cores(4, pack="numa"), Cores(4) & Token("a"))}) == 3


@pytest.mark.parametrize("term", [WallTime(5), WallTime(group="g"), Token("a"), Limit("a", 1), Rate("a", 1)])
def test_a_term_alone_is_a_request_that_differs_from_none(term):
    assert term
    assert term != EMPTY
    assert term & EMPTY == EMPTY & term == term
    assert term & Cores(1) == Cores(1) & term != Cores(1)
    assert len({term, EMPTY, term & Cores(1), Cores(1), parse(str(term))}) == 4
    assert as_request(term) is term
    assert term.units == {}


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("1:30:00", 5400),
        ("01:30:00", 5400),
        ("90:00", 5400),
        ("5400", 5400),
        (5400, 5400),
        (0.5, 0.5),
        ("0.5", 0.5),
        ("0:00.5", 0.5),
        ("1-12:00:00", 36 * 3600),
        ("100:00:00", 360000),
        ("90", 90),
        ("0:90", None),
        ("1:60:00", None),
        ("1:00:60", None),
        ("1-24:00:00", None),
        ("1-12:00", None),
        ("90m", None),
        ("1h", None),
        ("1:2:3:4", None),
        ("", None),
        (":30", None),
        ("-5", None),
        ("0:00", None),
        ("1e3", None),
        ("0.0000000001", None),
        (0, None),
        (-1, None),
        (True, None),
        (float("inf"), None),
        ([], None),
    ],
)
def test_times_that_can_be_read_in_one_way_only(said, seconds):
    if seconds is None:
        with pytest.raises(ResourceSpecError, match="walltime"):
            WallTime(said)
    else:
        assert WallTime(said).walltime == seconds


@given(st.integers(1, 10**15))
def test_times_are_exact(nanoseconds):
    request = build_time(nanoseconds)
    assert request.terms.walltime == nanoseconds
    assert parse(str(request)) == request


def build_time(nanoseconds):
    whole, rest = divmod(nanoseconds, UNIT)
    return WallTime(f"{whole}.{rest:09d}")


def test_a_soft_time_that_is_the_hard_one_says_nothing():
    assert WallTime(60, soft="1:00") == WallTime(60)
    assert WallTime(60).walltime_soft == 60


def test_a_gang_has_the_amounts_of_each_node():
    gang = Nodes(4, each=Cores(32, pack="spread") & Token("ib") & WallTime(60)) & Limit("db", 1) & Token("a")
    assert (gang.nodes, gang.N, gang.pack, gang.walltime, gang.tokens) == (4, 32, "spread", 60, ("a", "ib"))
    assert gang.each == Cores(32, pack="spread") & Token("ib") & Token("a") & WallTime(60) & Limit("db", 1)
    assert Nodes(1, each=Cores(2)) == Cores(2)
    assert Nodes(2, each=Cores(2)) != Cores(2)
    assert Nodes(2, each=Cores(1) | GPUs(1)) == Nodes(2, each=Cores(1)) | Nodes(2, each=GPUs(1))


def test_memory_grows_to_its_end_and_no_further():
    sizes, request = [], Cores(1) & Memory("4G", grow=2, max="15G")
    while request is not None:
        assert request.N == 1
        sizes.append(request["memory"])
        request = request.grown()
    assert sizes == [4 * 10**9, 8 * 10**9, 15 * 10**9]
    assert Memory(3, grow="1.5").grown() == Memory(5, grow=1.5)
    assert Memory(3, grow=2, max=3).grown() is None
    assert Nodes(2, each=Memory(3, grow=2)).grown() == Nodes(2, each=Memory(6, grow=2))


@given(st.integers(1, 2**50), st.integers(UNIT + 1, 100 * UNIT))
def test_growth_is_exact_and_whole_bytes(size, factor):
    request = Memory(size, grow=f"{factor}n")
    grown = request.grown()
    assert grown.terms == request.terms
    assert size * factor <= grown["memory"] * UNIT < size * factor + UNIT
    assert grown["memory"] > size


@pytest.mark.parametrize(
    ("write", "bad"),
    [
        (lambda: WallTime(), "walltime: write a time"),
        (lambda: WallTime(soft=5), "walltime: write a time"),
        (lambda: WallTime(soft=5, group="g"), "soft=0:00:05 goes with a time"),
        (lambda: WallTime(4, soft=5), "soft=0:00:05 goes with a time"),
        (lambda: WallTime(group="a b"), "'a b' is not a name"),
        (lambda: Token(""), "token: '' is not a name"),
        (lambda: Token("a|b"), "token: 'a|b' is not a name"),
        (lambda: Token(5), "token: 5 is not a name"),
        (lambda: Limit("db", 0), "limit:db=0: an amount must be greater than zero"),
        (lambda: Limit("db", 0.5), "limit:db=0.5: under a limit below one"),
        (lambda: Limit("db", "x"), "limit:db: 'x' is not a quantity"),
        (lambda: Limit("d b", 1), "limit: 'd b' is not a name"),
        (lambda: Rate("api", -1), "rate:api=-1"),
        (lambda: Rate("", 1), "rate: '' is not a name"),
        (lambda: Cores(2, pack="socket"), "pack='socket' is unknown"),
        (lambda: Cores([1, 2], pack="numa"), "pack='numa' goes with a number of cores"),
        (lambda: Cores(0, pack="numa"), "cores=0"),
        (lambda: Memory(5, max=6), "max=6 is how far to grow"),
        (lambda: Memory(5, grow=1), "grow=1 would not grow"),
        (lambda: Memory(5, grow=2, max=4), "max=4 is less than the 5 to begin with"),
        (lambda: Memory(5, grow=2, max=0.5), "memory=0.5"),
        (lambda: Nodes(0, each=Cores(1)), "nodes=0: a gang has from 1"),
        (lambda: Nodes(True, each=Cores(1)), "nodes=True"),
        (lambda: Nodes(1.5, each=Cores(1)), "nodes=1.5"),
        (lambda: Nodes(2**16 + 1, each=Cores(1)), "nodes=65537"),
        (lambda: Nodes(2, each=5), "5 is not a request"),
        (lambda: Nodes(2, each=EMPTY), "has no amounts"),
        (lambda: Nodes(2, each=Token("a")), "has no amounts"),
        (lambda: Nodes(2, each=Cores([1])), "ids belong to offers"),
        (lambda: Nodes(2, each=Nodes(2, each=Cores(1))), "is a gang itself"),
        (lambda: Nodes(2, each=Cores(1) & Limit("a", 1)), "a limit or a rate stands beside"),
        (lambda: Nodes(2, each=Cores(1) & Rate("a", 1)), "a limit or a rate stands beside"),
        (lambda: Nodes(2, each=Cores(1)) & Memory(1), "nodes=2 beside memory: write what each node has into each="),
        (lambda: Memory(1) & Nodes(2, each=Cores(1)), "nodes=2 beside memory"),
        (lambda: Cores(1) & Nodes(2, each=Cores(1)), "nodes=2 beside cores"),
        (lambda: Nodes(2, each=Cores(1)) & Nodes(2, each=Cores(1)), "nodes is there twice"),
        (lambda: WallTime(1) & WallTime(group="g"), "walltime is there twice"),
        (lambda: Token("a") & (Token("a") & Token("b")), "token=a is there twice"),
        (lambda: Limit("a", 1) & Limit("b", 1) & Limit("a", 2), "limit:a is there twice, as 1 and 2"),
        (lambda: Rate("a", 1) & Rate("a", 1), "rate:a is there twice"),
        (lambda: Cores(2, pack="numa") & Cores(1), "cores is there twice"),
        (lambda: Cores(1) + Token("a"), "token=a does not add"),
        (lambda: WallTime(1) - WallTime(1), "walltime=0:00:01 does not add"),
        (lambda: Cores(1) - (Cores(1) | Cores(2)), r"cores=1 \| cores=2 does not add"),
        (lambda: Request({"token": 5}), "token=5: a token is text"),
        (lambda: Resource("token", 1), "reserved word"),
        (lambda: Resource("nodes", 1), "reserved word"),
    ],
)
def test_a_bad_term_is_refused_where_it_is_written_and_the_part_named(write, bad):
    with pytest.raises(ResourceSpecError, match=bad):
        write()


@pytest.mark.parametrize("extra", [Limit("a", 1), Rate("a", 1), WallTime(group="g"), WallTime(5, soft=4)])
def test_an_offer_has_a_time_and_tokens_at_most(extra):
    for make in (lambda: Cores([1]) & extra, lambda: extra & Cores([1]), lambda: as_allocation(Memory(1) & extra)):
        with pytest.raises(ResourceSpecError, match="is no offer"):
            make()
    for bad in (Nodes(2, each=Memory(1)), Memory(1, grow=2), Cores(1, pack="numa")):
        with pytest.raises(ResourceSpecError, match="is no offer"):
            offer_of(bad, own_cores=(0, 1))


def test_an_offer_carries_tokens_and_keeps_them_on_every_way():
    offer = offer_of(Cores(2) & Token("big") & WallTime(60), own_cores=(4, 5))
    assert offer == Cores([4, 5]) & Token("big") & WallTime(60) == Token("big") & Cores([4, 5]) & WallTime(60)
    assert type(offer) is Allocation
    assert (offer.tokens, offer.walltime) == (("big",), 60)
    assert offer.request == Cores(2) & Token("big") & WallTime(60)
    assert str(offer) == "cores=[4,5] token=big walltime=0:01:00"
    assert offer == Allocation({"token": "big", "walltime": 60}, {"cores": [4, 5]})
    assert pickle.loads(pickle.dumps(offer)) == offer


def test_mappings_say_times_and_tokens_by_name():
    assert Request({"cores": 1, "walltime": "1:00", "token": ["b", "a"]}) == parse(
        "cores=1 walltime=60 token=a token=b"
    )
    job = Cores(1) & Token("a") & WallTime(60)
    assert job.fits({"cores": 1, "token": ("a", "b"), "walltime": "1:00"})
    assert job.fits({"cores": 1, "token": "a"})
    assert job.excess({"cores": 1, "token": "b"}) == job.excess({"cores": 1}) == "token"
    assert job.excess({"cores": 1, "token": "a", "walltime": 59.5}) == "walltime"
    assert job.excess({"cores": 1, "token": "a", "walltime": 0}) == "walltime"
    assert job.excess({"token": "a", "walltime": 1}) == "cores"


def test_a_request_fits_what_carries_its_tokens_and_has_its_time():
    offer = Cores([0, 1]) & Token("a") & Token("b") & WallTime(60)
    assert (Cores(2) & Token("a")).fits(offer)
    assert (Cores(1) & Token("c")).excess(offer) == "token"
    assert (Cores(1) & WallTime(60)).fits(offer)
    assert (Cores(1) & WallTime(61)).excess(offer) == "walltime"
    assert (Cores(1) & WallTime(61, soft=60)).fits(offer)
    assert (Cores(1) & WallTime(61)).fits(Cores([0]))
    assert Cores(1).fits(offer)
    assert (Cores(3) & Token("a")).excess(offer) == "cores"
    assert (Token("c") & WallTime(61)).suits(offer) is False
    assert (Token("a") & WallTime(60)).suits(offer)
    assert not WallTime(61).suits(offer)
    assert Cores(9).suits(offer)


def test_order_counts_what_both_sides_say():
    assert Limit("a", 1) <= Limit("a", 2)
    assert not Limit("a", 2) <= Limit("a", 1)
    assert (Limit("a", 2) & Cores(1)).excess(Limit("a", 1) & Cores(1)) == "limit:a"
    assert Rate("a", 2).excess(Rate("a", 1)) == "rate:a"
    assert Limit("a", 2) <= Cores(1)
    assert Nodes(2, each=Cores(4)) <= Nodes(3, each=Cores(4))
    assert Nodes(2, each=Cores(4)).excess(Nodes(3, each=Cores(3))) == "cores"
    assert Nodes(4, each=Cores(1)).excess(Cores([0, 1])) == "nodes"
    assert Nodes(4, each=Cores(1)).excess({"cores": 9}) == "nodes"
    assert Cores(1) < Cores(1) & Token("a")
    assert not Cores(1) < Cores(1) & WallTime(5)
    assert not Cores(1) & WallTime(5) < Cores(1)


def test_a_ledger_asks_for_tokens_and_time_and_grants_keep_them():
    ledger = Ledger(Cores([0, 1]) & Token("a") & WallTime(60))
    grant = ledger.grant(Cores(1) & Token("a") & WallTime(30, soft=20, group="g") & Limit("db", 1))
    assert grant.allocation == Cores([0]) & Token("a") & WallTime(30)
    assert grant.allocation.walltime == 30
    ledger.release(grant)
    for bad in (Cores(1) & Token("b"), Cores(1) & WallTime(61)):
        assert not ledger.fits_ever(bad)
        assert not ledger.fits_now(bad)
        assert ledger.grant(bad) is None
    assert ledger.fits_ever(Token("a"))


@pytest.mark.parametrize("ask", [Ledger.grant, Ledger.fits_ever, Ledger.fits_now])
def test_a_ledger_refuses_a_gang_and_a_choice_instead_of_granting_something_else(ask):
    ledger = Ledger(Cores([0, 1]))
    with pytest.raises(ResourceSpecError, match=r"\(cores=1\) is a gang: each of its nodes is asked for cores=1"):
        ask(ledger, Nodes(2, each=Cores(1)))
    with pytest.raises(AttributeError, match="has several options"):
        ask(ledger, Cores(1) | Cores(2))
    assert ledger.grant(Nodes(2, each=Cores(1)).each).allocation.cores == (0,)
