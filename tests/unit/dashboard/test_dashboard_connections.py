"""Connections of the dashboard's server: which are idle, for how long, and which one makes room for another."""

from types import SimpleNamespace

import pytest
import uvicorn
from uvicorn.server import ServerState

from grainlike.dashboard import _connections
from grainlike.dashboard._connections import IDLE_S, BoundedConnection


class Loop:
    """A loop whose time goes on by hand; `alarms` are calls at their times."""

    def __init__(self):
        self.now = 100.0
        self.alarms = []

    def time(self):
        return self.now

    def call_later(self, seconds, call, *arguments):
        alarm = SimpleNamespace(at=self.now + seconds, call=lambda: call(*arguments))
        alarm.cancel = lambda: alarm in self.alarms and self.alarms.remove(alarm)
        self.alarms.append(alarm)
        return alarm

    def go_on(self, seconds):
        until = self.now + seconds
        while due := [alarm for alarm in self.alarms if alarm.at <= until]:
            alarm = min(due, key=lambda one: one.at)
            self.now = alarm.at
            self.alarms.remove(alarm)
            alarm.call()
        self.now = until


class Transport:
    closed = False

    def get_extra_info(self, name):
        return None

    def is_closing(self):
        return self.closed

    def resume_reading(self):
        pass

    def close(self):
        pass  # as where the peer does not read what it was sent

    def abort(self):
        self.closed = True


@pytest.fixture
def made():
    """Make connections of one server, on one loop."""
    loop, state, config = Loop(), ServerState(), uvicorn.Config("nobody:app", http=BoundedConnection, interface="asgi3")
    config.loaded, config.loaded_app, config.ws_protocol_class = True, None, None

    def make():
        connection = BoundedConnection(config, state, {}, loop)
        connection.connection_made(Transport())
        return connection

    make.loop = loop
    return make


def asks(connection):
    connection.cycle = SimpleNamespace(response_complete=False, message_event=SimpleNamespace(set=lambda: None))


def is_answered(connection):
    connection.cycle.response_complete = True
    connection.on_response_complete()


def test_one_that_asks_for_nothing_is_closed_after_a_while(made):
    connection = made()
    made.loop.go_on(IDLE_S - 0.1)
    assert not connection.transport.closed
    made.loop.go_on(0.2)
    assert connection.transport.closed


def test_one_that_is_answered_stays_however_long_that_takes_and_is_closed_a_while_after(made):
    connection = made()
    asks(connection)
    made.loop.go_on(100 * IDLE_S)
    assert not connection.transport.closed
    is_answered(connection)
    made.loop.go_on(IDLE_S - 0.1)
    assert not connection.transport.closed
    made.loop.go_on(0.2)
    assert connection.transport.closed


def test_one_that_is_lost_leaves_no_alarm(made):
    made().connection_lost(None)
    assert made.loop.alarms == []


def test_another_one_takes_the_place_of_that_which_is_idle_for_the_longest(made, monkeypatch):
    monkeypatch.setattr(_connections, "MOST_CONNECTIONS", 3)
    busy, answered, idle = made(), made(), made()
    asks(busy)
    asks(answered)
    made.loop.go_on(1.0)
    is_answered(answered)
    another = made()
    assert [each.transport.closed for each in (busy, answered, idle, another)] == [False, False, True, False]
    idle.connection_lost(None)
    asks(answered)
    asks(another)
    refused = made()
    assert [each.transport.closed for each in (busy, answered, another, refused)] == [False, False, False, True]
