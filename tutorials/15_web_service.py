"""A web service: requests that are answered by jobs, with Starlette; with FastAPI it is the same.

The service takes four things from an executor that lives as long as it does:

- the *lifespan* opens the executor and closes it, so all requests share its workers. Here it is embedded. A service
  that computes elsewhere says `connect(wait=60, reconnect=True)` there instead: it waits for its head, and goes on with
  the next one when that was replaced; what was in flight fails with `HeadLostError`, which is worth a 503;
- a request that takes too long is answered with 504: `JobTimeoutError` is a `TimeoutError`, as that of `anyio` is;
- a client that *disconnects* has its job cancelled: a placeholder whose awaiting task is cancelled cancels its work;
- when too many calls wait, the answer is 503 at once, and not a queue that grows: `executor.counts()` has how many do.
  The call is made once it is admitted.

It takes Starlette and a server: `pip install starlette uvicorn httpx` (httpx for the clients below).

It prints::

    the square of 12: 144
    while one call runs and one waits, another is one too many: 503
    after a client has left, its job is cancelled
    and the one that waited is answered: 9
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from grainlike import Cores, Delayed, Executor, HeadLostError, delayed, info

MOST_WAITING = 1  # calls: one that runs delays nobody who has a core
LIMIT_S = 30.0  # for an answer, the wait for the core included


@delayed
async def square(x: int) -> int:
    return x * x


@delayed
async def compute_for_long() -> None:
    await anyio.sleep_forever()


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with Executor(local=Cores(1)) as app.state.executor:
        yield


async def value_for(request: Request, r_: Delayed[Any]) -> Any:
    """Await a placeholder for as long as the client is there; its job is cancelled when the client disconnects."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        try:
            return await r_
        except Exception as error:  # noqa: BLE001 - raised outside: the group would make an ExceptionGroup of it
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    raise failure or HTTPException(499)  # the client has gone, and reads no answer


async def answer(request: Request, job: Callable[[], Delayed[Any]]) -> PlainTextResponse:
    """Answer with the value of a job, which is made once the request is admitted."""
    if request.app.state.executor.counts().waiting >= MOST_WAITING:
        return PlainTextResponse("try again later", 503, {"Retry-After": "1"})
    try:
        with anyio.fail_after(LIMIT_S):
            return PlainTextResponse(str(await value_for(request, job())))
    except HeadLostError:  # its text has addresses
        return PlainTextResponse("try again later", 503, {"Retry-After": "5"})
    except TimeoutError as error:
        return PlainTextResponse(str(error) or "no value in time", 504)


async def get_square(request: Request) -> PlainTextResponse:
    return await answer(request, lambda: (square @ Cores(1))(int(request.path_params["x"])))


async def get_long(request: Request) -> PlainTextResponse:
    def job() -> Delayed[None]:
        request.app.state.long = r_ = (compute_for_long @ Cores(1))()
        return r_

    return await answer(request, job)


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


async def until(waiting: int, running: int) -> None:
    while app.state.executor.counts() != (waiting, running):
        await anyio.sleep(0.01)


async def main() -> None:
    async with serving() as address, httpx.AsyncClient(base_url=address, timeout=60) as client:
        print("the square of 12:", (await client.get("/square/12")).text)

        impatient = asyncio.create_task(client.get("/long"))
        await until(waiting=0, running=1)
        patient = asyncio.create_task(client.get("/square/3"))
        await until(waiting=1, running=1)
        print(
            "while one call runs and one waits, another is one too many:", (await client.get("/square/4")).status_code
        )

        impatient.cancel()  # closes its connection
        answered = await patient
        print("after a client has left, its job is", info(app.state.long).state)
        print("and the one that waited is answered:", answered.text)


if __name__ == "__main__":
    asyncio.run(main())
