"""`a | b`: options in order of preference, over which `&` distributes."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.errors import ResourceSpecError
from grainlike.resources import (
    EMPTY,
    UNIT,
    Cores,
    GPUs,
    Limit,
    Memory,
    Nodes,
    Request,
    Resource,
    Short,
    Token,
    WallTime,
    as_request,
    missing,
)

CHOICE = Cores(2) & GPUs(1) | Cores(8)

CORES = st.sampled_from([Cores(1), Cores(2), Cores(2, pack="numa")])
OTHERS = st.sampled_from([GPUs(1), Memory(5), Memory(5, grow=2), Token("a"), Limit("db", 1), Resource("foo", 1)])


def choices(parts):
    def joined(options):
        choice = options[0]
        for option in options[1:]:
            choice = choice | option
        return choice

    return st.lists(parts, min_size=1, max_size=3).map(joined)


@given(choices(CORES), choices(CORES), choices(OTHERS))
def test_and_distributes_over_or_from_both_sides(a, b, c):
    assert (a | b) & c == (a & c) | (b & c)
    for one in c.options:  # the order of preference is that of the left side first
        assert one & (a | b) == (one & a) | (one & b)


@given(choices(CORES | OTHERS), choices(CORES | OTHERS), choices(CORES | OTHERS))
def test_or_keeps_order_drops_the_same_and_does_not_care_for_brackets(a, b, c):
    assert (a | b) | c == a | (b | c)
    assert a | a == a
    assert a | b | a == a | b
    options = (a | b).options
    assert len(set(options)) == len(options)
    assert options[: len(a.options)] == a.options
    assert set(options) == {*a.options, *b.options}
    assert all(option.options == (option,) and type(option) is Request for option in options)


def test_preference_is_part_of_the_value():
    assert Cores(1) | Cores(2) != Cores(2) | Cores(1)
    assert Cores(1) | Cores(2) == Cores(1) | Cores(2)
    assert hash(Cores(1) | Cores(2)) == hash(Cores(1) | Cores(2))
    assert Cores(1) | Cores(2) != Cores(1)
    assert Cores(1) != Cores(1) | Cores(2)
    assert CHOICE != 5
    assert CHOICE & EMPTY == EMPTY & CHOICE == CHOICE


def test_two_of_one_kind_in_any_option_are_refused():
    with pytest.raises(ResourceSpecError, match="gpus is there twice"):
        CHOICE & GPUs(1)
    with pytest.raises(ResourceSpecError, match="cores is there twice"):
        CHOICE & CHOICE


@pytest.mark.parametrize("name", ["units", "ids", "names", "N", "walltime", "tokens", "nodes", "pack", "each", "terms"])
def test_what_belongs_to_each_option_says_so(name):
    with pytest.raises(AttributeError, match=r"cores=8 has several options: ask each of its \.options"):
        getattr(CHOICE, name)


def test_a_choice_is_a_request_all_the_same():
    assert CHOICE
    assert as_request(CHOICE) is CHOICE
    assert CHOICE.parts == ("cores", "gpus")
    assert copy.copy(CHOICE) == copy.deepcopy(CHOICE) == CHOICE
    for change in (lambda: setattr(CHOICE, "units", {}), lambda: delattr(CHOICE, "_options")):
        with pytest.raises(AttributeError, match="immutable"):
            change()
    with pytest.raises(TypeError, match=r"write `\(fn @ \(Cores\(2\) & GPUs\(1\) \| Cores\(8\)\)\)\(\.\.\.\)`"):
        CHOICE(5)
    assert getattr(CHOICE, "__array__", None) is None


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda: Cores([1]) | Cores(1), "ids belong to offers"),
        (lambda: Cores(1) | Cores([1]), "ids belong to offers"),
        (lambda: CHOICE | Cores([1]), "ids belong to offers"),
        (lambda: CHOICE & GPUs([1]), "gpus is there twice|ids belong to offers"),
        (lambda: (Cores(1) | Cores(2)) & GPUs([1]), "ids belong to offers"),
        (lambda: GPUs([1]) & (Cores(1) | Cores(2)), "ids belong to offers"),
        (lambda: EMPTY | Cores(1), "an empty request is no choice"),
        (lambda: Cores(1) | EMPTY, "an empty request is no choice"),
        (lambda: CHOICE + Cores(1), "does not add"),
    ],
)
def test_what_is_no_choice_is_refused(write, why):
    with pytest.raises(ResourceSpecError, match=why):
        write()


def test_choices_do_not_multiply_without_end():
    wide = Cores(1)
    for letter in "abcdef":
        wide = wide & (Resource(letter, 1) | Resource(letter * 2, 1))
    assert len(wide.options) == 64
    with pytest.raises(ResourceSpecError, match="there may be 64"):
        wide & (GPUs(1) | GPUs(2))
    with pytest.raises(ResourceSpecError, match="there may be 64"):
        wide | GPUs(1)


@pytest.mark.parametrize("operate", ["__and__", "__or__"])
def test_other_operands_are_left_to_python(operate):
    assert getattr(CHOICE, operate)(5) is NotImplemented
    assert getattr(Cores(1), operate)(5) is NotImplemented


def test_one_option_that_fits_is_enough():
    assert CHOICE.fits(Cores(range(8)))
    assert CHOICE.fits({"cores": 2, "gpus": 1})
    assert CHOICE.excess({"cores": 7}) == "gpus"
    assert (Cores(8) | CHOICE).excess({"cores": 7}) == "cores"
    assert CHOICE <= CHOICE
    assert Cores(2) <= CHOICE
    assert not Cores(3) <= CHOICE
    assert not Cores(3) <= Cores(4) | Cores(2)
    assert Cores(2) <= CHOICE
    assert not CHOICE < CHOICE
    assert Cores(1) < CHOICE


def test_each_option_grows_that_can():
    small, fixed = Memory(4, grow=2, max=10), Memory(9) & Token("a")
    assert (small | fixed).grown() == Memory(8, grow=2, max=10) | fixed
    assert (small | fixed).grown().grown() == Memory(10, grow=2, max=10) | fixed
    assert (small | fixed).grown().grown().grown() is None
    assert (Memory(5, grow=2, max=6) | Memory(6, grow=2, max=6)).grown() == Memory(6, grow=2, max=6)


WORKERS = [
    ("n1", Cores([0, 1]) & GPUs([0]) & Token("big")),
    ("n2", Cores(range(4)) & WallTime(60)),
    ("n3", Cores(range(4))),
]


def test_a_choice_is_missing_when_all_its_options_are_and_the_nearest_is_explained():
    assert missing(GPUs(9) | Cores(4), WORKERS) is None
    wanted = Cores(1) & Resource("zed", 1) & Resource("abc", 1) | Cores(5)
    why = missing(wanted, WORKERS)
    assert (why.request, why.option, why.nearest, why.lacking) == (wanted, Cores(5), "n2", ("cores",))
    assert (why.absent, why.short) == ((), (Short("cores", 5 * UNIT, 4 * UNIT),))
    assert str(why) == (
        "abc=1 cores=1 zed=1 | cores=5 can never be given; of these cores=5 comes nearest: "
        "too few cores (asked 5, at most 4); nearest is n2, short of cores"
    )
    assert missing(wanted, []).option == wanted.options[0]


def test_tokens_are_missing_by_name():
    assert missing(Cores(2) & Token("big"), WORKERS) is None
    why = missing(Cores(4) & Token("big") & Token("odd"), WORKERS)
    assert (why.absent, why.short, why.nearest) == (("token=odd",), (), "n1")
    assert why.lacking == ("cores", "token=odd")
    assert missing(Cores(4) & Token("big"), WORKERS).absent == ()


def test_times_are_missing_only_where_somebody_has_less():
    assert missing(Cores(1) & WallTime(61), WORKERS) is None
    why = missing(Cores(1) & WallTime(90), WORKERS[1:2])
    assert str(why).endswith("too little walltime (asked 0:01:30, at most 0:01:00); nearest is n2, short of walltime")
    assert missing(Cores(1) & WallTime(90, soft=60), WORKERS[1:2]) is None


def test_a_gang_needs_as_many_workers_as_it_has_nodes():
    assert missing(Nodes(3, each=Cores(2)), WORKERS) is None
    why = missing(Nodes(3, each=Cores(3)), WORKERS)
    assert why.short == (Short("nodes", 3 * UNIT, 2 * UNIT),)
    assert (why.nearest, why.lacking) == ("n1", ("cores",))
    alike = missing(Nodes(4, each=Cores(1)), WORKERS)
    assert (alike.nearest, alike.lacking) == (None, ())
    assert str(alike) == ("nodes=4(cores=1) can never be given: it needs 4 workers that can give cores=1; there are 3")
    assert missing(Nodes(2, each=Cores(9)), WORKERS).short == (Short("cores", 9 * UNIT, 4 * UNIT),)


def test_limits_and_rates_are_nobodys_lack():
    assert missing(Cores(1) & Limit("db", 99), WORKERS) is None
