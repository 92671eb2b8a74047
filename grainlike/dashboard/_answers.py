"""Answers to what a page asks for once: lists of jobs page by page, one job, the timeline, and the trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from grainlike import observe
from grainlike.client import RefusedQueryError
from grainlike.dashboard._feed import HeadFeed
from grainlike.dashboard._picture import ranges
from grainlike.dashboard._tables import as_object
from grainlike.errors import HeadLostError
from grainlike.jobs import allocation_of
from grainlike.wire import (
    OUTCOMES,
    PATTERN_CHARS,
    AskHistory,
    AskJob,
    AskJobs,
    EndedJob,
    HistoryIs,
    JobIs,
    JobRow,
    JobsAre,
    SpanRow,
)

__all__ = ["HeadAnswers", "answering"]

T = TypeVar("T")

_MOST_ROWS = 500
_MOST_TURNS = 60
"""Rows of one answer, and how often the head is asked for them at most: it looks at some thousand jobs each time."""

_MOST_BARS = 10_000
_MOST_CHILDREN = 100

_encode = msgspec.json.Encoder().encode


def answering(ask: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that says why there is no answer: 400 for what makes no sense, 404 for what the head does not
    have, 503 while there is no head.
    """

    async def answer(request: Request) -> Response:
        try:
            return await ask(request)
        except RefusedQueryError as error:
            return _json({"error": str(error)}, 404)
        except HeadLostError as error:
            return _json({"error": str(error)}, 503)
        except ValueError as error:
            return _json({"error": str(error)}, 400)

    return answer


def _json(answer: object, status: int = 200) -> Response:
    return Response(_encode(answer), status, media_type="application/json")


class HeadAnswers:
    """Endpoints about the head of a feed."""

    def __init__(self, feed: HeadFeed) -> None:
        self._feed = feed

    async def head(self, request: Request) -> Response:  # noqa: ARG002 - the endpoint's signature
        """Answer with the head's name and version."""
        found = self._feed.identity
        if found is None:
            raise HeadLostError(self._feed.lost)
        return _json(as_object(found))

    async def jobs(self, request: Request) -> Response:
        """Answer with jobs that have not ended: `name`, `state`, `parent`, `after` and `most` as in `AskJobs`."""
        asked = AskJobs(0, _most(request), _pattern(request), request.query_params.get("state", "")[:20])
        found = await self._live(replace(asked, after=_whole(request, "after"), parent=_whole(request, "parent")))
        return _json({"rows": list(map(as_object, found.jobs)), "total": found.total, "next": found.next})

    async def history(self, request: Request) -> Response:
        """Answer with jobs that have ended: `name`, `error`, `worker`, `outcome` (several), `before` and `most` as in
        `AskHistory`.
        """
        outcomes = request.query_params.getlist("outcome")
        if not set(outcomes) <= set(OUTCOMES):
            raise ValueError(f"outcomes are {', '.join(OUTCOMES)}")
        asked = replace(_search(request, _most(request)), outcomes=list(dict.fromkeys(outcomes)))
        found = await self._ended(replace(asked, before=_whole(request, "before")))
        return _json({"rows": list(map(_listed, found.jobs)), "before": found.before, "kept": found.kept})

    async def failures(self, request: Request) -> Response:
        """Answer with the latest failures by reason; `name`, `error` and `worker` as in `AskHistory`. `jobs` counts
        those that were looked at, and with `more` there are older ones.
        """
        asked = replace(_search(request, _MOST_BARS), outcomes=["failed", "timed_out"])
        found = await self._ended(asked)
        rows = [asdict(group) for group in observe.failures_by_reason(found.jobs)[:_MOST_ROWS]]
        counts = {"jobs": len(found.jobs), "more": bool(found.before), "kept": found.kept}
        return _json({"rows": rows, **counts})

    async def job(self, request: Request) -> Response:
        """Answer with all that is known of one job, and with `family=1` of its parent and of those that it submitted.

        Raises:
            RefusedQueryError: the head knows of no such job.
        """
        number = int(request.path_params["job"])
        if not 0 < number < 2**63:
            raise ValueError(f"{number} is no number of a job")
        answer: dict[str, Any] = {"job": number, "explain": None, "row": None, "ended": None}
        why: RefusedQueryError | None = None
        try:
            answer["explain"] = as_object(await self._feed.ask(AskJob(0, number), JobIs))
        except RefusedQueryError as error:
            why = error
        answer["row"] = await self._live_row(number)
        past = await self._feed.ask(AskHistory(0, 1, job=number), HistoryIs)
        ended = next(iter(past.jobs), None)
        answer["ended"] = None if ended is None else as_object(ended)
        answer["earlier"] = list(map(as_object, past.earlier if ended is None else ended.earlier))
        if why is not None and ended is None:
            raise why
        answer["running"] = [as_object(row) for row in self._feed.running() if row.job == number]
        if request.query_params.get("family"):
            parent = ended.parent if ended is not None else (answer["row"] or {}).get("parent", 0)
            answer |= await self._family(number, parent)
        return _json(answer)

    async def _live_row(self, number: int) -> dict[str, Any] | None:
        found = await self._feed.ask(AskJobs(0, 1, after=number - 1), JobsAre)
        return next((as_object(row) for row in found.jobs if row.job == number), None)

    async def _ended_row(self, number: int) -> EndedJob | None:
        return next(iter((await self._feed.ask(AskHistory(0, 1, job=number), HistoryIs)).jobs), None)

    async def _family(self, number: int, parent: int) -> dict[str, Any]:
        above: dict[str, Any] | None = None
        if parent:
            ended = await self._ended_row(parent)
            above = await self._live_row(parent) if ended is None else _listed(ended)
        live = await self._live(AskJobs(0, _MOST_CHILDREN, parent=number))
        past = await self._ended(AskHistory(0, _MOST_CHILDREN, parent=number))
        below = [*map(as_object, live.jobs), *map(_listed, past.jobs)]
        return {"parent": above, "children": below, "more_children": bool(live.next or past.before)}

    async def usage(self, request: Request) -> Response:
        """Answer with what the latest ended jobs asked for and used, by function; `name` as in `AskHistory`."""
        found = await self._ended(AskHistory(0, _MOST_BARS, _pattern(request)))
        rows = [asdict(each) for each in observe.usage_by_function(found.jobs)]
        return _json({"rows": rows[:_MOST_ROWS], "jobs": len(found.jobs)})

    async def timeline(self, request: Request) -> Response:
        """Answer with the attempts of jobs that ended after `since`, and those that run, as bars.

        A bar is numbers of worker and name, ranges of cores and of GPUs, seconds from `at` back to its begin, seconds
        that it ran, number of its outcome (that of `outcomes`, -1 while it runs), the job's number, and the attempt's.
        """
        since, most = float(request.query_params.get("since", "0")), _most(request, _MOST_BARS)
        if not 0 <= since < 1e12:
            raise ValueError(f"{since} is no time")
        found = await self._ended(AskHistory(0, most, since=since))
        # The last update may be older than the latest ends, or there was none yet.
        bars = _Bars(max([self._feed.age(), *(job.ended_at for job in found.jobs)]), self._feed.picture.number_of)
        for job in found.jobs:
            for one in job.earlier:
                how = "timed_out" if one.outcome == "timed_out" else "failed"
                bars.add(one.worker, job.name, one.slots, one.began_at, one.ran_s, how, job.job, one.attempt)
            if job.ran_s is not None:
                began = job.ended_at - job.ran_s
                bars.add(job.worker, job.name, job.slots, began, job.ran_s, job.outcome, job.job, job.attempts)
        ended = {job.job for job in found.jobs}  # what runs is as of the last update, after which these ended
        for row in self._feed.running():
            if row.began is not None and row.job not in ended:
                bars.add(row.worker, row.name, row.slots, row.began, bars.at - row.began, "", row.job, row.attempt)
        return _json(bars.answer() | {"more": bool(found.before)})

    async def trace(self, request: Request) -> Response:  # noqa: ARG002 - the endpoint's signature
        """Answer with a trace for Perfetto: what the head has recorded, else what its history says."""
        client = self._feed.client
        rows: list[SpanRow] = []
        depths: list[observe.Depth] = []
        try:
            async with aclosing(client.trace()) as pieces:
                async for piece in pieces:
                    rows.extend(piece.spans)
                    depths.extend(observe.Depth(*depth) for depth in piece.depths)
            spans = list(observe.spans_from_rows(rows))
        except RefusedQueryError:  # it records nothing
            spans = list(observe.spans_from_history([job async for job in self._all_ended()]))
        text = await anyio.to_thread.run_sync(observe.trace, spans, depths)
        name = 'attachment; filename="grainlike-trace.json"'
        return Response(text, media_type="application/json", headers={"Content-Disposition": name})

    async def _all_ended(self) -> AsyncIterator[EndedJob]:
        asked = AskHistory(0, _MOST_ROWS)
        while True:
            found = await self._feed.ask(asked, HistoryIs)
            for job in found.jobs:
                yield job
            if not found.before:
                return
            asked = replace(asked, before=found.before)

    # --- page by page ------------------------------------------------------------------------------------------------

    async def _live(self, asked: AskJobs) -> JobsAre:
        """Return as many rows as are asked for, from as many answers of the head as that takes, within bounds."""
        rows: list[JobRow] = []
        turns = 0
        while True:
            found = await self._feed.ask(replace(asked, most=asked.most - len(rows)), JobsAre)
            rows += found.jobs
            turns += 1
            if not found.next or len(rows) >= asked.most or turns == _MOST_TURNS:
                return replace(found, jobs=rows)
            asked = replace(asked, after=found.next)

    async def _ended(self, asked: AskHistory) -> HistoryIs:
        """Return as `_live`, of jobs that have ended."""
        rows: list[EndedJob] = []
        turns = 0
        while True:
            found = await self._feed.ask(replace(asked, most=asked.most - len(rows)), HistoryIs)
            rows += found.jobs
            turns += 1
            if not found.before or len(rows) >= asked.most or turns == _MOST_TURNS:
                return replace(found, jobs=rows)
            asked = replace(asked, before=found.before)


def _listed(job: EndedJob) -> dict[str, Any]:
    """Return an ended job as a row of a list, without what only its own page shows."""
    return as_object(replace(job, receipt=None, earlier=[]))


class _Bars:
    """Bars of a timeline up to the moment `at`, with numbers for what comes again and again: those of names are the
    picture's, so that a function has one colour on all pages.
    """

    def __init__(self, at: float, number_of: Callable[[str], int]) -> None:
        self.at = at
        self._number_of = number_of
        self._workers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._bars: list[list[object]] = []

    def add(
        self, worker: str, name: str, slots: str, began: float, ran: float, outcome: str, job: int, attempt: int
    ) -> None:
        """Add an attempt; `outcome` is empty for one that runs."""
        numbers = self._workers.setdefault(worker, len(self._workers)), self._number_of(name)
        self._names[numbers[1]] = name
        how = OUTCOMES.index(outcome) if outcome else -1
        held = allocation_of(slots)
        places = ranges(held.cores), ranges(held.gpus)
        self._bars.append([*numbers, *places, round(self.at - began, 4), round(ran, 4), how, job, attempt])

    def answer(self) -> dict[str, Any]:
        """Return them with the tables of their numbers."""
        known = {"workers": list(self._workers), "names": self._names, "outcomes": list(OUTCOMES)}
        return {"at": self.at, "bars": self._bars, **known}


def _most(request: Request, bound: int = _MOST_ROWS) -> int:
    return max(1, min(_whole(request, "most", 100), bound))


def _whole(request: Request, name: str, usual: int = 0) -> int:
    text = request.query_params.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{name}={text[:40]!r} is no whole number")
    return int(text)


def _search(request: Request, most: int) -> AskHistory:
    """Return the question for ended jobs that a page searches."""
    error = request.query_params.get("error", "").strip()[:PATTERN_CHARS]
    return AskHistory(0, most, _pattern(request), error=error, worker=_pattern(request, "worker"))


def _pattern(request: Request, of: str = "name") -> str:
    """Return the shell pattern for names: plain words are looked for anywhere in them."""
    text = request.query_params.get(of, "").strip()[: PATTERN_CHARS - 2]
    return text if not text or any(sign in text for sign in "*?[") else f"*{text}*"
