"""Engines of other kinds that run jobs: each maps requests and calls to its own, and nothing more.

Answers: what an engine can honour, how a call is handed to it and its result fetched (a file for each engine, by the
`_protocol`), and how the jobs of an executor go to one (`_runner`, `_job`), as many as it admits (`_admission`). What a
call does there is in `calls`. The package of an engine is imported when its backend is made.
"""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.backends._celery import CeleryBackend
    from grainlike.backends._dask import DaskBackend
    from grainlike.backends._processes import ProcessBackend
    from grainlike.backends._protocol import Backend, BackendAdapter
    from grainlike.backends._ray import RayBackend
    from grainlike.backends._runner import BackendRunner
    from grainlike.backends._threads import ThreadBackend

__all__ = [
    "Backend",
    "BackendAdapter",
    "BackendRunner",
    "CeleryBackend",
    "DaskBackend",
    "ProcessBackend",
    "RayBackend",
    "ThreadBackend",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Backend": "_protocol",
            "BackendRunner": "_runner",
            "CeleryBackend": "_celery",
            "DaskBackend": "_dask",
            "BackendAdapter": "_protocol",
            "ProcessBackend": "_processes",
            "RayBackend": "_ray",
            "ThreadBackend": "_threads",
        },
    )
