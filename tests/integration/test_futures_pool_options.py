"""The options of a `GrainlikePool`, and what its calls and errors are to programs for `concurrent.futures`."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from pickle import PicklingError

import pytest
from counting import no_collector
from limits import LIMIT_S
from pool_option_calls import (
    Plain,
    fail,
    initialize,
    interrupt,
    leave,
    make_large_plain,
    make_plain,
    note_and_die,
    note_and_fail,
    pid_of,
    pid_of_coroutine,
    pid_when_open,
    status,
    status_async,
    variable,
)

from grainlike import Cores, ProcessBackend, Retry, ThreadBackend, WorkerLostError
from grainlike.adapters import GrainlikePool


@pytest.fixture(scope="module")
def pool() -> Iterator[GrainlikePool]:
    with GrainlikePool(local=Cores([0])) as pool:
        yield pool


@pytest.fixture(autouse=True)
def no_leaks(pool: GrainlikePool) -> None:
    """The pool stays from test to test; what one leaves is looked at in `test_futures_pool`."""


# --- initializer -----------------------------------------------------------------------------------------------------


def test_an_initializer_runs_once_in_each_process_before_its_first_call() -> None:
    with GrainlikePool(local=Cores([0]), initializer=initialize, initargs=("ready",)) as pool:
        assert {str(pool.submit(status).result(LIMIT_S)[0]) for _ in range(3)} == {"['ready']"}
        assert pool.submit(status_async).result(LIMIT_S)[-1:] == ["ready"]
        assert list(pool.map(abs, [-1, -2, -3], chunksize=2)) == [1, 2, 3]


def test_what_an_initializer_of_main_sets_its_functions_see() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(
        "def initialize(x):\n    global V\n    V = x\ndef value():\n    return V\ndef plus(x):\n    return V + x", names
    )
    with GrainlikePool(local=Cores([0]), initializer=names["initialize"], initargs=(7,)) as pool:
        assert [pool.submit(names["value"]).result(LIMIT_S) for _ in range(2)] == [7, 7]
        assert list(pool.map(names["plus"], [1, 2], chunksize=2)) == [8, 9]


def test_an_initializer_that_raises_breaks_the_pool() -> None:
    with GrainlikePool(local=Cores([0]), initializer=fail) as pool:
        futures = [pool.submit(int) for _ in range(3)]
        for future in futures:
            with pytest.raises(BrokenProcessPool, match="initializer of this pool raised ValueError: broken"):
                future.result(LIMIT_S)
        with pytest.raises(BrokenProcessPool, match="initializer"):
            pool.submit(int)


def test_an_initializer_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="initializer must be a callable"):
        GrainlikePool(initializer=3)


# --- max_tasks_per_child ---------------------------------------------------------------------------------------------


def test_a_process_makes_as_many_calls_as_is_said() -> None:
    with GrainlikePool(local=Cores([0]), max_tasks_per_child=2) as pool:
        futures = [pool.submit(os.getpid) for _ in range(6)]
        pids = [future.result(LIMIT_S) for future in futures]
        assert pids[0::2] == pids[1::2]
        assert len(set(pids)) == 3
        assert len(set(pool.map(pid_of, range(6), chunksize=2))) == 2
        assert pool.submit(pid_of_coroutine).result(LIMIT_S) == os.getpid()


def test_the_rest_of_a_run_list_goes_to_the_next_process(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with GrainlikePool(local=Cores([0]), max_tasks_per_child=25) as pool:
        futures = [pool.submit(pid_when_open, pipe)]  # so that the queue is not empty before all are in it
        futures += [pool.submit(os.getpid) for _ in range(99)]  # in run-lists, once their time is known
        pipe.open("w").close()
        calls = Counter(future.result(LIMIT_S) for future in futures).values()
        # A most is promised, not that each process is used up before the next one is taken.
        assert (sum(calls), max(calls)) == (100, 25)


def test_a_call_that_fails_counts_and_each_process_is_initialized() -> None:
    with GrainlikePool(local=Cores([0]), max_tasks_per_child=1, initializer=initialize, initargs=("ready",)) as pool:
        for _ in range(2):
            with pytest.raises(ValueError, match="on purpose"):
                pool.submit(fail).result(LIMIT_S)
        said, pids = zip(*(pool.submit(status).result(LIMIT_S) for _ in range(3)), strict=True)
        assert said == (["ready"],) * 3
        assert len(set(pids)) == 3


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"max_tasks_per_child": 0}, ValueError),
        ({"max_tasks_per_child": "2"}, TypeError),
        ({"max_tasks_per_child": 1, "backend": ThreadBackend(1)}, ValueError),
    ],
)
def test_a_wrong_max_tasks_per_child_is_refused(options, kind) -> None:
    with pytest.raises(kind, match="max_tasks_per_child"):
        GrainlikePool(**options)


# --- attempts and errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("retries", "times"), [(None, 1), (Retry(0, losses=1), 2)])
def test_a_call_whose_process_dies_is_made_once_unless_more_is_asked_for(retries, times, tmp_path: Path) -> None:
    options = {} if retries is None else {"retries": retries}
    with GrainlikePool(local=Cores([0]), **options) as pool:
        with pytest.raises(BrokenProcessPool) as caught:
            pool.submit(note_and_die, tmp_path / "runs").result(LIMIT_S)
        assert isinstance(caught.value, WorkerLostError)
    assert (tmp_path / "runs").read_text() == "x" * times


@pytest.mark.parametrize(("retries", "times"), [(None, 1), (1, 2)])
def test_a_call_that_fails_is_made_once_unless_more_is_asked_for(retries, times, tmp_path: Path) -> None:
    options = {} if retries is None else {"retries": retries}
    with GrainlikePool(local=Cores([0]), **options) as pool, pytest.raises(ValueError, match="on purpose"):
        pool.submit(note_and_fail, tmp_path / "runs").result(LIMIT_S)
    assert (tmp_path / "runs").read_text() == "x" * times


def test_errors_are_those_that_programs_for_the_standard_library_catch(pool: GrainlikePool) -> None:
    with pytest.raises(PicklingError):
        pool.submit(id, threading.Lock()).result(LIMIT_S)
    with pytest.raises(KeyboardInterrupt, match="pressed"):
        pool.submit(interrupt).result(LIMIT_S)
    with pytest.raises(SystemExit) as caught:
        pool.submit(leave).result(LIMIT_S)
    assert caught.value.code == 3


# --- references ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [make_plain, make_large_plain])
def test_a_value_is_gone_with_its_future_without_the_collector(pool: GrainlikePool, make) -> None:
    with no_collector():
        future = pool.submit(make)
        gone = threading.Event()
        watched = weakref.ref(future.result(LIMIT_S), lambda _: gone.set())
        del future
        assert gone.wait(LIMIT_S), gc.get_referrers(watched())


def test_arguments_are_gone_with_their_call_without_the_collector(pool: GrainlikePool) -> None:
    with no_collector():
        plain = Plain()
        gone = threading.Event()
        watched = weakref.ref(plain, lambda _: gone.set())
        future = pool.submit(plain.method)
        del plain
        future.result(LIMIT_S)
        assert gone.wait(LIMIT_S), gc.get_referrers(watched())


# --- where calls run -------------------------------------------------------------------------------------------------


def test_calls_in_threads_see_the_context_of_their_caller() -> None:
    with GrainlikePool(backend=ThreadBackend(2)) as pool:
        first = pool.submit(variable.get)
        token = variable.set("mine")
        try:
            assert pool.submit(variable.get).result(LIMIT_S) == "mine"
        finally:
            variable.reset(token)
        assert first.result(LIMIT_S) == "none"


def test_a_pool_of_threads_keeps_neither_calls_nor_values() -> None:
    with GrainlikePool(backend=ThreadBackend(2)) as pool:
        plain, gone, values_gone = Plain(), threading.Event(), threading.Event()
        watched = weakref.ref(plain, lambda _: gone.set())
        assert pool.submit(plain.method).result(LIMIT_S) is None
        del plain
        assert gone.wait(LIMIT_S), gc.get_referrers(watched())
        value = pool.submit(Plain).result(LIMIT_S)
        watched_value = weakref.ref(value, lambda _: values_gone.set())
        del value
        gc.collect()
        assert values_gone.wait(LIMIT_S), gc.get_referrers(watched_value())


def test_what_a_call_in_a_thread_sets_is_its_own() -> None:
    with GrainlikePool(backend=ThreadBackend(1)) as pool:
        pool.submit(variable.set, "theirs").result(LIMIT_S)
        assert variable.get() == "none"


def test_a_process_backend_takes_calls_by_itself() -> None:
    with ProcessBackend(1) as backend:
        assert backend.result(backend.submit(pow, 2, 10), LIMIT_S) == 1024
        assert backend.result(backend.submit(lambda x, *, y: x + y, 1, y=2), LIMIT_S) == 3
        with pytest.raises(ValueError, match="on purpose"):
            backend.result(backend.submit(fail), LIMIT_S)


def test_calls_in_processes_may_use_a_manager_of_the_callers() -> None:
    with multiprocessing.get_context("spawn").Manager() as manager, GrainlikePool(backend=ProcessBackend(1)) as pool:
        shared = manager.list()
        pool.submit(shared.append, 7).result(LIMIT_S)
        assert list(shared) == [7]


def test_a_pool_may_run_its_calls_on_a_head(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with GrainlikePool(local=Cores([0]), listen="tcp://127.0.0.1:0") as head, GrainlikePool(head=head.address) as pool:
        assert pool.slots() == 1
        running = pool.submit(fifo.write_text, "5")
        assert fifo.read_text() == "5"
        assert running.result(LIMIT_S) == 1
    with pytest.raises(ValueError, match="leave local= out"):
        GrainlikePool(head="tcp://127.0.0.1:1", local=Cores(1))
