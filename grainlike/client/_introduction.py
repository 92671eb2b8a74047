"""Parts of a client's connection to a head that do not wait: whom it asks, how it introduces itself, and what it makes
of an answer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Protocol, TypeVar

from grainlike.errors import AuthenticationError, GrainlikeError, HeadLostError, LaunchError, ProtocolError
from grainlike.jobs import LogLine
from grainlike.net import Access, find_access, how_to_go_on, process_id, software
from grainlike.payload import memory_id
from grainlike.settings import read_settings
from grainlike.wire import PROTOCOL, Answer, Hello, LaunchRefused, LogsAre, Question, Unable

__all__ = [
    "A",
    "Asker",
    "RefusedQueryError",
    "checked_answer",
    "find_client_access",
    "hello_of_client",
    "lines_of_job",
    "own_copy",
    "telling_of_death",
]

A = TypeVar("A", bound=Answer)
E = TypeVar("E", bound=BaseException)


class Asker(Protocol):
    """Connection over which a head is asked."""

    async def ask(self, question: Question, answer: type[A]) -> A:
        """Send a query, whatever the number in `question`, and wait for the answer. Raises as `HeadClient.ask`."""
        ...


class RefusedQueryError(GrainlikeError):
    """Raised when the head cannot do what it was asked for; the text is its reason."""


def find_client_access(head: str | Path | None) -> Access:
    """Return the access of a client to the head that `head` means: an address, a `client.json`, or (None) that of the
    settings, else the current head.

    Raises as `find_access` does; `AuthenticationError` for the file of another role; `SettingsError`.
    """
    if head is None:
        head = read_settings().get("client", "head")
    access = find_access(head, "client")
    if access.role != "client":
        raise AuthenticationError(f"this access file is for a {access.role}; to ask takes the client.json beside it")
    return access


def checked_answer(told: object, answer: type[A]) -> A:
    """Return what a head has answered.

    Raises:
        RefusedQueryError, LaunchError: it refuses, with the reason.
        ProtocolError: that is no such answer.
    """
    if isinstance(told, Unable):
        raise RefusedQueryError(told.why)
    if isinstance(told, LaunchRefused):
        raise LaunchError(told.words, told.command, told.script)
    if isinstance(told, answer):
        return told
    raise ProtocolError(f"the head answered with {type(told).__name__}, and {answer.__name__} was asked for")


def lines_of_job(told: LogsAre) -> Iterator[LogLine]:
    """Iterate over the lines of a job's output in an answer."""
    for line, attempt, stream in zip(told.lines, told.attempts, told.streams, strict=True):
        yield LogLine(line, attempt, stream)


def own_copy(error: E) -> E:
    """Return a copy of an error that many may be told of: raised itself, it would have the frames of all who were."""
    copied = copy(error)
    if hasattr(error, "__notes__"):
        copied.__notes__ = list(error.__notes__)
    copied.__cause__, copied.__suppress_context__ = error.__cause__, error.__suppress_context__
    return copied


@contextmanager
def telling_of_death(tried: Callable[[], Access | None]) -> Iterator[None]:
    """Context manager: an error of connecting by the access file that was `tried` says what to do where its head is no
    more.
    """
    try:
        yield
    except HeadLostError as error:
        if not isinstance(error.__cause__, ConnectionRefusedError | FileNotFoundError):
            raise
        access = tried()
        goes_on = how_to_go_on(access.cluster) if access is not None else ""
        words = goes_on or "`grainlike head start` starts another"
        raise HeadLostError(f"{error}: the head of this access file seems to have died; {words}") from error


def hello_of_client(*, lasting: bool = False, session: str = "", name: str = "") -> Hello:
    """Return the introduction of this process; with `lasting`, its messages outlive a link that breaks."""
    own = software()
    return Hello(
        "client",
        PROTOCOL,
        PROTOCOL,
        own.python,
        own.serializers,
        name or f"{socket.gethostname()}:{os.getpid()}",
        os.urandom(8).hex(),
        os.getpid(),
        "",
        [],
        memory=memory_id(),
        process=process_id(),
        received=0 if lasting else -1,
        session=session,
    )
