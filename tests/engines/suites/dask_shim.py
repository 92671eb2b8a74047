"""The scheduler of grainlike's in place of Dask's own, for Dask's tests; a pytest plugin.

Tests that name a scheduler themselves run on that.
"""

from __future__ import annotations

import dask

from grainlike.adapters import dask_get


def pytest_configure() -> None:
    """Make it the default."""
    dask.config.set(scheduler=dask_get)
