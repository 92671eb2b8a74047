"""Admission control alone: who may have how much of what now, for programs that run their work themselves."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.pool._pool import ResourcePool

__all__ = [
    "ResourcePool",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "ResourcePool": "_pool",
        },
    )
