"""ASGI app of a dashboard: its pages, the streams and answers behind them, and routes of others beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from grainlike.dashboard._access_control import AccessControl
from grainlike.dashboard._answers import HeadAnswers, answering
from grainlike.dashboard._feed import HeadFeed
from grainlike.dashboard._log_tail import LogTail
from grainlike.dashboard._page import PageStream
from grainlike.dashboard._tables import FollowedTable, followed_tables

__all__ = ["make_app"]

_STATIC = Path(__file__).parent / "static"

_PAGES = ("/", "/queue", "/jobs", "/history", "/usage", "/job/{job:int}", "/timeline", "/workers", "/pools", "/limits")
"""Paths of pages: one file, whose script shows what the path means."""

_MOST_PAGES = 64
"""Pages that are open at a time."""


def make_app(
    feed: HeadFeed, access: AccessControl, *, extra: Sequence[BaseRoute] = (), without_cookie: Collection[str] = ()
) -> ASGIApp:
    """Return the app of a dashboard that shows what `feed` is told, to browsers that `access` lets in.

    `extra` are routes beside its own, such as one for metrics; paths `without_cookie` are open to programs without a
    browser, which are held to GET and to the names of this machine all the same.

    Example::

        app = make_app(feed, access, extra=[Route("/metrics", metrics)], without_cookie={"/metrics"})
    """
    answers = HeadAnswers(feed)
    tables = followed_tables(feed)

    async def live(request: Request) -> Response:
        return _stream(request, feed, tables)

    routes: list[BaseRoute] = [
        *(Route(path, _page) for path in _PAGES),
        Route("/api/live", live),
        Route("/api/head", answering(answers.head)),
        Route("/api/jobs", answering(answers.jobs)),
        Route("/api/history", answering(answers.history)),
        Route("/api/failures", answering(answers.failures)),
        Route("/api/job/{job:int}", answering(answers.job)),
        Route("/api/usage", answering(answers.usage)),
        Route("/api/timeline", answering(answers.timeline)),
        Route("/api/trace.json", answering(answers.trace)),
        Mount("/static", _RevalidatedFiles(directory=_STATIC)),
        *extra,
    ]
    return access.guard(Starlette(routes=routes, exception_handlers={404: _no_page}), without_cookie)


def _stream(request: Request, feed: HeadFeed, tables: dict[str, FollowedTable]) -> Response:
    """Return the stream of a page: `topic` is `slots`, `log` with the number of a `job`, or a table; empty for the
    figures alone.
    """
    topic = request.query_params.get("topic", "")
    job = request.query_params.get("job", "")
    if feed.pages >= _MOST_PAGES:
        return PlainTextResponse(f"{_MOST_PAGES} pages are open already.", 503)
    if topic == "log" and job.isascii() and job.isdigit() and 0 < len(job) < 19:
        return PageStream(feed, log=LogTail(int(job)))
    if topic in tables:
        return PageStream(feed, table=tables[topic].text)
    if topic in ("", "slots"):
        return PageStream(feed, slots=topic == "slots")
    return PlainTextResponse("There is no such topic.", 400)


async def _page(request: Request) -> Response:  # noqa: ARG001 - the endpoint's signature
    return FileResponse(_STATIC / "index.html", media_type="text/html; charset=utf-8")


async def _no_page(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the handler's signature
    assert isinstance(error, HTTPException)
    return PlainTextResponse("There is no such page. The first one is at /", 404)


class _RevalidatedFiles(StaticFiles):
    """Files that browsers keep, and ask for again each time: those of the next version have the same names."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response
