"""HTTP server of one page, `/metrics`: a few short requests a minute, answered from the state of that moment.

What it speaks of HTTP is a GET without a body, after which the connection is closed: so there is nothing in it that a
library would do better, and none is needed to be scraped.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, cast

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup, TaskStatus

from grainlike.net import AcceptErrors
from grainlike.telemetry._daemon_thread import call_in_daemon_thread
from grainlike.telemetry._metrics import OPENMETRICS, PROMETHEUS, render_metrics
from grainlike.wire import MetricsAre

__all__ = ["MetricsServer", "parse_endpoint"]

logger = logging.getLogger("grainlike")

_LOOPBACK = "127.0.0.1"
_MOST_BYTES = 8192
"""Bytes of a request at most."""

_MOST_CONNECTIONS = 16
"""Connections at a time; of more, each is told so and closed at once."""

_DRAIN_S = 0.5
"""Seconds for which the rest of a refused request is read, and dropped."""

_PATIENCE_S = 5.0
"""Seconds for which a request may take to come, and its answer to leave."""

_NAME_S = 2.0
"""Seconds for which the name service may take to tell this machine's full name."""


class Endpoint(NamedTuple):
    """Host and port at which to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Answer(NamedTuple):
    status: str
    body: str = ""
    content: str = "text/plain; charset=utf-8"


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that `HOST:PORT` or `[IPV6]:PORT` means; a port alone is one of this machine's loopback.

    Raises:
        ValueError: it is none.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not (port.isascii() and port.isdecimal() and int(port) <= 0xFFFF) or ("[" not in text and ":" in host):
        raise ValueError(f"metrics are served at HOST:PORT, as 127.0.0.1:9464, which {text!r} is not")
    return Endpoint(host or _LOOPBACK, int(port))


class MetricsServer:
    """Server of `facts` at `endpoint`, from `start` on.

    All who reach it may read: it is meant for loopback, or for a network that only monitoring can reach. A name in
    the Host header that is not this machine's is refused, so that no page in a browser reads it under another name.

    Its failures are logged, and end nothing else in the task group. Out of file descriptors, accepting pauses, and
    resumes when there are some.
    """

    def __init__(self, endpoint: Endpoint, facts: Callable[[], MetricsAre]) -> None:
        self._endpoint = endpoint
        self._facts = facts
        self._connections = 0
        self._names: frozenset[str] = frozenset()
        self._failed = False

    async def start(self, tasks: TaskGroup) -> Endpoint:
        """Listen, and serve in `tasks`; return where.

        Raises:
            OSError: it cannot listen there, and why.
        """
        endpoint: Endpoint = await tasks.start(self._listen)
        return endpoint

    async def _listen(self, *, task_status: TaskStatus[Endpoint]) -> None:
        host, port = self._endpoint
        try:
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
        except OSError as error:
            raise OSError(f"metrics cannot be served at {self._endpoint}: {error.strerror or error}") from None
        async with listener:
            own = Endpoint(host, listener.extra(SocketAttribute.local_port))  # noqa: S610 - an attribute of a socket
            self._names = await _own_names(host)
            task_status.started(own)
            async with anyio.create_task_group() as tasks:
                for one in listener.listeners:
                    tasks.start_soon(self._accept, cast("SocketListener", one), own, tasks)

    async def _accept(self, listener: SocketListener, own: Endpoint, tasks: TaskGroup) -> None:
        errors = AcceptErrors(f"http://{own}/metrics", logger)
        try:
            while True:
                tasks.start_soon(self._serve, await _accepted(listener, errors))
        except Exception:
            logger.exception("metrics are served no more")

    async def _serve(self, stream: ByteStream) -> None:
        self._connections += 1
        try:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                async with stream:
                    with anyio.move_on_after(_PATIENCE_S):
                        await self._converse(stream)
        except Exception:
            if not self._failed:
                self._failed = True
                logger.exception("a request for metrics has failed; if another does so, that is not logged")
        finally:
            self._connections -= 1

    async def _converse(self, stream: ByteStream) -> None:
        if self._connections > _MOST_CONNECTIONS:
            await stream.send(_packed(_Answer("503 Service Unavailable"), body=True))
            return
        head = b""
        while b"\r\n\r\n" not in head:
            if len(head) >= _MOST_BYTES:
                await _refuse(stream, _Answer("431 Request Header Fields Too Large"))
                return
            head += await stream.receive(_MOST_BYTES)
        method, answer = self._answer(head.partition(b"\r\n\r\n")[0].decode("latin-1"))
        await stream.send(_packed(answer, body=method != "HEAD"))

    def _answer(self, head: str) -> tuple[str, _Answer]:
        """Return the method of a request, and the answer to it."""
        first, *lines = head.split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", _Answer("400 Bad Request")
        method, path, version = words
        fields: dict[str, str] = {}
        for name, _, value in (line.partition(":") for line in lines):
            # With a space round its name, others may read a field as another than is checked here.
            if name != name.strip() or (name.lower() in fields and name.lower() == "host"):
                return method, _Answer("400 Bad Request")
            fields[name.lower()] = value.strip()
        if not self._is_ours(fields.get("host"), version):
            return method, _Answer("403 Forbidden", "the Host header names no address or name of this machine\n")
        if path.partition("?")[0] != "/metrics":
            return method, _Answer("404 Not Found", "metrics are at /metrics\n")
        if method not in ("GET", "HEAD"):
            return method, _Answer("405 Method Not Allowed", "metrics are read by GET\n")
        openmetrics = "application/openmetrics-text" in fields.get("accept", "")
        try:
            text = render_metrics(self._facts(), openmetrics=openmetrics)
        except Exception:
            logger.exception("metrics could not be made")
            return method, _Answer("500 Internal Server Error")
        return method, _Answer("200 OK", text, OPENMETRICS if openmetrics else PROMETHEUS)

    def _is_ours(self, host: str | None, version: str) -> bool:
        if host is None:
            return version == "HTTP/1.0"  # which had no such header
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        name = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
        return name in self._names or _is_address(name)


async def _own_names(host: str) -> frozenset[str]:
    """Return the names by which a server at `host` may be asked, in lower case.

    Names below them are not this machine's: others may have such names, and have them lead here.
    """
    own = socket.gethostname()
    names = {"localhost", host, own, own.partition(".")[0]}
    if not (_is_address(host) and ipaddress.ip_address(host).is_loopback):
        with anyio.move_on_after(_NAME_S):
            names.add(await call_in_daemon_thread(socket.getfqdn))
    return frozenset(name.rstrip(".").lower() for name in names) - {""}


async def _accepted(listener: SocketListener, errors: AcceptErrors) -> SocketStream:
    while True:
        try:
            stream = await listener.accept()
        except (OSError, anyio.BrokenResourceError) as error:
            await errors.survive(_system_error(error))
        else:
            errors.over()
            return stream


def _system_error(error: OSError | anyio.BrokenResourceError) -> OSError:
    """Return the operating system's error, which trio's sockets wrap."""
    if isinstance(error, OSError):
        return error
    return error.__cause__ if isinstance(error.__cause__, OSError) else OSError(str(error))


async def _refuse(stream: ByteStream, answer: _Answer) -> None:
    """Answer a request that was not read to its end: closed at once, the answer could be lost with the connection."""
    await stream.send(_packed(answer, body=True))
    await stream.send_eof()
    with anyio.move_on_after(_DRAIN_S):
        while True:
            await stream.receive(_MOST_BYTES)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _packed(answer: _Answer, *, body: bool) -> bytes:
    data = answer.body.encode()
    lines = (
        f"HTTP/1.1 {answer.status}",
        f"Content-Type: {answer.content}",
        f"Content-Length: {len(data)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(("Allow: GET, HEAD",) if answer.status.startswith("405") else ()),
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode("latin-1") + (data if body else b"")
