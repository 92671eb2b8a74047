"""Text and code of requests of all kinds read back, and what is no request is refused as one."""

import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import grainlike
from grainlike.errors import ResourceSpecError
from grainlike.resources import (
    UNIT,
    Cores,
    GPUs,
    Limit,
    Memory,
    Nodes,
    Rate,
    Request,
    Resource,
    Token,
    WallTime,
    number,
    parse,
    parse_allocation,
)

WORDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,6}", fullmatch=True)
NAMES = WORDS.filter(lambda name: name not in {"cores", "gpus", "memory", "nodes", "token", "walltime"})
FINE = st.integers(1, 10**27).map(number)
TIMES = st.integers(1, 10**15).map(number)
PACKS = st.sampled_from([None, "numa", "spread"])


@st.composite
def memories(draw):
    size = draw(st.integers(1, 2**50))
    grow = draw(st.none() | st.integers(UNIT + 1, 10 * UNIT).map(number))
    return Memory(size, grow=grow, max=grow and draw(st.none() | st.integers(size, 2**52)))


@st.composite
def times(draw):
    time, group = draw(st.none() | TIMES), draw(st.none() | WORDS)
    assume(time is not None or group is not None)
    soft = None if time is None else draw(st.none() | st.just(time / 2).filter(lambda half: half * 10**9 % 1 == 0))
    return WallTime(time, soft=soft, group=group)


def together(parts):
    request = parse("")
    for part in parts:
        request = request & part
    return request


def amounts(least):
    kinds = (
        st.builds(Cores, st.integers(1, 10**6), pack=PACKS),
        memories(),
        st.builds(GPUs, st.integers(1, 99) | st.integers(1, UNIT - 1).map(number)),
        st.dictionaries(NAMES, FINE, min_size=1, max_size=2).map(Request),
    )
    chosen = st.lists(st.integers(0, len(kinds) - 1), min_size=least, max_size=4, unique=True)
    return chosen.flatmap(lambda which: st.tuples(*(kinds[at] for at in which))).map(together)


@st.composite
def simple(draw):
    gang = draw(st.booleans())
    request = draw(amounts(int(gang)))
    if gang:
        request = Nodes(draw(st.integers(1, 99)), each=request)
    request = together([request, *map(Token, draw(st.sets(WORDS, max_size=3)))])
    for word, counts in ((Limit, FINE.filter(lambda count: count >= 1)), (Rate, FINE)):
        pairs = draw(st.dictionaries(WORDS, counts, max_size=2))
        request = together([request, *(word(name, amount) for name, amount in pairs.items())])
    return request & draw(times()) if draw(st.booleans()) else request


SOME = simple().filter(bool)
CHOICES = st.lists(SOME, min_size=1, max_size=3).map(lambda some: some[0] if len(some) == 1 else joined(some))


def joined(options):
    choice = options[0]
    for option in options[1:]:
        choice = choice | option
    return choice


def evaluated(code):
    return eval(code, vars(grainlike) | {"__builtins__": {}})


@given(simple() | CHOICES)
def test_every_kind_reads_back_and_its_parts_are_sorted_and_it_grows_in_memory_alone(value):
    """All of it of the same requests: to draw one takes far longer than to look at it."""
    check_reads_back_from_text_from_code_and_from_a_pickle(value)
    check_parts_of_text_are_sorted_by_name_and_may_come_in_any_order(value)
    check_grown_requests_read_back_and_ask_for_more_memory_alone(value)


def check_reads_back_from_text_from_code_and_from_a_pickle(value):
    for twin in (parse(str(value)), evaluated(repr(value)), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert hash(twin) == hash(value)
        assert twin.options == value.options
        assert (str(twin), repr(twin)) == (str(value), repr(value))
        assert [option.terms for option in twin.options] == [option.terms for option in value.options]


def check_parts_of_text_are_sorted_by_name_and_may_come_in_any_order(value):
    for option in value.options:
        assert list(option.parts) == sorted(option.parts)
    texts = str(value).split(" | ")
    if "(" not in str(value):
        assert parse(" | ".join(" ".join(reversed(text.split())) for text in texts)) == value
        assert all(text.split() == sorted(text.split(), key=lambda part: part.split("=")[0]) for text in texts)


def check_grown_requests_read_back_and_ask_for_more_memory_alone(value):
    grown = value.grown()
    if grown is None:
        return
    assert parse(str(grown)) == evaluated(repr(grown)) == grown != value
    assert all(more.parts == option.parts for more, option in zip(grown.options, value.options, strict=False))


@given(st.text(max_size=30) | st.text("cores=[]*,.:|()0123456789 mGi", max_size=40))
def test_any_text_is_a_request_or_refused_as_one(text):
    try:
        value = parse(text)
    except ResourceSpecError:
        return
    assert parse(str(value)) == evaluated(repr(value)) == value


PIECES = """cores= gpus= memory= foo= token= limit:db= rate:api= walltime= nodes= 4 0.5 8Gi 1:30:00 a [0,1] *0.5
    :pack=numa :grow=2 :max=9G :soft=1:00 :group=fit ( ) | : ="""


@given(st.lists(st.sampled_from([" ", *PIECES.split()]), max_size=12).map("".join))
def test_any_pieces_of_the_language_are_a_request_or_refused_as_one(text):
    test_any_text_is_a_request_or_refused_as_one.hypothesis.inner_test(text)


def test_the_text_of_the_contract():
    request = parse("cores=8 gpus=1 token=a limit:db=1 rate:api=10 | nodes=4(cores=32)")
    first = Cores(8) & GPUs(1) & Token("a") & Limit("db", 1) & Rate("api", 10)
    assert request == first | Nodes(4, each=Cores(32))
    assert str(request) == "cores=8 gpus=1 limit:db=1 rate:api=10 token=a | nodes=4(cores=32)"


@pytest.mark.parametrize(
    ("value", "text", "code"),
    [
        (WallTime(5400), "walltime=1:30:00", 'WallTime("1:30:00")'),
        (WallTime("0.5"), "walltime=0:00:00.5", 'WallTime("0:00:00.5")'),
        (WallTime(group="fit"), "walltime=group=fit", 'WallTime(group="fit")'),
        (
            WallTime("1-1:00:00", soft="90:00", group="g"),
            "walltime=25:00:00:soft=1:30:00:group=g",
            'WallTime("25:00:00", soft="1:30:00", group="g")',
        ),
        (Token("b") & Token("a"), "token=a token=b", 'Token("a") & Token("b")'),
        (Limit("db", 1), "limit:db=1", 'Limit("db", 1)'),
        (Rate("api", "500m"), "rate:api=0.5", 'Rate("api", 0.5)'),
        (Cores(8, pack="spread"), "cores=8:pack=spread", 'Cores(8, pack="spread")'),
        (
            Memory("4G", grow=2, max="64Gi"),
            "memory=4000000000:grow=2:max=68719476736",
            'Memory("4G", grow=2, max="64Gi")',
        ),
        (Memory(5, grow=1.5), "memory=5:grow=1.5", "Memory(5, grow=1.5)"),
        (
            Token("z") & Nodes(4, each=Memory("1Gi", grow=2) & Cores(32, pack="numa")) & Limit("a", 1),
            "limit:a=1 nodes=4(cores=32:pack=numa memory=1073741824:grow=2) token=z",
            'Limit("a", 1) & Nodes(4, each=Cores(32, pack="numa") & Memory("1Gi", grow=2)) & Token("z")',
        ),
        (Cores([1]) & Token("a"), "cores=[1] token=a", 'Cores([1]) & Token("a")'),
        (Cores(2) & GPUs(1) | Cores(8), "cores=2 gpus=1 | cores=8", "Cores(2) & GPUs(1) | Cores(8)"),
    ],
)
def test_how_it_looks(value, text, code):
    assert str(value) == text
    assert repr(value) == code
    assert parse(text) == evaluated(code) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nodes=2( cores=1\tmemory=5 ) token=a", Nodes(2, each=Cores(1) & Memory(5)) & Token("a")),
        ("nodes=2(cores=1|gpus=1)", Nodes(2, each=Cores(1)) | Nodes(2, each=GPUs(1))),
        ("nodes=2(cores=1)|cores=[ 1, 2 ]", None),
        ("nodes=2(cores=1 token=a)", Nodes(2, each=Cores(1)) & Token("a")),
        ("cores=1|cores=1", Cores(1)),
        ("\tcores=1 | \n cores=2 ", Cores(1) | Cores(2)),
        ("memory=4G:max=8G:grow=2", Memory("4G", grow=2, max="8G")),
        ("walltime=5400", WallTime("1:30:00")),
        ("limit:5=5", Limit("5", 5)),
        ("limit=5 rate=6", Resource("limit", 5) & Resource("rate", 6)),
    ],
)
def test_text_that_is_written_in_another_way(text, value):
    if value is None:
        with pytest.raises(ResourceSpecError, match="ids belong to offers"):
            parse(text)
    else:
        assert parse(text) == value


def test_several_texts_merge_over_choices_too():
    assert parse("cores=1 | cores=2", "token=a") == parse("token=a", "cores=1 | cores=2")
    assert parse("cores=1 | cores=2", "token=a") == parse("cores=1 token=a | cores=2 token=a")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cores=1 |", "an empty request is no choice"),
        ("| cores=1", "an empty request is no choice"),
        ("cores=1 || cores=2", "an empty request is no choice"),
        ("cores=8:numa", "'8:numa' has the unknown unit"),
        ("cores=8:pack=x", "pack='x' is unknown"),
        ("cores=8:grow=2", "'cores=8:grow=2': what may stand behind the value of cores, once, is pack"),
        ("memory=8:grow=2:grow=2", "once, is grow and max"),
        ("cores=[1]:pack=numa", "is not a quantity"),
        ("gpus=1:pack=numa", "'gpus=1:pack=numa' has a colon, but gpus takes an amount alone"),
        ("foo=1:2", "'foo=1:2' has a colon, but foo takes an amount alone"),
        ("limit:=5", "limit: '' is not a name"),
        ("limit:a:b=5", "limit: 'a:b' is not a name"),
        ("limit:db=1:2", "limit:db: '1:2' has the unknown unit"),
        ("speed:db=1", "'speed:db' is not a resource name"),
        ("token=a|b", "parts must be KEY=VALUE"),
        ("token=a:b", "token: 'a:b' is not a name"),
        ("walltime=soft=5", "write a time"),
        ("walltime=90m", "walltime=90m: write H:M:S"),
        ("nodes=4", "nodes=4: a gang is written as"),
        ("nodes=4cores=32", "a gang is written as"),
        ("nodes=(cores=32)", "a gang is written as"),
        ("nodes=4(cores=32", "a gang is written as"),
        ("nodes=4(cores=32))", "a gang is written as"),
        ("nodes=2(nodes=2(cores=1))", "a gang is written as"),
        ("nodes=" + "2(nodes=" * 3000 + "1", "a gang is written as"),
        ("nodes=0(cores=1)", "nodes=0: a gang has from 1"),
        ("nodes=2()", "has no amounts"),
        ("cores=1)", "unknown unit"),
        ("cores=(1)", "is not a quantity"),
        (" | ".join(f"cores={n}" for n in range(1, 66)), "65 options is no request: there may be 64"),
    ],
)
def test_bad_text_is_refused_with_the_part_that_is_bad(text, why):
    with pytest.raises(ResourceSpecError, match=why):
        parse(text)


def test_text_of_an_offer_is_no_choice_and_no_gang():
    assert parse_allocation("cores=[1] token=a walltime=60") == Cores([1]) & Token("a") & WallTime(60)
    for text in ("cores=1 | cores=2", "nodes=2(cores=1)", "cores=1 limit:db=1"):
        with pytest.raises(ResourceSpecError, match="is no offer"):
            parse_allocation(text)
