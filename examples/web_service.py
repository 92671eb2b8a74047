"""A web service with FastAPI: requests are answered by jobs.

- One executor lives as long as the service. For workers elsewhere, write `connect(wait=60, reconnect=True)` instead.
- A client that disconnects, or does not read for `STALL_S`, has its job cancelled, if it waits and if it runs.
- A request that takes longer than `LIMIT_S`, its wait for a slot included, is answered with 504; a lost head, with 503.
- `/walk` streams lines as a job makes them. What goes wrong before there is one has a status, too.
- Run it with `uvicorn web_service:app`. It takes `pip install fastapi uvicorn`.
"""

import logging
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from grainlike import Cores, Executor, GrainlikeError, HeadLostError, delayed

LIMIT_S, STALL_S = 30.0, 30.0  # for a value; for a client that does not read a part of its response


@delayed  # runs in a process that is pinned to its core
def estimate_pi(points: int, seed: int) -> float:
    draw = random.Random(seed).random
    return 4 * sum(draw() ** 2 + draw() ** 2 < 1 for _ in range(points)) / points


@delayed  # a stream that computes takes `isolate=True` as well: without it, it runs in the event loop of the service
async def walk(steps: int, seed: int, pause: float) -> AsyncIterator[int]:
    draw, place = random.Random(seed), 0
    for _ in range(steps):
        yield (place := place + draw.choice((-1, 1)))
        await anyio.sleep(pause)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Executor() as app.state.executor:
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(HeadLostError)
@app.exception_handler(TimeoutError)  # of `anyio.fail_after`; `JobTimeoutError` is one, too
async def no_value(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "no value yet"}, 503 if isinstance(error, HeadLostError) else 504)


async def value_for(request: Request, value: Awaitable[Any]) -> Any:
    """Await a placeholder, or an item, for `LIMIT_S` at most; its job is cancelled when the client disconnects."""
    failure: Exception = HTTPException(499, "the client has left")  # which nobody reads
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        try:
            with anyio.fail_after(LIMIT_S):
                return await value
        except Exception as error:  # noqa: BLE001 - raised outside: the group would make an ExceptionGroup of it
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    raise failure


@app.get("/pi")
async def get_pi(request: Request, points: int = 100_000, jobs: int = 2) -> dict[str, float]:
    return {"pi": await value_for(request, sum((estimate_pi @ Cores(1))(points, seed) for seed in range(jobs)) / jobs)}


class TimedStreamingResponse(StreamingResponse):
    """Streaming response that ends when a part cannot be sent for `STALL_S`: while bytes wait, nobody disconnects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.CancelScope() as response:

            async def send_in_time(message: Message) -> None:
                response.deadline = anyio.current_time() + STALL_S
                await send(message)
                response.deadline = float("inf")

            await super().__call__(scope, receive, send_in_time)


async def places(steps: int = 10, seed: int = 0, pause: float = 0) -> AsyncIterator[AsyncIterator[int]]:
    """Give a stream to a request, and end it when the response has ended, also by a client that leaves."""
    async with aclosing(aiter((walk @ Cores(1))(steps, seed, pause))) as reader:
        yield reader


@app.get("/walk")
async def get_walk(request: Request, reader: Annotated[AsyncIterator[int], Depends(places)]) -> StreamingResponse:
    async def lines(place: int | None) -> AsyncIterator[str]:
        try:
            while place is not None:
                yield f"{place}\n"
                place = await anext(reader, None)
        except GrainlikeError as error:  # the status is sent already: the last line says that this is not all
            logging.getLogger(__name__).warning("a walk broke off: %s", error)  # with addresses: not for clients
            yield "error: the walk broke off\n"

    first = await value_for(request, anext(reader, None))  # before there is a status: 503 and 504 are possible
    return TimedStreamingResponse(lines(first), media_type="text/plain")


@app.get("/state")
async def get_state() -> dict[str, int]:
    report = app.state.executor.report()
    return {name: getattr(report, name) for name in ("succeeded", "failed", "timed_out", "cancelled")}
