"""Kinds of resources by name: which names are allowed, and which amounts of a kind make sense."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

from grainlike.errors import ResourceSpecError
from grainlike.resources._quantity import UNIT, Amount, about, in_bytes, is_binary, plain, quantity

CORES = "cores"
GPUS = "gpus"
MEMORY = "memory"

_AMOUNT = re.compile(r"(?:(?<![\w./-])([\w./-]+)=|:max=)([0-9]+)(?![0-9.])")
"""An amount in the text of a request: its name, unless it is the most of one, and its number."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resource with rules of its own; a name without a `ResourceKind` is an amount of anything, whole or not.

    Attributes:
        name: the name in requests and offers.
        unit: `bytes` for an amount that is written with a unit, as `8Gi`; empty for things that are counted.
        whole: why a fraction is refused, as a clause; empty where fractions are allowed.
        indexed: True for pieces with ids: a job is told which ones it has.
        shared: True where a fraction of one piece may be given, but never one piece and a half.
        word: the function that makes a request for it, as `repr` writes it; empty for `Resource(name, ...)`.
    """

    name: str
    unit: str = ""
    whole: str = ""
    indexed: bool = False
    shared: bool = False
    word: str = ""


KINDS: dict[str, ResourceKind] = {
    kind.name: kind
    for kind in (
        ResourceKind(CORES, whole="cores are whole", indexed=True, word="Cores"),
        ResourceKind(GPUS, indexed=True, shared=True, word="GPUs"),
        ResourceKind(MEMORY, unit="bytes", whole="memory is in whole bytes", word="Memory"),
    )
}
"""All kinds by name. An entry here is all that offers, requests, grants, messages, counters and errors need."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"nodes", "token", "walltime"})  # words of the language of requests that are no amounts

MOST_IDS = 2**16  # of one kind on one node; bounds what a slip of the pen can cost


def checked_name(name: object) -> str:
    """Give `name` back if a resource may be called so, else raise `ResourceSpecError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ResourceSpecError(f"{name!r} is not a resource name: letters, digits and _ . / - only")
    if name in _RESERVED:
        raise ResourceSpecError(f"{name!r} is a reserved word, not a named amount")
    return name


def checked_word(kind: str, word: object) -> str:
    """Give `word` back if a token, limit, rate or group may be called so, else raise `ResourceSpecError`."""
    if not isinstance(word, str) or not _NAME.fullmatch(word):
        raise ResourceSpecError(f"{kind}: {word!r} is not a name: letters, digits and _ . / - only")
    return word


def amount(name: str, value: Amount) -> int:
    """Give `value` of the kind `name` in nano-units: positive, and in a unit that suits the kind."""
    try:
        units = quantity(value)
    except ResourceSpecError as error:
        raise ResourceSpecError(f"{name}: {error}") from None
    if units <= 0:
        raise ResourceSpecError(f"{name}={plain(units)}: an amount must be greater than zero")
    kind = KINDS.get(name)
    if kind is None:
        return units
    if not kind.unit and is_binary(value):
        raise ResourceSpecError(f"{name}={value}: {name} are counted, and Ki … Ei are units of memory")
    if kind.whole and units % UNIT:
        raise ResourceSpecError(f"{name}={plain(units)}: {kind.whole}")
    return units


def is_indexed(name: str) -> bool:
    """Tell whether the pieces of a kind have ids."""
    return name in KINDS and KINDS[name].indexed


def indexed() -> tuple[str, ...]:
    """Return the names of the kinds whose pieces have ids, in the order of the table."""
    return tuple(kind.name for kind in KINDS.values() if kind.indexed)


def amount_text(name: str, units: int) -> str:
    """Write an amount of the kind `name` for people: `8Gi` of memory, `4` cores. Memory may be rounded."""
    return amount_texts(name, units)[0]


def amount_texts(name: str, *units: int) -> tuple[str, ...]:
    """Write amounts of one kind that are compared, for people: with as many digits as it takes to tell them apart."""
    kind = KINDS.get(name)
    if kind is not None and kind.unit:
        for digits in (1, 2, 3):
            texts = tuple(in_bytes(one, digits) for one in units)
            if len(set(map(about, texts))) == len(set(units)):
                return texts
    return tuple(map(plain, units))


def shown_amounts(text: str) -> str:
    """Return the text of a request or an allocation with its memory as people write it: `memory=8Gi`, rounded where
    that is shorter.

    Example:
        >>> shown_amounts("cores=[0,1] memory=8589934592")
        'cores=[0,1] memory=8Gi'
    """
    return _AMOUNT.sub(_with_unit, text)


def _with_unit(found: re.Match[str]) -> str:
    whole = found[0].removesuffix(found[2])
    return whole + amount_text(found[1] or MEMORY, int(found[2]) * UNIT)


def held_amounts(units: Mapping[str, int]) -> dict[str, int]:
    """Return how much of each kind without ids is in `units` (nano-units): what a trace counts, in the kind's unit."""
    found = ((kind, units.get(kind.name, 0)) for kind in KINDS.values() if not kind.indexed)
    return {kind.name: amount // UNIT for kind, amount in found if amount}


def is_grantable(name: str, units: int) -> bool:
    """Tell whether a job could be given so much: 1.5 devices may stand in a sum, but never in a grant."""
    return units % UNIT == 0 or units < UNIT or not (name in KINDS and KINDS[name].shared)


def check_grantable(name: str, units: int) -> None:
    """Refuse what is not grantable."""
    if not is_grantable(name, units):
        raise ResourceSpecError(f"{name}={plain(units)}: ask for whole devices, or for a fraction of one device")


def checked_ids(name: str, ids: Iterable[object]) -> tuple[int, ...]:
    """Give the ids sorted; they must be distinct integers from zero on, and at least one."""
    found = [_checked_id(name, item) for item in ids]
    if not found:
        raise ResourceSpecError(f"{name}=[]: at least one id is needed")
    if len(set(found)) != len(found):
        twice = min(item for item in found if found.count(item) > 1)
        raise ResourceSpecError(f"{name}: the id {twice} is there twice")
    return tuple(sorted(found))


def _checked_id(name: str, item: object) -> int:
    if not isinstance(item, SupportsIndex) or isinstance(item, bool) or not 0 <= index(item) < MOST_IDS:
        raise ResourceSpecError(f"{name}: {item!r} is not an id; ids are integers from 0 to {MOST_IDS - 1}")
    return index(item)
