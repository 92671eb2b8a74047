"""Awaits of other libraries' coroutines end with a cancellation, and free their slots."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest
from limits import LIMIT_S
from waiting import until_files

from grainlike import Cores, Executor, cancel, delayed, start

pytestmark = pytest.mark.asyncio


@delayed
async def dial(begun: str, port: int) -> None:
    """A server that accepts, and never answers."""
    websockets = pytest.importorskip("websockets")
    await websockets.connect(f"ws://127.0.0.1:{port}", open_timeout=None)


@delayed
async def query(begun: str, port: int) -> None:
    """A query that runs in a thread of the library's, until a function of its own says that it is enough."""
    aiosqlite = pytest.importorskip("aiosqlite")

    def more(x: int) -> bool:
        if x == 1:
            Path(begun).touch()
        return Path(begun).exists()

    numbers = "with recursive c(x) as (select 1 union all select x + 1 from c where more(x)) select count(*) from c"
    async with aiosqlite.connect(":memory:") as db:
        await db.create_function("more", 1, more)
        await db.execute(numbers)


@delayed
async def nothing() -> None:
    """Show that there is a slot."""


@pytest.mark.parametrize(("job", "module"), [(dial, "websockets"), (query, "aiosqlite")])
async def test_a_cancelled_await_of_another_library_frees_its_slot(job, module: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    begun = tmp_path / "begun"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LIMIT_S)
        async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
            r_ = start((job @ Cores(1))(str(begun), silent.getsockname()[1]))
            if job is dial:
                there, _ = await asyncio.to_thread(silent.accept)
            else:
                await until_files(tmp_path, begun.exists)
            cancel(r_)
            assert await (nothing @ Cores(1))() is None
            if job is dial:
                there.close()
            else:
                begun.unlink()
                for thread in threading.enumerate():
                    if "_connection_worker" in thread.name:  # the library's, which tells the loop of its end
                        await asyncio.to_thread(thread.join, LIMIT_S)
