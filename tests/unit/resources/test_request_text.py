import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import grainlike
from grainlike.errors import ResourceSpecError
from grainlike.resources import (
    EMPTY,
    UNIT,
    Allocation,
    Cores,
    GPUs,
    Memory,
    Request,
    Resource,
    number,
    parse,
    parse_allocation,
)

COUNTS = st.integers(1, 10**6)
FINE = st.integers(1, 10**27).map(number)
NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"cores", "gpus", "memory", "nodes", "token", "walltime"}
)
SHARES = st.integers(1, UNIT - 1).map(number)
OTHERS = st.dictionaries(NAMES, FINE, max_size=3)
IDS = st.sets(st.integers(0, 2**16 - 1), min_size=1, max_size=8)


@st.composite
def requests(draw):
    kinds = {"cores": COUNTS, "memory": st.integers(1, 2**50), "gpus": COUNTS | SHARES}
    chosen = draw(st.sets(st.sampled_from(sorted(kinds))))
    return Request({name: draw(kinds[name]) for name in sorted(chosen)} | draw(OTHERS))


@st.composite
def allocations(draw):
    ids = draw(st.dictionaries(st.sampled_from(["cores", "gpus"]), IDS))
    amounts = draw(OTHERS)
    if len(ids.get("gpus", ())) == 1 and draw(st.booleans()):
        amounts["gpus"] = draw(SHARES)
    return Allocation(amounts, ids)


def evaluated(code):
    return eval(code, vars(grainlike) | {"__builtins__": {}})


@given(requests() | allocations())
def test_str_parses_back_and_repr_evaluates_back(value):
    for twin in (parse(str(value)), evaluated(repr(value)), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert hash(twin) == hash(value)
        assert dict(twin.ids) == dict(value.ids)
        assert list(twin.units) == sorted(value.units)
        assert type(twin) is type(value) or not value.ids


@given(allocations())
def test_an_allocation_reads_back_as_an_allocation(value):
    twin = parse_allocation(str(value))
    assert twin == value
    assert type(twin) is Allocation


@given(requests(), requests())
def test_p2_sums_are_exact_commute_and_undo(a, b):
    total = a + b
    assert total == b + a
    assert total - b == a
    assert total - a == b
    assert a <= total
    assert b <= total
    assert parse(str(total)) == evaluated(repr(total)) == total
    assert list(total) == sorted({*a, *b})
    assert hash(total) == hash(b + a)


@given(requests(), requests())
def test_p3_excess_fits_and_order_agree(a, limit):
    plain = {name: limit[name] for name in limit}
    over = sorted(name for name in a if a[name] > plain.get(name, 0))
    assert a.excess(limit) == a.excess(plain) == (over[0] if over else None)
    assert a.fits(limit) == a.fits(plain) == (a <= limit) == a.fits_units(limit.units) == (not over)
    assert (a < limit) == (a <= limit and a != limit)


@given(requests(), requests())
def test_and_is_the_sum_of_requests_without_a_kind_in_common(a, b):
    if set(a) & set(b):
        with pytest.raises(ResourceSpecError, match=min(set(a) & set(b))):
            a & b
    else:
        assert a & b == b & a == a + b


@given(st.text(max_size=30) | st.text("cores=[]*,.0123456789 mGi", max_size=30))
def test_any_text_is_a_request_or_refused_as_one(text):
    try:
        value = parse(text)
    except ResourceSpecError:
        return
    assert parse(str(value)) == value


def test_k3_named_resources_as_text_are_shown_sorted():
    request = parse("foo=1 bar=1 baz=2")
    assert request == Resource("foo", 1) & Resource("bar", 1) & Resource("baz", 2)
    assert str(request) == "bar=1 baz=2 foo=1"


def test_k3_several_specs_merge():
    assert parse("foo=1", "bar=2 baz=3") == parse("bar=2 foo=1 baz=3")
    assert parse() == parse("") == parse("", " ") == EMPTY


def test_quantities_and_blanks_in_text():
    assert parse("  cores=4\tmemory=8Gi\nfoo=500m ") == Cores(4) & Memory("8Gi") & Resource("foo", 0.5)


@pytest.mark.parametrize("bad", ["foo", "foo=", "=5", "=", "cores=4 foo", "cores=4 |gpus"])
def test_k4_a_part_without_a_value_is_refused(bad):
    with pytest.raises(ResourceSpecError, match="parts must be KEY=VALUE"):
        parse(bad)


def test_parts_with_a_comma_between_them_are_refused():
    with pytest.raises(ResourceSpecError, match=r"'cores=4,memory=8Gi': between parts stand blanks"):
        parse("cores=4,memory=8Gi")


def test_k4_the_bad_part_is_named():
    with pytest.raises(ResourceSpecError, match="'bar' is not"):
        parse("foo=1 bar baz=2")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("foo=x", "foo: 'x' is not a quantity"),
        ("foo=0", "foo=0: an amount must be greater than zero"),
        ("cores=0.5", "cores are whole"),
        ("cores=1Ki", "cores are counted"),
        ("a:b=1", "'a:b' is not a resource name"),
        ("token=a b=1 token=a", "token=a is there twice"),
        ("foo=1 foo=2", "foo is there twice"),
        ("cores=[]", "at least one id"),
        ("cores=[1,,2]", "an id is missing"),
        ("cores=[1,]", "an id is missing"),
        ("cores=[1;2]", "ids are written as"),
        ("cores=[1", "ids are written as"),
        ("cores=[1]*2", "cores=2 with 1 ids"),
        ("gpus=[0]*", "ids are written as"),
        ("foo=[1]", "only cores and gpus have ids"),
        ("cores=[99999]", "is not an id"),
        (f"cores=[{'9' * 5000}]", "an id is missing between two commas, or too long"),
        (5, "5 is not text"),
        (None, "None is not text"),
    ],
)
def test_k8_bad_text_is_refused_with_the_part_that_is_bad(text, why):
    with pytest.raises(ResourceSpecError, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("value", "text", "code"),
    [
        (EMPTY, "", 'parse("")'),
        (Memory("8Gi") & Cores(4), "cores=4 memory=8589934592", 'Cores(4) & Memory("8Gi")'),
        (Memory(100), "memory=100", "Memory(100)"),
        (GPUs(0.5), "gpus=0.5", "GPUs(0.5)"),
        (
            Resource("f", "999999999999999999999.999999999"),
            "f=999999999999999999999.999999999",
            'Resource("f", "999999999999999999999.999999999")',
        ),
        (GPUs(2) - GPUs(0.5), "gpus=1.5", "GPUs(1) + GPUs(0.5)"),
        (Resource("foo", "100m"), "foo=0.1", 'Resource("foo", 0.1)'),
        (
            Resource("f", "12345678901.123456789"),
            "f=12345678901.123456789",
            'Resource("f", "12345678901.123456789")',
        ),
        (
            Memory("8Gi") & Cores([7, 6]),
            "cores=[6,7] memory=8589934592",
            'Cores([6, 7]) & Memory("8Gi")',
        ),
        (GPUs([0], 0.5), "gpus=[0]*0.5", "GPUs([0], 0.5)"),
    ],
)
def test_how_it_looks(value, text, code):
    assert str(value) == text
    assert repr(value) == code
    assert parse(text) == evaluated(code) == value


def test_ids_in_text_may_have_blanks_between():
    assert parse("cores=[ 6, 7 ] foo=1") == Cores([6, 7]) & Resource("foo", 1)
