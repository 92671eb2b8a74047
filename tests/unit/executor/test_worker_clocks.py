"""How far the clock of a worker is behind the head's, by the reports that it has sent."""

from grainlike.head._peers import WorkerConnection
from grainlike.net import memory_pair, process_id
from grainlike.resources import NO_ALLOCATION
from grainlike.wire import Hello


def worker(process: str) -> WorkerConnection:
    hello = Hello("worker", 1, 1, "3.11", {}, "n1", "i1", 1, "", [], process=process)
    return WorkerConnection(1, "n1", memory_pair()[0], hello, NO_ALLOCATION, 0.0)


def test_a_worker_of_this_machine_has_our_clock_however_late_its_reports_are() -> None:
    peer = worker(process_id())
    assert [peer.skew_by(late, monotonic=True) for late in (0.5, 0.001)] == [0.0, 0.0]
    assert peer.skew_by(0.5, monotonic=False) == 0.5  # a head that goes on after a restart has a clock of its own


def test_of_another_machine_the_reports_that_took_least_tell() -> None:
    peer = worker("elsewhere:1/7/8")
    told = []
    for late in (9.5, 9.0, 9.016, 8.0):
        peer.skew = peer.skew_by(late, monotonic=True)
        told.append(round(peer.skew, 6))
    assert told == [9.5, 9.0, 9.001, 8.0]


def test_a_clock_that_falls_behind_is_followed() -> None:
    peer = worker("elsewhere:1/7/8")
    for late in [1.0] + [2.0] * 200:
        peer.skew = peer.skew_by(late, monotonic=True)
    assert round(peer.skew, 3) == 2.0
