"""All who tell whether something fits tell the same: `fits`, a ledger, and `missing`."""

from hypothesis import given
from hypothesis import strategies as st

from grainlike.resources import Allocation, Cores, GPUs, Ledger, Memory, Nodes, Resource, Token, WallTime, missing

PARTS = (
    st.builds(Cores, st.integers(1, 5), pack=st.sampled_from([None, "numa", "spread"])),
    st.builds(GPUs, st.sampled_from([0.25, 0.5, 1, 2])),
    st.builds(Memory, st.integers(1, 4)),
    st.builds(Resource, st.just("foo"), st.integers(1, 2)),
    st.builds(Token, st.sampled_from("ab")),
    st.builds(WallTime, st.integers(3, 5), soft=st.none() | st.integers(1, 3)),
)
REQUESTS = st.lists(st.sampled_from(PARTS), min_size=1, unique=True).flatmap(
    lambda parts: st.tuples(*parts).map(lambda made: sum_up(made))
)


def sum_up(parts):
    request = parts[0]
    for part in parts[1:]:
        request = request & part
    return request


@st.composite
def offers(draw):
    amounts = draw(st.fixed_dictionaries({}, optional={"memory": st.integers(1, 4), "foo": st.integers(1, 2)}))
    terms = draw(
        st.fixed_dictionaries({}, optional={"token": st.sets(st.sampled_from("ab")), "walltime": st.just(3.5)})
    )
    count = st.integers(1, 5).map(range)
    return Allocation(amounts | terms, draw(st.fixed_dictionaries({}, optional={"cores": count, "gpus": count})))


@given(REQUESTS, offers())
def test_a_ledger_gives_what_fits_and_nothing_is_missing_then(request, offer):
    ledger = Ledger(offer)
    fits = request.fits(offer)
    assert (request.fits_units(offer.units) and request.suits(offer)) == fits
    assert ledger.fits_ever(request) == ledger.fits_now(request) == fits
    why = missing(request, [("only", offer)])
    assert (why is None) == fits
    grant = ledger.grant(request)
    assert (grant is not None) == fits
    if why:
        assert why.lacking
        assert {name.partition("=")[0] for name in why.lacking} <= {*request.parts}
        assert why.lacking[0].partition("=")[0] == request.excess(offer)
    else:
        ledger.release(grant)
        assert dict(ledger.free) == dict(offer.units)


@given(REQUESTS, REQUESTS, st.lists(offers(), max_size=4))
def test_a_choice_or_a_gang_is_given_where_its_parts_are(a, b, several):
    workers = [(str(number), offer) for number, offer in enumerate(several)]
    fitting = [offer for offer in several if a.fits(offer)]
    assert (missing(a | b, workers) is None) == any((a | b).fits(offer) for offer in several)
    if a.units:
        gang = missing(Nodes(2, each=a), workers)
        assert (gang is None) == (len(fitting) >= 2)
        assert (gang is None) or ("nodes" in [one.name for one in gang.short]) == (len(fitting) == 1)
