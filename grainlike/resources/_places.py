"""Places of a grant on a machine: cores near each other, and devices near their cores."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from grainlike.resources._pools import DevicePool, bits, lowest_compact, mask_of
from grainlike.resources._quantity import UNIT
from grainlike.resources._terms import Pack
from grainlike.resources._topology import Topology


class NodeShare(NamedTuple):
    """Share of one NUMA node in an offer, as bit masks of ids."""

    socket: int
    cores: int
    gpus: int


class NodeShares:
    """The NUMA nodes of an offer, and the choice among their ids. All choices cost the number of nodes."""

    __slots__ = ("_all", "_core_masks", "_devices")

    def __init__(self, topology: Topology, cores: Sequence[int], gpus: Sequence[int]) -> None:
        rest_cores, rest_gpus = mask_of(cores), mask_of(gpus)
        self._all: list[NodeShare] = []
        for node in topology.nodes:
            place = NodeShare(node.socket, rest_cores & mask_of(node.cores), rest_gpus & mask_of(node.gpus))
            rest_cores &= ~place.cores
            rest_gpus &= ~place.gpus
            self._add(place)
        self._add(NodeShare(-1, rest_cores, rest_gpus))  # logical ids, and devices that the kernel puts nowhere
        self._core_masks = [place.cores for place in self._all]
        self._devices = any(place.gpus for place in self._all)

    def _add(self, place: NodeShare) -> None:
        if place.cores or place.gpus:
            self._all.append(place)

    def __len__(self) -> int:
        return len(self._all)

    def widest(self, cores: int) -> int:
        """Give how many of `cores`, a mask, lie in one node at most."""
        return max(((cores & place.cores).bit_count() for place in self._all), default=0)

    def devices(self, pool: DevicePool, units: int, free_cores: int, cores: int) -> tuple[int, ...]:
        """Choose devices for `units` nano-units of them, where possible in a node that has so many free cores too."""
        roomy = {at for at, place in enumerate(self._all) if (free_cores & place.cores).bit_count() >= cores}
        if units >= UNIT:
            return self._gathered(pool.free, [place.gpus for place in self._all], units // UNIT, near=roomy)
        # Of those that have room the fullest, so that whole devices stay whole.
        room = [(self._home(one) not in roomy, left, one) for one, left in pool.shares.items() if left >= units]
        return (min(room)[2],)

    def cores(self, free: int, count: int, pack: Pack | None, gpus: Sequence[int], free_gpus: int) -> tuple[int, ...]:
        """Choose `count` free cores: spread if so packed, else together, and near the `gpus` that go with them."""
        if pack == "spread":
            return self._spread(free, count)
        if not self._devices:
            return self._gathered(free, self._core_masks, count)
        theirs = mask_of(gpus)
        near = {at for at, place in enumerate(self._all) if place.gpus & theirs}
        # Cores beside free devices are spared for jobs that will ask for both.
        spared = {at for at, place in enumerate(self._all) if place.gpus & free_gpus}
        return self._gathered(free, self._core_masks, count, near, spared)

    def _home(self, gpu: int) -> int:
        return next(at for at, place in enumerate(self._all) if place.gpus >> gpu & 1)

    def _gathered(
        self,
        free: int,
        masks: list[int],
        count: int,
        near: AbstractSet[int] = frozenset(),
        spared: AbstractSet[int] = frozenset(),
    ) -> tuple[int, ...]:
        """Take free ids from one node that has enough of them, else from as few as can be, beginning with those `near`.

        Of the nodes that have enough, the one with the fewest is taken, so that others stay whole. The nodes of a
        socket are nearer to each other than to any other node.
        """
        enough = [at for at, mask in enumerate(masks) if (free & mask).bit_count() >= count]
        if not enough:
            return self._gathered_from_several(free, masks, count, near, spared)
        best = enough[0]
        if len(enough) > 1:
            best = min(enough, key=lambda at: (at not in near, at in spared, (free & masks[at]).bit_count()))
        return lowest_compact(free & masks[best], count)

    def _gathered_from_several(
        self, free: int, masks: list[int], count: int, near: AbstractSet[int], spared: AbstractSet[int]
    ) -> tuple[int, ...]:
        """Take free ids from as few nodes as can be, where no node has enough."""
        left = {at: free & mask for at, mask in enumerate(masks)}
        socket = self._socket(left, count, near)
        taken = 0
        while True:
            far = {at for at in left if self._all[at].socket != socket}
            enough = [at for at, mask in left.items() if mask.bit_count() >= count]
            if enough:
                best = min(enough, key=lambda at: (at not in near, at in far, at in spared, left[at].bit_count()))
                return tuple(bits(taken | mask_of(lowest_compact(left[best], count))))
            best = min(left, key=lambda at: (at not in near, at in far, -left[at].bit_count()))
            found = left.pop(best)
            taken |= found
            count -= found.bit_count()

    def _socket(self, left: dict[int, int], count: int, near: AbstractSet[int]) -> int:
        """Choose the socket to begin at: one that has enough, near, the fullest of these; else the emptiest."""
        free: dict[int, int] = {}
        for at, mask in left.items():
            socket = self._all[at].socket
            free[socket] = free.get(socket, 0) + mask.bit_count()
        close = {self._all[at].socket for at in near}
        return min(free, key=lambda one: (free[one] < count, one not in close, abs(free[one] - count)))

    def _spread(self, free: int, count: int) -> tuple[int, ...]:
        """Take from every node in turn, until there are enough."""
        room = [(free & place.cores).bit_count() for place in self._all]
        shares = [0] * len(room)
        while count:
            for at, most in enumerate(room):
                if count and shares[at] < most:
                    shares[at] += 1
                    count -= 1
        chosen = zip(self._all, shares, strict=True)
        return tuple(bits(sum(mask_of(lowest_compact(free & place.cores, share)) for place, share in chosen)))
