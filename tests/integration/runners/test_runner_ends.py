"""How jobs of a runner process are stopped, and how it ends: told to, with its link, with its parent, or by a crash."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from raw_runner import LIMIT_S, TERMINATED, Gate, Runner, alarm, by_value, environment, linux_only, quick, stop_at_gate

from grainlike.wire import Beat, Code, Stop, StopReason
from grainlike_worker.daemon._spawn import describe_exit
from grainlike_worker.ipc._claims import IDLE, ClaimPage
from grainlike_worker.ipc._signals import WORD_S

# --- stopping ---------------------------------------------------------------------------------------------------------


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


def test_jobs_behind_the_barrier_come_back_though_the_runner_is_busy(gate: Gate, claims: ClaimPage) -> None:
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


@by_value
def large_at_gate(begun: str, go: str) -> bytearray:
    from pathlib import Path

    Path(begun).write_text("begun")
    Path(go).read_text()
    return bytearray(100_000)


def test_no_outcome_is_told_before_the_barrier_behind_it_was_seen(gate: Gate, claims: ClaimPage) -> None:
    # Whoever hears of the last job in front of a barrier gives the slots to a next lease, and lifts the barrier.
    with Runner(large_at_gate, quick, claims=claims) as runner:
        runner.run({1: (0, gate.args), 2: (1, ()), 3: (1, ())})
        gate.wait()
        claims.barrier = 1
        gate.open()
        runner.until(1, 2, 3)
    (told,) = runner.batches  # though a value with buffers is told before the next job starts
    assert (told.jobs, told.codes) == ([1, 2, 3], [Code.SUCCEEDED, Code.RETURNED, Code.RETURNED])


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


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_job_that_is_told_to_end_waits_for_no_cores_and_may_tidy_up(kind: str, gate: Gate, tmp_path: Path) -> None:
    def attach(trace: str) -> Callable[[], None]:
        """Do what the executor inside a job does first; returns what a clean-up does that awaits a job."""
        from pathlib import Path

        from grainlike.context import this_process
        from grainlike.wire import Ready

        class Nesting:
            def stop(self) -> None:
                Path(trace).write_text("stopped")

            def close(self) -> None:
                pass

        uplink: Any = this_process.view.uplink
        assert this_process.view.job is not None
        uplink.attach(this_process.view.job.id, Nesting())

        def tidy() -> None:
            for _ in range(2):
                uplink.post(Ready())
            with Path(trace).open("a") as file:
                file.write(", tidy")

        return tidy

    def arrive(begun: str) -> None:
        from pathlib import Path

        Path(begun).write_text("begun")

    def plain(begun: str, go: str, trace: str) -> None:
        import asyncio
        from pathlib import Path

        async def attached() -> Callable[[], None]:
            return attach(trace)

        tidy = asyncio.run(attached())
        try:
            arrive(begun)
            Path(go).read_text()
        finally:
            tidy()

    async def coroutine(begun: str, go: str, trace: str) -> None:
        import asyncio

        tidy = attach(trace)
        try:
            arrive(begun)
            await asyncio.Event().wait()
        finally:
            tidy()

    trace = tmp_path / "trace"
    with Runner(by_value(plain), by_value(coroutine)) as runner:
        runner.run({1: (["plain", "coroutine"].index(kind), (*gate.args, str(trace)))})
        gate.wait()
        runner.process.terminate()
        assert runner.until_end() == TERMINATED
    assert runner.codes == {1: Code.CANCELLED}
    assert trace.read_text() == "stopped, tidy"


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


def tell_by_note(begun: str, go: str) -> str:
    from pathlib import Path

    try:
        Path(begun).write_text("begun")
        return Path(go).read_text()
    except SystemExit as end:
        return " ".join(getattr(end, "__notes__", ()))


async def tell_by_message(begun: str, go: str) -> str:
    import asyncio
    from pathlib import Path

    Path(begun).write_text("begun")  # noqa: ASYNC240 - a job's own business
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError as error:
        return " ".join(error.args)
    return go


@pytest.mark.parametrize(("told", "seen"), [(StopReason.WALLTIME, "walltime"), (StopReason.UNSAID, ""), (0, "")])
@pytest.mark.parametrize("job", [tell_by_note, tell_by_message])
def test_a_job_sees_the_reason_that_stands_in_the_page(
    job: Callable[..., object], told: int, seen: str, gate: Gate, claims: ClaimPage
) -> None:
    with Runner(by_value(job), claims=claims) as runner:
        runner.run({1: (0, gate.args)})
        gate.wait()
        claims.told = told
        runner.process.terminate()
        assert runner.until_end() == TERMINATED
    assert runner.values == {1: seen}


def fail_after(begun: str, go: str, word_s: float) -> None:
    from pathlib import Path

    from grainlike_worker.runner.process import _signals

    _signals.WORD_S = word_s
    Path(begun).write_text("begun")
    Path(go).read_text()
    raise ValueError("its program has died")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGXCPU])
@pytest.mark.parametrize("word", [True, False])
def test_a_job_that_fails_after_a_signal_to_a_whole_batch_job_waits_for_word(
    number: signal.Signals, word: bool, gate: Gate, claims: ClaimPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon was signalled, too. Where it says that the runner is to end the job was cancelled, else it failed."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with Runner(by_value(fail_after), quick, claims=claims) as runner:
        runner.run({1: (0, (*gate.args, 2 * LIMIT_S if word else WORD_S))})
        gate.wait()
        signalled = time.monotonic()
        runner.process.send_signal(number)
        gate.open()
        if word:
            claims.told = StopReason.UNSAID
            runner.process.terminate()
            assert runner.until_end() == TERMINATED
            assert runner.codes == {1: Code.CANCELLED}
        else:
            runner.until(1)
            assert time.monotonic() - signalled >= WORD_S / 2
            assert runner.codes == {1: Code.FAILED}
            assert runner.call(1, job=2) == "quick"


def test_sigterm_ends_an_idle_runner() -> None:
    with Runner(quick) as runner:
        assert runner.call(0) == "quick"
        runner.process.terminate()
        assert runner.until_end() == TERMINATED


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
def test_a_crash_is_seen_in_the_exit(how: str, words: str, claims: ClaimPage) -> None:
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
from grainlike_worker.daemon._spawn import RunnerProcess

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
    parent = subprocess.Popen([sys.executable, "-c", PARENT, gate.begun], env=environment())
    try:
        with alarm():
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
    with near, far:
        process = subprocess.Popen([*command, "--parent", "1"], pass_fds=[far.fileno()], env=environment())
        assert process.wait(LIMIT_S) == 1
