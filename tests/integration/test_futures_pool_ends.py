"""How a `GrainlikePool` ends: by a callback, by a value, by its thread's death, and with the program."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import psutil
import pytest
from limits import LIMIT_S

from grainlike import Cores, ProcessBackend, SerializationError, ThreadBackend
from grainlike.adapters import GrainlikePool


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """A loop that was ended in the middle cannot finish its tasks; that no process stays is looked at here."""


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


class InterruptsAtOpening:
    """Its bytes raise KeyboardInterrupt where they are opened."""

    def __reduce__(self):
        return _interrupt, ()


def _interrupt() -> None:
    raise KeyboardInterrupt("as it was opened")


def give_interrupt() -> InterruptsAtOpening:
    return InterruptsAtOpening()


FORKED = """
import os, sys
from grainlike import Cores
from grainlike.adapters import GrainlikePool

with GrainlikePool(local=Cores(1)) as pool:
    assert pool.submit(abs, -1).result() == 1
    child = os.fork()
    if not child:
        try:
            pool.submit(abs, -2)
        except RuntimeError as error:
            print(error)
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), pool.submit(abs, -3).result())
"""


def test_a_forked_child_is_told_whose_the_pool_is_and_nothing_else() -> None:
    forks = "ignore:This process:DeprecationWarning"  # Python 3.12 warns at every fork beside a thread
    command = [sys.executable, "-u", "-W", "always", "-W", forks, "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    said, ended = done.stdout.splitlines()
    assert said.startswith("this pool lives in process ")
    assert said.endswith(", and was not forked with this one")
    assert (ended, done.stderr, done.returncode) == ("3 3", "", 0)


@pytest.mark.parametrize("stop", [SystemExit(3), KeyboardInterrupt()])
def test_a_callback_that_would_end_the_thread_is_logged_and_the_pool_goes_on(stop, caplog) -> None:
    def end(_: Future[int]) -> None:
        raise stop

    with GrainlikePool(local=Cores([0])) as pool:
        future = pool.submit(int, 5)
        later: Future[int] = Future()
        future.add_done_callback(end)
        future.add_done_callback(lambda done: later.set_result(done.result()))
        assert later.result(LIMIT_S) == 5
        assert pool.submit(int, 6).result(LIMIT_S) == 6
    assert "what would end its pool" in caplog.text
    with pytest.raises(type(stop)):
        future.add_done_callback(end)  # called at once, in this thread


def test_a_value_that_interrupts_as_it_is_opened_fails_its_own_call() -> None:
    with GrainlikePool(local=Cores([0])) as pool:
        with pytest.raises(SerializationError, match="KeyboardInterrupt: as it was opened"):
            pool.submit(give_interrupt).result(LIMIT_S)
        assert pool.submit(int, 6).result(LIMIT_S) == 6


def test_a_pool_whose_thread_was_ended_fails_what_is_open_and_takes_nothing_more() -> None:
    before = children()
    pool = GrainlikePool(local=Cores([0]))
    assert pool.submit(int, "5").result(LIMIT_S) == 5

    def end() -> None:
        raise KeyboardInterrupt("from outside")

    pool._thread._loop.call_soon_threadsafe(end)
    pool._thread._thread.join(LIMIT_S)
    with pytest.raises(BrokenProcessPool, match=r"ended by KeyboardInterrupt: from outside. Open a new pool"):
        pool.submit(int)
    with pytest.raises(BrokenProcessPool):
        pool.slots()
    pool.shutdown()
    assert psutil.wait_procs(children() - before, LIMIT_S)[1] == []


def hold(path: str) -> None:
    with open(path, "w"):  # noqa: PTH123
        threading.Event().wait()


def test_what_runs_and_what_waits_fails_with_its_thread(tmp_path: Path) -> None:
    before = children()
    os.mkfifo(tmp_path / "fifo")
    pool = GrainlikePool(local=Cores([0]))
    futures = [pool.submit(hold, str(tmp_path / "fifo")), pool.submit(int)]
    (tmp_path / "fifo").open().close()

    def end() -> None:
        futures.append(pool.submit(int))  # not yet looked at when the thread ends
        raise SystemExit(1)

    pool._thread._loop.call_soon_threadsafe(end)
    pool._thread._thread.join(LIMIT_S)
    assert wait(futures, LIMIT_S).not_done == set()
    for future in futures:
        with pytest.raises((BrokenProcessPool, CancelledError)):
            future.result()
    assert psutil.wait_procs(children() - before, LIMIT_S)[1] == []


@pytest.mark.parametrize("backend", ["ThreadBackend(1)", "ProcessBackend(1)"])
def test_a_program_that_ends_waits_for_the_calls_on_an_engine(backend: str, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from grainlike import ProcessBackend, ThreadBackend
from grainlike.adapters import GrainlikePool
pool = GrainlikePool(backend={backend})
for n in range(3):
    pool.submit((Path({str(tmp_path)!r}) / str(n)).touch)
"""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'worker'}"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, timeout=LIMIT_S, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2"]


@pytest.mark.parametrize("make", [ThreadBackend, ProcessBackend])
def test_a_call_that_runs_on_an_engine_is_running_and_not_cancelled(make, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with GrainlikePool(backend=make(1)) as pool:
        much = "5" * 2**20  # more than a pipe holds: it runs until all is read
        running, waiting = pool.submit(fifo.write_text, much), pool.submit(int)
        with fifo.open() as file:
            assert (running.running(), running.cancel()) == (True, False)
            assert (waiting.running(), waiting.cancel()) == (False, True)
            assert file.read() == much
        assert running.result(LIMIT_S) == len(much)


def test_calls_for_which_there_are_free_threads_have_begun_when_the_others_are_cancelled() -> None:
    free = threading.Event()
    pool = GrainlikePool(backend=ThreadBackend(2))
    futures = [pool.submit(free.wait, LIMIT_S) for _ in range(5)]
    pool.shutdown(wait=False, cancel_futures=True)
    wait(futures[2:], LIMIT_S)
    free.set()
    pool.shutdown()
    assert [future.cancelled() for future in futures] == [False, False, True, True, True]


def test_a_call_that_a_closed_pool_refuses_is_not_said_to_be_never_awaited() -> None:
    pool = GrainlikePool(backend=ThreadBackend(1))
    pool.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
            pool.submit(abs, -1)


def test_a_callback_that_comes_late_is_called_when_the_pools_thread_has_ended() -> None:
    pool = GrainlikePool(local=Cores([0]))
    future = pool.submit(abs, -1)
    assert future.result(LIMIT_S) == 1
    pool.shutdown()
    called: list[object] = []
    pool.call_back(future, called.append)
    assert called == [future]
