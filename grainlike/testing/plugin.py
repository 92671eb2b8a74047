"""Plugin of pytest: the fixtures `executor` and `cluster`, for tests of pytest-asyncio and of anyio's plugin.

Asked for in a `conftest.py`, as `pytest_plugins = ["grainlike.testing.plugin"]`. It has no entry point: pytest would
load it in every run, and rewrite the assertions of the whole package.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from grainlike.resources import Cores, Request
from grainlike.testing._warning import ImplicitExecutorWarning

if TYPE_CHECKING:
    from grainlike.executor import Executor
    from grainlike.testing import Cluster

__all__ = ["cluster", "executor", "executor_offer"]


@pytest.fixture
def executor_offer() -> Request:
    """Offer of the fixture `executor`: two cores. Override it in a `conftest.py` or a module for another one.

    Example::

        @pytest.fixture
        def executor_offer():
            return Cores(4) & GPUs(1) & Memory("2Gi")
    """
    return Cores(2)


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Executor:
    """Open executor of this process, with `executor_offer`, which calls that the test awaits run on.

    What still runs at the end of the test is cancelled.

    Example::

        @pytest.mark.anyio
        async def test_square(executor):
            assert await (square @ Cores(1))(3) == 9
    """
    found: Executor = request.getfixturevalue(f"_grainlike_executor_{_loop_of(request)}")
    return found


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Callable[..., Awaitable[Cluster]]:
    """Return a function whose result, awaited, is an open `grainlike.testing.Cluster`, which is closed after the test.

    What awaits it may be cancelled: the workers that it has started are ended then. At the end of the test what still
    runs in a cluster is cancelled, and its workers are ended.

    Example::

        @pytest.mark.anyio
        async def test_a_node_fails(cluster):
            two = await cluster(nodes=[Cores(1), Cores(1)])
            await two.kill_worker("n1")
            assert await (square @ Cores(1))(3) == 9
    """
    found: Callable[..., Awaitable[Cluster]] = request.getfixturevalue(f"_grainlike_cluster_{_loop_of(request)}")
    return found


def _loop_of(request: pytest.FixtureRequest) -> str:
    """Return the plugin that runs the test, and of pytest-asyncio the scope of its event loop: fixtures open there.

    Raises:
        pytest.UsageError: none does, or two do, or one that is too old.
    """
    node = request.node
    has_backend = "anyio_backend" in request.fixturenames  # by its mark, too, where it is `async def`
    mark = node.get_closest_marker("asyncio")
    if mark is not None and has_backend:
        raise pytest.UsageError(
            f"{node.nodeid} is for anyio's plugin, and pytest-asyncio runs it, in another event loop than its "
            "fixtures: write `asyncio_mode = strict` in the settings of pytest, and give a test one of the marks "
            "`anyio` and `asyncio`"
        )
    if has_backend:
        return "anyio"
    if mark is None:
        raise pytest.UsageError(
            f"{node.nodeid} has no event loop: a test with grainlike's fixtures is `async def`, with "
            "@pytest.mark.anyio or @pytest.mark.asyncio"
        )
    if not _HAS_LOOP_SCOPES:
        raise pytest.UsageError("grainlike's fixtures need pytest-asyncio 0.24 or later, or anyio's plugin")
    return f"asyncio_{_loop_scope(mark, request.config)}"


def _loop_scope(mark: pytest.Mark, config: pytest.Config) -> str:
    """Return the scope of the event loop in which pytest-asyncio runs a test."""
    asked = mark.kwargs.get("loop_scope") or mark.kwargs.get("scope")  # as it was called before
    try:
        return str(asked or config.getini("asyncio_default_test_loop_scope") or "function")
    except ValueError:  # versions before 1.0 have no such setting
        return "function"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Warn of a test that forgot its fixture, so that an implicit executor ran its calls."""
    before = _implicit_made()
    ended = yield
    if _implicit_made() > before:
        warnings.warn(
            f"no executor was open when {item.name} awaited calls, so an implicit one ran them, over all cores of this "
            "machine: take the fixture `executor` or `cluster`",
            ImplicitExecutorWarning,
            stacklevel=1,
        )
    return ended


def _implicit_made() -> int:
    room = sys.modules.get("grainlike.executor")  # runs of pytest without a test of ours do without
    return 0 if room is None else int(room.implicit_made())


async def _open_executor(executor_offer: Request) -> AsyncIterator[Executor]:
    from grainlike.executor import Executor  # runs of pytest without a test of ours do without

    opened = await Executor(local=executor_offer)
    try:
        yield opened
    finally:
        await opened.aclose()


async def _open_clusters() -> AsyncIterator[Callable[..., Awaitable[Cluster]]]:
    from grainlike.testing import Cluster  # runs of pytest without a test of ours do without

    async with AsyncExitStack() as stack:

        async def opened(cluster: Cluster) -> Cluster:
            await cluster
            stack.push_async_callback(cluster.aclose)
            return cluster

        def open_cluster(nodes: Sequence[Request] = (Cores(2),), **options: Any) -> _Opening:
            opening = _Opening(lambda: opened(Cluster(nodes, **options)))
            openings.append(opening)
            return opening

        openings: list[_Opening] = []
        yield open_cluster
        if any(not opening.was_awaited for opening in openings):
            warnings.warn("a cluster was not awaited, so none was opened: write `await cluster(...)`", stacklevel=1)


class _Opening:
    """Cluster of the fixture `cluster` that the test is to await."""

    def __init__(self, opened: Callable[[], Awaitable[Cluster]]) -> None:
        self._opened = opened
        self.was_awaited = False

    def __await__(self) -> Generator[Any, Any, Cluster]:
        self.was_awaited = True
        return self._opened().__await__()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the cluster is not open, so it has no {name!r}: write `await cluster(...)`", name=name)


@pytest.fixture
async def _grainlike_executor_anyio(anyio_backend: object, executor_offer: Request) -> AsyncIterator[Executor]:  # noqa: ARG001 - names the loop
    async for opened in _open_executor(executor_offer):
        yield opened


@pytest.fixture
async def _grainlike_cluster_anyio(anyio_backend: object) -> AsyncIterator[Callable[..., Awaitable[Cluster]]]:  # noqa: ARG001 - names the loop
    async for opener in _open_clusters():
        yield opener


def _has_loop_scopes() -> bool:
    if find_spec("pytest_asyncio") is None:
        return False
    import pytest_asyncio

    return "loop_scope" in signature(pytest_asyncio.fixture).parameters


_HAS_LOOP_SCOPES = _has_loop_scopes()

if _HAS_LOOP_SCOPES:
    import pytest_asyncio

    def _fixtures_in(scope: Any) -> dict[str, Any]:
        """Return the fixtures of one test by name, for tests in the event loop of a scope."""

        @pytest_asyncio.fixture(loop_scope=scope)
        async def executor(executor_offer: Request) -> AsyncIterator[Executor]:
            async for opened in _open_executor(executor_offer):
                yield opened

        @pytest_asyncio.fixture(loop_scope=scope)
        async def cluster() -> AsyncIterator[Callable[..., Awaitable[Cluster]]]:
            async for opener in _open_clusters():
                yield opener

        return {
            f"_grainlike_executor_asyncio_{scope}": executor,
            f"_grainlike_cluster_asyncio_{scope}": cluster,
        }

    for _scope in ("function", "class", "module", "package", "session"):
        globals().update(_fixtures_in(_scope))
