"""Awaiting placeholders, and what they make of operators, items and attributes."""

import copy
import math
import operator
import pickle
from typing import Any

import pytest

from grainlike.errors import SerializationError
from grainlike.graph import Delayed, delayed, delayed_value, gather, info, later, node_of
from grainlike.resources import Cores


@delayed
async def give(x: Any) -> Any:
    return x


@delayed
def fail(text: str) -> int:
    raise LookupError(text)


@pytest.mark.asyncio
async def test_g4_await_gives_the_value_and_gives_it_again(resolver: Any) -> None:
    r_ = give([1])
    value = await r_
    assert value == [1]
    assert await r_ is value
    assert resolver.calls == ["give"]


@pytest.mark.asyncio
async def test_g4_await_raises_the_error_and_raises_it_again(resolver: Any) -> None:
    r_ = (fail @ Cores(1))("no")
    depths = []
    for _ in range(3):
        with pytest.raises(LookupError, match="no") as caught:
            await r_
        depths.append(len(caught.traceback))
    assert resolver.calls == ["fail"]
    assert depths[1] == depths[2] <= depths[0], "each await must not add to the traceback of the one before"
    assert caught.traceback[-1].name == "fail"


@pytest.mark.asyncio
async def test_g4_a_call_and_its_await_in_one_expression(resolver: Any) -> None:
    assert await (give @ Cores(4))(3) == 3


@pytest.mark.asyncio
async def test_g5_both_operands_run_at_the_same_time(resolver: Any) -> None:
    assert await ((give @ Cores(2))(3) + (give @ Cores(6))(4)) == 7
    assert resolver.most_at_once == 2


def test_a_finished_placeholder_answers_without_a_loop(nobody: None) -> None:
    r_ = delayed_value(3)
    with pytest.raises(StopIteration) as stop:
        r_.__await__().send(None)
    assert stop.value.value == 3


def test_without_an_executor_awaiting_says_so(nobody: None) -> None:
    with pytest.raises(RuntimeError, match="run\\(main\\)"):
        give(1).__await__().send(None)


_BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lshift,
    operator.rshift,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    divmod,
]


@pytest.mark.asyncio
@pytest.mark.parametrize("op", _BINARY, ids=lambda op: op.__name__)
async def test_every_binary_operator_on_either_side(resolver: Any, op: Any) -> None:
    expected = op(13, 3)
    assert await op(give(13), 3) == expected
    assert await op(13, give(3)) == expected
    assert await op(give(13), give(3)) == expected
    r_ = give(13)
    assert await op(r_, r_) == op(13, 13)


class _Matrix:
    def __init__(self, name: str) -> None:
        self.name = name

    def __matmul__(self, other: "_Matrix") -> str:
        return self.name + other.name


@pytest.mark.asyncio
async def test_the_matrix_product_on_either_side(resolver: Any) -> None:
    a, b = _Matrix("a"), _Matrix("b")
    assert await (give(a) @ give(b)) == "ab"
    assert await (give(a) @ b) == "ab"
    # An operand that gives way, as those of other libraries do.
    assert await Delayed.__rmatmul__(give(b), a) == "ab"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "op",
    [
        operator.neg,
        operator.pos,
        operator.invert,
        abs,
        round,
        math.floor,
        math.ceil,
        math.trunc,
        lambda x: round(x, -1),
        lambda x: pow(x, 2, 5),
    ],
)
async def test_every_unary_operator(resolver: Any, op: Any) -> None:
    assert await op(give(-13)) == op(-13)


@pytest.mark.asyncio
async def test_items_slices_attributes_and_method_calls(resolver: Any) -> None:
    r_ = give([5, 6, 7, 8])
    assert await r_[0] == 5
    assert await r_[1:3] == [6, 7]
    assert await r_[give(1) : give(3)] == [6, 7]
    assert await r_[give(2)] == 7
    assert await r_.index(give(7)) == 2
    assert await give(3 + 4j).imag == 4
    assert await give("a-b").split(sep="-") == ["a", "b"]
    assert await give({"a": 1})["a"] == 1


@pytest.mark.asyncio
async def test_an_error_in_an_operator_is_the_placeholders_error(resolver: Any) -> None:
    r_ = give(1) + "a"
    with pytest.raises(TypeError, match="unsupported operand"):
        await (r_ * 2)
    with pytest.raises(AttributeError, match="missing"):
        await give(1).missing


@pytest.mark.asyncio
async def test_in_place_operators_build_a_graph_and_change_no_value(resolver: Any) -> None:
    s_: Any = 0
    for x in range(4):
        s_ += (give @ Cores(1))(x)
    assert await s_ == 6
    first: list[int] = []
    a_ = b_ = give(first)
    a_ += [1]
    assert (await a_, await b_, first) == ([1], [], [])


@pytest.mark.asyncio
async def test_g13_item_assignment_rebinds_to_a_changed_copy(resolver: Any) -> None:
    value = [1, 2, 3]
    a_ = give(value)
    before_ = a_.copy()
    taken_ = give(a_)
    a_[0] = give(9)
    after_ = a_.copy()
    a_[give(1)] += 5
    del a_[2]
    assert await gather(before_, taken_, after_, a_) == [[1, 2, 3], [1, 2, 3], [9, 2, 3], [9, 7]]
    assert value == [1, 2, 3]


@pytest.mark.asyncio
async def test_g13_deleting_an_item_changes_a_copy(resolver: Any) -> None:
    value = {"a": 1, "b": 2}
    a_ = give(value)
    del a_["b"]
    assert (await a_, value) == ({"a": 1}, {"a": 1, "b": 2})


@pytest.mark.asyncio
async def test_g13_nout_unpacks(resolver: Any) -> None:
    @delayed(nout=3)
    def three(kind: Any) -> Any:
        return kind([1, 2, 3])

    for kind in (tuple, list, dict.fromkeys):
        a_, b_, c_ = three(kind)
        assert (await a_, await b_, await c_) == (1, 2, 3)
    assert len(three(tuple)) == 3
    assert [await x_ for x_ in reversed(three(tuple))] == [3, 2, 1]
    r_ = three(list)
    r_[0] = 7
    assert [await x_ for x_ in r_] == [7, 2, 3]


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [tuple, list, set])
async def test_g13_nout_that_does_not_hold_is_an_error(resolver: Any, kind: Any) -> None:
    @delayed(nout=2)
    def three() -> Any:
        return kind([1, 2, 3])

    a_, _ = three()
    with pytest.raises(ValueError, match=r"nout=2 was promised, but there are 3"):
        await a_


@pytest.mark.asyncio
async def test_g13_divmod_unpacks(resolver: Any) -> None:
    q_, r_ = divmod(give(13), 3)
    assert (await q_, await r_) == (4, 1)


@pytest.mark.asyncio
async def test_g13_gather_gives_a_list_in_order(resolver: Any) -> None:
    assert await gather(give(1), give(2)) == [1, 2]
    assert await gather(give(x) for x in range(3)) == [0, 1, 2]
    assert await gather([give(1)]) == [1]
    assert await gather(give((1, 2))) == [(1, 2)]
    assert await gather() == []
    assert await gather([]) == []
    assert await gather(give(1), 2, [give(3)]) == [1, 2, [3]]
    r_ = give(4)
    assert await gather(r_, r_) == [4, 4]


@pytest.mark.asyncio
async def test_g13_gather_is_a_placeholder_that_unpacks_and_runs_all_at_once(resolver: Any) -> None:
    r_ = gather(give(x) for x in range(5))
    assert isinstance(r_, Delayed)
    assert len(r_) == 5
    _, second_, *_ = r_
    assert await second_ == 1
    assert resolver.most_at_once == 5
    assert await sum(r_, start=0) == 10


@pytest.mark.asyncio
async def test_gather_fails_with_the_error_of_the_first(resolver: Any) -> None:
    with pytest.raises(LookupError, match="no"):
        await gather(give(1), fail("no"))


@pytest.mark.parametrize("wrong", [3, {"a": 1}, "ab", None])
def test_gather_refuses_what_it_would_get_wrong(wrong: Any) -> None:
    with pytest.raises(TypeError, match="gather takes placeholders"):
        gather(wrong)


@pytest.mark.asyncio
async def test_g13_a_ready_value_is_a_placeholder_like_others(resolver: Any) -> None:
    r_ = delayed_value(1)
    assert info(r_).state == "succeeded"
    assert await (r_ + 2) == 3
    placeholder = give(1)
    assert later(placeholder) is placeholder


def test_it_has_no_public_names_of_its_own() -> None:
    assert [name for name in dir(Delayed) if not name.startswith("_")] == []
    r_ = give(1)
    for name in ("state", "name", "result", "value", "cancel"):
        assert isinstance(getattr(r_, name), Delayed)


def test_private_names_are_not_there() -> None:
    r_ = give(1)
    for name in ("_private", "__array_interface__", "__wrapped__", "__dask_graph__"):
        assert not hasattr(r_, name)
    with pytest.raises(AttributeError, match=r"write `\(await r_\)._x`"):
        _ = r_._x


def test_it_hashes_by_identity() -> None:
    a_, b_ = give(1), give(1)
    assert len({a_, b_, a_}) == 2
    assert {a_: 1}[a_] == 1


def test_a_copy_stands_for_the_same_and_goes_its_own_way() -> None:
    a_ = give([1])
    for b_ in (copy.copy(a_), copy.deepcopy(a_), copy.deepcopy([a_])[0]):
        assert b_ is not a_
        assert node_of(b_) is node_of(a_)
        b_[0] = 2
        assert node_of(b_) is not node_of(a_)


def test_it_does_not_travel() -> None:
    with pytest.raises(SerializationError, match="closure or inside another object"):
        pickle.dumps({"a": delayed_value(1)})
