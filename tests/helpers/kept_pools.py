"""The pool that joblib and Dask keep for their next call."""

from grainlike.adapters import _kept

__all__ = ["close_kept"]


def close_kept() -> None:
    """Close the unused pool, if there is one, and wait until it has ended."""
    with _kept._lock:
        found, _kept._idle[:] = list(_kept._idle), []
    for _, _, pool in found:
        pool.shutdown()
