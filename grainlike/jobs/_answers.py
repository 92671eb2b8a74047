"""Answers of a head about jobs, as programs and commands read them: lines of output, and ended jobs page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self

from msgspec.structs import replace

from grainlike.wire import AskHistory, EndedJob, HistoryIs

__all__ = ["LogLine", "ended_jobs"]


class LogLine(str):
    """Line of a job's output, without its end: a string with its origin.

    Attributes:
        attempt: of the attempts to run the job, the one that wrote it.
        stream: `"stdout"` or `"stderr"`; `"log"` for records of `logging`; `"traceback"` for the exception that has
            ended the attempt, with the arguments of the call where these are plain data; `"note"` for grainlike's
            remarks on the output, such as how much of it is left out.
    """

    __slots__ = ("attempt", "stream")

    attempt: int
    stream: str

    def __new__(cls, text: str, attempt: int, stream: str) -> Self:
        line = super().__new__(cls, text)
        line.attempt = attempt
        line.stream = stream
        return line


async def ended_jobs(page: Callable[[AskHistory], Awaitable[HistoryIs]], asked: AskHistory) -> list[EndedJob]:
    """Return the jobs that `asked` means, the latest first: as many of them as it says, from as many pages as that
    takes.
    """
    found: list[EndedJob] = []
    while True:
        told = await page(replace(asked, most=asked.most - len(found)))
        found += told.jobs
        if not told.before or len(found) >= asked.most:
            return found
        asked = replace(asked, before=told.before)
