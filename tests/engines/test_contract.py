"""What every engine promises: one suite, run against each of them for real.

An engine that cannot keep a promise refuses by name, and then it is the refusal that is seen here. What was seen is
noted in a table, which must be that of docs/engines.md (`GRAINLIKE_WRITE_TABLE=1` writes it there).
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from engine_table import COLUMNS, read
from limits import LIMIT_S
from waiting import until_ended

from grainlike import (
    GVAR,
    Callbacks,
    Cores,
    Dag,
    Executor,
    GPUs,
    Memory,
    Partition,
    Resource,
    Token,
    UnsatisfiableError,
    WallTime,
    cancel,
    delayed,
    info,
    start,
)
from grainlike.errors import JobTimeoutError, RemoteError, SerializationError, WorkerLostError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("default"),  # engines have warnings of their own
]


@pytest.fixture
def anyio_backend():
    """One event loop: what both of them do is tried with engines of our own, below."""
    return "asyncio"


@pytest.fixture
def fifo(tmp_path: Path) -> str:
    """A FIFO: opening it to read returns when another opens it to write, and the other way round."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return str(path)


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """A test that hangs is ended."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"nothing for {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(LIMIT_S))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def add(*values: int) -> int:
    return sum(values) + 1


async def aadd(*values: int) -> int:
    return add(*values)


def fail(*_: Any) -> None:
    raise LookupError("broken on purpose")


def meet(path: str, how: str, value: int = 0) -> int:
    with open(path, how):  # noqa: PTH123
        return value


def hold(path: str) -> None:
    """Say that it runs, then stay."""
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    signal.pause()


def hold_between(said: str, go: str) -> None:
    """Say that it runs, then stay until it is let go."""
    meet(said, "w")
    meet(go, "r")


def hold_until(path: str, gate: threading.Event) -> None:
    """The same for a thread, which nobody can end."""
    meet(path, "w")
    gate.wait()


# --- values and errors ---


async def test_values_of_functions_and_coroutines_come_back(engine, table):
    async with Executor(backend=engine.make()) as executor:
        assert await executor.submit(Cores(1), add, 1, 2) == 4
        assert await executor.submit(Cores(1), aadd, 1, 2) == 4
        assert executor.report().succeeded == 2
    table.note("functions and coroutines give their values", engine.name)


async def test_x3_lambdas_and_closures_work(engine, table):
    base = 20
    async with Executor(backend=engine.make()) as executor:
        assert await executor.submit(Cores(1), lambda x: x + base, 1) == 21
        assert await (delayed(lambda *v: [base, *v]) @ Cores(1))(executor.submit(Cores(1), lambda: base)) == [20, 20]
    table.note("lambdas and closures", engine.name)


async def test_arrays_travel(engine, table):
    np = pytest.importorskip("numpy")
    array = np.arange(50_000.0)
    async with Executor(backend=engine.make()) as executor:
        doubled = await executor.submit(Cores(1), lambda a: a * 2, array)
    assert (doubled == array * 2).all()
    doubled[0] = 7  # it is the program's own
    table.note("arrays, there and back", engine.name)


async def test_an_exception_comes_back_as_its_own_type_with_its_traceback_and_a_note(engine, table):
    async with Executor(backend=engine.make()) as executor:
        with pytest.raises(LookupError, match="broken on purpose") as caught:
            await executor.submit(Cores(1), fail)
    assert sum(note.startswith("grainlike: ") and "on worker" in note for note in caught.value.__notes__) == 1
    if not engine.in_process:
        assert "in fail" in str(caught.value.__cause__)
    table.note("a job's own exception, with its traceback", engine.name)


async def test_what_would_end_a_program_is_only_the_jobs_own_error(engine, table):
    async with Executor(backend=engine.make()) as executor:
        with pytest.raises(RemoteError, match="SystemExit: 3"):
            await executor.submit(Cores(1), sys.exit, 3)
        assert await executor.submit(Cores(1), add, 1) == 2
    table.note("`sys.exit` in a job fails it, and nothing else", engine.name)


async def test_what_a_job_changes_is_its_own(engine, table):
    def sort(values: list[int]) -> list[int]:
        values.sort()
        return values

    async with Executor(backend=engine.make()):
        drawn_ = (delayed(list) @ Cores(1))((3, 1, 2))
        assert await (delayed(sort) @ Cores(1))(drawn_) == [1, 2, 3]
        assert await drawn_ == ([1, 2, 3] if engine.in_process else [3, 1, 2])
    table.note("a job has copies of what it is given", engine.name, "the objects" if engine.in_process else "yes")


async def test_what_can_not_travel_fails_alone(engine, table):
    lock = threading.Lock()
    async with Executor(backend=engine.make()) as executor:
        good_, bad_ = executor.submit(Cores(1), add), executor.submit(Cores(1), add, lock)
        back_ = executor.submit(Cores(1), threading.Lock)
        assert await good_ == 1
        if engine.in_process:
            with pytest.raises(TypeError, match="unsupported operand"):
                await bad_
            assert (await back_).acquire()
        else:
            with pytest.raises(SerializationError, match="argument 0 of add"):
                await bad_
            with pytest.raises(SerializationError, match="the value of"):
                await back_
    table.note("what cannot travel fails alone", engine.name, "travels" if engine.in_process else "yes")


async def test_a_job_sees_its_name_and_its_slots(engine, table):
    async with Executor(backend=engine.make()) as executor:
        job, amount = await executor.submit(Cores(1), lambda: (GVAR.job, GVAR.res.N))
        outside = await delayed(lambda: GVAR.res.N)()
    assert job is not None
    assert (job.attempt, amount, outside) == (1, 1, 0)
    table.note("`GVAR.job` and `GVAR.res`", engine.name)


async def test_a_job_that_submits_jobs_is_told_that_it_can_not(engine, table):
    async def nested() -> int:
        return await (delayed(add) @ Cores(1))(1) + await delayed(add)(1)

    async def local() -> int:
        return await delayed(add)(1)

    async with Executor(backend=engine.make()) as executor:
        assert await executor.submit(Cores(1), local) == 2
        with pytest.raises(UnsatisfiableError, match="no way to the head"):
            await executor.submit(Cores(1), nested)
    table.note("jobs that submit jobs", engine.name, "refused")


# --- graphs ---


async def test_x1_x8_a_graph_runs_with_values_along_its_edges_and_no_levels(engine, table, fifo):
    dag = Dag()
    dag.add("top", add, request=Cores(1))
    dag.add("left", meet, fifo, "r", dag["top"] + 1, request=Cores(1))
    dag.add("right", meet, fifo, "w", dag["top"], request=Cores(1))
    dag.add("end", add, dag["left"], dag["right"], request=Cores(1))
    dag.add("here", add, dag["end"])
    async with Executor(backend=engine.make()) as executor:
        report = await dag.run()
        backend = executor.backend_name
    assert report.succeeded == 5, report
    assert (report["end"].value, report["here"].value) == (4, 5)
    assert report.backend == backend
    assert report["end"].worker is not None
    assert report["end"].run_s is not None
    table.note("a `Dag`: values flow, jobs run at the same time", engine.name)


async def test_x4_failures_skip_what_needs_them(engine, table):
    def build() -> Dag:
        dag = Dag()
        dag.add("good", add, request=Cores(1))
        dag.add("bad", fail, dag["good"], request=Cores(1))
        dag.add("never", add, dag["bad"], request=Cores(1))
        dag.add("free", add, dag["good"], request=Cores(1))
        return dag

    async with Executor(backend=engine.make()):
        slow = await build().run(on_failure="continue")
        fast = await build().run()
    assert {name: job.status for name, job in slow.items()} == {
        "good": "succeeded",
        "bad": "failed",
        "never": "skipped",
        "free": "succeeded",
    }
    assert (fast["bad"].status, fast["never"].status) == ("failed", "skipped")
    table.note('`on_failure="fail_fast"` and `"continue"`', engine.name)


async def test_x6_parts_run(engine, table):
    dag = Dag()
    for step in range(5):
        for chain in range(2):
            dag.add(f"{chain}.{step}", add, *([dag[f"{chain}.{step - 1}"]] if step else []), request=Cores(1))
    async with Executor(backend=engine.make()) as executor:
        report = await dag.run(partition=Partition(2))
        assert executor.report().succeeded == 2
    assert (report["0.4"].value, report["1.4"].value) == (5, 5)
    table.note("`partition=`: a part is one job", engine.name)


async def test_r7_callbacks_are_told_once_for_each_job(engine, table):
    told: list[tuple[str, str]] = []

    def note(what: str) -> Any:
        return lambda name, *_: told.append((what, name))

    names = ["start", "complete", "error", "skip", "resource_acquired", "resource_released"]
    dag = Dag()
    dag.add("good", add, request=Cores(1))
    dag.add("bad", fail, after=["good"], request=Cores(1))
    dag.add("never", add, after=["bad"], request=Cores(1))
    async with Executor(backend=engine.make()):
        await dag.run(callbacks=Callbacks(**{f"on_{what}": note(what) for what in names}))
    per_job = ["resource_acquired", "start"]
    assert sorted(told) == sorted(
        [(what, "good") for what in (*per_job, "complete", "resource_released")]
        + [(what, "bad") for what in (*per_job, "error", "resource_released")]
        + [("skip", "never")]
    )
    assert [what for what, name in told if name == "good"][:2] == per_job
    table.note("callbacks, once for each job", engine.name)


# --- requests ---

ASKED = {
    "cores": Cores(2),
    "memory": Cores(1) & Memory(500),
    "gpus": Cores(1) & GPUs(1),
    "foo": Cores(1) & Resource("foo", 1),
    "token": Cores(1) & Token("big"),
    "walltime": Cores(1) & WallTime(60),
    "choice": Cores(1) | GPUs(1),
}
ROWS = {
    "cores": "`Cores(2)`",
    "memory": "`Memory`",
    "gpus": "`GPUs`",
    "foo": "`Resource`",
    "token": "`Token`",
    "walltime": "`WallTime`",
    "choice": "a choice: either this or that",
}


@pytest.mark.parametrize("kind", ASKED)
async def test_a_request_is_honoured_or_refused_by_name_before_anything_starts(engine, table, kind):
    dag = Dag()
    dag.add("first", add, request=Cores(1))
    dag.add("asks", add, dag["first"], request=ASKED[kind])
    async with Executor(backend=engine.make()):
        if kind in engine.counts:
            report = await dag.run()
            assert report["asks"].value == 2
        else:
            with pytest.raises(UnsatisfiableError, match=f"asks: backend '.*' can not honour (the )?{kind}"):
                await dag.run()
            assert info(dag["first"]).state == "lazy"
    table.note(ROWS[kind], engine.name, "yes" if kind in engine.counts else "refused")


async def test_more_than_there_ever_is_is_refused_at_once(engine, table):
    async with Executor(backend=engine.make()) as executor:
        with pytest.raises(UnsatisfiableError, match="cores"):
            await executor.submit(Cores(1000), add)
    table.note("more than there ever is, refused at once", engine.name)


async def test_what_is_counted_is_never_exceeded(engine, table, tmp_path):
    if "cores" not in engine.counts:
        table.note("never more at a time than there is", engine.name, "its slots")
        return

    inside = tmp_path / "inside"
    inside.write_text("0")

    def enter(path: Path, step: int) -> int:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = int(file.read()) + step
            file.seek(0)
            file.write(f"{now}")
        return now

    def counted(path: Path) -> int:
        now = enter(path, 1)
        enter(path, -1)
        return now

    async with Executor(backend=engine.make()) as executor:
        placeholders = [executor.submit(Cores(2), counted, inside) for _ in range(12)]
        assert max([await r_ for r_ in placeholders]) <= WIDE[engine.name]
    table.note("never more at a time than there is", engine.name)


WIDE = {"threads": 1, "processes": 1, "dask": 2, "dask, by address": 2, "ray": 2}
"""How many jobs of two cores there is room for."""


# --- ends ---


async def test_x5_a_timeout_ends_the_job_and_frees_its_slots(engine, table):
    dag = Dag()
    dag.add("endless", signal.pause, request=Cores(1), timeout=0.3)
    dag.add("needs it", add, after=["endless"], request=Cores(1))
    async with Executor(backend=engine.make()) as executor:
        if "timeouts" in engine.ends:
            report = await dag.run()
            assert (report["endless"].status, report["needs it"].status) == ("timed_out", "skipped")
            assert isinstance(report["endless"].error, JobTimeoutError)
            assert await executor.submit(Cores(1), add) == 1
        else:
            with pytest.raises(UnsatisfiableError, match=r"can not honour timeout=0.3"):
                await dag.run()
    table.note("`timeout=` ends the job", engine.name, "yes" if "timeouts" in engine.ends else "refused")


async def test_a_cancelled_job_is_ended(engine, table, fifo):
    async with Executor(backend=engine.make()) as executor:
        if "cancelled" in engine.ends:
            r_ = executor.submit(Cores(1), hold, fifo)
            pid = int(await anyio.to_thread.run_sync(lambda: Path(fifo).read_text()))
            cancel(r_)
            await until_ended(pid)
        elif engine.in_process:
            gate = threading.Event()
            r_ = executor.submit(Cores(1), hold_until, fifo, gate)
            await anyio.to_thread.run_sync(meet, fifo, "r")
            cancel(r_)
            gate.set()
        else:
            go = f"{fifo}-go"
            os.mkfifo(go)
            r_ = executor.submit(Cores(1), hold_between, fifo, go)
            await anyio.to_thread.run_sync(meet, fifo, "r")
            cancel(r_)
            await anyio.to_thread.run_sync(meet, go, "w")
        assert info(r_).state == "cancelled"
        assert await executor.submit(Cores(1), add) == 1
    table.note(
        "a cancelled job is ended", engine.name, "yes" if "cancelled" in engine.ends else "its answer is dropped"
    )


async def test_a_job_is_tried_again(engine, table, tmp_path):
    def flaky(path: Path) -> int:
        with path.open("a") as file:
            file.write("x")
        if path.stat().st_size < 3:
            raise OSError("not yet")
        return path.stat().st_size

    async with Executor(backend=engine.make()):
        r_ = start((delayed(flaky, retries=2) @ Cores(1))(tmp_path / "tries"))
        assert await r_ == 3
    assert info(r_).attempt == 3
    table.note("`retries=`", engine.name)


async def test_a_job_whose_process_dies_fails_and_the_others_go_on(engine, table):
    cell = "yes"
    if engine.in_process:
        cell = "its process is the program's"
    else:
        async with Executor(backend=engine.make()) as executor:
            with pytest.raises(WorkerLostError, match=f"backend '{executor.backend_name}' gave no answer for _exit"):
                await executor.submit(Cores(1), os._exit, 3)
            if engine.name == "your own":  # a pool of the standard library's is broken then
                cell = "as the engine does"
                with pytest.raises(WorkerLostError, match="Broken"):
                    await executor.submit(Cores(1), add)
            else:
                assert await executor.submit(Cores(1), add) == 1
    table.note("a job whose process dies fails, and the others go on", engine.name, cell)


async def test_x2_leaving_the_block_shuts_the_backend_down(engine, table):
    backend = engine.make()
    async with Executor(backend=backend) as executor:
        await executor.submit(Cores(1), add)
    backend.shutdown()  # once more does nothing
    table.note("leaving the block shuts it down", engine.name)


async def test_a_backend_is_used_again_in_a_second_block(engine, table):
    if not hasattr(engine.make(), "open"):
        table.note("one backend, used in one block after another", engine.name, "if `open()` starts it again")
        return
    backend = engine.make()
    for value in range(2):
        async with Executor(backend=backend) as executor:
            assert await executor.submit(Cores(1), add, value) == value + 1
    table.note("one backend, used in one block after another", engine.name)


def test_the_table_in_the_documentation_has_a_cell_for_each_promise_and_engine_and_no_others():
    source = Path(__file__).read_text()
    rows = read()
    assert rows
    for promise, cells in rows.items():
        assert promise in source
        assert set(cells) == set(COLUMNS)
        assert all(cells.values()), f"{promise} was not tried on each of them"
