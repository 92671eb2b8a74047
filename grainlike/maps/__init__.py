"""Maps over sources of any length in bounded memory, results in the order in which they come, and the end of many."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.maps._amap import MapIterator, amap
    from grainlike.maps._as_completed import as_completed
    from grainlike.maps._replicate import replicate
    from grainlike.maps._wait import wait

__all__ = [
    "MapIterator",
    "amap",
    "as_completed",
    "replicate",
    "wait",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "MapIterator": "_amap",
            "amap": "_amap",
            "as_completed": "_as_completed",
            "replicate": "_replicate",
            "wait": "_wait",
        },
    )
