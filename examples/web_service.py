"""A web service with FastAPI: requests are answered by jobs.

- One executor lives as long as the service. For workers elsewhere, write `connect(wait=60, reconnect=True)` instead.
- A client that disconnects has its job cancelled, if it waits and if it runs.
- A request that takes longer than `LIMIT_S`, its wait for a slot included, is answered with 504; a lost head, with 503.
- `/walk` streams lines as a job makes them. A client that leaves, or has not read for `STALL_S`, ends the job.

Run it with `uvicorn web_service:app`. It takes `pip install fastapi uvicorn`.
"""

import logging
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from grainlike import Cores, Delayed, Executor, GrainlikeError, HeadLostError, delayed

logger = logging.getLogger(__name__)
LIMIT_S, STALL_S = 30.0, 30.0  # for a value; for a client that does not read a part of its response


@delayed  # runs in a process that is pinned to its core
def estimate_pi(points: int, seed: int) -> float:
    draw = random.Random(seed).random
    return 4 * sum(draw() ** 2 + draw() ** 2 < 1 for _ in range(points)) / points


@delayed  # a stream that computes takes `isolate=True` as well: without it, it runs in the event loop of the service
async def walk(steps: int, seed: int, pause: float) -> AsyncIterator[int]:
    draw, place = random.Random(seed), 0
    for _ in range(steps):
        place += draw.choice((-1, 1))
        yield place
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
    raise failure or HTTPException(499, "the client has left")  # which nobody reads


@app.get("/pi")
async def get_pi(request: Request, points: int = 100_000, jobs: int = 2) -> dict[str, float]:
    mean_ = sum((estimate_pi @ Cores(1))(points, seed) for seed in range(jobs)) / jobs
    with anyio.fail_after(LIMIT_S):
        return {"pi": await value_for(request, mean_)}


class TimedStreamingResponse(StreamingResponse):
    """Streaming response that ends when a part cannot be sent for `STALL_S`: while bytes wait, nobody disconnects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.CancelScope() as response:

            async def send_in_time(message: Message) -> None:
                with anyio.move_on_after(STALL_S) as limit:
                    await send(message)
                if limit.cancelled_caught:
                    response.cancel()

            await super().__call__(scope, receive, send_in_time)


async def places(steps: int = 10, seed: int = 0, pause: float = 0) -> AsyncIterator[AsyncIterator[int]]:
    """Give a stream to a request, and end it when the response has ended, also by a client that leaves."""
    async with aclosing(aiter((walk @ Cores(1))(steps, seed, pause))) as reader:
        yield reader


@app.get("/walk")
async def get_walk(reader: Annotated[AsyncIterator[int], Depends(places)]) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        try:
            async for place in reader:
                yield f"{place}\n"
        except GrainlikeError as error:  # the status is sent already: the last line says that this is not all
            logger.warning("a walk broke off: %s", error)  # its text has addresses: for the log, not for clients
            yield "error: the walk broke off\n"

    return TimedStreamingResponse(lines(), media_type="text/plain")


@app.get("/state")
async def get_state() -> dict[str, int]:
    report = app.state.executor.report()
    names = ("succeeded", "failed", "timed_out", "cancelled")
    return {name: getattr(report, name) for name in names}
