"""Books of the fleet: pools, blocks that live, blocks that have ended, and blocks of nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from grainlike.dialects import ListedBlock, native_name
from grainlike.fleet._block import Block, EndedBlock
from grainlike.fleet._pool import PoolState
from grainlike.fleet._system import SystemState

__all__ = ["Books"]

KEPT_ENDED = 1000
"""Ended blocks that are kept to be shown. That a number was given out once is known for ever."""


@dataclass(slots=True)
class Books:
    """All that the fleet scheduler knows.

    Attributes:
        digest: of the cluster, in hexadecimal: it makes native names, and no other books have it.
        last_number: the last number that a block was given. None comes again.
        version: how often something changed that a count of wanted workers depends on.
        pools: pools by name.
        systems: batch systems by key.
        blocks: blocks that live or may live, by label, in the order of their submission.
        ended: blocks that have ended, by label, the last of them.
        strays: rows with a name of this cluster that the books do not know, by batch system.
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
        """Check the digest: a name is made of it."""
        self._prefix = native_name(self.digest, 0)[:-1]

    def blocks_of(self, pool: str) -> list[Block]:
        """Return the blocks of a pool that live, the oldest first."""
        return [block for block in self.blocks.values() if block.pool == pool]

    def system(self, name: str) -> SystemState:
        """Return the state of a batch system, a new one for a new key."""
        return self.systems.setdefault(name, SystemState(name))

    def number_of(self, name: str) -> int | None:
        """Return the number in a native name; None if it is not of this cluster.

        Example::

            >>> Books("1a2b3c4d").number_of("gl1a2b3c4d-7"), Books("1a2b3c4d").number_of("gl1a2b3c4d-old")
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
        """Move a block to those that have ended."""
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
        """Yield batch systems in which there is nothing to do any more."""
        used = {state.pool.system for state in self.pools.values()}
        used |= {block.system for block in self.blocks.values()}
        yield from [name for name in self.systems if name not in used and not self.strays.get(name)]


@lru_cache(maxsize=16384)
def _number_of(name: str, prefix: str) -> int | None:
    """Return the number in a name; kept, for a listing has the same names as the one before."""
    if not name.startswith(prefix):
        return None
    digits = name[len(prefix) :]
    return int(digits) if digits.isascii() and digits.isdecimal() and digits[0] != "0" else None
