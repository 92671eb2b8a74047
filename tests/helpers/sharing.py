"""Fixtures for files whose tests share an executor: to start one takes more than most tests do with it.

Such a file assigns them to names of its own, and opens its executor in a fixture of the scope of modules::

    anyio_backend, no_leaks = sharing.anyio_backend, sharing.no_leaks


    @pytest.fixture(scope="module")
    async def executor(anyio_backend: object) -> AsyncIterator[Executor]:
        async with Executor(local=Cores(2)) as executor:
            yield executor

Tests that count, or that look at numbers of jobs or at what is left of them, have an executor each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

__all__ = ["anyio_backend", "no_leaks"]


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both event loops, as everywhere, but living as long as a file's executor."""
    return (request.param, {"use_uvloop": False} if request.param == "asyncio" else {})


@pytest.fixture(scope="module", autouse=True)
def no_leaks(watch_leaks: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Nothing is left behind, as everywhere, when the tests of the file have ended: its executor keeps runners."""
    with watch_leaks():
        yield
