"""Dask's graphs, each task in slots."""

from __future__ import annotations

import io
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from operator import add, mul
from pathlib import Path
from queue import SimpleQueue

import dask
import pytest
from dask.callbacks import Callback
from dask.diagnostics import ProgressBar
from dask.local import get_sync
from kept_pools import close_kept
from waiting import until_ended_blocking

from grainlike import GVAR, Cores, GPUs, Token, UnsatisfiableError
from grainlike.adapters import GrainlikePool, dask_get
from grainlike.adapters._dask_callbacks import _next_of


def square(x: int) -> int:
    return x * x


def cores(*_: object) -> int:
    return len(GVAR.res.cores)


def held() -> tuple[int, int]:
    return len(GVAR.res.cores), len(GVAR.res.gpus)


def fail(x: int) -> None:
    raise ValueError(f"broken on purpose: {x}")


@pytest.fixture(scope="module")
def pool():
    with GrainlikePool(Cores(1), local=Cores([0, 1])) as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    close_kept()


@pytest.fixture(autouse=True)
def no_leaks(pool: GrainlikePool) -> None:
    """The pool stays from test to test; what it leaves is looked at where it is tested."""


GRAPHS = {
    "values and tasks": ({"x": 1, "y": (square, "x"), "z": (add, "y", 10)}, "z"),
    "lists of keys": ({"x": 2, ("y", 0): (square, "x"), ("y", 1): (mul, "x", 5)}, [[("y", 0)], [("y", 1), "x"]]),
    "an alias": ({"x": (square, 3), "y": "x", "z": (square, "y")}, ["y", "z"]),
    "keys in lists inside a task": ({"x": (square, 3), "y": (sum, ["x", "x", 1])}, "y"),
    "a task inside a task": ({"x": (add, (square, 2), (square, 3))}, "x"),
    "the same key twice": ({"x": (square, 3)}, ["x", "x"]),
    "a long chain": ({"0": 1, **{str(n): (add, str(n - 1), 7) for n in range(1, 200)}}, "199"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plain_graph_gives_what_dask_gives(pool: GrainlikePool, name: str) -> None:
    graph, keys = GRAPHS[name]
    assert dask_get(graph, keys, pool=pool) == get_sync(graph, keys)


def test_what_is_not_needed_is_not_run(pool: GrainlikePool) -> None:
    assert dask_get({"x": (square, 3), "y": (fail, "x")}, "x", pool=pool) == 9


def test_delayed_computes_in_slots(pool: GrainlikePool) -> None:
    squares = [dask.delayed(square)(n) for n in range(10)]
    total = dask.delayed(sum)(squares)
    assert total.compute(scheduler=dask_get, pool=pool) == 285
    wide = dask.delayed(cores)(total)
    assert dask.compute(wide, squares[3], scheduler=dask_get, pool=pool, request=Cores(2)) == (2, 9)


def test_a_task_gets_what_its_annotation_says() -> None:
    with dask.annotate(resources={"cores": 2, "GPU": 1}):
        wide = dask.delayed(held)()
    with GrainlikePool(Cores(1), local=Cores([0, 1]) & GPUs(1)) as pool:
        assert dask.compute(wide, dask.delayed(held)(), scheduler=dask_get, pool=pool) == ((2, 1), (1, 0))
        with dask.annotate(resources={"GPU": 1}):
            bound = dask.delayed(held)()
        with pytest.raises(UnsatisfiableError, match="no worker has token=big"):
            bound.compute(scheduler=dask_get, pool=pool, request=Cores(1) & Token("big"))
    with dask.annotate(resources={"licence": 1}), pytest.raises(UnsatisfiableError, match="no worker has licence"):
        dask.delayed(held)().compute(scheduler=dask_get, num_workers=1)


def test_it_can_be_the_scheduler_of_the_program() -> None:
    with dask.config.set(scheduler=dask_get):
        assert dask.delayed(cores)().compute(num_workers=1) == 1


def test_an_error_is_the_tasks_own(pool: GrainlikePool) -> None:
    with pytest.raises(ValueError, match="on purpose: 3") as caught:
        dask.delayed(square)(dask.delayed(fail)(3)).compute(scheduler=dask_get, pool=pool)
    assert any(note.endswith("attempt 1 of fail") for note in caught.value.__notes__)


def hold(path: str) -> None:
    """Say who runs, then stay longer than anybody waits."""
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    signal.pause()


def fail_beside(path: str, told: str) -> None:
    """Fail once `hold` runs, and leave word of who does."""
    Path(told).write_text(Path(path).read_text())
    raise ValueError("broken on purpose")


def test_when_a_task_fails_the_others_are_ended_whichever_was_asked_for_first(pool: GrainlikePool, tmp_path) -> None:
    fifo, told = tmp_path / "fifo", tmp_path / "pid"
    os.mkfifo(fifo)
    tasks = [dask.delayed(hold)(str(fifo)), dask.delayed(fail_beside)(str(fifo), str(told))]
    with pytest.raises(ValueError, match="on purpose"):
        dask.compute(*tasks, scheduler=dask_get, pool=pool)
    until_ended_blocking(int(told.read_text()))


def test_a_circle_is_refused(pool: GrainlikePool) -> None:
    with pytest.raises(ValueError, match="cycle"):
        dask_get({"x": (square, "y"), "y": (square, "x")}, "x", pool=pool)


def test_another_pool_is_refused() -> None:
    with pytest.raises(TypeError, match="GrainlikePool"):
        dask_get({"x": 1}, "x", pool="processes")


class Log(Callback):
    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def _start(self, dsk):
        self.seen.append(("start", len(dsk)))

    def _start_state(self, dsk, state):
        self.seen.append(("state", set(state["waiting"])))

    def _pretask(self, key, dsk, state):
        self.seen.append(("before", key))

    def _posttask(self, key, result, dsk, state, worker_id):
        self.seen.append(("after", key, result))

    def _finish(self, dsk, state, errored):
        self.seen.append(("finish", errored))


def test_callbacks_are_called_as_dask_calls_them(pool: GrainlikePool) -> None:
    graph = {"a": 2, "b": (square, "a"), "c": "b", "d": (add, "c", "b")}
    seen = []
    for get in (partial(dask_get, pool=pool), get_sync):
        with Log() as log:
            assert get(graph, ["d", "b"]) == (8, 4)
        seen.append(log.seen)
    assert seen[0] == seen[1]
    with Log() as log, pytest.raises(ValueError, match="on purpose"):
        dask_get({"a": (fail, 1), "b": (square, "a")}, "b", pool=pool)
    assert log.seen[-1] == ("finish", True)


def test_a_task_that_needs_another_ends_after_it_whichever_is_told_first() -> None:
    ended: SimpleQueue[str] = SimpleQueue()
    ended.put("after")
    ended.put("before")
    came: set[str] = set()
    assert _next_of({"before"}, came, ended) == "before"
    assert _next_of({"after"}, came, ended) == "after"


def test_a_progress_bar_comes_to_its_end(pool: GrainlikePool) -> None:
    out = io.StringIO()
    with ProgressBar(out=out):
        dask.delayed(sum)([dask.delayed(square)(n) for n in range(10)]).compute(scheduler=dask_get, pool=pool)
    assert "100% Completed" in out.getvalue()


def test_a_pool_stays_for_the_next_call() -> None:
    pids = {dask.delayed(os.getpid)().compute(scheduler=dask_get, num_workers=1) for _ in range(3)}
    assert len(pids) == 1


def test_tasks_may_run_on_a_head() -> None:
    with GrainlikePool(local=Cores([0]), listen="tcp://127.0.0.1:0") as head:
        assert dask.delayed(square)(3).compute(scheduler=dask_get, head=head.address) == 9
        with pytest.raises(TypeError, match="takes no head="):
            dask.delayed(square)(3).compute(scheduler=dask_get, pool=head, head=head.address)
        close_kept()


class OwnWarning(UserWarning):
    """Is not made of a text alone."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def caution(x: int) -> int:
    warnings.warn(f"careful with {x}", RuntimeWarning, stacklevel=1)
    return x


def caution_in_a_way_of_its_own(x: int) -> int:
    warnings.warn(OwnWarning(f"really careful with {x}", 3), stacklevel=1)
    return x


@pytest.mark.parametrize("callbacks", [False, True], ids=["plain", "callbacks"])
def test_warnings_of_tasks_come_to_the_caller_with_their_values(pool: GrainlikePool, callbacks: bool) -> None:
    graph = {"a": (caution, 2), "b": (square, "a"), "c": (caution_in_a_way_of_its_own, "b"), "d": (add, "a", "b")}
    with Log() if callbacks else nullcontext() as log, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert dask_get(graph, ["c", "d", "a"], pool=pool) == (4, 6, 2)
    assert {(str(one.message), one.category, Path(one.filename).name) for one in caught} == {
        ("careful with 2", RuntimeWarning, Path(__file__).name),
        ("really careful with 4", UserWarning, Path(__file__).name),
    }
    assert len(caught) == 2
    if log is not None:
        assert {entry[2] for entry in log.seen if entry[0] == "after"} == {2, 4, 6}


def test_the_callers_filters_are_those_that_count(pool: GrainlikePool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="careful with 2"):
            dask_get({"a": (caution, 2)}, "a", pool=pool)
        warnings.simplefilter("ignore")
        assert dask_get({"a": (caution, 2)}, "a", pool=pool) == 2
