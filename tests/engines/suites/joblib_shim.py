"""The backend of grainlike's in place of loky, joblib's default, for tests of joblib and scikit-learn; a pytest plugin.

Tests that are only of joblib's other backends are left out.
"""

from __future__ import annotations

from typing import Any

import pytest
from joblib import _parallel_backends, parallel

from grainlike.adapters import register_joblib

OTHERS = ("multiprocessing", "spawn", "threading", "sequential")


def pytest_configure() -> None:
    """Replace it before tests are collected, whose parameters are made of the table of backends."""
    register_joblib()
    parallel.BACKENDS["loky"] = parallel.BACKENDS.pop("grainlike")
    _parallel_backends.LokyBackend = parallel.BACKENDS["loky"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what would not run on ours."""
    others = [item for item in items if _of_others(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _of_others(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    backends = [value for name, value in parameters.items() if name.endswith("backend")]
    return bool(backends) and all(_is_other(backend) for backend in backends)


def _is_other(backend: Any) -> bool:
    if isinstance(backend, parallel.ParallelBackendBase):
        return not isinstance(backend, parallel.BACKENDS["loky"])
    return backend in OTHERS or hasattr(backend, "Pool")
