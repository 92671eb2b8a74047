"""The words that requests are written in: `Cores`, `GPUs`, `Memory`, `Resource`, `Node`."""

from collections.abc import Set as AbstractSet
from typing import TypeAlias, overload

from grainlike.errors import ResourceSpecError
from grainlike.resources._kinds import CORES, GPUS, MEMORY
from grainlike.resources._quantity import Amount
from grainlike.resources._request import Allocation, Request

Ids: TypeAlias = "list[int] | tuple[int, ...] | range | AbstractSet[int]"


@overload
def Cores(what: Ids) -> Allocation: ...
@overload
def Cores(what: Amount) -> Request: ...
def Cores(what: "Amount | Ids") -> Request:  # noqa: N802
    """Ask for so many CPU cores, each with an id of its own; or, with ids, offer exactly those.

    Raises:
        ResourceSpecError: not a whole number above zero, or ids that are not distinct.

    Example:
        >>> Cores(4), Cores([6, 7])
        (Cores(4), Cores([6, 7]))
    """
    if isinstance(what, list | tuple | range | AbstractSet):
        return Allocation(ids={CORES: what})
    return Request({CORES: what})


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


def Memory(size: Amount) -> Request:  # noqa: N802
    """Ask for memory, in bytes: `Memory("8Gi")`, `Memory("500M")`, `Memory(2**30)`.

    Raises:
        ResourceSpecError: not a whole number of bytes above zero, or an unknown unit.

    Example:
        >>> Memory("8Gi")["memory"], Memory("500M") == Memory(500_000_000)
        (8589934592, True)
    """
    return Request({MEMORY: size})


def Resource(name: str, size: Amount) -> Request:  # noqa: N802
    """Ask for an amount of anything that workers declare by name: `Resource("licence", 1)`.

    Raises:
        ResourceSpecError: a name that text could not hold or that is reserved, or an amount not above zero.

    Example:
        >>> (Cores(1) & Resource("licence", 2))["licence"]
        2
    """
    return Request({name: size})


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
