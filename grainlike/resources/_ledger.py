"""`Ledger`: which ids of one node are free, and who holds the others."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn, TypeVar

from grainlike.errors import ResourceError, ResourceSpecError
from grainlike.resources._allocation import Allocation
from grainlike.resources._kinds import CORES, GPUS, KINDS, indexed, is_grantable
from grainlike.resources._places import NodeShares
from grainlike.resources._pools import CorePool, DevicePool, Pool, lowest_compact
from grainlike.resources._quantity import UNIT
from grainlike.resources._request import Request, build, by_name
from grainlike.resources._terms import NO_TERMS, Pack, kept
from grainlike.resources._topology import Topology

_NOTHING: Mapping[str, Allocation] = MappingProxyType({})
_REMEMBERED = 1024
"""How many different allocations a ledger remembers."""
_NO_CHOICE: Mapping[str, tuple[int, ...]] = MappingProxyType({})


class Grant:
    """The right to use an allocation, until it is released to the ledger that gave it.

    Attributes:
        allocation: what is held now; what is lent is not in it, and comes back perhaps with other ids.
        lent: what of it is lent, by name, with the ids that it had.
        request: what it was granted for.
        generation: a number that this ledger gives to no other grant, so that a late release is recognised.
    """

    __slots__ = ("_ledger", "allocation", "generation", "lent", "request")

    def __init__(self, ledger: "Ledger", generation: int, request: Request, allocation: Allocation) -> None:
        self._ledger = ledger
        self.generation: int = generation
        self.request: Request = request
        self.allocation: Allocation = allocation
        self.lent: Mapping[str, Allocation] = _NOTHING

    def __repr__(self) -> str:
        return f"<Grant {self.generation}: {self.allocation}>"

    def comes_from(self, ledger: "Ledger") -> bool:
        """Tell whether `ledger` gave this."""
        return self._ledger is ledger


class Ledger:
    """Ledger of one node: what it has, what is free, and grants of concrete ids.

    At any time free and held amounts add up to the capacity, and no id is in two grants (but a device
    that is shared by fractions). A grant and a release cost the size of the request, and with a topology the number of
    NUMA nodes.

    Of a request's terms, its packing decides which ids are given; its tokens and its time must be in the offer. Limits
    and rates are not counted by nodes: the caller holds them already.

    Args:
        offer: all there is, with ids for every core and device, as `offer_of` makes it.
        topology: which of the ids are near each other; without it, all of them.

    Attributes:
        capacity: the offer.
        free: a live read-only view of what is free, by name, in nano-units; all names stay, also at 0.
        avoided: a mask of cores that others on the machine use; a grant takes them only where too few others are free.

    Raises:
        ResourceSpecError: the offer names cores or devices without their ids.

    Example:
        >>> ledger = Ledger(Cores(range(8)))
        >>> grant = ledger.grant(Cores(2))
        >>> grant.allocation.cores
        (0, 1)
        >>> ledger.release(grant)
    """

    __slots__ = (
        "_all_cores",
        "_cores",
        "_devices",
        "_free",
        "_generation",
        "_given",
        "_held",
        "_places",
        "_pools",
        "avoided",
        "capacity",
        "free",
    )

    def __init__(self, offer: Allocation, topology: Topology | None = None) -> None:
        self.capacity: Allocation = offer
        self._free = dict(offer.units)
        self.free: Mapping[str, int] = MappingProxyType(self._free)
        self._cores = CorePool(_ids(offer, CORES))
        self._devices = DevicePool(_ids(offer, GPUS), offer.units.get(GPUS, 0))
        pools: dict[str, Pool] = {CORES: self._cores, GPUS: self._devices}
        self._pools = {name: pools.get(name) or _pool(offer, name) for name in indexed() if name in offer}
        self._all_cores = self._cores.free
        places = NodeShares(topology or Topology(), offer.cores, offer.gpus)
        self._places = places if len(places) > 1 else None
        self._held: dict[int, Grant] = {}
        self._given: dict[tuple[object, ...], tuple[Request, Allocation]] = {}
        self._generation = 0
        self.avoided: int = 0

    @property
    def busy_cores(self) -> int:
        """The cores that are granted and not lent, as a mask."""
        return self._all_cores & ~self._cores.free

    def granted(self, name: str) -> int:
        """Return how much is granted under a name, in nano-units."""
        return self.capacity.units.get(name, 0) - self.free.get(name, 0)

    def left_of_device(self, device: int) -> int:
        """Return how much of a device is free, in nano-units."""
        return self._devices.shares[device]

    def fits_ever(self, request: Request) -> bool:
        """Tell whether an idle node could grant it.

        Raises:
            ResourceSpecError: it is a gang: each of its nodes is asked for `request.each`.
        """
        if not request.fits_units(self.capacity.units) or not self._suits(request, self._all_cores):
            return False
        return all(is_grantable(name, units) for name, units in request.units.items())

    def fits_now(self, request: Request) -> bool:
        """Tell whether `grant` would grant it now.

        Raises:
            ResourceSpecError: as for `fits_ever`.
        """
        free, pools = self._free, self._pools
        for name, units in request.units.items():  # without calls for each: every job asks
            if units > free.get(name, 0) or (name in pools and not pools[name].holds(units)):
                return False
        return request.terms is NO_TERMS or self._suits(request, self._cores.free)

    def grant(self, request: Request) -> Grant | None:
        """Give neighbouring ids that are free; None, and nothing taken, where it does not fit now.

        They are the lowest; with a topology, those of one NUMA node where one has enough, cores and devices of the
        same. `pack=` may say otherwise.

        Raises:
            ResourceSpecError: the request names ids, and which ones it gets is for the ledger to say; or it is a gang.
        """
        if request.ids:
            raise ResourceSpecError(f"{request!r}: a request names amounts, ids belong to offers")
        if not self.fits_now(request):
            return None
        if self._places is not None:
            chosen = self._choose(self._places, request.units, request.pack)
        else:
            chosen = self._choose_core(request.units) if self.avoided else _NO_CHOICE
        ids = self._take(request.units, chosen)
        self._generation += 1
        grant = self._held[self._generation] = Grant(self, self._generation, request, self._allocation(request, ids))
        return grant

    def _allocation(self, request: Request, ids: dict[str, tuple[int, ...]]) -> Allocation:
        """Return the allocation of a grant: one object for all grants of the same, so that its text is made once."""
        key = (id(request), *ids.values())  # a hash of the request would cost a call
        known = self._given.get(key)
        if known is None or known[0] is not request:
            if len(self._given) == _REMEMBERED:
                self._given.clear()
            known = self._given[key] = request, build(Allocation, request.units, ids, kept(request.terms))
        return known[1]

    def release(self, grant: Grant) -> None:
        """Take back what was granted.

        Raises:
            ResourceError: it was released before, or another ledger gave it; nothing changes then.
        """
        if self._held.get(grant.generation) is not grant:
            self._refuse(grant, "released")
        del self._held[grant.generation]
        ids = grant.allocation.ids
        for name, amount in grant.allocation.units.items():  # `_give` without its call: each lease ends here
            self._free[name] += amount
            if name in self._pools:
                self._pools[name].give(ids[name], amount)

    def lend(self, grant: Grant, name: str = CORES) -> None:
        """Let others use what a grant holds of one kind, while its job waits; the rest stays held.

        A grant that is released while it lends is just released.

        Raises:
            ResourceError: it lends that already, or never had any; or as for `release`. Nothing changes then.
        """
        self._check_held(grant, "lent")
        given = grant.allocation
        if name not in given:
            why = "it is lent already" if name in grant.lent else f"it has no {name}"
            raise ResourceError(f"{name} of {grant!r} cannot be lent: {why}")
        part = build(Allocation, _only(given.units, name), _only(given.ids, name))
        self._give(part.units, part.ids)
        grant.lent = {**grant.lent, name: part}
        grant.allocation = build(Allocation, _without(given.units, name), _without(given.ids, name), given.terms)

    def reclaim(self, grant: Grant, name: str = CORES) -> bool:
        """Take as much of one kind again as a grant has lent: the same ids if they are free, else others.

        Returns:
            False, and nothing changed, where there is not enough free now.

        Raises:
            ResourceError: it lends nothing of that kind; or as for `release`.
        """
        self._check_held(grant, "reclaimed")
        lent = grant.lent.get(name)
        if lent is None:
            raise ResourceError(f"{name} of {grant!r} cannot be reclaimed: it lends none")
        held, chosen = grant.allocation, lent.ids
        if not all(self._pools[kind].has(ids, lent.units[kind]) for kind, ids in lent.ids.items()):
            chosen = _NO_CHOICE
        if not chosen:
            if not self.fits_now(build(Request, lent.units, terms=grant.request.terms)):
                return False
            if self._places is not None:
                chosen = self._choose(self._places, lent.units, grant.request.pack, held.gpus)
        ids = self._take(lent.units, chosen)
        grant.lent = _without(grant.lent, name)
        units = by_name({**held.units, **lent.units})
        grant.allocation = build(Allocation, units, by_name({**held.ids, **ids}), held.terms)
        return True

    def _suits(self, request: Request, cores: int) -> bool:
        """Tell whether its terms can be met, if `cores`, a mask, are those that it can have."""
        if request.nodes > 1:
            raise ResourceSpecError(f"{request} is a gang: each of its nodes is asked for {request.each}")
        packed = request.pack != "numa" or self._places is None or self._places.widest(cores) >= request.N
        return packed and request.suits(self.capacity)

    def _choose(
        self, places: NodeShares, units: Mapping[str, int], pack: Pack | None, near: tuple[int, ...] = ()
    ) -> Mapping[str, tuple[int, ...]]:
        """Choose ids by where they lie, the devices first; `near` are devices that are held already."""
        chosen: dict[str, tuple[int, ...]] = {}
        count = units.get(CORES, 0) // UNIT
        if GPUS in units:
            near = chosen[GPUS] = places.devices(self._devices, units[GPUS], self._cores.free, count)
        if count:
            chosen[CORES] = places.cores(self._unavoided(count, pack), count, pack, near, self._devices.free)
        return chosen

    def _choose_core(self, units: Mapping[str, int]) -> Mapping[str, tuple[int, ...]]:
        """Choose among the cores of a node without places; nothing is chosen where the lowest will do."""
        count = units.get(CORES, 0) // UNIT
        if not count or not self.avoided & self._cores.free:
            return _NO_CHOICE
        return {CORES: lowest_compact(self._unavoided(count), count)}

    def _unavoided(self, count: int, pack: Pack | None = None) -> int:
        """Return the free cores among which `count` are chosen: without the avoided ones, where these are enough.

        Packing by NUMA node is a promise and goes first: a node that has enough may need all of its cores.
        """
        free = self._cores.free
        rest = free & ~self.avoided
        if pack == "numa" and self._places is not None and self._places.widest(rest) < count:
            return free
        return rest if rest.bit_count() >= count else free

    def _take(self, units: Mapping[str, int], chosen: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        ids: dict[str, tuple[int, ...]] = {}
        for name, amount in units.items():
            self._free[name] -= amount
            if name in self._pools:
                ids[name] = self._pools[name].take(amount, chosen.get(name))
        return ids

    def _give(self, units: Mapping[str, int], ids: Mapping[str, tuple[int, ...]]) -> None:
        for name, amount in units.items():
            self._free[name] += amount
            if name in self._pools:
                self._pools[name].give(ids[name], amount)

    def _check_held(self, grant: Grant, verb: str) -> None:
        if self._held.get(grant.generation) is not grant:
            self._refuse(grant, verb)

    def _refuse(self, grant: Grant, verb: str) -> NoReturn:
        why = "it was released before" if grant.comes_from(self) else "another ledger gave it"
        raise ResourceError(f"{grant!r} cannot be {verb}: {why}")


V = TypeVar("V")


def _only(values: Mapping[str, V], name: str) -> dict[str, V]:
    return {name: values[name]} if name in values else {}


def _without(values: Mapping[str, V], name: str) -> dict[str, V]:
    return {key: value for key, value in values.items() if key != name}


def _pool(offer: Allocation, name: str) -> Pool:
    ids = _ids(offer, name)
    return DevicePool(ids, offer.units[name]) if KINDS[name].shared else CorePool(ids)


def _ids(offer: Allocation, name: str) -> tuple[int, ...]:
    if name in offer and name not in offer.ids:
        raise ResourceSpecError(f"{offer!r}: an offer of {name} needs their ids")
    return offer.ids.get(name, ())
