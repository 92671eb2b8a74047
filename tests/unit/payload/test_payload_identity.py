"""Which arguments are the same: by content, in every process, and never two that differ."""

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike import SerializationError
from grainlike.payload import identity_of


class Colour(Enum):
    RED = 1
    BLUE = 2


class Level(IntEnum):
    ONE = 1


@dataclass
class Point:
    x: int
    y: object = 0


@dataclass
class Dot:
    x: int
    y: object = 0


class Pair(NamedTuple):
    a: int
    b: int


class Model:
    def __init__(self, weights, scratch):
        self.weights = weights
        self.scratch = scratch

    def __grainlike_identity__(self):
        return self.weights


class Named:
    pass


def identity(value):
    return identity_of({"x": value}, what="fit")


DIFFERENT = [
    *(None, True, False, 0, 1, -1, 2**70, 0.0, -0.0, 1.0, math.inf, math.nan, 1j, "", "1", "a", b"", b"1", b"a"),
    *((), (1,), (1, 2), ((1,), 2), (1, (2,)), [], [1], [1, 2], [[1], 2], {}, {1: 2}, {2: 1}, {1: 2, 3: 4}),
    *(set(), {1}, {1, 2}, frozenset({1}), bytearray(b"1"), range(3), ..., "None", "()", ["1"], ["", ""], [""]),
    *(date(2026, 1, 1), timedelta(1), Decimal(1), Decimal("1.0"), Fraction(1, 2), UUID(int=1), UUID(int=2)),
    *(Colour.RED, Colour.BLUE, Level.ONE, Point(1), Point(2), Point(1, (1,)), Dot(1), Pair(1, 2), Pair(2, 1)),
    *(PurePosixPath("a"), PurePosixPath("b"), json.dumps, json.loads, len, Point, Dot, Named),
    *(np.array([1, 2]), np.array([1, 3]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([1, 2], dtype=np.int32)),
    *(np.int64(1), np.int32(1), np.float64(1), np.float32(1), np.array(["1"]), np.array([1, "1"], dtype=object)),
    *(np.array([1, 2], dtype=">i8"), np.zeros(0), np.zeros((0, 1)), np.datetime64("2026-01-01"), np.bool_(True)),
    *(Model([1], None), Model([2], None)),
]


def test_what_differs_has_another_identity():
    found = [(identity(value), value) for value in DIFFERENT]
    for (ours, a), (theirs, b) in combinations(found, 2):
        assert ours != theirs, (a, b)


def test_names_count_and_their_order_does_not():
    assert identity_of({"x": 1, "y": 2}, what="f") == identity_of({"y": 2, "x": 1}, what="f")
    assert identity_of({"x": 1, "y": 2}, what="f") != identity_of({"x": 2, "y": 1}, what="f")
    assert identity_of({"x": 1}, what="f") != identity_of({"xx": 1}, what="f")
    assert identity_of({}, what="f") != identity_of({"x": None}, what="f")


def test_what_is_equal_in_content_is_the_same():
    table = np.arange(12).reshape(3, 4)
    for a, b in [
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
        ({3, 1, 2}, {2, 3, 1}),
        (table.T, np.ascontiguousarray(table.T)),
        (table[:, ::2], table[:, ::2].copy()),
        (Model([1], "one"), Model([1], "two")),
        (Path("a/b"), PurePosixPath("a/b")),
        (memoryview(b"ab"), memoryview(bytearray(b"ab"))),
    ]:
        assert identity(a) == identity(b), (a, b)
    shared = [1]
    assert identity([shared, shared]) == identity([[1], [1]])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values, values)
def test_two_values_are_the_same_just_when_they_are_written_the_same(a, b):
    assert (identity(a) == identity(b)) == (written(a) == written(b))


def written(value):
    """Python's own words for a value, with dictionaries in one order and each NaN as it is."""
    if isinstance(value, dict):
        return repr(sorted((key, written(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return type(value).__name__ + repr([written(item) for item in value])
    return value.hex() + repr(np.float64(value).tobytes()) if isinstance(value, float) else repr(value)


@pytest.mark.parametrize("seed", ["0", "1"])
def test_it_is_the_same_in_another_process(seed):
    code = "from grainlike.payload import identity_of as i; print(i({'x': [{1, 'a', (2.5, None)}]}, what='f').hex())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == identity([{1, "a", (2.5, None)}]).hex()


def endless():
    loop = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), r"argument 'x' of fit is the same as another time: object says nothing"),
        ([1, {"k": object()}], r"argument 'x' of fit, at \[1\]\['k'\] is the same"),
        (Point(1, object()), r"at \.y is"),
        (Model(object(), 0), r"at \.__grainlike_identity__\(\) is"),
        (Named(), r"Named says nothing of its content; give that class a method __grainlike_identity__\(self\)"),
        (lambda: 0, "function says nothing"),
        (endless(), r"at \[0\] is"),
        (np.array([(1, object())], dtype=[("a", int), ("b", object)]), "numpy.ndarray"),
        (iter([]), "list_iterator"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_names_it(value, words):
    with pytest.raises(SerializationError, match=words):
        identity(value)
