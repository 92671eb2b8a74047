"""Engines that are started once, and the table of what was seen of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engine_stands import ENGINES, STARTS, Engine
from engine_table import Table

collect_ignore = (
    []
    if {"dask", "ray", "celery"} & set(ENGINES)
    else [
        "test_each_engine.py",
        "test_cancelled_libraries.py",
        "test_mpi.py",
        "suites/test_suites.py",
    ]
)


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Every engine that is to be tried."""
    with STARTS[request.param]() as started:
        yield started


@pytest.fixture(scope="session")
def table() -> Table:
    """What the tests find out."""
    return Table()
