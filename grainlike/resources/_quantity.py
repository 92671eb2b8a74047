"""Quantities as Kubernetes writes them, exact: `500m`, `8Gi`, `1e3` become whole numbers of 1e-9."""

import re
from operator import index
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

from grainlike.errors import ResourceSpecError

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

Amount: TypeAlias = "SupportsIndex | float | str | Decimal | Fraction"

UNIT = 10**9  # nano-units in 1; every amount inside grainlike is an integer number of them

_DIGITS = 9
_TOO_LARGE = 10**21 * UNIT
_LONGEST = 64
_LETTERS = "kKMGTPEi"
_NUMBER = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,3})")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def quantity(value: Amount) -> int:
    """Give `value` in nano-units: `quantity("500m") == 500_000_000`.

    Takes text with an optional unit (n u m k M G T P E, Ki Mi Gi Ti Pi Ei) or exponent, integers,
    `Decimal`, `Fraction`, and floats, which count as the decimal number that they print as.

    Raises:
        ResourceSpecError: no number, an unknown unit, a bool, infinite, finer than 1e-9, or beyond 1e21.
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool):
        raise ResourceSpecError(f"{value!r} is not an amount")
    if isinstance(value, int):
        return _bounded(value * UNIT, value)
    if isinstance(value, float):
        return _from_float(value)
    return _from_other(value)


def number(units: int) -> "int | Decimal":
    """Give nano-units as a person counts them: an `int` where it is whole, else an exact `Decimal`."""
    whole, rest = divmod(units, UNIT)
    if not rest:
        return whole
    from decimal import Decimal  # only fractions pay for the import

    return Decimal(plain(units))


def plain(units: int) -> str:
    """Write nano-units as a decimal number without unit or exponent; `quantity` reads it back."""
    whole, rest = divmod(abs(units), UNIT)
    sign = "-" if units < 0 else ""
    return f"{sign}{whole}" + (f".{rest:0{_DIGITS}d}".rstrip("0") if rest else "")


def short(units: int) -> str | None:
    """Write nano-units with the unit that makes it shortest, as `8Gi` or `4G`; None where none divides them."""
    written = [_with_unit(units, UNIT << power, unit) for unit, power in reversed(_BINARY.items())]
    written += [_with_unit(units, UNIT * 10**power, unit) for unit, power in reversed(_DECIMAL.items()) if power > 0]
    return min(filter(None, written), key=len, default=None)


def in_bytes(units: int, digits: int = 1) -> str:
    """Write an amount of memory for people: `8Gi`, `500M`, `1.5Gi`, and `4.5Gi` for 4684092Ki.

    What takes more `digits` behind the point is rounded to them, and shows all: `4.0Gi` is about as much as `4Gi`.
    """
    exact = short(units)
    if exact is not None and len(exact.rstrip(_LETTERS)) <= 3:
        return exact
    unit, power = next(((unit, power) for unit, power in reversed(_BINARY.items()) if units >> power >= UNIT), ("", 0))
    if not unit:
        return plain(units)
    scale, parts = UNIT << power, 10**digits
    count = (units * parts + scale // 2) // scale
    if count >= 1024 * parts and unit != "Ei":  # rounded up to the next unit
        return in_bytes(UNIT << power + 10, digits).replace("1", f"1.{'0' * digits}")
    is_exact = count * scale == units * parts
    whole, rest = divmod(count, parts)
    fraction = f"{rest:0{digits}d}".rstrip("0") if is_exact else f"{rest:0{digits}d}"
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def about(text: str) -> tuple[float, str]:
    """Return the number and the unit of an amount as `in_bytes` writes it, with which `4.0Gi` is the same as `4Gi`."""
    digits = text.rstrip(_LETTERS)
    return float(digits), text[len(digits) :]


def _with_unit(units: int, scale: int, unit: str) -> str | None:
    count, rest = divmod(units, scale)
    return None if rest or not count else f"{count}{unit}"


def is_binary(value: object) -> bool:
    """Tell whether `value` is text with a binary unit, which makes no sense for things that are counted."""
    return isinstance(value, str) and value.endswith("i")


def _from_text(text: str) -> int:
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ResourceSpecError(f"{text!r} is not a quantity: write a number with or without a unit, as 4, 500m, 8Gi")
    sign, digits, unit = match.groups()
    whole, _, fraction = digits.partition(".")
    mantissa = int(sign + whole + fraction)
    exponent, power = _scale(unit, text)
    return _scaled(mantissa << power, exponent - len(fraction), text)


def _scale(unit: str, text: str) -> tuple[int, int]:
    """Give the powers of ten and of two that `unit` stands for."""
    if unit in _DECIMAL:
        return _DECIMAL[unit], 0
    if unit in _BINARY:
        return 0, _BINARY[unit]
    match = _EXPONENT.fullmatch(unit)
    if match is None:
        known = " ".join((*filter(None, _DECIMAL), *_BINARY))
        hint = _meant(text.removesuffix(unit), unit)
        raise ResourceSpecError(f"{text!r} has the unknown unit {unit!r}; known are {known}{hint}")
    return int(match[1]), 0


def _meant(digits: str, unit: str) -> str:
    """Return what to write for a unit that others use, such as `GB` and `gib`, as the end of a sentence."""
    letter = unit[:1].upper()
    rest = unit[1:].lower()
    if letter not in tuple("KMGTPE") or rest not in ("", "b", "i", "ib"):
        return ""
    binary = f"{digits}{letter}i"
    if rest.startswith("i"):
        return f": write {binary}"
    return f": write {digits}{'k' if letter == 'K' else letter} or {binary}"


def _scaled(mantissa: int, exponent: int, shown: object) -> int:
    exponent += _DIGITS
    if exponent >= 0:
        return _bounded(mantissa * 10**exponent, shown)
    units, rest = divmod(mantissa, 10**-exponent)
    if rest:
        raise ResourceSpecError(f"{shown!r} is finer than 1e-9, the smallest amount there is")
    return _bounded(units, shown)


def _bounded(units: int, shown: object) -> int:
    if not -_TOO_LARGE < units < _TOO_LARGE:
        raise ResourceSpecError(f"{shown!r} is too large: amounts stay below 1e21")
    return units


def _from_float(value: float) -> int:
    if value - value != 0:
        raise ResourceSpecError(f"{value!r} is not an amount")
    return _from_text(float.__repr__(value))


def _from_other(value: object) -> int:
    from decimal import Decimal  # rare, and not worth its import time in every program
    from fractions import Fraction

    if isinstance(value, Decimal):
        return _from_decimal(value)
    if isinstance(value, Fraction):
        units, rest = divmod(value.numerator * UNIT, value.denominator)
        if rest:
            raise ResourceSpecError(f"{value!r} is finer than 1e-9, the smallest amount there is")
        return _bounded(units, value)
    try:
        return _bounded(index(value) * UNIT, value)  # type: ignore[arg-type]
    except TypeError:
        raise ResourceSpecError(f"{value!r} is not an amount: write a number or text such as '8Gi'") from None


def _from_decimal(value: "Decimal") -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ResourceSpecError(f"{value!r} is not an amount")
    if abs(exponent) + len(digits) > 1000:
        raise ResourceSpecError(f"{value!r} is out of range: amounts are between 1e-9 and 1e21")
    mantissa = int("".join(map(str, digits)))
    return _scaled(-mantissa if sign else mantissa, exponent, value)
