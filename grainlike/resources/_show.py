"""How amounts and ids are written: as text that `parse` reads back, and as code that `eval` reads back."""

from collections.abc import Mapping

from grainlike.resources._kinds import CORES, GPUS, MEMORY
from grainlike.resources._quantity import UNIT, binary, plain, quantity

_WORDS = {CORES: "Cores", GPUS: "GPUs"}

Ids = Mapping[str, tuple[int, ...]]


def as_text(units: Mapping[str, int], ids: Ids) -> str:
    """Write `cores=[6,7] foo=2 memory=100`, sorted by name."""
    return " ".join(f"{name}={_value(amount, ids.get(name))}" for name, amount in units.items())


def as_code(units: Mapping[str, int], ids: Ids) -> str:
    """Write `Cores([6, 7]) & Resource("foo", 2) & Memory(100)`, sorted by name; `parse("")` for nothing."""
    parts = (_call(name, amount, ids.get(name)) for name, amount in units.items())
    return " & ".join(parts) or 'parse("")'


def _value(amount: int, ids: tuple[int, ...] | None) -> str:
    if ids is None:
        return plain(amount)
    shown = f"[{','.join(map(str, ids))}]"
    return shown if amount == len(ids) * UNIT else f"{shown}*{plain(amount)}"


def _call(name: str, amount: int, ids: tuple[int, ...] | None) -> str:
    if name == MEMORY:
        short = binary(amount)
        return f'Memory("{short}")' if short else f"Memory({plain(amount)})"
    if name not in _WORDS:
        return f'Resource("{name}", {_literal(amount)})'
    if ids is not None:
        share = "" if amount == len(ids) * UNIT else f", {_literal(amount)}"
        return f"{_WORDS[name]}({list(ids)}{share})"
    whole, rest = divmod(amount, UNIT)
    if whole and rest:  # a sum that no job could be given, so the constructor would refuse it whole
        return f"{_WORDS[name]}({whole}) + {_WORDS[name]}({_literal(rest)})"
    return f"{_WORDS[name]}({_literal(amount)})"


def _literal(amount: int) -> str:
    """Write a Python number, or text where a float cannot hold all the digits."""
    shown = plain(amount)
    exact = amount % UNIT == 0 or quantity(repr(float(shown))) == amount if len(shown) < 30 else False
    return shown if exact else f'"{shown}"'
