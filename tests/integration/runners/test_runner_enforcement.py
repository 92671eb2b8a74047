"""What a runner process enforces of an allocation, and what its jobs see of themselves and of it."""

import os
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest
from raw_runner import CORES, Runner, by_value, linux_only, needs_two_cores

from grainlike.wire import ReceiptSpec, Resumed, Setup
from grainlike_worker.ipc._claims import ClaimPage

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

        builtins._release = threading.Event()
        thread = threading.Thread(target=builtins._release.wait, daemon=True)
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


@needs_two_cores
def test_a_lease_on_the_slots_of_the_last_one_is_held_to_them_though_a_job_resumed_on_others() -> None:
    def look() -> object:
        import os

        return sorted(os.sched_getaffinity(0)), os.environ["GRAINLIKE_CORES"]

    one, other = CORES[:2]
    with Runner(look) as runner:
        assert runner.call(0, allocation=f"cores=[{one}]") == ([one], str(one))
        runner.send(Resumed(0, 1, f"cores=[{other}]"))
        assert runner.call(0, allocation=f"cores=[{one}]") == ([one], str(one))


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

    def waits() -> bool:
        frame: FrameType | None = sys._current_frames()[runners]
        while frame is not None and frame.f_code.co_name != "receive":
            frame = frame.f_back
        return frame is not None

    def move() -> None:
        while not waits():
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
        runner.run({1: (0, (120_000_000,)), 2: (0, (1,)), 3: (0, (1,))}, apart=True)
        runner.until(1, 2, 3)
    assert 120_000_000 < large < 290_000_000
    assert small < 100_000_000
    peaks = [rss for batch in runner.batches[2:] for rss in batch.rss]
    assert peaks[0] > 120_000_000
    assert max(peaks[1:]) < 100_000_000, "each job that is kept apart has a peak of its own"
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


def test_what_a_program_of_the_context_or_of_an_import_used_is_no_jobs(tmp_path: Path) -> None:
    program = "import subprocess, sys\nBURN = 'import time\\nwhile time.process_time() < 0.2: pass'\n"
    burn = "subprocess.run([sys.executable, '-c', BURN], check=True)\n"
    context = f"import contextlib\n{program}\n@contextlib.contextmanager\ndef burning():\n    {burn}    yield\n"
    (tmp_path / "module_with_a_burning_context.py").write_text(context)
    (tmp_path / "module_that_burns.py").write_text(program + burn)

    class Importing:
        def __reduce__(self) -> object:
            return __import__, ("module_that_burns",)

    imported = Importing()

    def use() -> bool:
        import time

        time.sleep(0.001)  # children are looked at after jobs that are long enough to have had one
        return imported is not None

    with Runner() as runner:
        runner.send(Setup("node-1", [str(tmp_path)], "module_with_a_burning_context:burning"))
        runner.define(use)
        assert runner.call(0)
        assert runner.batches[-1].cpu[0] < 0.2


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


def test_the_process_shows_its_jobs_nothing_of_the_runner(claims: ClaimPage) -> None:
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
