"""The examples do what they say, where what they take is installed; `make test-examples` installs it.

Each stands alone, is short enough to be read at once, and has a page on the site.
"""

import ast
import asyncio
import doctest
import importlib.util
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Delayed, Executor, HeadLostError, delayed

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MOST_LINES = 120
PROMISED = os.environ.get("GRAINLIKE_TEST_EXAMPLES", "").split()
"""`all` where all is installed that examples take, but PyTorch, which is large; `torch` where that is, too."""


def need(*modules: str) -> None:
    """Skip the test where a module is not installed; fail where it is promised to be."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if "all" in PROMISED and set(missing) - ({"torch"} - set(PROMISED)):
        pytest.fail(f"not installed: {missing}")
    if missing:
        pytest.skip(f"not installed: {missing}")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_listed(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MOST_LINES
    assert f"({path.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the examples are for two cores or more")
@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("metals.py", ["ase"]),
        ("model_search.py", ["joblib", "sklearn"]),
        ("early_stopping.py", ["torch"]),
    ],
)
def test_an_example_prints_what_it_says(name: str, modules: list[str], tmp_path: Path) -> None:
    need(*modules)
    path = EXAMPLES / name
    _, _, said = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("It prints::\n")
    ended = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    expected = textwrap.dedent(said).strip("\n") + "\n"
    assert doctest.OutputChecker().check_output(expected, ended.stdout, doctest.ELLIPSIS), ended.stdout


def test_the_notebook_gives_the_outputs_that_it_shows(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient
    from notebooks import kernel_environment

    path = EXAMPLES / "sweep.ipynb"
    shown = nbformat.read(path, as_version=4)
    sources = [line for cell in shown.cells for line in cell.source.splitlines()]
    assert len(sources) < MOST_LINES
    run = nbformat.read(path, as_version=4)
    client = NotebookClient(run, timeout=LIMIT_S, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=kernel_environment(tmp_path))
    assert [outputs(cell) for cell in run.cells] == [outputs(cell) for cell in shown.cells]
    assert sum(outputs(cell) != [] for cell in run.cells) >= 3


def outputs(cell: Any) -> list[str]:
    """Texts that a cell shows."""
    return [output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", [])]


def loaded(name: str, folder: Path = EXAMPLES) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[str, Any]]:
    """Address of the service, and its server, run as `uvicorn web_service:app` does."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # connections inherit it, and fill up soon
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = server.force_exit = True
            await task


@delayed(timeout=0.05)
async def endless() -> None:
    await anyio.sleep_forever()


@delayed
async def failing(error: type[Exception]) -> None:
    raise error("on purpose")


RAISED = {
    "a job's timeout": (lambda: (endless @ Cores(1))(), 504),
    "its own error": (lambda: (failing @ Cores(1))(ValueError), None),
    "a lost head": (lambda: (failing @ Cores(1))(HeadLostError), 503),
}
"""Calls, and what the services answer for the error of each; None where it goes through to the server."""
SERVICES: dict[str, tuple[Path, Callable[..., Any]]] = {
    "web_service": (EXAMPLES, lambda service, request, call: service.value_for(request, call())),
    "15_web_service": (ROOT / "tutorials", lambda service, request, call: service.answer(request, call)),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize(("call", "status"), RAISED.values(), ids=RAISED)
async def test_a_handler_sees_the_error_of_its_job_itself(
    name: str, call: Callable[[], Delayed[Any]], status: int | None
) -> None:
    need("fastapi", "httpx", "uvicorn")
    import httpx
    from starlette.requests import Request
    from starlette.routing import Route

    folder, answered = SERVICES[name]
    service = loaded(name, folder)

    async def raised(request: Request) -> Any:
        return await answered(service, request, call)

    service.app.router.routes.append(Route("/raised", raised))
    transport = httpx.ASGITransport(service.app)
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(local=Cores(1)) as service.app.state.executor,
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        if status is None:
            with pytest.raises(ValueError, match="on purpose"):
                await client.get("/raised")
        else:
            assert (await client.get("/raised")).status_code == status


@pytest.mark.asyncio
async def test_a_service_answers_504_when_a_value_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    need("fastapi", "httpx", "uvicorn")
    import httpx

    service = loaded("web_service")
    monkeypatch.setattr(service, "LIMIT_S", 0.05)
    transport = httpx.ASGITransport(service.app)
    async with (
        asyncio.timeout(LIMIT_S),
        service.lifespan(service.app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        answer = await client.get("/pi?points=1000000000000&jobs=1")
        assert (answer.status_code, answer.json()) == (504, {"detail": "no value yet"})
        assert service.app.state.executor.report().cancelled == 1


@delayed
async def broken(items: int, error: type[Exception], wait: float) -> AsyncIterator[int]:
    for item in range(items):
        yield item
    await anyio.sleep(wait)
    raise error("the head at tcp://10.0.0.1:7777 is lost")


@asynccontextmanager
async def walking(
    monkeypatch: pytest.MonkeyPatch, items: int, *, error: type[Exception] = HeadLostError, wait: float = 0.0
) -> AsyncIterator[tuple[ModuleType, Any]]:
    """The service whose walks break off after so many items, and a client of it."""
    need("fastapi", "httpx", "uvicorn")
    import httpx

    service = loaded("web_service")

    class Walk:
        def __matmul__(self, cores: Cores) -> Callable[..., Any]:
            return lambda *_: (broken @ cores)(items, error, wait)

    monkeypatch.setattr(service, "walk", Walk())
    transport = httpx.ASGITransport(service.app)
    async with (
        asyncio.timeout(LIMIT_S),
        service.lifespan(service.app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        yield service, client


@pytest.mark.asyncio
async def test_a_stream_that_breaks_off_says_so_without_the_address_of_a_head(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with walking(monkeypatch, 2) as (_, client):
        answer = await client.get("/walk")
    assert (answer.status_code, answer.text) == (200, "0\n1\nerror: the walk broke off\n")
    assert "tcp://10.0.0.1:7777" in caplog.text


@pytest.mark.asyncio
@pytest.mark.parametrize(("wait", "status"), [(0.0, 503), (LIMIT_S, 504)], ids=["its head is lost", "it has no core"])
async def test_a_stream_that_cannot_start_is_answered_with_its_status(
    wait: float, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with walking(monkeypatch, 0, wait=wait) as (service, client):
        if wait:
            monkeypatch.setattr(service, "LIMIT_S", 0.05)
        answer = await client.get("/walk")
        assert (answer.status_code, answer.json()) == (status, {"detail": "no value yet"})
        assert service.app.state.executor.counts() == (0, 0)


@pytest.mark.asyncio
async def test_a_stream_without_items_is_an_empty_answer() -> None:
    need("fastapi", "httpx", "uvicorn")
    import httpx

    service = loaded("web_service")
    transport = httpx.ASGITransport(service.app)
    async with (
        asyncio.timeout(LIMIT_S),
        service.lifespan(service.app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        answer = await client.get("/walk?steps=0")
    assert (answer.status_code, answer.text) == (200, "")


async def until_job(events: AsyncIterator[Any], kind: str, job: int) -> str:
    """Wait for an event of a job, by its number; return the outcome that it tells of."""
    async for event in events:
        if event.kind == kind and event.job == job:
            return str(event.outcome)
    raise AssertionError("the executor has closed")


@pytest.mark.asyncio
async def test_the_service_answers_streams_and_cancels_for_clients_that_leave() -> None:
    need("fastapi", "httpx", "uvicorn")
    import httpx

    service = loaded("web_service")
    async with (
        asyncio.timeout(LIMIT_S),
        serving(service.app) as (address, _),
        httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as client,
    ):
        estimate = (await client.get("/pi?points=20000")).json()["pi"]
        assert estimate == pytest.approx(3.14, abs=0.05)
        lines = (await client.get("/walk?steps=50")).text.split()
        assert len(lines) == 50
        assert re.fullmatch(r"-?\d+", lines[-1])

        events = service.app.state.executor.events()
        impatient = asyncio.create_task(client.get("/pi?points=1000000000000&jobs=1"))
        assert await until_job(events, "job_started", 4) == ""
        impatient.cancel()
        assert await until_job(events, "job_ended", 4) == "cancelled"

        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /walk?steps=1000000000&pause=0.1 HTTP/1.1\r\nHost: service\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
        assert await until_job(events, "job_ended", 5) == "cancelled"
        assert (await client.get("/state")).json() == {"succeeded": 3, "failed": 0, "timed_out": 0, "cancelled": 2}


@pytest.mark.asyncio
async def test_the_service_ends_the_job_of_a_client_that_closes_its_side_and_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need("fastapi", "httpx", "uvicorn")
    import httpx

    service = loaded("web_service")
    monkeypatch.setattr(service, "STALL_S", 1.0)
    async with asyncio.timeout(LIMIT_S), serving(service.app) as (address, server):
        async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as client:
            await client.get("/state")
        events = service.app.state.executor.events()
        host, port = address.removeprefix("http://").split(":")
        client_socket = socket.socket()
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # it fills up soon
        client_socket.connect((host, int(port)))
        reader, writer = await asyncio.open_connection(sock=client_socket)
        writer.write(b"GET /walk?steps=1000000000 HTTP/1.1\r\nHost: service\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        await until(lambda: any(one.flow.write_paused for one in server.server_state.connections))
        writer.write_eof()  # while bytes wait, the server takes no notice of it
        assert await until_job(events, "job_ended", 1) == "cancelled"
        writer.transport.abort()
