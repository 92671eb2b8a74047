import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.errors import ResourceSpecError
from grainlike.resources import UNIT, number, plain, quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1000m", 1),
        ("500m", Fraction(1, 2)),
        ("1Gi", 1_073_741_824),
        ("200Mi", 209_715_200),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("1k", 10**3),
        ("1M", 10**6),
        ("2G", 2 * 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1Mi", 2**20),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("1.5Ki", 1536),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        (7, 7),
        (0.1, Fraction(1, 10)),
        (1e-9, Fraction(1, 10**9)),
        (Decimal("0.3"), Fraction(3, 10)),
        (Decimal("-1.5"), Fraction(-3, 2)),
        (Decimal("2e3"), 2000),
        (Fraction(1, 8), Fraction(1, 8)),
        (np.int64(3), 3),
        (np.float64(0.25), Fraction(1, 4)),
    ],
)
def test_p1_quantities_are_kubernetes_and_exact(text, value):
    assert Fraction(quantity(text), UNIT) == value


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " ",
        "x",
        "1 Gi",
        " 1",
        "1\n",
        "Gi",
        "1K",
        "1GB",
        "1gi",
        "1e",
        "1e+",
        "1.2.3",
        "0x10",
        "1_000",
        "٣",
        "--1",
        ".",
        "nan",
        "inf",
        "1e9999",
        "9" * 70,
    ],
)
def test_p1_bad_text_is_a_value_error_that_shows_it(bad):
    with pytest.raises(ValueError, match=r"quantity|unit|large") as caught:
        quantity(bad)
    assert isinstance(caught.value, ResourceSpecError)
    assert repr(bad) in str(caught.value)


def test_an_unknown_unit_is_named_with_the_known_ones():
    with pytest.raises(ResourceSpecError, match=r"unknown unit 'GB'; known are n u m k M .* Ki Mi Gi"):
        quantity("8GB")


@pytest.mark.parametrize(
    ("text", "instead"),
    [("8GB", "8G or 8Gi"), ("1.5gb", "1.5G or 1.5Gi"), ("8GiB", "8Gi"), ("4K", "4k or 4Ki"), ("2kb", "2k or 2Ki")],
)
def test_a_unit_as_others_write_it_says_what_to_write(text, instead):
    with pytest.raises(ResourceSpecError, match=f": write {instead}$"):
        quantity(text)
    for written in instead.split(" or "):
        assert quantity(written) > 0


@pytest.mark.parametrize(
    "bad",
    [
        True,
        False,
        None,
        [],
        b"1",
        1j,
        math.nan,
        math.inf,
        -math.inf,
        Decimal("nan"),
        Decimal("inf"),
        np.bool_(True),
    ],
)
def test_what_is_no_number_is_no_amount(bad):
    with pytest.raises(ResourceSpecError, match="is not an amount"):
        quantity(bad)


@pytest.mark.parametrize("fine", ["1e-10", "0.1n", 1e-10, 1 / 3, Fraction(1, 3), Decimal("1e-10"), "1.0000000001"])
def test_what_is_finer_than_the_grain_is_refused_not_rounded(fine):
    with pytest.raises(ResourceSpecError, match="finer than 1e-9"):
        quantity(fine)


@pytest.mark.parametrize(
    "large", [10**21, -(10**21), "1e21", "1000E", 1e300, Fraction(10**22), Decimal("1e22"), np.float64(1e30)]
)
def test_what_is_too_large_is_refused(large):
    with pytest.raises(ResourceSpecError, match="too large"):
        quantity(large)


@pytest.mark.parametrize("wild", [Decimal("1e1000000000"), Decimal("1e-1000000000")])
def test_a_wild_exponent_is_refused_without_computing_it(wild):
    with pytest.raises(ResourceSpecError, match="out of range"):
        quantity(wild)


def test_text_longer_than_any_quantity_is_refused_unread():
    with pytest.raises(ResourceSpecError, match="is not a quantity"):
        quantity("1" * 10_000)


def test_amounts_are_shown_as_int_or_exact_decimal():
    assert number(4 * UNIT) == 4
    assert type(number(4 * UNIT)) is int
    assert number(UNIT // 10) == Decimal("0.1")
    assert number(10**29 + 1) == Decimal("100000000000000000000.000000001")


@given(st.integers(-(10**30) + 1, 10**30 - 1))
def test_plain_text_reads_back_exactly(units):
    assert quantity(plain(units)) == units
    assert quantity(number(units)) == units


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=9))
def test_decimals_agree_with_their_text_and_their_fraction(value):
    assert quantity(value) == quantity(format(value, "f")) == quantity(Fraction(value))


@given(st.integers(0, 10**12), st.sampled_from([("Ki", 2**10), ("Mi", 2**20), ("k", 10**3), ("M", 10**6), ("", 1)]))
def test_units_multiply(count, unit):
    assert quantity(f"{count}{unit[0]}") == count * unit[1] * UNIT
