"""Real runner processes, driven by raw frames over their socket: what they hold, answer, survive, and die of."""

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import pytest

from grainlike.context import GVAR
from grainlike.errors import JobCancelledError, JobMemoryError, RemoteError, SerializationError
from grainlike.payload import Payload, dump_arguments, dump_function, load_error, load_value
from grainlike.wire import (
    TRUSTED,
    Beat,
    Code,
    Completed,
    Define,
    Frame,
    FrameDecoder,
    FunctionSpec,
    Message,
    Ready,
    ReceiptSpec,
    Run,
    Setup,
    Stop,
    encode_frame,
    unpack_parcels,
)
from grainlike_worker._claims import IDLE, Claims
from grainlike_worker._keeper import open_keeper
from grainlike_worker._outputs import Outputs
from grainlike_worker._process_runner import ProcessRunner
from grainlike_worker._spawn import RunnerProcess, describe_exit

LINUX = sys.platform == "linux"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
ROOT = Path(__file__).parents[2]
LIMIT_S = 20.0
TERMINATED = 128 + signal.SIGTERM

needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="pinning to one of one core proves nothing")
linux_only = pytest.mark.skipif(not LINUX, reason="only Linux can do this")


class Runner:
    """An "own" runner and the daemon's end of its socket, blocking."""

    def __init__(self, *functions: Callable[..., object], claims: Claims | None = None, paths: Sequence[str] = ()):
        near, far = socket.socketpair()
        command = [sys.executable, "-P", "-m", "grainlike_worker.runner", "--own"]
        command += ["--fd", str(far.fileno()), "--parent", str(os.getpid())]
        fds = [far.fileno()]
        if claims is not None:
            command += ["--claims", str(claims.fd)]
            fds.append(claims.fd)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
        self.process = subprocess.Popen(
            command, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
        )
        far.close()
        near.settimeout(LIMIT_S)
        self.socket = near
        self.decoder = FrameDecoder(TRUSTED)
        self.batches: list[Completed] = []
        self.readied: list[int] = []
        """Where it said that it was ready: after how many batches."""
        self.codes: dict[int, Code] = {}
        self.values: dict[int, Any] = {}
        self.send(Setup("node-1", list(paths)))
        self.define(*functions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def send(self, message: Message, buffers: Sequence[bytes] = ()) -> None:
        for piece in encode_frame(message, buffers):
            self.socket.sendall(piece)

    def define(self, *functions: Callable[..., object]) -> None:
        blobs = [dump_function(function) for function in functions]
        specs = [
            FunctionSpec(fn, blob.digest, f"f{fn}", _is_async(function), None)
            for fn, (blob, function) in enumerate(zip(blobs, functions, strict=True))
        ]
        self.send(Define(specs, []), [blob.data for blob in blobs])

    def run_limited(self, job: int, fn: int, deadline: float, limit: float) -> None:
        """Send a job without arguments that may run for so long."""
        data = [dump_arguments((), {}, what="f").data]
        self.send(Run(1, "cores=[0]", [job], [1], [fn], [deadline], data, [], limit))

    def run(self, jobs: dict[int, tuple[int, tuple[object, ...]]], allocation: str = "cores=[0]") -> None:
        """Send one run-list: job number -> (function number, arguments)."""
        count = len(jobs)
        data = [dump_arguments(args, {}, what="f").data for _, args in jobs.values()]
        fns = [fn for fn, _ in jobs.values()]
        self.send(Run(1, allocation, list(jobs), [1] * count, fns, [None] * count, data, []))

    def until(self, *jobs: int) -> None:
        while not set(jobs) <= set(self.codes):
            assert self.receive(), "the runner closed its link"

    def receive(self) -> bool:
        """Take one read's outcomes; False at the end of the stream."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            return False
        for message, buffers in self.decoder.feed(data):
            if isinstance(message, Ready):
                self.readied.append(len(self.batches))
                continue
            assert isinstance(message, Completed)
            self.batches.append(message)
            parcels = unpack_parcels(message.data, message.counts, buffers)
            for job, code, (inband, views) in zip(message.jobs, message.codes, parcels, strict=True):
                assert job not in self.codes, "answered twice"
                self.codes[job] = Code(code)
                if code == Code.SUCCEEDED:
                    self.values[job] = load_value(Payload(inband, tuple(views)))
                elif code == Code.FAILED:
                    self.values[job] = load_error(Payload(inband))
        return bool(data)

    def until_end(self) -> int:
        """Take what still comes, and return the exit code."""
        while self.receive():
            pass
        return self.process.wait(LIMIT_S)

    def call(self, fn: int, *args: object, allocation: str = "cores=[0]", job: int = 0) -> Any:
        """Run one job and return its value."""
        self.codes.pop(job, None)
        self.run({job: (fn, args)}, allocation)
        self.until(job)
        assert self.codes[job] == Code.SUCCEEDED, self.values.get(job)
        return self.values[job]

    @property
    def receipt(self) -> ReceiptSpec:
        """The receipt of the last lease."""
        return next(batch.receipt for batch in reversed(self.batches) if batch.receipt is not None)


def _is_async(function: Callable[..., object]) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function)


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


def test_a_process_without_limits_says_nothing_more() -> None:
    with Runner(os.getpid) as runner:
        runner.call(0)
        assert runner.readied == []


class Gate:
    """A named pipe: a job says that it has begun, and waits until it is let go."""

    def __init__(self, directory: Path) -> None:
        self.begun, self.go = str(directory / "begun"), str(directory / "go")
        os.mkfifo(self.begun)
        os.mkfifo(self.go)

    @property
    def args(self) -> tuple[str, str]:
        return self.begun, self.go

    def wait(self) -> None:
        """Until the job has begun."""
        with _alarm():
            Path(self.begun).read_text()

    def open(self) -> None:
        """Let the job go."""
        with _alarm():
            Path(self.go).write_text("go")


@contextmanager
def _alarm() -> Iterator[None]:
    """Opening a pipe has no time limit of its own."""

    def late(*_: object) -> None:
        raise TimeoutError("the job did not come to its gate")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(LIMIT_S))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


@pytest.fixture
def claims() -> Iterator[Claims]:
    page = Claims.create()
    yield page
    page.close()


def stop_at_gate(begun: str, go: str) -> str:
    from pathlib import Path

    Path(begun).write_text("begun")
    Path(go).read_text()
    return "through"


def by_value(function: Callable[..., object]) -> Callable[..., object]:
    """Make a function of this module travel by value: a runner could import it only together with pytest."""
    function.__module__ = "__main__"
    function.__qualname__ = f"by_value.<locals>.{function.__name__}"
    return function


stop_at_gate = by_value(stop_at_gate)  # type: ignore[assignment]


# --- what is enforced -------------------------------------------------------------------------------------------------


@needs_two_cores
@pytest.mark.parametrize("core", CORES[:2])
def test_affinity_and_receipt_are_the_allocation(core: int) -> None:
    def look() -> object:
        import os
        import subprocess
        import sys

        ask = "import os; print(sorted(os.sched_getaffinity(0)))"
        child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
        return os.getpid(), sorted(os.sched_getaffinity(0)), child.stdout.strip()

    with Runner(look) as runner:
        pid, own, child = runner.call(0, allocation=f"cores=[{core}] memory=1000000")
    assert pid == runner.process.pid
    assert own == [core]
    assert child == f"[{core}]"
    assert runner.receipt == ReceiptSpec(pid, [core], runner.receipt.threads, [], "none")


@needs_two_cores
def test_each_lease_moves_the_process_and_every_thread_of_it() -> None:
    def leave_a_thread() -> int:
        import builtins
        import threading

        builtins._let_go = threading.Event()
        thread = threading.Thread(target=builtins._let_go.wait, daemon=True)
        thread.start()
        return thread.native_id

    def look(thread: int) -> object:
        import os

        seen = sorted(os.sched_getaffinity(0)), sorted(os.sched_getaffinity(thread))
        os.sched_setaffinity(0, range(os.cpu_count()))  # a job that frees itself frees only itself
        return seen

    one, other = CORES[:2]
    with Runner(leave_a_thread, look) as runner:
        thread = runner.call(0, allocation=f"cores=[{one}]")
        assert runner.call(1, thread, allocation=f"cores=[{other}]") == ([other], [other])
        assert runner.call(1, thread, allocation=f"cores=[{other}]") == ([other], [other])
        assert runner.call(1, thread, allocation=f"cores=[{one},{other}]") == ([one, other], [one, other])


@linux_only
def test_logical_cores_are_shown_and_never_pinned() -> None:
    def look() -> object:
        import os

        from grainlike.context import GVAR

        return GVAR.res.cores, sorted(os.sched_getaffinity(0)), os.environ["OMP_NUM_THREADS"]

    with Runner(look) as runner:
        assert runner.call(0, allocation="cores=[5000,5001]") == ((5000, 5001), CORES, "2")
        assert runner.receipt.affinity == CORES
        assert runner.call(0, allocation=f"cores=[{CORES[0]},5001]") == ((CORES[0], 5001), [CORES[0]], "2")
        assert runner.call(0, allocation="memory=1000") == ((), CORES, "1")


def test_the_environment_tells_widths_and_devices() -> None:
    def look() -> object:
        import os

        names = ["OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS"]
        widths = {os.environ[f"{name}_NUM_THREADS"] for name in names} | {os.environ["VECLIB_MAXIMUM_THREADS"]}
        return widths, os.environ["CUDA_VISIBLE_DEVICES"]

    with Runner(look) as runner:
        assert runner.call(0, allocation="cores=[0,1,2] gpus=[0,1]") == ({"3"}, "0,1")
        assert runner.receipt.devices == [0, 1]
        assert runner.call(0, allocation="cores=[0] gpus=[1]*0.5") == ({"1"}, "1")
        assert runner.call(0, allocation="cores=[0]") == ({"1"}, "")
        assert runner.receipt.devices == []


@needs_two_cores
def test_the_pools_of_a_warm_numpy_are_limited_again() -> None:
    def widths() -> list[int]:
        import numpy
        from threadpoolctl import threadpool_info

        numpy.ones((8, 8)) @ numpy.ones((8, 8))
        return [pool["num_threads"] for pool in threadpool_info()]

    with Runner(widths) as runner:
        for cores in (CORES[:2], CORES[:1], CORES[:2]):
            found = runner.call(0, allocation=f"cores={cores}")
            if not found:
                pytest.skip("this NumPy brings no thread pool")
            assert set(found) == {len(cores)}
            assert set(runner.receipt.threads.values()) == {len(cores)}


def leave_a_thread(told: str) -> None:
    runners = threading.main_thread().ident or 0

    def move() -> None:
        while sys._current_frames()[runners].f_code.co_name != "receive":
            pass  # until the runner waits for its next lease, and has put back what it found
        os.chdir("/")
        os.environ["STRAY"] = "yes"
        Path(told).write_text("moved")

    threading.Thread(target=move).start()


@linux_only
def test_what_a_thread_that_a_job_left_changes_between_two_leases_is_put_back(tmp_path: Path) -> None:
    os.mkfifo(told := tmp_path / "told")
    with Runner(by_value(leave_a_thread), lambda: (Path.cwd(), os.environ.get("STRAY"))) as runner:
        runner.run({1: (0, (str(told),))})
        runner.until(1)
        assert told.read_text() == "moved"
        runner.run({2: (1, ())})
        runner.until(2)
        assert runner.values[2] == (Path.cwd(), None)


@linux_only
def test_peak_memory_is_the_leases_own() -> None:
    def take(size: int) -> int:
        return len(bytes(size).replace(b"\0", b"\1"))

    ours = b"\1" * 300_000_000  # what the parent held when it forked is no memory of the runner's
    with Runner(take) as runner:
        runner.call(0, 120_000_000)
        large = runner.batches[-1].rss[0]
        runner.call(0, 1)
        small = runner.batches[-1].rss[0]
    assert 120_000_000 < large < 290_000_000
    assert small < 100_000_000
    del ours


def test_cpu_seconds_count_children() -> None:
    def burn_in_a_child() -> None:
        import subprocess
        import sys

        burn = "import time\nwhile time.process_time() < 0.2: pass"
        subprocess.run([sys.executable, "-c", burn], check=True)

    with Runner(burn_in_a_child) as runner:
        runner.call(0)
        batch = runner.batches[-1]
    assert batch.cpu[0] >= 0.2
    assert batch.wall[0] >= 0.2
    assert batch.begun[0] + batch.wall[0] <= batch.sent_at


# --- what a job sees --------------------------------------------------------------------------------------------------


def test_a_job_sees_itself_in_all_its_threads() -> None:
    def look() -> object:
        import builtins
        import threading
        from concurrent.futures import ThreadPoolExecutor

        from grainlike.context import GVAR

        def here() -> None:
            seen.append((GVAR.res.cores, GVAR.instance, GVAR.job.id, GVAR.job.name, GVAR.job.attempt))

        seen: list[object] = []
        here()
        thread = threading.Thread(target=here)
        thread.start()
        thread.join()
        pool = getattr(builtins, "_kept_pool", None) or ThreadPoolExecutor(1)
        builtins._kept_pool = pool  # its thread is an earlier job's
        pool.submit(here).result()
        return seen

    with Runner(look) as runner:
        runner.run({1: (0, ()), 2: (0, ())}, "cores=[5,6]")
        runner.until(1, 2)
        assert runner.values[1] == [((5, 6), "node-1", 1, "f0", 1)] * 3
        assert runner.values[2] == [((5, 6), "node-1", 2, "f0", 1)] * 3


def test_contexts_do_not_leak_between_the_jobs_of_a_run_list() -> None:
    def set_precision(digits: int) -> int:
        import decimal

        before = decimal.getcontext().prec
        decimal.setcontext(decimal.Context(prec=digits))
        return before

    async def set_in_a_coroutine(digits: int) -> int:
        import decimal

        before = decimal.getcontext().prec
        decimal.setcontext(decimal.Context(prec=digits))
        return before

    with Runner(set_precision, set_in_a_coroutine) as runner:
        runner.run({job: (job % 2, (5,)) for job in range(4)})
        runner.until(*range(4))
        assert runner.call(0, 5, job=9) == 28
    assert set(runner.values.values()) == {28}


def test_the_process_shows_its_jobs_nothing_of_the_runner(claims: Claims) -> None:
    def look() -> object:
        import os
        import subprocess
        import sys

        main = [name for name in vars(sys.modules["__main__"]) if not name.startswith("__")]
        listing = "import os; print(len([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2]))"
        child = subprocess.run([sys.executable, "-c", listing], stdout=subprocess.PIPE, text=True, close_fds=False)
        return main, int(child.stdout), os.read(0, 1), "/far/away" in sys.path

    with Runner(look, claims=claims, paths=["/far/away"]) as runner:
        main, descriptors, stdin, path = runner.call(0)
    assert main == []
    assert descriptors == 1, "the directory being listed, and nothing that was inherited"
    assert stdin == b""
    assert path


def test_a_coroutine_runs_alone_and_leaves_no_task_behind(tmp_path: Path) -> None:
    async def leave_a_task(path: str) -> object:
        import asyncio
        from pathlib import Path

        from grainlike.context import GVAR

        async def child() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0)
                Path(path).write_text(f"ended in job {GVAR.job.id}")  # noqa: ASYNC240 - a job's own business

        task = asyncio.create_task(child())
        await asyncio.sleep(0)
        return not task.done(), GVAR.res.cores

    async def count_tasks() -> int:
        import asyncio

        return len(asyncio.all_tasks())

    trace = tmp_path / "trace"
    with Runner(leave_a_task, count_tasks) as runner:
        assert runner.call(0, str(trace), allocation="cores=[4]", job=3) == (True, (4,))
        assert trace.read_text() == "ended in job 3"
        assert runner.call(1) == 1


# --- what it answers --------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("way", ["in a callback of the fork", "with the handler that it had put back"])
def test_sigterm_ends_a_child_that_a_job_forks_as_it_ends_any_process(way: str) -> None:
    def fork(way: str) -> int:
        import logging
        import os
        import signal

        class EndsEarly(logging.Handler):
            """`logging` calls this in a forked child, before anything that a runner can have registered."""

            def _at_fork_reinit(self) -> None:
                os.kill(os.getpid(), signal.SIGTERM)

        before = signal.getsignal(signal.SIGTERM)
        early = EndsEarly() if way.startswith("in") else None
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, before)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        del early
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    with Runner(fork) as runner:
        assert runner.call(0, way) == -signal.SIGTERM
        assert runner.call(0, way) == -signal.SIGTERM


def test_a_job_that_forks_is_ended_by_sigterm_as_ever(gate: Gate) -> None:
    def fork_and_wait(begun: str, go: str) -> None:
        import os
        from pathlib import Path

        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        Path(begun).write_text("begun")
        Path(go).read_text()

    with Runner(fork_and_wait) as runner:
        runner.run({1: (0, gate.args)})
        gate.wait()
        runner.process.terminate()
        assert runner.until_end() == TERMINATED


# --- what that costs --------------------------------------------------------------------------------------------------
# Bounds are what was counted and a tenth more; see `test_cost_per_job`.


def itself(x: int) -> int:
    return x


def begin_to_count() -> None:
    told = sys.__dict__["told"] = {"call": 0, "c_call": 0}

    def count(frame: object, event: str, arg: object) -> None:
        if event in told:
            told[event] += 1

    from grainlike_worker import _columns

    _columns.FLUSH_S = 60.0  # by the clock, a slower machine would send more, and smaller, messages
    gc.disable()
    sys.setprofile(count)


def counted() -> dict[str, int]:
    sys.setprofile(None)
    told: dict[str, int] = sys.__dict__["told"]
    return told


def count_calls(jobs_a_lease: int, leases: int) -> tuple[float, float]:
    """Calls of Python's and of C's functions in the runner, for a job that does nothing."""
    with Runner(by_value(begin_to_count), by_value(counted), by_value(itself)) as runner:
        runner.run({1: (0, ())})
        runner.until(1)
        for lease in range(leases):
            jobs = range(100 + lease * jobs_a_lease, 100 + (lease + 1) * jobs_a_lease)
            runner.run({job: (2, (job,)) for job in jobs})
            runner.until(*jobs)
        runner.run({2: (1, ())})
        runner.until(2)
        count = leases * jobs_a_lease
        return runner.values[2]["call"] / count, runner.values[2]["c_call"] / count


def test_a_lease_of_one_job_costs_the_runner_this_many_calls() -> None:
    python, c = count_calls(1, 100)
    assert python <= 102
    assert c <= 104


def test_a_job_of_a_run_list_costs_the_runner_this_many_calls() -> None:
    python, c = count_calls(200, 5)
    assert python <= 26
    assert c <= 27


# --- stopping ---------------------------------------------------------------------------------------------------------


def quick() -> str:
    return "quick"


quick = by_value(quick)  # type: ignore[assignment]


def test_stop_keeps_later_jobs_from_starting(gate: Gate) -> None:
    with Runner(stop_at_gate, quick) as runner:
        runner.run({1: (0, gate.args), 2: (1, ()), 3: (1, ()), 4: (1, ())})
        gate.wait()
        runner.send(Stop([3, 1, 99]))
        gate.open()
        runner.until(1, 2, 3, 4)
    assert runner.codes == {1: Code.SUCCEEDED, 2: Code.SUCCEEDED, 3: Code.CANCELLED, 4: Code.SUCCEEDED}


def test_a_stop_does_not_outlive_its_lease(gate: Gate) -> None:
    with Runner(stop_at_gate, quick) as runner:
        runner.run({1: (0, gate.args), 2: (1, ())})
        gate.wait()
        runner.send(Stop([2]))
        runner.run({3: (1, ())})
        gate.open()
        runner.until(1, 2, 3)
        assert runner.codes.pop(2) == Code.CANCELLED
        assert runner.call(1, job=2) == "quick"


def test_jobs_behind_the_barrier_come_back_though_the_runner_is_busy(gate: Gate, claims: Claims) -> None:
    with Runner(stop_at_gate, quick, claims=claims) as runner:
        assert claims.started == IDLE
        runner.run({1: (1, ()), 2: (0, gate.args), 3: (1, ()), 4: (1, ())})
        gate.wait()
        assert claims.started == 1
        claims.barrier = 2
        gate.open()
        runner.until(1, 2, 3, 4)
        codes = [Code.SUCCEEDED, Code.SUCCEEDED, Code.RETURNED, Code.RETURNED]
        assert [runner.codes[job] for job in (1, 2, 3, 4)] == codes
        claims.barrier = 1
        runner.run({5: (1, ()), 6: (1, ())})
        runner.until(5, 6)
        assert (runner.codes[5], runner.codes[6]) == (Code.SUCCEEDED, Code.RETURNED)
        runner.socket.close()
        runner.process.wait(LIMIT_S)
        assert claims.started == IDLE


def test_outcomes_that_wait_for_a_slow_job_can_be_asked_for(gate: Gate) -> None:
    with Runner(stop_at_gate, quick) as runner:
        runner.run({1: (1, ())})
        runner.until(1)
        runner.run({2: (1, ()), 3: (0, gate.args)})
        gate.wait()
        os.kill(runner.process.pid, signal.SIGURG)
        runner.until(2)
        assert 3 not in runner.codes
        gate.open()
        runner.until(3)
    assert runner.values[3] == "through"


def test_sigterm_runs_finally_and_accounts_for_every_job(gate: Gate, tmp_path: Path) -> None:
    def tidy(begun: str, go: str, trace: str) -> None:
        from pathlib import Path

        try:
            Path(begun).write_text("begun")
            Path(go).read_text()
        finally:
            Path(trace).write_text("tidy")

    trace = tmp_path / "trace"
    with Runner(tidy, quick) as runner:
        runner.run({1: (1, ()), 2: (0, (*gate.args, str(trace))), 3: (1, ())})
        runner.run({4: (1, ())})
        gate.wait()
        runner.process.terminate()
        assert runner.until_end() == TERMINATED
    assert trace.read_text() == "tidy"
    assert runner.codes == {1: Code.SUCCEEDED, 2: Code.CANCELLED, 3: Code.RETURNED, 4: Code.RETURNED}


def test_a_job_that_swallows_sigterm_ends_the_process_all_the_same(gate: Gate) -> None:
    def swallow(begun: str, go: str) -> str:
        from pathlib import Path

        try:
            Path(begun).write_text("begun")
            return Path(go).read_text()
        except SystemExit:
            return "done all the same"

    with Runner(swallow) as runner:
        runner.run({1: (0, gate.args), 2: (0, gate.args)})
        gate.wait()
        runner.process.terminate()
        assert runner.until_end() == TERMINATED
    assert runner.values == {1: "done all the same"}
    assert runner.codes[2] == Code.RETURNED


def test_sigterm_cancels_a_coroutine_which_may_await_in_finally(gate: Gate, tmp_path: Path) -> None:
    async def tidy(begun: str, trace: str) -> None:
        import asyncio
        from pathlib import Path

        Path(begun).write_text("begun")  # noqa: ASYNC240 - a job's own business
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            Path(trace).write_text("tidy")  # noqa: ASYNC240 - a job's own business

    trace = tmp_path / "trace"
    with Runner(tidy) as runner:
        runner.run({1: (0, (gate.begun, str(trace)))})
        gate.wait()
        runner.process.terminate()
        assert runner.until_end() == TERMINATED
    assert trace.read_text() == "tidy"
    assert runner.codes == {1: Code.CANCELLED}


def test_sigterm_ends_an_idle_runner() -> None:
    with Runner(quick) as runner:
        assert runner.call(0) == "quick"
        runner.process.terminate()
        assert runner.until_end() == TERMINATED


# --- dying ------------------------------------------------------------------------------------------------------------


def test_the_end_of_the_link_ends_the_process_whatever_jobs_left_behind() -> None:
    def leave_a_thread() -> None:
        import threading

        threading.Thread(target=threading.Event().wait).start()

    with Runner(leave_a_thread) as runner:
        runner.call(0)
        runner.socket.close()
        assert runner.process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    ("how", "words"),
    [("os._exit(3)", "exit code 3"), ("os.kill(os.getpid(), 11)", "segmentation fault (SIGSEGV)")],
)
def test_a_crash_is_seen_in_the_exit(how: str, words: str, claims: Claims) -> None:
    def crash(how: str) -> None:
        import os  # noqa: F401
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        exec(how)

    with Runner(crash, quick, claims=claims) as runner:
        runner.run({1: (1, ()), 2: (0, (how,)), 3: (1, ())})
        assert describe_exit(runner.until_end()) == words
        assert claims.started == 1
    assert 2 not in runner.codes
    assert 3 not in runner.codes


def test_a_message_that_is_not_a_runners_ends_it_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    with Runner() as runner:
        runner.send(Beat(1))
        assert runner.until_end() == 1
    assert "ProtocolError: Beat" in capfd.readouterr().err


PARENT = """
import asyncio, sys
from grainlike.payload import dump_arguments, dump_function
from grainlike.wire import Define, FunctionSpec, Run, Setup
from grainlike_worker._spawn import RunnerProcess

def sleep(trace):
    import os, time
    with open(trace, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(3600)

async def main():
    runner = await RunnerProcess.spawn("own")
    blob = dump_function(sleep)
    runner.link.post(Setup("n", []))
    runner.link.post(Define([FunctionSpec(0, blob.digest, "sleep", False, None)], []), [blob.data])
    data = dump_arguments((sys.argv[1],), {}, what="sleep").data
    runner.link.post(Run(1, "cores=[0]", [1], [1], [0], [None], [data], []))
    await runner.link.run(print)

asyncio.run(main())
"""


@linux_only
def test_a_busy_runner_dies_with_its_parent(gate: Gate) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, gate.begun], env=environment)
    try:
        with _alarm():
            pid = int(Path(gate.begun).read_text())
        watch = os.pidfd_open(pid)
    finally:
        parent.kill()
        parent.wait()
    try:
        assert select.select([watch], [], [], LIMIT_S)[0], "the runner outlived its parent"
    finally:
        os.close(watch)


def test_a_runner_whose_parent_is_gone_already_does_not_start() -> None:
    near, far = socket.socketpair()
    command = [sys.executable, "-P", "-m", "grainlike_worker.runner", "--own", "--fd", str(far.fileno())]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    with near, far:
        process = subprocess.Popen([*command, "--parent", "1"], pass_fds=[far.fileno()], env=environment)
        assert process.wait(LIMIT_S) == 1


# --- the daemon's side ------------------------------------------------------------------------------------------------


class Daemon:
    """Collects what a spawned runner answers."""

    def __init__(self, runner: RunnerProcess, function: Callable[..., object]) -> None:
        self.runner = runner
        self.codes: dict[int, int] = {}
        self.values: dict[int, Any] = {}
        self._changed = anyio.Event()
        blob = dump_function(function)
        runner.link.post(Setup("node-1", []))
        spec = FunctionSpec(0, blob.digest, "f", _is_async(function), None)
        runner.link.post(Define([spec], []), [blob.data])

    def run(self, job: int, *args: object) -> None:
        data = dump_arguments(args, {}, what="f").data
        self.runner.link.post(Run(job, "cores=[0]", [job], [1], [0], [None], [data], []))

    def on_frames(self, frames: list[Frame]) -> None:
        for message, _ in frames:
            assert isinstance(message, Completed)
            for job, code, data in zip(message.jobs, message.codes, message.data, strict=True):
                self.codes[job] = code
                self.values[job] = load_value(Payload(data)) if code == Code.SUCCEEDED else None
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, *jobs: int) -> None:
        with anyio.fail_after(LIMIT_S):
            while not set(jobs) <= set(self.codes):
                await self._changed.wait()


@asynccontextmanager
async def a_daemon(
    kind: Literal["own", "shared"], function: Callable[..., object], **env: str
) -> AsyncIterator[tuple[RunnerProcess, Daemon]]:
    runner = await RunnerProcess.spawn(kind, env=env)
    daemon = Daemon(runner, function)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.link.run, daemon.on_frames)
            yield runner, daemon
            await runner.aclose()
    finally:
        await runner.aclose()


@pytest.mark.anyio
async def test_a_spawned_runner_is_served_waited_for_and_gone() -> None:
    def look() -> object:
        import os

        return os.getpid(), os.environ.get("PYTHONPATH"), os.environ["EXTRA"], os.getsid(0)

    async with a_daemon("own", look, EXTRA="given") as (runner, daemon):
        ends: list[int] = []

        async def wait() -> None:
            ends.append(await runner.wait())

        daemon.run(1)
        await daemon.until(1)
        assert daemon.values[1] == (runner.pid, os.environ.get("PYTHONPATH"), "given", runner.pid)
        assert runner.returncode is None
        assert runner.claims is not None
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(wait)
            waiting.start_soon(wait)
            runner.terminate()
        assert ends == [TERMINATED, TERMINATED]
        assert await runner.wait() == runner.returncode == TERMINATED
        runner.terminate()
        runner.flush()
        runner.kill()


@pytest.mark.anyio
@linux_only
async def test_the_end_of_a_runner_takes_its_group_along(gate: Gate) -> None:
    def start_a_child(begun: str) -> None:
        import subprocess
        import sys
        import time
        from pathlib import Path

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        Path(begun).write_text(str(child.pid))
        time.sleep(3600)

    async with a_daemon("own", start_a_child) as (runner, daemon):
        daemon.run(1, gate.begun)
        with _alarm():
            watch = os.pidfd_open(int(await anyio.Path(gate.begun).read_text()))
        try:
            runner.terminate()
            assert await runner.wait() == TERMINATED
            with anyio.fail_after(LIMIT_S):
                await anyio.wait_readable(watch)
        finally:
            os.close(watch)


@pytest.mark.anyio
async def test_a_shared_process_runs_many_coroutines_and_sigterm_cancels_them(tmp_path: Path) -> None:
    async def meet(job: int, trace: str) -> object:
        import asyncio
        from pathlib import Path

        from grainlike.context import GVAR

        try:
            await asyncio.sleep(3600 if job == 0 else 0.001)
        finally:
            Path(trace).write_text(f"{GVAR.job.id}")  # noqa: ASYNC240 - a job's own business
        return job, GVAR.job.id, GVAR.res.cores

    async with a_daemon("shared", meet) as (runner, daemon):
        assert runner.claims is None
        for job in range(20):
            daemon.run(job, job, str(tmp_path / str(job)))
        await daemon.until(*range(1, 20))
        assert daemon.values == {job: (job, job, (0,)) for job in range(1, 20)}
        assert not (tmp_path / "0").exists()
        runner.terminate()
        with anyio.fail_after(LIMIT_S):
            assert await runner.wait() == TERMINATED
    assert (tmp_path / "0").read_text() == "0"


@pytest.mark.anyio
async def test_sigterm_to_a_child_that_a_coroutine_forks_ends_the_child_alone() -> None:
    async def fork() -> int:
        import os
        import signal

        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])  # noqa: ASYNC222

    async with a_daemon("shared", fork) as (_, daemon):
        for job in range(3):
            daemon.run(job)
            await daemon.until(job)
        assert daemon.values == dict.fromkeys(range(3), -signal.SIGTERM)


@pytest.mark.anyio
async def test_closing_kills_a_runner_that_does_not_listen() -> None:
    def deaf() -> None:
        import signal
        import time

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)

    async with a_daemon("own", deaf) as (runner, daemon):
        daemon.run(1)
        await runner.aclose()
        assert runner.returncode == -signal.SIGKILL


@pytest.mark.anyio
async def test_cancelling_wait_leaves_the_runner_running() -> None:
    def quick() -> str:
        return "quick"

    async with a_daemon("own", quick) as (runner, daemon):
        with anyio.move_on_after(0):
            await runner.wait()
        daemon.run(1)
        await daemon.until(1)
        assert runner.returncode is None


@pytest.mark.anyio
@linux_only
async def test_the_jobs_of_a_run_list_whose_process_took_too_much_memory_are_all_accounted_for() -> None:
    """Those behind the culprit may run elsewhere; the runner lives on in another process."""

    def take(size: int) -> int:
        import time

        held = b"\1" * size
        if size > 1:
            time.sleep(60)
        return len(held)

    def pid() -> int:
        import os

        return os.getpid()

    heard: dict[int, Code] = {}
    values: dict[int, Any] = {}
    pids: list[int] = []
    changed = anyio.Event()

    def on_frames(frames: list[Frame]) -> None:
        for message, _ in frames:
            assert isinstance(message, Completed)
            for job, code, data in zip(message.jobs, message.codes, message.data, strict=True):
                heard[job] = Code(code)
                values[job] = load_value(Payload(data)) if code == Code.SUCCEEDED else None
                if code == Code.OUT_OF_MEMORY:
                    values[job] = load_error(Payload(data))
        changed.set()

    def run_list(lease: int, jobs: dict[int, tuple[int, tuple[object, ...]]]) -> Run:
        data = [dump_arguments(args, {}, what="f").data for _, args in jobs.values()]
        ones, fns = [1] * len(jobs), [fn for fn, _ in jobs.values()]
        return Run(lease, "cores=[0] memory=50000000", list(jobs), ones, fns, [None] * len(jobs), data, [])

    async with open_keeper() as keeper, anyio.create_task_group() as tasks:
        tap = Outputs(lambda message: None).tap(1)
        runner = ProcessRunner(partial(RunnerProcess.spawn, "own", keeper=keeper), pids.append, tap, own=True)
        runner.post(Setup("node-1", []))
        blobs = [dump_function(take), dump_function(pid)]
        specs = [FunctionSpec(fn, blob.digest, f"f{fn}", False, None) for fn, blob in enumerate(blobs)]
        runner.post(Define(specs, []), [blob.data for blob in blobs])
        runner.post(run_list(1, {1: (0, (1,)), 2: (0, (300_000_000,)), 3: (0, (1,)), 4: (0, (1,))}))
        tasks.start_soon(runner.run, on_frames)
        with anyio.fail_after(LIMIT_S):
            while len(heard) < 4:
                await changed.wait()
                changed = anyio.Event()
            assert heard[2] == Code.OUT_OF_MEMORY
            assert (heard[3], heard[4]) == (Code.RETURNED, Code.RETURNED)
            assert heard[1] in (Code.SUCCEEDED, Code.CRASHED)
            assert isinstance(values[2], JobMemoryError)
            assert values[2].asked == 50_000_000
            assert "f0" in str(values[2])
            runner.post(run_list(2, {5: (1, ())}))
            while 5 not in heard:
                await changed.wait()
                changed = anyio.Event()
        assert pids[1:] == [values[5]]
        runner.kill()
