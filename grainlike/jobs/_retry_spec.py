"""Retry options of a call on the wire: exception types are sent to the runner, which matches them."""

from __future__ import annotations

from functools import lru_cache

from grainlike.errors import JobMemoryError, JobTimeoutError
from grainlike.graph import Retry
from grainlike.payload import dump_value
from grainlike.wire import RetrySpec

__all__ = ["retry_spec"]


@lru_cache(maxsize=256)
def retry_spec(retry: Retry) -> RetrySpec:
    """Return the retry options for the wire. Raises `SerializationError` for an exception type that cannot be
    pickled.
    """
    on = b"" if retry.kinds is None else bytes(dump_value(retry.kinds, what="on= of a Retry").data)
    return RetrySpec(
        retry.times, retry.losses, retry.waits, on, retry.covers(JobTimeoutError), retry.covers(JobMemoryError)
    )
