"""joblib's `Parallel`, and what is built on it, in slots."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import joblib
import pytest
from joblib import Parallel
from joblib import delayed as later
from joblib.parallel import BatchCompletionCallBack
from joblib_calls import fail, fail_beside, given, hold, initialize, inner, slots_and_widths, square, warn
from kept_pools import close_kept
from limits import LIMIT_S
from waiting import until_ended_blocking

from grainlike import Cores
from grainlike.adapters import GrainlikePool, register_joblib
from grainlike.adapters._future import here
from grainlike.adapters._joblib import GrainlikeBackend
from grainlike.errors import JobCancelledError
from grainlike.subprocesses import open_core_locks

register_joblib()


def test_warnings_of_calls_are_given_to_the_caller_by_its_own_filters() -> None:
    with pytest.warns(UserWarning, match="careful"):
        assert Parallel(n_jobs=2, backend="grainlike")(later(warn)(x) for x in range(3)) == [0, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="careful"):
            Parallel(n_jobs=2, backend="grainlike")(later(warn)(x) for x in range(3))


@pytest.fixture(scope="module", autouse=True)
def no_leaks(watch_leaks: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Of the module as a whole: its tests share a pool."""
    with watch_leaks():
        yield


@pytest.fixture(scope="module")
def pool(no_leaks: None) -> Iterator[GrainlikePool]:
    with GrainlikePool(Cores(1), local=Cores([0, 1])) as pool:
        yield pool


def test_parallels_with_the_same_options_share_a_pool_that_is_kept() -> None:
    before = set(threading.enumerate())
    options = {"local": Cores([0]), "initializer": initialize, "initargs": ("once",)}
    seen = set()
    for _ in range(2):
        with joblib.parallel_config("grainlike", **options), Parallel(batch_size=3) as parallel:
            assert parallel(later(square)(x) for x in range(20)) == [x * x for x in range(20)]
            seen.update(parallel(later(given)(x) for x in range(2)))
    ((pid, words),) = seen
    assert words == ("once",)
    with joblib.parallel_config("grainlike", local=Cores([0])):  # other options: the pool before is closed
        assert Parallel()(later(given)(x) for x in range(1))[0][0] != pid
    until_ended_blocking(pid)
    close_kept()
    assert set(threading.enumerate()) <= before


def test_a_parallel_takes_options_of_its_own() -> None:
    with joblib.parallel_config("grainlike", local=Cores([0, 1])):
        own = Parallel(request=Cores(2), initializer=initialize, initargs=("own",))
        assert [words for _, words in own(later(given)(x) for x in range(3))] == [("own",)] * 3
        assert own([later(slots_and_widths)(0)])[0][0] == 2
        with pytest.raises(ValueError, match="on purpose"), own:
            own(later(fail)(x) for x in range(4))
        (widths,) = Parallel()([later(slots_and_widths)(0)])  # those of `parallel_config` hold for all others
        assert widths[0] == 1
        with pytest.raises(TypeError, match="unknown_option"):
            Parallel(unknown_option=1)([later(square)(2)])
    close_kept()


def test_options_stay_after_a_call_has_failed() -> None:
    own = {"initializer": initialize, "initargs": ("own",)}
    with joblib.parallel_config("grainlike", local=Cores([0])), Parallel(**own) as parallel:
        with pytest.raises(ValueError, match="on purpose"):
            parallel([later(fail)(1)])
        assert parallel([later(given)(0)])[0][1] == ("own",)
    close_kept()


def test_a_pool_is_kept_after_a_call_has_failed() -> None:
    with joblib.parallel_config("grainlike", local=Cores([0])):
        (pid,) = Parallel()([later(os.getpid)()])
        with pytest.raises(ValueError, match="on purpose"):
            Parallel()([later(fail)(1)])
        assert Parallel()([later(os.getpid)()]) == [pid]
    close_kept()


def test_a_kept_pool_ends_when_it_was_idle_for_long() -> None:
    pool = GrainlikePool(local=Cores([0]))
    assert pool.end_when_idle(LIMIT_S)
    assert pool.keep_open()
    assert pool.submit(square, 3).result(LIMIT_S) == 9
    assert pool.end_when_idle(0)
    pool._thread._thread.join(LIMIT_S)
    assert not pool.keep_open()


NAMES_THE_BACKEND = """
def nested(n):
    import joblib
    with joblib.parallel_config("grainlike"):
        return joblib.Parallel()(joblib.delayed(abs)(x) for x in range(n))
"""


def test_a_call_may_name_the_backend(pool: GrainlikePool) -> None:
    names: dict[str, object] = {"__name__": "__main__"}  # its process imports nothing that registers the backend
    exec(NAMES_THE_BACKEND, names)
    with joblib.parallel_config("grainlike", pool=pool):
        assert Parallel()([later(names["nested"])(3)]) == [[0, 1, 2]]


def test_calls_may_run_on_a_head() -> None:
    with GrainlikePool(local=Cores([0]), listen="tcp://127.0.0.1:0") as head:
        with joblib.parallel_config("grainlike", head=head.address):
            assert Parallel()(later(square)(x) for x in range(3)) == [0, 1, 4]
        close_kept()


def test_values_come_as_joblib_is_told(pool: GrainlikePool) -> None:
    with joblib.parallel_config("grainlike", pool=pool):
        assert Parallel()(later(square)(x) for x in range(200)) == [x * x for x in range(200)]
        unordered = Parallel(return_as="generator_unordered")(later(square)(x) for x in range(10))
        assert sorted(unordered) == [x * x for x in range(10)]


def test_a_call_has_its_slots_and_so_have_its_thread_pools(pool: GrainlikePool) -> None:
    for cores in (1, 2):
        with joblib.parallel_config("grainlike", request=Cores(cores), pool=pool):
            (found,) = Parallel()([later(slots_and_widths)(0)])
        assert found[0] == found[1] == cores
        assert found[2] <= {cores}


def test_a_parallel_inside_a_call_is_as_wide_as_its_slots(pool: GrainlikePool) -> None:
    for cores in (1, 2):
        with joblib.parallel_config("grainlike", request=Cores(cores), pool=pool):
            assert joblib.effective_n_jobs(-1) == 2 // cores
            assert Parallel()([later(inner)(0)]) == [(cores, cores, 1)]


def test_errors_are_the_calls_own_and_the_next_parallel_works(pool: GrainlikePool) -> None:
    with joblib.parallel_config("grainlike", pool=pool):
        with pytest.raises(ValueError, match="on purpose") as caught:
            Parallel()(later(fail)(x) for x in range(4))
        assert any(note.endswith("attempt 1 of fail") for note in caught.value.__notes__)
        assert Parallel()(later(square)(x) for x in range(4)) == [0, 1, 4, 9]


def test_callbacks_of_a_parallel_run_in_one_thread(pool: GrainlikePool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that overlap lose an error of the caller's iterator: one finds the end while the other has just failed."""
    submit, called, threads = GrainlikePool.submit_as, BatchCompletionCallBack.__call__, set[int]()

    def submit_and_wait(self: GrainlikePool, *args: object) -> Future[object]:
        future = submit(self, *args)
        if not here.in_pool:
            wait([future], LIMIT_S)  # so that it is done before anybody is to be called
        return future

    def noted(self: BatchCompletionCallBack, *args: object) -> None:
        threads.add(threading.get_ident())
        called(self, *args)

    monkeypatch.setattr(GrainlikePool, "submit_as", submit_and_wait)
    monkeypatch.setattr(BatchCompletionCallBack, "__call__", noted)
    with joblib.parallel_config("grainlike", pool=pool, n_jobs=2):
        assert Parallel(pre_dispatch=1)(later(square)(x) for x in range(9)) == [x * x for x in range(9)]
    assert len(threads - {threading.get_ident()}) == len(threads) == 1


def test_when_a_call_fails_those_beside_it_are_ended(pool: GrainlikePool, tmp_path: Path) -> None:
    fifo, told = tmp_path / "fifo", tmp_path / "pid"
    os.mkfifo(fifo)
    calls = [later(hold)(str(fifo)), later(fail_beside)(str(fifo), str(told))]
    with joblib.parallel_config("grainlike", pool=pool), pytest.raises(ValueError, match="on purpose"):
        Parallel(n_jobs=2)(calls)
    until_ended_blocking(int(told.read_text()))


def test_n_jobs_is_how_many_run_at_once(pool: GrainlikePool) -> None:
    with joblib.parallel_config("grainlike", pool=pool):
        assert [joblib.effective_n_jobs(n) for n in (1, 2, 5, -1, -2, None)] == [1, 2, 2, 2, 1, 2]
        with pytest.raises(ValueError, match="n_jobs == 0"):
            joblib.effective_n_jobs(0)
        assert Parallel(n_jobs=1)([later(os.getpid)()]) == [os.getpid()]
        assert Parallel(n_jobs=2)([later(os.getpid)()]) != [os.getpid()]


def test_options_are_for_pools_that_it_opens(pool: GrainlikePool) -> None:
    with pytest.raises(TypeError, match="leave local out"):
        joblib.parallel_config("grainlike", pool=pool, local=Cores(1))
    with joblib.parallel_config("grainlike", pool=pool), pytest.raises(TypeError, match="leave initializer out"):
        Parallel(initializer=initialize)([later(square)(2)])


def test_a_grid_search_finds_what_it_finds_without(pool: GrainlikePool) -> None:
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y = make_classification(n_samples=60, n_features=8, random_state=0)
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=3)
    alone = search.fit(x, y).cv_results_["mean_test_score"]
    with joblib.parallel_config("grainlike", pool=pool):
        in_slots = search.fit(x, y).cv_results_["mean_test_score"]
    assert in_slots == pytest.approx(alone)


def test_an_idle_pool_that_is_kept_uses_no_core() -> None:
    with joblib.parallel_config("grainlike", local=Cores([0])):
        assert Parallel()(later(square)(x) for x in range(3)) == [0, 1, 4]
    locks = open_core_locks([0])
    try:
        assert not locks.others()  # what programs prefer other cores for
    finally:
        locks.close()
        close_kept()


def test_error_of_the_iterator_comes_when_both_threads_hand_in_calls(
    pool: GrainlikePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """joblib's own thread meets it while the pool's, which tells of the last call, is between two looks of joblib's."""
    between_looks, met, looked = threading.Event(), threading.Event(), threading.Event()
    ended: list[int] = []
    batch_completed, compute_batch_size = GrainlikeBackend.batch_completed, GrainlikeBackend.compute_batch_size
    dispatch_next = Parallel.dispatch_next

    def wait_between(backend: GrainlikeBackend, size: int, duration: float) -> None:
        batch_completed(backend, size, duration)
        ended.append(size)
        if len(ended) == 2:
            between_looks.set()
            met.wait(0.2)  # not for long: the thread that would set it may wait for this one, as it should

    def look(parallel: Parallel) -> None:
        dispatch_next(parallel)
        if len(ended) == 2:
            looked.set()

    def wait_for_other(backend: GrainlikeBackend) -> int:
        if threading.current_thread() is own and parallel.n_dispatched_tasks:
            assert between_looks.wait(LIMIT_S)
        return compute_batch_size(backend)

    def wait_for_look(backend: GrainlikeBackend) -> AbstractContextManager[None]:
        assert looked.wait(LIMIT_S)
        return nullcontext()

    def calls() -> Iterator[object]:
        yield later(square)(1)
        yield later(square)(2)  # joblib takes two before it hands in the first; the pool's thread hands in this one
        met.set()
        raise ValueError("the iterator's own")

    own = threading.current_thread()
    parallel = Parallel(n_jobs=2, backend="grainlike", pool=pool)
    monkeypatch.setattr(GrainlikeBackend, "batch_completed", wait_between)
    monkeypatch.setattr(GrainlikeBackend, "compute_batch_size", wait_for_other)
    monkeypatch.setattr(GrainlikeBackend, "retrieval_context", wait_for_look)
    monkeypatch.setattr(Parallel, "dispatch_next", look)
    with pytest.raises(ValueError, match="the iterator's own"):
        parallel(calls())


def test_batches_of_a_call_that_has_failed_end_nothing_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """joblib forgets the failure before it tells its calls apart; the end of a batch is heard of between the two."""
    fifo, told = tmp_path / "fifo", tmp_path / "pid"
    os.mkfifo(fifo)
    begun, heard = threading.Event(), threading.Event()
    forget, say_done = Parallel._reset_run_tracking, GrainlikeBackend._say_done

    def forget_and_wait(parallel: Parallel) -> None:
        forget(parallel)
        if told.exists():
            begun.set()
            assert heard.wait(LIMIT_S)

    def say_then(backend: GrainlikeBackend, *args: object) -> None:
        if isinstance(args[-1].exception(), JobCancelledError):  # type: ignore[attr-defined]
            begun.wait(LIMIT_S)
            say_done(backend, *args)
            heard.set()
        else:
            say_done(backend, *args)

    monkeypatch.setattr(Parallel, "_reset_run_tracking", forget_and_wait)
    monkeypatch.setattr(GrainlikeBackend, "_say_done", say_then)
    with Parallel(n_jobs=2, backend="grainlike", local=Cores([0, 1])) as parallel:
        with pytest.raises(ValueError, match="on purpose"):
            parallel([later(hold)(str(fifo)), later(fail_beside)(str(fifo), str(told))])
        assert parallel(later(square)(x) for x in range(9)) == [x * x for x in range(9)]
    close_kept()
