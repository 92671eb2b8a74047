"""`Ledger`: the books of one node, which say which ids are free and who holds the others."""

from collections.abc import Mapping
from types import MappingProxyType

from grainlike.errors import ResourceError, ResourceSpecError
from grainlike.resources._allocation import Allocation
from grainlike.resources._kinds import CORES, GPUS, is_grantable
from grainlike.resources._pools import CorePool, DevicePool, Pool
from grainlike.resources._request import Request, build


class Grant:
    """The right to use an allocation, until it is released to the ledger that gave it.

    Attributes:
        allocation: what was given.
        generation: a number that this ledger gives to no other grant, so that a late release is recognised.
    """

    __slots__ = ("_ledger", "allocation", "generation")

    def __init__(self, ledger: "Ledger", generation: int, allocation: Allocation) -> None:
        self._ledger = ledger
        self.generation = generation
        self.allocation = allocation

    def __repr__(self) -> str:
        return f"<Grant {self.generation}: {self.allocation}>"

    def comes_from(self, ledger: "Ledger") -> bool:
        """Tell whether `ledger` gave this."""
        return self._ledger is ledger


class Ledger:
    """The books of one node: what it has, what is free, and grants of concrete ids.

    At any time free and held amounts add up to the capacity, and no id is in two grants (but a device
    that is shared by fractions). A grant and a release cost the size of the request.

    Args:
        offer: all there is, with ids for every core and device, as `offer_of` makes it.

    Attributes:
        capacity: the offer.
        free: a live read-only view of what is free, by name, in nano-units; all names stay, also at 0.

    Raises:
        ResourceSpecError: the offer names cores or devices without their ids.

    Example:
        >>> ledger = Ledger(Cores(range(8)))
        >>> grant = ledger.grant(Cores(2))
        >>> grant.allocation.cores
        (0, 1)
        >>> ledger.release(grant)
    """

    __slots__ = ("_free", "_generation", "_held", "_pools", "capacity", "free")

    def __init__(self, offer: Allocation) -> None:
        self.capacity = offer
        self._free = dict(offer.units)
        self.free: Mapping[str, int] = MappingProxyType(self._free)
        self._pools = _pools(offer)
        self._held: dict[int, Grant] = {}
        self._generation = 0

    def fits_ever(self, request: Request) -> bool:
        """Tell whether an idle node could grant it."""
        return request.fits_units(self.capacity.units) and all(is_grantable(*item) for item in request.units.items())

    def fits_now(self, request: Request) -> bool:
        """Tell whether `grant` would grant it now."""
        if not request.fits_units(self._free):
            return False
        for name, pool in self._pools.items():
            units = request.units.get(name)
            if units is not None and not pool.holds(units):
                return False
        return True

    def grant(self, request: Request) -> Grant | None:
        """Give the lowest neighbouring ids that are free; None, and nothing taken, where it does not fit now.

        Raises:
            ResourceSpecError: the request names ids; which ones it gets is for the ledger to say.
        """
        if request.ids:
            raise ResourceSpecError(f"{request!r}: a request names amounts, ids belong to offers")
        if not self.fits_now(request):
            return None
        ids: dict[str, tuple[int, ...]] = {}
        for name, units in request.units.items():
            self._free[name] -= units
            if name in self._pools:
                ids[name] = self._pools[name].take(units)
        self._generation += 1
        grant = Grant(self, self._generation, build(Allocation, request.units, ids))
        self._held[self._generation] = grant
        return grant

    def release(self, grant: Grant) -> None:
        """Take back what was granted.

        Raises:
            ResourceError: it was released before, or another ledger gave it; nothing changes then.
        """
        if self._held.get(grant.generation) is not grant:
            why = "it was released before" if grant.comes_from(self) else "another ledger gave it"
            raise ResourceError(f"{grant!r} cannot be released: {why}")
        del self._held[grant.generation]
        given = grant.allocation
        for name, units in given.units.items():
            self._free[name] += units
            if name in self._pools:
                self._pools[name].give(given.ids[name], units)


def _pools(offer: Allocation) -> dict[str, Pool]:
    pools: dict[str, Pool] = {}
    if CORES in offer:
        pools[CORES] = CorePool(_ids(offer, CORES))
    if GPUS in offer:
        pools[GPUS] = DevicePool(_ids(offer, GPUS), offer.units[GPUS])
    return pools


def _ids(offer: Allocation, name: str) -> tuple[int, ...]:
    if name not in offer.ids:
        raise ResourceSpecError(f"{offer!r}: an offer of {name} needs their ids")
    return offer.ids[name]
