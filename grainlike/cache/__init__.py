"""Results of calls on disk, found again by function and arguments."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.cache._result_cache import ResultCache
    from grainlike.cache._store import ResultStore, StoredResult, results_directory

__all__ = [
    "ResultCache",
    "ResultStore",
    "StoredResult",
    "results_directory",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "StoredResult": "_store",
            "ResultCache": "_result_cache",
            "ResultStore": "_store",
            "results_directory": "_store",
        },
    )
