"""What every test may count on: both event loops that grainlike runs on, and an end to all waiting."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

PATIENCE_S = 30


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of a test marked `anyio`: each such test runs once on asyncio and once on trio."""
    return (request.param, {"use_uvloop": False} if request.param == "asyncio" else {})


def pytest_itemcollected(item: pytest.Item) -> None:
    """A promise that is not kept must be a failed test, not a suite that hangs."""
    if isinstance(item, pytest.Function) and item.get_closest_marker("anyio") and inspect.iscoroutinefunction(item.obj):
        item.obj = _bounded(item.obj)


def _bounded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def bounded(*args: Any, **kwargs: Any) -> None:
        with anyio.fail_after(PATIENCE_S):
            await test(*args, **kwargs)

    return bounded
