"""Engines of other kinds that run jobs: each maps requests and calls to its own, and nothing more.

It answers what an engine can honour, and how a call is handed to it and its result fetched. When which call goes there
is the executor's, what the call does there is `calls`'s. An engine's own package is imported when its backend is made.
"""

from grainlike.backends._celery import CeleryBackend
from grainlike.backends._dask import DaskBackend
from grainlike.backends._processes import ProcessBackend
from grainlike.backends._ray import RayBackend
from grainlike.backends._threads import ThreadBackend

__all__ = ["CeleryBackend", "DaskBackend", "ProcessBackend", "RayBackend", "ThreadBackend"]
