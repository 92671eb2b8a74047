"""A web service with FastAPI: requests are answered by jobs.

- One executor lives as long as the service: the lifespan opens it. For workers elsewhere, write
  `connect(wait=60, reconnect=True)` there instead.
- A client that disconnects has its job cancelled, if it waits and if it runs.
- `/walk` streams lines as a job makes them. A client that leaves, or has not read for `STALL_S`, ends the job.

Run it with `uvicorn web_service:app`. It takes `pip install fastapi uvicorn`.
"""

import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from grainlike import Cores, Delayed, Executor, JobTimeoutError, delayed

STALL_S = 30.0
"""Seconds for which a response waits for a client that does not read."""


@delayed
def estimate_pi(points: int, seed: int) -> float:
    """Any function that computes: it runs in a process that is pinned to its core."""
    draw = random.Random(seed)
    inside = sum(draw.random() ** 2 + draw.random() ** 2 < 1 for _ in range(points))
    return 4 * inside / points


@delayed
async def walk(steps: int, seed: int, pause: float) -> AsyncIterator[int]:
    """A stream: its items are read as they come, and it waits when nobody reads."""
    draw, place = random.Random(seed), 0
    for _ in range(steps):
        place += draw.choice((-1, 1))
        yield place
        await anyio.sleep(pause)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Executor() as executor:
        app.state.executor = executor
        yield


app = FastAPI(lifespan=lifespan)


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
    raise HTTPException(499, "the client has left")  # nobody reads it


@app.get("/pi")
async def get_pi(request: Request, points: int = 100_000, jobs: int = 2) -> dict[str, float]:
    """The mean of several jobs: placeholders are combined with operators."""
    estimate = estimate_pi @ Cores(1)
    mean_ = sum(estimate(points, seed) for seed in range(jobs)) / jobs
    try:
        return {"pi": await value_for(request, mean_)}
    except JobTimeoutError as error:
        raise HTTPException(504, str(error)) from error


class TimedStreamingResponse(StreamingResponse):
    """A streaming response that is given up when one of its parts cannot be sent for `STALL_S`.

    A client that reads no more, and has perhaps closed its side, is no disconnect for the server while bytes wait.
    """

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
        async for place in reader:
            yield f"{place}\n"

    return TimedStreamingResponse(lines(), media_type="text/plain")


@app.get("/state")
async def get_state() -> dict[str, int]:
    """Counts of jobs, as a probe of the service asks for them."""
    report = app.state.executor.report()
    return {"succeeded": report.succeeded, "failed": report.failed, "cancelled": report.cancelled}
