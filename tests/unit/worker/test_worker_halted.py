"""Which processes of runners a worker takes for halted, and when it tells its head."""

import math
import signal
import subprocess
from collections.abc import Iterator

import pytest
from waiting import until_blocking

from grainlike.errors import ProtocolError
from grainlike.head._validation import check_frames
from grainlike.wire import Frame, Halted, HaltedProcess
from grainlike_worker.daemon import _runner_watch
from grainlike_worker.daemon._keeper_watch import state_of
from grainlike_worker.daemon._runner_watch import HaltedWatch, _Sight


@pytest.fixture
def stopped() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that was stopped."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        process.send_signal(signal.SIGSTOP)
        until_blocking(lambda: state_of(process.pid) == "T")
        yield process
        process.kill()


class Watch:
    """A watch with what it tells."""

    def __init__(self) -> None:
        self.told: list[Halted] = []
        self.watch = HaltedWatch(self.told.append)

    def look(self, *processes: tuple[int, list[int]]) -> list[tuple[int, str, list[int]]] | None:
        """Look; return what was told, without times; None if nothing was."""
        self.told.clear()
        self.watch.look(processes)
        return [(row.pid, row.state, row.jobs) for row in self.told[0].processes] if self.told else None


def test_two_looks_tell_once_and_again_when_it_goes_on(stopped: subprocess.Popen[bytes]) -> None:
    watch, pid = Watch(), stopped.pid
    assert watch.look((pid, [1, 2])) is None
    assert watch.look((pid, [1, 2])) == [(pid, "T", [1, 2])]
    assert watch.look((pid, [1, 2])) is None
    assert watch.look((pid, [2])) == [(pid, "T", [2])], "job 1 has ended"
    stopped.send_signal(signal.SIGCONT)
    until_blocking(lambda: state_of(pid) == "S")
    assert watch.look((pid, [2])) == []
    assert watch.look((pid, [2])) is None


def test_another_head_is_told_what_the_one_before_was(stopped: subprocess.Popen[bytes]) -> None:
    watch, work = Watch(), (stopped.pid, [1])
    told = [watch.look(work) for _ in range(3)]
    watch.watch.tell_again()
    assert [*told, watch.look(work)] == [None, [(stopped.pid, "T", [1])], None, [(stopped.pid, "T", [1])]]


def test_another_head_is_told_of_one_that_goes_on_by_now(stopped: subprocess.Popen[bytes]) -> None:
    watch, work = Watch(), (stopped.pid, [1])
    assert [watch.look(work) for _ in range(2)][1] is not None
    watch.watch.tell_again()
    stopped.send_signal(signal.SIGCONT)
    until_blocking(lambda: state_of(stopped.pid) == "S")
    assert [watch.look(work) for _ in range(2)] == [[], None]


def test_processes_without_jobs_and_those_that_are_gone_are_left_out(stopped: subprocess.Popen[bytes]) -> None:
    watch, pid = Watch(), stopped.pid
    assert [watch.look((pid, []), (0, [])) for _ in range(3)] == [None] * 3
    watch.look((pid, [1]))
    assert watch.look((pid, [1])) is not None
    stopped.kill()
    stopped.wait()
    assert watch.look((pid, [1])) == []


def test_one_that_has_used_a_core_between_two_looks_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    sights = [_Sight("t", 100), _Sight("t", 101), _Sight("t", 101), _Sight("T", 101), _Sight("T", 101)]
    monkeypatch.setattr(_runner_watch, "_sight", lambda pid: sights.pop(0))
    watch = Watch()
    told = [watch.look((7, [1])) for _ in range(5)]
    assert told == [None, None, [(7, "t", [1])], [], [(7, "T", [1])]]


def test_one_in_the_kernel_is_told_of_when_no_disk_is_so_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runner_watch, "_sight", lambda pid: _Sight("D", 100))
    watch, told = Watch(), []
    for now in (0.0, 5.0, 29.0, 30.0):
        monkeypatch.setattr(_runner_watch.time, "monotonic", lambda now=now: now)
        told.append(watch.look((7, [1])))
    assert told == [None, None, None, [(7, "D", [1])]]


def test_a_worker_that_tells_of_no_time_is_refused() -> None:
    check_frames([Frame(Halted([HaltedProcess(7, "T", 5.0, [1])]))], (), None)
    with pytest.raises(ProtocolError):
        check_frames([Frame(Halted([HaltedProcess(7, "T", math.nan, [1])]))], (), None)
