"""From what a user offers to concrete ids: `Cores(4)` on this machine is cores 0, 1, 2 and 3."""

from collections.abc import Iterator, Sequence
from itertools import chain, count, islice

from grainlike.errors import ResourceSpecError
from grainlike.resources._allocation import Allocation, as_allocation
from grainlike.resources._kinds import CORES, MOST_IDS, checked_ids, indexed
from grainlike.resources._quantity import UNIT, plain
from grainlike.resources._request import Request, build, by_name


def offer_of(what: Request, *, own_cores: Sequence[int]) -> Allocation:
    """Give every core and device of an offer an id; ids that are there already stay.

    `Cores(4)` means the first four of `own_cores` (ids that this process may run on), and beyond those the
    integers that follow the highest of them. `GPUs(2)` means the devices 0 and 1.

    Raises:
        ResourceSpecError: it is no request, or offers a fraction of a device without saying of which one.
    """
    if not isinstance(what, Request):
        raise ResourceSpecError(f"{what!r} is not an offer: write one as Cores(4) & Memory('8Gi'), or Cores([6, 7])")
    offer = as_allocation(what)
    sources = {name: _own_and_beyond(own_cores) if name == CORES else count() for name in indexed()}
    ids = dict(offer.ids)
    for name, source in sources.items():
        if name in offer and name not in ids:
            ids[name] = checked_ids(name, islice(source, _whole(name, offer.units[name])))
    return build(Allocation, offer.units, by_name(ids), offer.terms)


def logical_cores(offer: Allocation, own_cores: Sequence[int]) -> tuple[int, ...]:
    """Give the cores of the offer that are not this process's own: allocated and shown, but never pinned."""
    own = frozenset(own_cores)
    return tuple(core for core in offer.cores if core not in own)


def _own_and_beyond(own_cores: Sequence[int]) -> Iterator[int]:
    return chain(sorted(own_cores), count(max(own_cores, default=-1) + 1))


def _whole(name: str, units: int) -> int:
    if units % UNIT:
        raise ResourceSpecError(f"{name}={plain(units)}: an offer has whole devices, or says which: GPUs([0], 0.5)")
    if units > MOST_IDS * UNIT:
        raise ResourceSpecError(f"{name}={plain(units)}: one worker offers at most {MOST_IDS}")
    return units // UNIT
