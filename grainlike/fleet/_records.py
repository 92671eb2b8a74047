"""Records of the fleet: pools, blocks that live, blocks that have ended, and blocks that belong to no pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from grainlike.dialects import ListedBlock, native_name
from grainlike.fleet._block import Block, EndedBlock
from grainlike.fleet._pool import PoolState
from grainlike.fleet._system import SystemState

__all__ = ["FleetRecords"]

KEPT_ENDED = 1000
"""Most ended blocks that are kept to be shown. Their numbers are never used again."""


@dataclass(slots=True)
class FleetRecords:
    """All records of the fleet scheduler.

    Attributes:
        digest: hexadecimal digest of the cluster. Native names are made of it, so no other fleet may have the same.
        last_number: the last number that a block was given. No number is given twice.
        version: counter of changes that a count of wanted workers depends on.
        pools: pools by name.
        systems: batch systems by key.
        blocks: blocks that live or may live, by label, in the order of their submission.
        ended: the last blocks that have ended, by label.
        strays: rows of listings with a name of this cluster but without a record here, by batch system.
    """

    digest: str
    last_number: int = 0
    version: int = 0
    pools: dict[str, PoolState] = field(default_factory=dict)
    systems: dict[str, SystemState] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)
    ended: dict[str, EndedBlock] = field(default_factory=dict)
    strays: dict[str, tuple[ListedBlock, ...]] = field(default_factory=dict)
    _prefix: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the digest, because native names are made of it."""
        self._prefix = native_name(self.digest, 0)[:-1]

    def blocks_of(self, pool: str) -> list[Block]:
        """Return the live blocks of a pool, the oldest first."""
        return [block for block in self.blocks.values() if block.pool == pool]

    def system(self, name: str) -> SystemState:
        """Return the state of a batch system; a new state for a new key."""
        return self.systems.setdefault(name, SystemState(name))

    def number_of(self, name: str) -> int | None:
        """Return the number in a native name; None if the name is not of this cluster.

        Example::

            >>> FleetRecords("1a2b3c4d").number_of("gl1a2b3c4d-7"), FleetRecords("1a2b3c4d").number_of("gl1a2b3c4d-old")
            (7, None)
        """
        return _number_of(name, self._prefix)

    def numbers(self, system: str) -> dict[int, Block]:
        """Return the live blocks of a batch system by number."""
        return {block.number: block for block in self.blocks.values() if block.system == system}

    def numbers_elsewhere(self, system: str) -> frozenset[int]:
        """Return the numbers of the live blocks of all other batch systems."""
        return frozenset(block.number for block in self.blocks.values() if block.system != system)

    def close(self, block: Block, reason: str, now: float) -> None:
        """Move a block to the blocks that have ended."""
        del self.blocks[block.label]
        self.ended[block.label] = EndedBlock(
            block.label,
            block.pool,
            block.number,
            block.native,
            reason,
            block.submitted_at,
            now,
            block.joined,
        )
        while len(self.ended) > KEPT_ENDED:
            del self.ended[next(iter(self.ended))]

    def spare_systems(self) -> Iterator[str]:
        """Yield the batch systems in which there is nothing to do any more."""
        used = {state.pool.system for state in self.pools.values()}
        used |= {block.system for block in self.blocks.values()}
        yield from [name for name in self.systems if name not in used and not self.strays.get(name)]


@lru_cache(maxsize=16384)
def _number_of(name: str, prefix: str) -> int | None:
    """Return the number in a name; cached, because each listing has the names of the last one."""
    if not name.startswith(prefix):
        return None
    digits = name[len(prefix) :]
    return int(digits) if digits.isascii() and digits.isdecimal() and digits[0] != "0" else None
