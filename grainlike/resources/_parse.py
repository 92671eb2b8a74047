"""Requests and allocations from text: `cores=4 memory=8Gi token=a | nodes=4(cores=32)`, `cores=[6,7] gpus=[0]*0.5`."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import cast

from grainlike.errors import ResourceSpecError
from grainlike.resources._allocation import Allocation, as_allocation
from grainlike.resources._kinds import CORES, MEMORY, amount, checked_name
from grainlike.resources._quantity import Amount
from grainlike.resources._request import EMPTY, Request, build, either
from grainlike.resources._terms import Pack
from grainlike.resources._terms_words import Limit, Nodes, Rate, Token, WallTime
from grainlike.resources._words import Cores, Memory, Resource

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_IDS = re.compile(r"\[([0-9,]*)\](?:\*(.+))?")
_LISTED = re.compile(r"^[^\[\](]*,[^\[\](]*=")
_GANG = re.compile(r"([0-9]{1,9})\(([^()]*)\)")
_KEYWORD = re.compile(r"(?:^|:)(?=[a-z]+=)")
_KEYWORDS = {CORES: ("pack",), MEMORY: ("grow", "max"), "walltime": ("soft", "group")}
_ALWAYS = frozenset({"nodes", "token", "walltime"})
_COUNTED: dict[str, Callable[[str, Amount], Request]] = {"limit": Limit, "rate": Rate}


def parse(*texts: str) -> Request:
    """Read a request as `str` writes it: parts `name=amount`, in any order, with blanks between them.

    `|` stands between options, the preferred one first. Several texts merge, as `&` would. Ids in brackets make
    it an `Allocation`: `parse("cores=[6,7]")`. Other parts are `walltime=1:30:00`, `token=a`, `limit:db=1`,
    `rate:api=10`, `nodes=4(cores=32 memory=8Gi)`; keywords of a word go behind its value: `cores=8:pack=numa`,
    `memory=4G:grow=2:max=64G`, `walltime=1:30:00:soft=1:00:00:group=fit`.

    Raises:
        ResourceSpecError: a part without a value, a bad amount, or one name twice; it names the part.

    Example:
        >>> parse("memory=8Gi cores=4", "foo=2")
        Cores(4) & Resource("foo", 2) & Memory("8Gi")
    """
    return _all(map(_read, texts))


def parse_allocation(text: str) -> Allocation:
    """Return the allocation or the offer that text stands for, whether or not it names ids."""
    return as_allocation(parse(text))


def _read(text: object) -> Request:
    if not isinstance(text, str):
        raise ResourceSpecError(f"{text!r} is not text such as 'cores=4 memory=8Gi'")
    return _known(text) if len(text) <= _SHORT else _new(text)


def _new(text: str) -> Request:
    if "|" not in text:
        return _option(text)
    return either(tuple(option for piece in _split(text, "|".__eq__) for option in _option(piece).options))


_SHORT = 256  # what is longer is not kept
_known = lru_cache(maxsize=1024)(_new)  # leases bring the same few allocations again and again


def _option(text: str) -> Request:
    if "[" in text:
        text = _BRACKETS.sub(lambda found: "".join(found[0].split()), text)
    if "(" in text:
        return _all(map(_part, filter(None, _split(text, str.isspace))))
    return _all([_known_part(part) if len(part) <= _SHORT else _part(part) for part in text.split()])


def _all(requests: Iterable[Request]) -> Request:
    request = EMPTY
    for one in requests:
        request = request & one if request else one
    return request


def _split(text: str, at: Callable[[str], bool]) -> list[str]:
    """Give the pieces between the letters where `at` holds outside parentheses."""
    pieces, begin, depth = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and at(letter):
            pieces.append(text[begin:place])
            begin = place + 1
    return [*pieces, text[begin:]]


def _part(part: str) -> Request:
    name, _, value = part.partition("=")
    if not name or not value:
        raise ResourceSpecError(f"parts must be KEY=VALUE, but {part!r} is not")
    if _LISTED.search(value):
        raise ResourceSpecError(f"{part!r}: between parts stand blanks, and no commas: write 'cores=4 memory=8Gi'")
    if ":" in name:
        return _counted(name, value)
    if ":" in value or name in _ALWAYS:
        return _word(name, value, part)
    checked_name(name)
    if not value.startswith("["):
        return build(Request, {name: amount(name, value)})
    match = _IDS.fullmatch(value)
    if match is None:
        raise ResourceSpecError(f"{part!r}: ids are written as [6,7], and a share of a device as [0]*0.5")
    ids, share = match.groups()
    return Allocation({} if share is None else {name: share}, {name: _numbers(ids, part)})


_known_part = lru_cache(maxsize=1024)(_part)  # of texts that differ, most differ in one part: each its own memory


def _counted(name: str, value: str) -> Request:
    kind, _, word = name.partition(":")
    return _COUNTED[kind](word, value) if kind in _COUNTED else Resource(name, value)


def _word(name: str, value: str, part: str) -> Request:
    """Read a part whose word takes more than an amount; its keywords stand behind the value: `8:pack=numa`."""
    if name == "nodes":
        return _nodes(value)
    if name == "token":
        return Token(value)
    first, *others = _KEYWORD.split(value) if name in _KEYWORDS else (value,)
    said = {key: word for key, _, word in (other.partition("=") for other in others)}
    unknown = said.keys() - _KEYWORDS.get(name, ())
    if unknown or len(said) < len(others):
        known = " and ".join(_KEYWORDS[name])
        raise ResourceSpecError(f"{part!r}: what may stand behind the value of {name}, once, is {known}")
    if name == "walltime":
        return WallTime(first or None, soft=said.get("soft"), group=said.get("group"))
    if name == MEMORY:
        return Memory(first, grow=said.get("grow"), max=said.get("max"))
    if name == CORES:
        return Cores(first, pack=cast("Pack | None", said.get("pack")))  # `Cores` knows the two
    raise ResourceSpecError(f"{part!r} has a colon, but {checked_name(name)} takes an amount alone")


def _nodes(value: str) -> Request:
    match = _GANG.fullmatch(value)
    if match is None:
        raise ResourceSpecError(f"nodes={value}: a gang is written as nodes=4(cores=32 memory=8Gi)")
    return Nodes(int(match[1]), each=parse(match[2]))


def _numbers(ids: str, part: str) -> list[int]:
    try:
        return [int(item) for item in ids.split(",")] if ids else []
    except ValueError:
        raise ResourceSpecError(f"{part!r}: an id is missing between two commas, or too long") from None
