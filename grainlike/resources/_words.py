"""The words that requests are written in: `Cores`, `GPUs`, `Memory`, `Resource`, `Node`."""

from collections.abc import Set as AbstractSet
from typing import TypeAlias, overload

from grainlike.errors import ResourceSpecError
from grainlike.resources._allocation import Allocation
from grainlike.resources._kinds import CORES, GPUS, MEMORY, amount, checked_name
from grainlike.resources._quantity import UNIT, Amount, plain, quantity
from grainlike.resources._request import NO_IDS, Request, build
from grainlike.resources._terms import Growth, Pack, Terms

Ids: TypeAlias = "list[int] | tuple[int, ...] | range | AbstractSet[int]"

_FEW = 1024  # as many requests for small numbers of cores are made once and kept
_few: dict[int, Request] = {}


@overload
def Cores(what: Ids) -> Allocation: ...
@overload
def Cores(what: Amount, *, pack: Pack | None = None) -> Request: ...
def Cores(what: "Amount | Ids", *, pack: Pack | None = None) -> Request:  # noqa: N802
    """Ask for so many CPU cores, each with an id of its own; or, with ids, offer exactly those.

    Args:
        what: a number of cores, or their ids.
        pack: where they lie. None: in one NUMA node where that can be had at once, else in as few as can be;
            `"numa"`: in one NUMA node, if need be waiting for it; `"spread"`: evenly over all NUMA nodes.

    Raises:
        ResourceSpecError: not a whole number above zero, ids that are not distinct, or an unknown packing.

    Example:
        >>> Cores(4), Cores([6, 7]), Cores(8, pack="numa")
        (Cores(4), Cores([6, 7]), Cores(8, pack="numa"))
    """
    if type(what) is int and pack is None:
        return _few.get(what) or _cores(what)
    if isinstance(what, list | tuple | range | AbstractSet):
        if pack is not None:
            raise ResourceSpecError(f"cores: pack={pack!r} goes with a number of cores, not with ids")
        return Allocation(ids={CORES: what})
    made = Request({CORES: what})
    if pack is None:
        return made
    if pack not in ("numa", "spread"):
        raise ResourceSpecError(f"cores: pack={pack!r} is unknown; known are 'numa' and 'spread'")
    return build(Request, made.units, NO_IDS, Terms(pack=pack))


def _cores(number: int) -> Request:
    made = Request({CORES: number})
    if number <= _FEW:
        _few[number] = made
    return made


@overload
def GPUs(what: Ids, share: "Amount | None" = None) -> Allocation: ...
@overload
def GPUs(what: Amount) -> Request: ...
def GPUs(what: "Amount | Ids", share: "Amount | None" = None) -> Request:  # noqa: N802
    """Ask for whole devices, or for a fraction of one; or, with ids, offer exactly those.

    Args:
        what: a number of devices, or their ids.
        share: with the id of one device, how much of it; an allocation of `GPUs(0.5)` reads `GPUs([0], 0.5)`.

    Raises:
        ResourceSpecError: not above zero, a fraction above one, or ids that are not distinct.

    Example:
        >>> str(GPUs(0.5) & Cores(1)), GPUs([0, 1]).gpus
        ('cores=1 gpus=0.5', (0, 1))
    """
    if isinstance(what, list | tuple | range | AbstractSet):
        return Allocation({} if share is None else {GPUS: share}, {GPUS: what})
    if share is not None:
        raise ResourceSpecError(f"gpus: a share goes with the id of a device, as GPUs([0], {share!r})")
    return Request({GPUS: what})


def Memory(size: Amount, *, grow: "Amount | None" = None, max: "Amount | None" = None) -> Request:  # noqa: A002, N802
    """Ask for memory, in bytes: `Memory("8Gi")`, `Memory("500M")`, `Memory(2**30)`.

    Args:
        size: how many bytes, as a number or as text with a unit.
        grow: after a memory error, multiply by this, and try again.
        max: how far to grow; without it, there is no end.

    Raises:
        ResourceSpecError: not a whole number of bytes above zero, an unknown unit, a factor of 1 or less, or an end
            below the beginning.

    Example:
        >>> Memory("4G", grow=2, max="64G").grown()
        Memory("8G", grow=2, max="64G")
    """
    made = Request({MEMORY: size})
    if grow is None:
        if max is not None:
            raise ResourceSpecError(f"memory: max={max!r} is how far to grow, and goes with grow=")
        return made
    return build(Request, made.units, NO_IDS, Terms(growth=_growth(made.units[MEMORY], grow, max)))


def _growth(units: int, grow: Amount, most: "Amount | None") -> Growth:
    factor = quantity(grow)
    if factor <= UNIT:
        raise ResourceSpecError(f"memory: grow={plain(factor)} would not grow; it is a factor above 1")
    if most is None:
        return Growth(factor, None)
    end = amount(MEMORY, most)
    if end < units:
        raise ResourceSpecError(f"memory: max={plain(end)} is less than the {plain(units)} to begin with")
    return Growth(factor, end)


def Resource(name: str, size: Amount) -> Request:  # noqa: N802
    """Ask for an amount of anything that workers declare by name: `Resource("licence", 1)`.

    Raises:
        ResourceSpecError: a name that text could not hold or that is reserved, or an amount not above zero.

    Example:
        >>> (Cores(1) & Resource("licence", 2))["licence"]
        2
    """
    return Request({checked_name(name): size})


@overload
def Node(N: Ids, M: "Amount | None" = None) -> Allocation: ...  # noqa: N803
@overload
def Node(N: Amount, M: "Amount | None" = None) -> Request: ...  # noqa: N803
def Node(N: "Amount | Ids", M: "Amount | None" = None) -> Request:  # noqa: N802, N803
    """Write `Cores(N) & Memory(M)` as one; without `M`, `Cores(N)`.

    Raises:
        ResourceSpecError: as `Cores` and `Memory`.

    Example:
        >>> Node(4, "8Gi") == Cores(4) & Memory("8Gi")
        True
    """
    cores: Request = (
        Allocation(ids={CORES: N}) if isinstance(N, list | tuple | range | AbstractSet) else Request({CORES: N})
    )
    return cores if M is None else cores & Memory(M)
