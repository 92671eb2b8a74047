"""Requests and allocations from text: `cores=4 memory=8Gi foo=2`, `cores=[6,7] gpus=[0]*0.5`."""

import re

from grainlike.errors import ResourceSpecError
from grainlike.resources._kinds import amount, checked_name
from grainlike.resources._request import EMPTY, Allocation, Request, as_allocation, build

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_IDS = re.compile(r"\[([0-9,]*)\](?:\*(.+))?")


def parse(*texts: str) -> Request:
    """Read a request as `str` writes it: parts `name=amount`, in any order, with blanks between them.

    Several texts merge, as `&` would. Ids in brackets make it an `Allocation`: `parse("cores=[6,7]")`.

    Raises:
        ResourceSpecError: a part without a value, a bad amount, or one name twice; it names the part.

    Example:
        >>> parse("memory=8Gi cores=4", "foo=2")
        Cores(4) & Resource("foo", 2) & Memory("8Gi")
    """
    request = EMPTY
    for text in texts:
        for part in _parts(text):
            request = request & _part(part)
    return request


def parse_allocation(text: str) -> Allocation:
    """As `parse`, for text that stands for an allocation or an offer, whether or not it names ids."""
    return as_allocation(parse(text))


def _parts(text: object) -> list[str]:
    if not isinstance(text, str):
        raise ResourceSpecError(f"{text!r} is not text such as 'cores=4 memory=8Gi'")
    return _BRACKETS.sub(lambda found: "".join(found[0].split()), text).split()


def _part(part: str) -> Request:
    name, _, value = part.partition("=")
    if not name or not value:
        raise ResourceSpecError(f"parts must be KEY=VALUE, but {part!r} is not")
    checked_name(name)
    if not value.startswith("["):
        return build(Request, {name: amount(name, value)})
    match = _IDS.fullmatch(value)
    if match is None:
        raise ResourceSpecError(f"{part!r}: ids are written as [6,7], and a share of a device as [0]*0.5")
    ids, share = match.groups()
    return Allocation({} if share is None else {name: share}, {name: _numbers(ids, part)})


def _numbers(ids: str, part: str) -> list[int]:
    try:
        return [int(item) for item in ids.split(",")] if ids else []
    except ValueError:
        raise ResourceSpecError(f"{part!r}: an id is missing between two commas, or too long") from None
