"""Kinds of resources by name: which names are allowed, and which amounts of a kind make sense."""

import re
from collections.abc import Iterable
from operator import index
from typing import SupportsIndex

from grainlike.errors import ResourceSpecError
from grainlike.resources._quantity import UNIT, Amount, is_binary, plain, quantity

CORES = "cores"
GPUS = "gpus"
MEMORY = "memory"

INDEXED = frozenset({CORES, GPUS})  # kinds whose pieces have ids, so that a job is told which ones it has

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_WHOLE = {CORES: "cores are whole", MEMORY: "memory is in whole bytes"}
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
    if name in INDEXED and is_binary(value):
        raise ResourceSpecError(f"{name}={value}: {name} are counted, and Ki … Ei are units of memory")
    if name in _WHOLE and units % UNIT:
        raise ResourceSpecError(f"{name}={plain(units)}: {_WHOLE[name]}")
    return units


def is_grantable(name: str, units: int) -> bool:
    """Tell whether a job could be given so much: 1.5 devices may stand in a sum, but never in a grant."""
    return name != GPUS or units < UNIT or units % UNIT == 0


def check_grantable(name: str, units: int) -> None:
    """Refuse what is not grantable."""
    if not is_grantable(name, units):
        raise ResourceSpecError(f"gpus={plain(units)}: ask for whole devices, or for a fraction of one device")


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
