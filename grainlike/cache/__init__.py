"""Results of calls on disk, found again by function and arguments."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.cache._memo import Memo
    from grainlike.cache._store import Kept, Results, results_directory

__all__ = [
    "Kept",
    "Memo",
    "Results",
    "results_directory",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Kept": "_store",
            "Memo": "_memo",
            "Results": "_store",
            "results_directory": "_store",
        },
    )
