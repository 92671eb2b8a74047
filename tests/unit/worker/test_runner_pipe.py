"""A runner polls for its next lease where leases come within microseconds of each other, and sleeps else."""

import socket
from collections.abc import Callable, Iterator

import pytest

from grainlike.eventloop import RUNNER_POLL_S, _rhythm
from grainlike.wire import Beat, encode_frame
from grainlike_worker.runner.process import _pipe
from grainlike_worker.runner.process._pipe import LinkEndedError, Pipe

BEAT = b"".join(encode_frame(Beat(1)))
LATE_S = 10.0
"""Longer than what is polled through, by the clock of these tests."""


class Machine:
    """A clock that goes on by a microsecond when a process yields, and a worker that acts at a moment of it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.yields = 0
        self.act: Callable[[], object] | None = None
        self.at = 0.0

    def monotonic(self) -> float:
        return self.now

    def sched_yield(self) -> None:
        self.yields += 1
        self.now += 1e-6
        if self.act is not None and self.now >= self.at:
            act, self.act = self.act, None
            act()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(_rhythm, "time", machine)
    monkeypatch.setattr(_pipe, "time", machine)
    monkeypatch.setattr(_pipe, "os", machine)
    return machine


@pytest.fixture
def ends() -> Iterator[tuple[Pipe, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield Pipe(near), far


def come_at_once(pipe: Pipe, far: socket.socket, times: int) -> None:
    for _ in range(times):
        far.sendall(BEAT)
        assert [frame.message for frame in pipe.receive()] == [Beat(1)]


def test_after_some_brief_waits_it_polls_until_the_next_lease_comes(
    machine: Machine, ends: tuple[Pipe, socket.socket]
) -> None:
    pipe, far = ends
    come_at_once(pipe, far, 20)
    assert machine.yields == 0
    machine.at, machine.act = machine.now + 20e-6, lambda: far.sendall(BEAT)
    assert [frame.message for frame in pipe.receive()] == [Beat(1)]
    assert machine.yields == 20


def test_it_polls_for_no_longer_than_a_brief_wait(machine: Machine, ends: tuple[Pipe, socket.socket]) -> None:
    pipe, far = ends
    come_at_once(pipe, far, 20)
    begun = machine.now
    # The last yield before it would sleep brings what it would sleep for.
    machine.at, machine.act = begun + RUNNER_POLL_S, lambda: far.sendall(BEAT)
    pipe.receive()
    assert machine.now == pytest.approx(begun + RUNNER_POLL_S, abs=2e-6)


class LateSocket:
    """A socket whose bytes come long after they are waited for."""

    def __init__(self, machine: Machine, far: socket.socket, near: socket.socket) -> None:
        self._machine = machine
        self._far = far
        self._near = near

    def setblocking(self, flag: bool) -> None:
        self._near.setblocking(flag)

    def fileno(self) -> int:
        return self._near.fileno()

    def recv_into(self, room: memoryview) -> int:
        self._machine.now += LATE_S
        self._far.sendall(BEAT)
        return self._near.recv_into(room)


def test_it_sleeps_where_leases_are_long_apart(machine: Machine) -> None:
    near, far = socket.socketpair()
    with near, far:
        pipe = Pipe(LateSocket(machine, far, near))  # type: ignore[arg-type]
        for _ in range(20):
            pipe.receive()
    assert machine.yields == 0


def test_what_comes_inside_a_lease_is_no_wait(machine: Machine, ends: tuple[Pipe, socket.socket]) -> None:
    pipe, far = ends
    for _ in range(20):
        far.sendall(BEAT)
        assert pipe.poll()
    far.sendall(BEAT)
    pipe.receive()
    assert pipe._rhythm.begin() == 0.0


def test_the_end_of_the_link_ends_a_poll(machine: Machine, ends: tuple[Pipe, socket.socket]) -> None:
    pipe, far = ends
    come_at_once(pipe, far, 20)
    machine.at, machine.act = machine.now + 5e-6, far.close
    with pytest.raises(LinkEndedError):
        pipe.receive()
    assert machine.yields == 5
