"""What a runner process answers, and what that costs it."""

import gc
import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raw_runner import Gate, Runner, by_value, quick, stop_at_gate
from waiting import until_blocking

from grainlike.context import GVAR
from grainlike.errors import JobCancelledError, RemoteError, SerializationError
from grainlike.payload import dump_arguments, dump_function
from grainlike.wire import Code, Define, FunctionSpec, Run, Undefine
from grainlike_worker.ipc._claims import ClaimPage


def now() -> float:
    import time

    return time.monotonic()


def test_a_fresh_process_says_once_that_it_is_ready_and_reckons_deadlines_from_then() -> None:
    def deadline() -> float | None:
        return GVAR.job.deadline if GVAR.job is not None else None

    with Runner(deadline) as runner:
        early = time.monotonic()
        runner.run_limited(1, 0, early - 50.0, 100.0)
        runner.until(1)
        assert runner.readied == [0], "it says so before the job's end"
        assert early + 100.0 < runner.values[1] < time.monotonic() + 100.0
        granted = time.monotonic()
        runner.run_limited(2, 0, granted + 100.0, 100.0)
        runner.until(2)
        assert runner.values[2] == granted + 100.0
        assert runner.readied == [0]


def test_deadlines_in_a_run_list_are_reckoned_from_when_each_job_begins() -> None:
    def begun_and_left() -> tuple[float, float]:
        begun = time.monotonic()
        assert GVAR.job is not None
        assert GVAR.job.deadline is not None
        while time.monotonic() == begun:
            pass
        return begun, GVAR.job.deadline - begun

    with Runner(begun_and_left) as runner:
        early = time.monotonic()
        runner.run(dict.fromkeys(range(3), (0, ())), limit=100.0)
        runner.until(0, 1, 2)
    found = [runner.values[job] for job in range(3)]
    deadlines = [begun + left for begun, left in found]
    assert early + 100.0 < deadlines[0] < deadlines[1] < deadlines[2]
    assert all(left <= 100.0 for _, left in found)
    assert runner.readied == [0]


@pytest.mark.parametrize("apart", [False, True])
def test_each_job_of_a_run_list_sees_its_own_deadline(apart: bool) -> None:
    def deadline() -> float | None:
        assert GVAR.job is not None
        return GVAR.job.deadline

    with Runner(deadline) as runner:
        early = time.monotonic()
        runner.run(dict.fromkeys(range(3), (0, ())), limit=100.0, limits=(3600.0, None, 100.0), apart=apart)
        runner.until(0, 1, 2)
        late = time.monotonic()
    assert early + 3600.0 < runner.values[0] < late + 3600.0
    assert runner.values[1] is None
    assert early + 100.0 < runner.values[2] < late + 100.0


def test_in_a_run_list_with_a_limit_the_page_shows_since_when_the_job_runs(gate: Gate, claims: ClaimPage) -> None:
    with Runner(stop_at_gate, by_value(now), claims=claims) as runner:
        runner.run({1: (1, ()), 2: (0, gate.args), 3: (1, ())}, limit=100.0)
        gate.wait()
        shown, begun = claims.since / 1e9, time.monotonic()
        gate.open()
        runner.until(1, 2, 3)
        assert runner.values[1] <= shown <= begun, "it is the second one's, which had begun"
        assert claims.since == 0, "none runs"


def test_while_outcomes_wait_for_the_daemon_no_time_of_the_next_job_passes(claims: ClaimPage) -> None:
    def large(begun: float) -> bytes:
        while time.monotonic() < begun + 0.1:  # its outcome is told before the next job begins
            pass
        return bytes(2_000_000)  # more than a socket takes that nobody reads

    with Runner(by_value(large), by_value(now), claims=claims) as runner:
        runner.run({1: (0, (time.monotonic(),)), 2: (1, ())}, limit=100.0)
        until_blocking(lambda: claims.started == 1)
        assert claims.since == 0, "it is claimed, and has not begun"
        read = time.monotonic()
        runner.until(1, 2)
        assert runner.values[2] >= read


def test_a_process_without_limits_says_nothing_more() -> None:
    with Runner(os.getpid) as runner:
        runner.call(0)
        assert runner.readied == []


def test_a_run_list_of_2000_jobs_comes_back_whole_in_few_messages() -> None:
    def double(x: int) -> int:
        return 2 * x

    with Runner(double) as runner:
        runner.run({job: (0, (job,)) for job in range(2000)})
        runner.until(*range(2000))
    assert runner.values == {job: 2 * job for job in range(2000)}
    assert [job for batch in runner.batches for job in batch.jobs] == list(range(2000))
    assert len(runner.batches) < 200
    assert [batch.receipt is not None for batch in runner.batches].count(True) == 1
    assert runner.batches[0].receipt is not None


def test_functions_may_be_dropped_while_a_run_list_is_under_way(gate: Gate) -> None:
    with Runner(quick, stop_at_gate, by_value(lambda: "other")) as runner:
        runner.run({1: (1, gate.args), 2: (2, ()), 3: (1, gate.args), 4: (0, ())})
        gate.wait()
        runner.send(Undefine([2], []))  # no lease is of it, once its job has ended
        gate.open()
        gate.wait()
        gate.open()
        runner.until(1, 2, 3, 4)
        assert runner.values == {1: "through", 2: "other", 3: "through", 4: "quick"}
        runner.run({5: (0, ()), 6: (1, gate.args)})
        gate.wait()
        runner.send(Undefine([0, 1], []))  # it comes when the last job has ended and nobody was told
        gate.open()
        runner.until(5, 6)
        assert runner.values[6] == "through"


def test_large_values_travel_beside_the_message_and_arguments_may_be_changed() -> None:
    def change(array: Any) -> Any:
        array[0] = 7
        return array

    import numpy as np

    with Runner(change) as runner:
        array = np.zeros(100_000)
        data, views = dump_arguments((array,), {}, what="f")
        buffers = [bytes(view) for view in views]
        runner.send(Run(1, "cores=[0]", [1], [1], [0], [None], [bytes(data)], [len(buffers)]), buffers)
        runner.until(1)
    assert runner.values[1][0] == 7
    assert runner.values[1].nbytes == array.nbytes
    assert runner.batches[0].counts == [1]


def test_a_large_value_leaves_before_the_next_job_can_change_it() -> None:
    def give(change: bool) -> object:
        import builtins
        import pickle

        if change:
            builtins._kept[0] = 255
            return None
        builtins._kept = bytearray(1_000_000)
        return pickle.PickleBuffer(builtins._kept)

    with Runner(give) as runner:
        runner.run({1: (0, (False,)), 2: (0, (True,))})
        runner.until(1, 2)
    assert bytes(runner.values[1])[0] == 0


def test_whatever_a_job_raises_is_its_outcome_and_the_runner_lives() -> None:
    def fail(kind: str) -> object:
        import asyncio
        import threading

        if kind == "lock":
            return threading.Lock()
        kinds = {"own": ValueError, "exit": SystemExit, "interrupt": KeyboardInterrupt, "pose": asyncio.CancelledError}
        raise kinds[kind]("by the job")

    async def exit_in_a_coroutine() -> None:
        raise SystemExit("by the job")

    def import_what_is_not_there() -> None:
        import no_such_module_anywhere  # noqa: F401

    kinds = ["own", "exit", "interrupt", "lock", "pose"]
    with Runner(fail, exit_in_a_coroutine, import_what_is_not_there) as runner:
        runner.run({job: (0, (kind,)) for job, kind in enumerate(kinds)} | {5: (1, ()), 6: (2, ())})
        runner.until(*range(7))
        pid = runner.receipt.pid
        assert set(runner.codes.values()) == {Code.FAILED}
        assert isinstance(runner.values[0], ValueError)
        assert 'raise kinds[kind]("by the job")' in str(runner.values[0].__cause__)
        assert "grainlike_worker" not in str(runner.values[0].__cause__)
        assert isinstance(runner.values[1], RemoteError)
        assert isinstance(runner.values[2], RemoteError)
        assert isinstance(runner.values[3], SerializationError)
        assert isinstance(runner.values[4], JobCancelledError)
        assert isinstance(runner.values[5], RemoteError)
        assert isinstance(runner.values[6], ModuleNotFoundError)
        assert runner.process.pid == pid
        assert runner.process.poll() is None


@pytest.fixture
def client_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """A function of a module that stands where only the client looks."""
    (tmp_path / "module_of_the_client_alone.py").write_text("def f():\n    return 'from the module'\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("module_of_the_client_alone", None)
    module = importlib.import_module("module_of_the_client_alone")
    function: Callable[..., object] = module.f
    return function


def test_functions_and_arguments_that_do_not_load_are_their_jobs_failure(
    client_module: Callable[..., object],
) -> None:
    class Bomb:
        def __reduce__(self) -> object:
            return exec, ("raise OSError('boom')",)

    def take(_: object) -> None:
        pass

    with Runner(take) as runner:
        specs = [FunctionSpec(fn, b"", f"f{fn}", False, None) for fn in (1, 2)]
        runner.send(Define(specs, []), [b"nonsense", dump_function(client_module).data])
        runner.run({1: (0, (Bomb(),)), 2: (1, ()), 3: (2, ()), 4: (0, (1,))})
        runner.until(1, 2, 3, 4)
    assert [runner.codes[job] for job in (1, 2, 3, 4)] == [Code.FAILED, Code.FAILED, Code.FAILED, Code.SUCCEEDED]
    assert isinstance(runner.values[1], SerializationError)
    assert "boom" in str(runner.values[1])
    assert isinstance(runner.values[2], SerializationError)
    assert "module_of_the_client_alone" in str(runner.values[3])
    assert "PYTHONPATH" in "".join(runner.values[3].__notes__)


def test_the_clients_import_paths_are_the_runners(client_module: Callable[..., object], tmp_path: Path) -> None:
    with Runner(client_module, paths=[str(tmp_path)]) as runner:
        assert runner.call(0) == "from the module"


def test_a_child_that_a_job_forks_does_not_answer_for_it() -> None:
    def fork() -> str:
        import os
        import signal

        child = os.fork()
        if child == 0:
            return f"child {signal.getsignal(signal.SIGTERM)}"
        _, status = os.waitpid(child, 0)
        return f"parent {os.waitstatus_to_exitcode(status)}"

    with Runner(fork) as runner:
        runner.run({1: (0, ()), 2: (0, ())})
        runner.until(1, 2)
        assert runner.values == {1: "parent 0", 2: "parent 0"}


# --- what that costs --------------------------------------------------------------------------------------------------
# Bounds are what was counted and a tenth more; see `test_cost_per_job`.


def itself(x: int) -> int:
    return x


def begin_to_count() -> None:
    told = sys.__dict__["told"] = {"call": 0, "c_call": 0}

    def count(frame: object, event: str, arg: object) -> None:
        if event in told:
            told[event] += 1

    from grainlike.eventloop import _rhythm
    from grainlike_worker.runner.common import _outcomes, _usage
    from grainlike_worker.runner.process import _reset

    # By the clock, a slower machine would send more, and smaller, messages, and look more often at memory and children,
    # and at its link while it waits.
    _outcomes.FLUSH_S = _reset._WEIGH_S = _usage._CHILD_S = 3600.0
    _rhythm._WEIGHT = 0.0
    gc.disable()
    sys.setprofile(count)


def counted() -> dict[str, int]:
    sys.setprofile(None)
    told: dict[str, int] = sys.__dict__["told"]
    return told


def count_calls(jobs_a_lease: int, leases: int, *, apart: bool = False, functions: int = 1) -> tuple[float, float]:
    """Calls of Python's and of C's functions in the runner, for a job that does nothing, of so many in turn."""
    with Runner(by_value(begin_to_count), by_value(counted), *[by_value(itself)] * functions) as runner:
        runner.run({1: (0, ())})
        runner.until(1)
        for lease in range(leases):
            jobs = range(100 + lease * jobs_a_lease, 100 + (lease + 1) * jobs_a_lease)
            runner.run({job: (2 + job % functions, (job,)) for job in jobs}, apart=apart)
            runner.until(*jobs)
        runner.run({2: (1, ())})
        runner.until(2)
        count = leases * jobs_a_lease
        return runner.values[2]["call"] / count, runner.values[2]["c_call"] / count


def test_a_lease_of_one_job_costs_the_runner_this_many_calls() -> None:
    python, c = count_calls(1, 100)
    assert python <= 78
    assert c <= 90  # 87.97 where each message arrives in one piece: a busy machine cuts some of them


def test_a_job_of_a_run_list_costs_the_runner_this_many_calls() -> None:
    python, c = count_calls(200, 5)
    assert python <= 14.8
    assert c <= 20


def test_a_job_of_a_run_list_that_is_kept_apart_costs_the_runner_this_many_calls() -> None:
    python, c = count_calls(32, 10, apart=True)
    assert python <= 66
    assert c <= 76


def test_a_job_where_two_functions_are_called_in_turn_costs_the_runner_this_many_calls() -> None:
    python, c = count_calls(32, 10, functions=2)
    assert python <= 66  # 15 of them tell what the other function's job has given, before this one's begins
    assert c <= 79
