"""A web service: requests that are answered by jobs, with Starlette; with FastAPI it is the same.

The service takes three things from an executor that lives as long as it does:

- the *lifespan* opens the executor and closes it, so all requests share its workers. Here it is embedded. A service
  that computes elsewhere says `connect(wait=60, reconnect=True)` there instead: it waits for its head, and goes on with
  the next one when that was replaced; what was in flight fails with `HeadLostError`, which is worth a 503;
- a client that *disconnects* has its job cancelled: a placeholder whose awaiting task is cancelled cancels its work;
- when too much waits, the answer is 503 at once, and not a queue that grows.

It takes Starlette and a server: `pip install starlette uvicorn httpx` (httpx for the clients below).

It prints::

    the square of 12: 144
    while one request is served, another is one too many: 503
    after a client has left, its job is cancelled
    and the next is served: 9
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from grainlike import Cores, Delayed, Executor, delayed, info

MOST = 1  # requests at a time: more would only wait for the one core


@delayed
async def square(x: int) -> int:
    return x * x


@delayed
async def compute_for_long() -> None:
    await anyio.sleep_forever()


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    app.state.served = 0
    async with Executor(local=Cores(1)):
        yield


async def value_for(request: Request, r_: Delayed[Any]) -> Any:
    """Await a placeholder for as long as the client is there; its job is cancelled when the client disconnects."""
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        value = await r_
        tasks.cancel_scope.cancel()
        return value
    return None  # the client has gone


async def answer(request: Request, r_: Delayed[Any]) -> PlainTextResponse:
    state = request.app.state
    if state.served >= MOST:
        return PlainTextResponse("try again later", 503)
    state.served += 1
    try:
        return PlainTextResponse(str(await value_for(request, r_)))
    finally:
        state.served -= 1


async def get_square(request: Request) -> PlainTextResponse:
    return await answer(request, (square @ Cores(1))(int(request.path_params["x"])))


async def get_long(request: Request) -> PlainTextResponse:
    request.app.state.long = r_ = (compute_for_long @ Cores(1))()
    return await answer(request, r_)


app = Starlette(routes=[Route("/square/{x:int}", get_square), Route("/long", get_long)], lifespan=lifespan)


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """The service on a free port, as `uvicorn 15_web_service:app` would run it; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await task


async def main() -> None:
    async with serving() as address, httpx.AsyncClient(base_url=address, timeout=60) as client:
        print("the square of 12:", (await client.get("/square/12")).text)

        impatient = asyncio.create_task(client.get("/long"))
        while app.state.served == 0:
            await anyio.sleep(0.01)
        print("while one request is served, another is one too many:", (await client.get("/square/3")).status_code)

        impatient.cancel()  # closes its connection
        while app.state.served > 0:
            await anyio.sleep(0.01)
        print("after a client has left, its job is", info(app.state.long).state)
        print("and the next is served:", (await client.get("/square/3")).text)


if __name__ == "__main__":
    asyncio.run(main())
