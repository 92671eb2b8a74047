"""NumPy's functions on placeholders."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from grainlike.graph import Delayed, delayed, delayed_value, gather, info


@delayed
async def give(x: Any) -> Any:
    return x


def array() -> Any:
    return give(np.arange(4.0))


def test_the_room_does_not_import_numpy() -> None:
    code = "import sys, grainlike.graph; sys.exit('numpy' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": ":".join(sys.path)}).returncode
        == 0
    )


@pytest.mark.asyncio
async def test_g13_functions_make_placeholders(resolver: Any) -> None:
    r_ = np.mean(array())
    assert isinstance(r_, Delayed)
    assert await r_ == 1.5
    assert (await np.concatenate([array(), np.ones(1)])).tolist() == [0, 1, 2, 3, 1]
    assert (await np.where(array() > 1, array(), -1)).tolist() == [-1, -1, 2, 3]
    assert (await np.sum(array().reshape(2, 2), axis=give(0))).tolist() == [2, 4]
    assert (await np.linspace(0, give(1), num=3)).tolist() == [0, 0.5, 1]
    assert info(r_).name == "np.mean"


@pytest.mark.asyncio
async def test_g13_ufuncs_and_their_methods_make_placeholders(resolver: Any) -> None:
    assert (await np.add(array(), 1)).tolist() == [1, 2, 3, 4]
    assert (await np.add(np.ones(4), array())).tolist() == [1, 2, 3, 4]
    assert await np.add.reduce(array()) == 6
    assert (await np.multiply.outer(array(), [1, 2])).shape == (4, 2)
    assert (await np.add.accumulate(array())).tolist() == [0, 1, 3, 6]
    assert info(np.add.reduce(array())).name == "np.add.reduce"
    assert info(np.add(array(), 1)).name == "np.add"


@pytest.mark.asyncio
async def test_g13_ufuncs_of_two_results_unpack(resolver: Any) -> None:
    fraction_, whole_ = np.modf(array() / 2)
    assert (await fraction_).tolist() == [0, 0.5, 0, 0.5]
    assert (await whole_).tolist() == [0, 0, 1, 1]


@pytest.mark.asyncio
async def test_arrays_on_the_left_make_placeholders(resolver: Any) -> None:
    assert (await (np.ones(4) + array())).tolist() == [1, 2, 3, 4]
    assert await (np.ones(4) @ array()) == 6
    assert (await (np.float64(2) * array())).tolist() == [0, 2, 4, 6]
    assert (await (np.ones(4) < array())).tolist() == [False, False, True, True]


@pytest.mark.asyncio
async def test_g13_out_rebinds_to_a_changed_copy(resolver: Any) -> None:
    value = np.zeros(4)
    a_ = give(value)
    before_ = a_ + 0
    result_ = np.add(array(), 1, out=a_)
    assert result_ is a_
    after_ = a_ * 2
    np.negative(a_, out=a_)
    values = [v.tolist() for v in await gather(before_, after_, a_)]
    assert values == [[0, 0, 0, 0], [2, 4, 6, 8], [-1, -2, -3, -4]]
    assert value.tolist() == [0, 0, 0, 0]


@pytest.mark.asyncio
async def test_g13_out_of_functions_by_name_and_by_place(resolver: Any) -> None:
    value = np.zeros(2)
    for write in (
        lambda a_: np.mean(array().reshape(2, 2), axis=0, out=a_),
        lambda a_: np.mean(array().reshape(2, 2), 0, None, a_),
        lambda a_: np.mean(array().reshape(2, 2), 0, None, a_, False),
        lambda a_: np.mean(np.arange(4.0).reshape(2, 2), 0, None, a_),
        lambda a_: np.add.reduce(array().reshape(2, 2), axis=0, out=a_) / 2,
    ):
        a_ = give(value)
        result_ = write(a_)
        assert (await gather(result_, a_))[0].tolist() in ([1, 2], [1.0, 2.0])
        assert (await a_).tolist() in ([1, 2], [2, 4])
    assert value.tolist() == [0, 0]
    kept_ = np.mean(array().reshape(2, 2), 0, None, give(np.zeros((1, 2))), True)
    assert (await kept_).tolist() == [[1, 2]]


@pytest.mark.asyncio
async def test_g13_out_with_two_places_may_leave_one_free(resolver: Any) -> None:
    a_ = give(np.zeros(4))
    whole_, same_ = np.modf(array() / 2, out=(None, a_))
    assert same_ is a_
    assert (await whole_).tolist() == [0, 0.5, 0, 0.5]
    assert (await a_).tolist() == [0, 0, 1, 1]
    b_ = give(np.zeros(4))
    np.modf(array() / 2, out=(b_, a_))
    assert (await b_).tolist() == [0, 0.5, 0, 0.5]


@pytest.mark.asyncio
async def test_functions_that_write_rebind_their_first_argument(resolver: Any) -> None:
    value = np.zeros(3)
    for write, expected in (
        (lambda a_: np.copyto(a_, 1), [1, 1, 1]),
        (lambda a_: np.put(a_, [0], [5]), [5, 0, 0]),
        (lambda a_: np.putmask(a_, [False, True, True], give(2)), [0, 2, 2]),
        (lambda a_: np.add.at(a_, [1, 1], 1), [0, 2, 0]),
    ):
        a_ = give(value)
        before_ = a_ + 0
        assert write(a_) is None
        assert (await a_).tolist() == expected
        assert (await before_).tolist() == [0, 0, 0]
    assert value.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "write",
    [
        lambda a: np.add(array(), 1, out=a),
        lambda a: np.mean(array(), out=a),
        lambda a: np.copyto(a, array()),
        lambda a: np.add.at(a, delayed_value([1]), 1),
        lambda a: a.__iadd__(array()),
    ],
)
def test_a_real_array_is_not_written_to_at_some_later_time(write: Any) -> None:
    with pytest.raises(TypeError, match=r"`a = a \+ r_`.*`a_ = delayed_value\(a\)`"):
        write(np.zeros(4))


@pytest.mark.asyncio
async def test_item_assignment_copies_arrays(resolver: Any) -> None:
    value = np.zeros(3)
    a_ = give(value)
    row_ = a_[0]
    a_[1:] = give(4)
    assert ((await a_).tolist(), await row_, value.tolist()) == ([0, 4, 4], 0, [0, 0, 0])
