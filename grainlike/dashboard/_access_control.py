"""Access control of a dashboard: who may see its pages, and the headers with which every answer is sent.

A link with a token opens it once: the browser gets a cookie for it, and the token is dead. Nothing but GET is answered,
only under names of this machine, and only to pages of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from hashlib import sha256
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["AccessControl"]

_MOST_LINKS = 32
_MOST_BROWSERS = 256
"""Links that wait to be opened, and browsers that may come back, at most; the oldest of more are forgotten."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_CLOSED = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>No entry - grainlike</title>
<link rel="stylesheet" href="/static/tokens.css">
<link rel="stylesheet" href="/static/base.css">
</head>
<body class="closed">
<main class="closed-card">
<h1>This link does not open the dashboard</h1>
<p>{why}</p>
<p>Press <kbd>Enter</kbd> in the terminal in which <code>grainlike dashboard</code> runs: it prints a new link, which
opens one browser. Of a dashboard inside a program, <code>executor.dashboard</code> is a new link each time; beside any
head, <code>grainlike dashboard</code> starts another.</p>
</main>
</body>
</html>
"""

_GO_ON = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>grainlike</title><meta http-equiv="refresh" content="0; url={url}">
</head><body><a href="{url}">Open the dashboard</a></body></html>
"""


class AccessControl:
    """Tokens, browsers and names of one dashboard at `port`, and the ASGI middleware that keeps others out.

    `hosts` are the names by which it may be called, without ports: a tunnel may have another port than the server.

    Example::

        access = AccessControl({"localhost"}, 8787)
        app = access.guard(app, without_cookie={"/metrics"})
        print(f"http://localhost:8787/?token={access.new_token()}")
    """

    def __init__(self, hosts: Collection[str], port: int) -> None:
        self.cookie: str = f"grainlike-{port}"
        """Name of the cookie: those of one host are shared by all its ports."""
        self._hosts = frozenset(hosts)
        self._links: dict[bytes, None] = {}
        self._browsers: dict[bytes, None] = {}

    def new_token(self) -> str:
        """Return a token that opens the dashboard in one browser, once."""
        return _new_secret(self._links, _MOST_LINKS)

    def redeem(self, token: str) -> str | None:
        """Return the value of a new browser's cookie for a token that was not used yet, which is dead then; None for
        any other.
        """
        known = _digest(token)
        if known not in self._links:
            return None
        del self._links[known]
        return _new_secret(self._browsers, _MOST_BROWSERS)

    def knows(self, cookie: str) -> bool:
        """Return True for the cookie of a browser that has opened a link."""
        return _digest(cookie) in self._browsers

    def guard(self, app: ASGIApp, without_cookie: Collection[str] = ()) -> ASGIApp:
        """Return an app that lets in whom `app` may serve; of paths `without_cookie` all else is checked alike."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            asked = HTTPConnection(scope)
            refused = self._refuses(scope["method"], asked.headers) or self._opens(asked, without_cookie)

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    headers = MutableHeaders(scope=message)
                    for name, value in _HEADERS.items():
                        headers[name] = value
                    headers.setdefault("Cache-Control", "no-store")
                await send(message)

            await (app if refused is None else refused)(scope, receive, send_with_headers)

        return guarded

    def _refuses(self, method: str, headers: Headers) -> Response | None:
        """Return the refusal of a request that no page of ours makes."""
        host = headers.get("host", "")
        if _name_of(host) not in self._hosts:
            return PlainTextResponse("This dashboard is not known by that name.", 421)
        if method != "GET":
            return PlainTextResponse("This dashboard only shows.", 405, {"Allow": "GET"})
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return PlainTextResponse("Pages of other sites are not answered.", 403)
        loads = headers.get("sec-fetch-mode", "navigate") != "navigate"
        if loads and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return PlainTextResponse("Pages of other sites are not answered.", 403)
        return None

    def _opens(self, asked: HTTPConnection, without_cookie: Collection[str]) -> Response | None:
        """Return the answer to a link, or the refusal of a browser without a cookie; None for one with it."""
        token = asked.query_params.get("token")
        if token is not None:
            cookie = self.redeem(token)
            if cookie is None:
                return _closed("Its token is wrong, or another browser has used it: each opens the dashboard once.")
            return self._welcome(asked, cookie)
        path = asked.url.path
        if path.startswith("/static/") or path in without_cookie or self.knows(asked.cookies.get(self.cookie, "")):
            return None
        if path.startswith("/api/"):
            return PlainTextResponse("A link with a token opens this dashboard.", 403)
        return _closed("A link with a token opens it, once in each browser.")

    def _welcome(self, asked: HTTPConnection, cookie: str) -> Response:
        rest = QueryParams([pair for pair in asked.query_params.multi_items() if pair[0] != "token"])
        query = f"?{urlencode(rest.multi_items())}" if rest else ""
        path = f"/{asked.url.path.lstrip('/')}"  # two slashes would lead to another host
        response: Response = RedirectResponse(f"{path}{query}", 303)
        if asked.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # From a page of another site, a redirection would not carry a cookie that is same-site; what a page of
            # ours leads to does.
            response = HTMLResponse(_GO_ON.format(url="/"))
        response.set_cookie(self.cookie, cookie, httponly=True, samesite="strict", path="/")
        return response


def _closed(why: str) -> Response:
    return HTMLResponse(_CLOSED.format(why=why), 403)


def _name_of(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _new_secret(known: dict[bytes, None], most: int) -> str:
    secret = secrets.token_urlsafe(32)
    known[_digest(secret)] = None
    while len(known) > most:
        del known[next(iter(known))]
    return secret


def _digest(secret: str) -> bytes:
    """Return what a secret is looked up by: how long that takes says nothing about the secret."""
    return sha256(secret.encode("utf-8", "replace")).digest()
