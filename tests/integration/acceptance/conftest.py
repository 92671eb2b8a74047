"""Every line of the acceptance list runs on each kind of worker and on both event loops.

An executor serves all tests of a module, as it would serve a program: what one test leaves in it, another would feel.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

# Jobs import it too, in processes that know nothing of pytest's way to import.
sys.path.insert(0, str(Path(__file__).parent))

from stagehands import LIMIT_S, Stage
from waiting import until, until_ended

from grainlike import Executor, parse

ROOT = Path(__file__).parents[3]
OFFER = "cores=8 foo=7 goo=12 gpu0=1 gpu1=1 gpus=2 memory=8Gi"


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """As everywhere, but living as long as a module's executor."""
    return (request.param, {"use_uvloop": False} if request.param == "asyncio" else {})


@pytest.fixture(scope="module", autouse=True)
def no_leaks(watch_leaks: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """As everywhere, for the whole module: while its executor lives, warm runners are no leak."""
    with watch_leaks():
        yield


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state directory of our own, which must be empty in the end."""
    with pytest.MonkeyPatch.context() as patches:
        home = tmp_path_factory.mktemp("state")
        patches.setenv("XDG_STATE_HOME", str(home))
        yield home
        assert [str(path) for path in home.rglob("*.json")] == []


@pytest.fixture(scope="module", params=["embedded", "unix", "tcp"])
async def executor(request: pytest.FixtureRequest, anyio_backend: object, state: Path) -> AsyncIterator[Executor]:
    """An executor with one worker that offers `OFFER`."""
    if request.param == "embedded":
        async with Executor(local=parse(OFFER)) as executor:
            yield executor
        return
    with tempfile.TemporaryDirectory(prefix="gl") as folder:
        address = "tcp://127.0.0.1:0" if request.param == "tcp" else f"unix://{folder}/head/socket"
        async with Executor(listen=address) as executor, daemon(executor, OFFER):
            yield executor


@asynccontextmanager
async def daemon(executor: Executor, offer: str, name: str = "n1") -> AsyncIterator["subprocess.Popen[bytes]"]:
    """A worker daemon that dials in, and is gone at the end."""
    command = [sys.executable, "-m", "grainlike_worker", "--head", str(executor.address)]
    command += ["--resources", offer, "--name", name, "--log-level", "error"]
    expected = len(executor.workers()) + 1
    process = subprocess.Popen(  # noqa: ASYNC220 - anyio's would be waited for by the loop that is under test
        command, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    )
    try:
        with anyio.fail_after(LIMIT_S):
            await executor.wait_for_workers(expected)
        yield process
        process.terminate()
        await until_ended(process.pid)
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def start_daemon() -> Callable[..., Any]:
    """`async with start_daemon(executor, "cores=2", "n2")`."""
    return daemon


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Where this test's jobs appear."""
    with tempfile.TemporaryDirectory(prefix="gl") as folder:
        stage = Stage(f"{folder}/stage")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(stage.path)
            listener.listen(1000)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stage.serve, listener)
                yield stage
                tasks.cancel_scope.cancel()
        stage.applaud()


@pytest.fixture(autouse=True)
async def all_slots_come_back(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """When a test is over nothing runs, and the whole node can be had."""
    yield
    if "executor" in request.fixturenames:
        executor: Executor = request.getfixturevalue("executor")
        # What is cancelled as a test ends has nobody left to tell.
        await until(lambda: all(worker.running == 0 for worker in executor.workers()))
