"""Submissions that come together are planned together."""

import pytest

from grainlike.errors import ProtocolError
from grainlike.graph import delayed, node_of
from grainlike.head import Head
from grainlike.head.server._clients import ClientRegistry
from grainlike.net import ClosedLink
from grainlike.resources import Cores, Memory
from grainlike.scheduler.planning._planner import Planner
from grainlike.wire import PROTOCOL, Frame, Hello, RetrySpec, Submit, SubmittedFunction


class Deaf:
    """Receives no outcomes."""


@pytest.fixture
def passes(monkeypatch):
    """Count the passes of the planner."""
    seen = []
    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda *what, **more: seen.append(1) or plan(*what, **more))
    return seen


def plain(x):
    return x


def test_calls_with_requests_of_their_own_are_planned_in_one_pass(passes):
    head = Head(Deaf(), closed=False, alarm=lambda at: None)
    calls = [(delayed(plain) @ (Cores(1) & Memory(1_000 + i)))(i) for i in range(20)]
    head.submit([node_of(call) for call in calls])
    assert head.view.unended == 20
    assert len(passes) == 1


FUNCTION = SubmittedFunction(b"digest", "f", False, None, RetrySpec(times=1), False, False, True)


def submission(number, parent=0):
    """Return the frame of one call, whose request no other has."""
    message = Submit(parent, 0, f"cores=1 memory={1_000 + number}", 0, False, [FUNCTION], [number], [0], [b"a"], [0])
    return Frame(message, [b"code"])


class Silent(ClosedLink):
    """Drops what is sent to the client."""

    def post(self, message, buffers=()):
        """Drop a message."""


@pytest.fixture
def head():
    return Head(Deaf(), closed=False, alarm=lambda at: None)


@pytest.fixture
def clients(head):
    return ClientRegistry(head, "c1", bool, bool, lambda: None)


@pytest.fixture
def connection(clients):
    hello = Hello("client", PROTOCOL, PROTOCOL, "3", {}, "p", "p", 1, "", [], received=0)
    return clients.join(hello, Silent("p", "here"), None)


def test_submissions_of_one_read_are_planned_in_one_pass(head, clients, connection, passes):
    clients.hear(connection, [submission(number) for number in range(1, 21)])
    assert head.view.unended == 20
    assert len(passes) == 1
    clients.hear(connection, [submission(21)])
    assert head.view.unended == 21
    assert len(passes) == 2


def test_those_before_one_that_is_refused_are_planned(head, clients, connection, passes):
    with pytest.raises(ProtocolError):
        clients.hear(connection, [submission(1), submission(2), submission(3, parent=7)])
    assert head.view.unended == 2
    assert len(passes) == 1
