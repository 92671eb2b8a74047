"""Coroutines that await something for ever, by name; two of them clean up and say so in `CLEAN`."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress

import anyio
import anyio.lowlevel
from limits import LIMIT_S

from grainlike import as_completed, delayed, run_process
from grainlike.eventloop import _cancellation

FOREVER = [sys.executable, "-c", "import time; time.sleep(3600)"]

CLEAN: list[str] = []
"""Clean-ups that awaited and were not cut."""

WRITERS: list[asyncio.StreamWriter] = []
"""Writers of connections that are open while a body awaits their end."""


async def sleep() -> None:
    await asyncio.sleep(3600)


async def event() -> None:
    await asyncio.Event().wait()


async def queue() -> None:
    await asyncio.Queue[int]().get()


async def lock() -> None:
    held = asyncio.Lock()
    async with held, held:
        pass


async def condition() -> None:
    async with (changed := asyncio.Condition()):
        await changed.wait()


async def semaphore() -> None:
    await asyncio.Semaphore(0).acquire()


async def barrier() -> None:
    await asyncio.Barrier(2).wait()


async def future() -> None:
    await asyncio.get_running_loop().create_future()


async def joined_queue() -> None:
    (unread := asyncio.Queue[int]()).put_nowait(1)
    await unread.join()


async def anyio_event() -> None:
    await anyio.Event().wait()


async def anyio_limiter() -> None:
    async with (limiter := anyio.CapacityLimiter(1)):
        await limiter.acquire_on_behalf_of("another")


async def memory_stream() -> None:
    send, receive = anyio.create_memory_object_stream[int](0)
    with send, receive:
        await receive.receive()


async def silent_socket() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        await asyncio.get_running_loop().sock_recv(near, 1)


async def silent_stream() -> None:
    near, far = socket.socketpair()
    with far:
        reader, writer = await asyncio.open_connection(sock=near)
        try:
            await reader.readline()
        finally:
            writer.close()


async def nobody_connects() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        await asyncio.get_running_loop().sock_accept(listening)


async def server() -> None:
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as serving:
        await serving.serve_forever()


async def anyio_server() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        await listener.serve(lambda stream: stream.aclose())


async def program_of_ours() -> None:
    await run_process(FOREVER)


async def job_of_ours() -> None:
    await delayed(event)()


async def first_of_our_jobs() -> None:
    async for _ in as_completed([delayed(event)() for _ in range(2)]):
        pass


async def asyncio_program() -> None:
    process = await asyncio.create_subprocess_exec(*FOREVER)
    try:
        await process.wait()
    finally:
        process.kill()
        await process.wait()


async def anyio_run_process() -> None:
    await anyio.run_process(FOREVER)


async def anyio_open_process() -> None:
    async with await anyio.open_process(FOREVER) as process:
        await process.wait()


async def thread() -> None:
    await asyncio.to_thread(lambda: None)
    await asyncio.Event().wait()


async def silent_tls_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel connects; nobody answers
        port = silent.getsockname()[1]
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())


@asynccontextmanager
async def tls_connection() -> AsyncGenerator[None]:
    """Context manager: `WRITERS` has one to a peer that does not answer the end of TLS, nor has a certificate."""
    theirs, ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE
    for context in (theirs, ours):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("aNULL:@SECLEVEL=0")
    near, far = socket.socketpair()
    # Wrapped here: what a thread makes while this is cancelled, nobody would close.
    with near, theirs.wrap_socket(far, server_side=True, do_handshake_on_connect=False) as silent:
        (_, writer), _ = await asyncio.gather(
            asyncio.open_connection(sock=near, ssl=ours, server_hostname="peer", ssl_shutdown_timeout=3600),
            asyncio.to_thread(silent.do_handshake),
        )
        WRITERS.append(writer)
        try:
            yield
        finally:
            WRITERS.remove(writer)
            writer.transport.abort()


async def silent_tls_end() -> None:
    (writer,) = WRITERS
    writer.close()
    await writer.wait_closed()


async def gathered() -> None:
    await asyncio.gather(sleep(), event())


async def waited_for() -> None:
    inner = asyncio.create_task(sleep())
    try:
        await asyncio.wait([inner])
    finally:
        inner.cancel()


async def first_of_several() -> None:
    inner = asyncio.create_task(sleep())
    try:
        for first in asyncio.as_completed([inner]):
            await first
    finally:
        inner.cancel()


async def shielded() -> None:
    inner = asyncio.create_task(sleep())
    try:
        await asyncio.shield(inner)
    finally:
        inner.cancel()


async def limited() -> None:
    await asyncio.wait_for(asyncio.Event().wait(), 3600)


async def timed() -> None:
    async with asyncio.timeout(LIMIT_S):
        await sleep()


async def task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(sleep())
        group.create_task(swallows_one())


async def gathered_groups() -> None:
    await asyncio.gather(task_group(), asyncio.gather(task_group()), return_exceptions=True)


async def anyio_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)


async def anyio_scope() -> None:
    with anyio.CancelScope():
        await anyio.sleep_forever()


async def anyio_shield() -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()


async def async_generator() -> None:
    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await sleep()
        finally:
            await asyncio.sleep(0)

    async for _ in items():
        pass


async def swallows_one() -> None:
    with suppress(asyncio.CancelledError):
        await sleep()
    await sleep()


async def cleans_without_end() -> None:
    try:
        await sleep()
    finally:
        await anyio.sleep_forever()


async def cleans_up() -> None:
    try:
        await sleep()
    finally:
        for _ in range(5):
            await asyncio.sleep(0)
        CLEAN.append("asyncio")


async def cleans_up_in_a_shield() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
        CLEAN.append("anyio")


BODIES: list[Callable[[], Awaitable[None]]] = [
    sleep, event, queue, lock, condition, semaphore, barrier, future, joined_queue, anyio_event, anyio_limiter,
    memory_stream, silent_socket, silent_stream, nobody_connects, server, anyio_server, asyncio_program,
    anyio_run_process, anyio_open_process, program_of_ours, job_of_ours, first_of_our_jobs, thread, silent_tls_peer,
    silent_tls_end, gathered, waited_for, first_of_several, shielded, limited, timed, task_group, gathered_groups,
    anyio_group, anyio_scope, anyio_shield, async_generator, swallows_one, cleans_without_end, cleans_up,
    cleans_up_in_a_shield,
]  # fmt: skip

BEFORE = {"silent_tls_end": tls_connection}
"""Resources that are opened before a body is said to have begun: cancelled while it opens, one would stay open."""

STUBBORN = [anyio_run_process, swallows_one, task_group, gathered_groups, cleans_without_end, cleans_up]


async def awaits(name: str, port: int) -> None:
    """Connect to `port`, await the coroutine `name`, and send which clean-ups were not cut. The end closes."""
    if name.startswith("cleans_up"):
        _cancellation.GRACE_S = LIMIT_S  # a machine that stops in the middle of a clean-up makes it no longer one
    async with BEFORE.get(name, nullcontext)():
        with socket.create_connection(("127.0.0.1", port)) as test:
            CLEAN.clear()
            try:
                await next(body for body in BODIES if body.__name__ == name)()
            finally:
                test.sendall("".join(CLEAN).encode())


async def nothing() -> None:
    """Show that there is a slot."""
