"""Streams of a named session end when the next program takes it over, even before the head has given up the last."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from grainlike.head import Head
from grainlike.head.server import ClientRegistry
from grainlike.net import ClosedLink
from grainlike.wire import PROTOCOL, Frame, Hello, RetrySpec, Submit, SubmittedFunction

HELLO = Hello("client", PROTOCOL, PROTOCOL, "3", {}, "first", "first", 1, "", [], session="sweep")


def test_the_next_program_of_a_session_ends_the_streams_of_the_last_and_keeps_its_own() -> None:
    nobody: Any = object()
    head = Head(nobody, closed=False, alarm=lambda _: None)
    clients = ClientRegistry(head, "c1", bool, bool, lambda: None)

    def joins(name: str) -> Any:
        return clients.join(replace(HELLO, name=name, incarnation=name), ClosedLink(name, "here"), None)

    def submits(connection: Any, child: int, *, stream: bool) -> int:
        function = SubmittedFunction(b"digest", "f", True, None, RetrySpec(), False, False, True, stream)
        submit = Submit(0, 0, "cores=1", 0, False, [function], [child], [0], [b""], [])
        clients.hear(connection, [Frame(submit, [b"code"])])
        return head.state.last_job

    first = joins("first")
    job, read_by_first = submits(first, 1, stream=False), submits(first, 2, stream=True)
    assert set(head.state.jobs) == {job, read_by_first}
    second = joins("second")
    assert set(head.state.jobs) == {job}
    read_by_second = submits(second, 3, stream=True)
    clients.leave(first)
    assert set(head.state.jobs) == {job, read_by_second}
    clients.leave(second)
    assert set(head.state.jobs) == {job}
    assert list(second.reply_to.jobs) == [1]
