"""What jobs leave behind: children, daemons, a changed process. Nothing of it is there when the next job starts."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import psutil
import pytest
from fault_calls import daemonise
from limits import LIMIT_S
from waiting import until_files

from grainlike import (
    GVAR,
    Cores,
    Executor,
    JobCancelledError,
    JobTimeoutError,
    Retry,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts orphans")]

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
DEAF = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(3600)",
]


def pids(path):
    return [int(line) for line in Path(path).read_text().split()] if Path(path).exists() else []


def alive(processes):
    return [pid for pid in processes if psutil.pid_exists(pid)]


def shared_memory(name):
    return Path("/dev/shm", name).exists()


@delayed
async def pulse():
    return True


async def answers_until_end(executor, r_):
    """Run short jobs beside a job until it has ended; return how many. Their worker is never suspected."""
    answers = 0
    while info(r_).state in ("pending", "running"):
        assert await (pulse @ Cores(1))()
        assert executor.workers()[0].shut == ""
        answers += 1
    await r_
    return answers


async def test_two_hundred_daemons_are_gone_before_the_slots_are_free_and_hearts_beat_on(tmp_path, start_worker):
    daemons = str(tmp_path / "daemons")
    start_daemons = delayed(daemonise)
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address)
        assert await (pulse @ Cores(1))()
        assert await answers_until_end(executor, start((start_daemons @ Cores(1))(200, daemons)))
        left = pids(daemons)
        assert len(left) == 200
        assert alive(left) == []


async def test_programs_of_coroutines_in_a_workers_process_are_on_the_cores_of_their_job(start_worker):
    """Whatever library starts them; those of a program's own worker are in `test_coroutine_programs`."""

    @delayed
    async def place():
        show = "echo $GRAINLIKE_CORES $GRAINLIKE_JOB; grep Cpus_allowed_list /proc/self/status"
        program = await asyncio.create_subprocess_shell(show, stdout=subprocess.PIPE)
        return (await program.communicate())[0].decode().split(), GVAR.res.cores, GVAR.job.id

    core = max(os.sched_getaffinity(0))
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address, resources=f"cores=[{core}]")
        told, cores, number = await (place @ Cores(1))()
    assert cores == (core,)
    assert told == [str(core), str(number), "Cpus_allowed_list:", str(core)]


async def test_a_job_that_ends_takes_deaf_children_along_and_its_process_is_not_used_again():
    @delayed
    def leave():
        children = [subprocess.Popen(DEAF, stdout=subprocess.PIPE, start_new_session=deep) for deep in (False, True)]
        for child in children:
            child.stdout.read(1)
        return os.getpid(), [child.pid for child in children]

    @delayed
    def where():
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        runner, children = await (leave @ Cores(1))()
        assert alive([runner, *children]) == []
        assert await (where @ Cores(1))() == await (where @ Cores(1))() != runner


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
async def test_a_job_whose_process_dies_leaves_no_shared_memory(end, tmp_path):
    @delayed(retries=Retry(0, losses=0))
    def leave():
        import multiprocessing
        from multiprocessing.shared_memory import SharedMemory

        child = multiprocessing.get_context("spawn").Process(target=signal.pause)  # it holds the tracker's pipe
        child.start()
        memory = SharedMemory(create=True, size=1)
        (tmp_path / "left").write_text(f"{memory.name} {child.pid}")
        exec(end, {"os": os})

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with pytest.raises(WorkerLostError):
            await (leave @ Cores(1))()
        name, child = (tmp_path / "left").read_text().split()
        assert alive([int(child)]) == []
        assert not shared_memory(name)


@pytest.mark.parametrize("end", ["os._exit(3)", "os.abort()", "os.kill(os.getpid(), 9)", "cancel", "timeout"])
async def test_a_job_whose_process_dies_leaves_no_daemon(end, tmp_path):
    daemons = str(tmp_path / "daemons")

    def job():
        import os  # noqa: F401 - for what is executed
        import resource
        import time  # noqa: F401

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        daemonise(5, daemons)
        exec(end if "(" in end else "time.sleep(3600)")

    @delayed
    def one():
        return 1

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        r_ = start((delayed(job, timeout=3.0 if end == "timeout" else None) @ Cores(1))())
        if end == "cancel":
            await until_files(tmp_path, lambda: len(pids(daemons)) == 5)
            cancel(r_)
        error = {"cancel": JobCancelledError, "timeout": JobTimeoutError}.get(end, WorkerLostError)
        with pytest.raises(error, match="exit code 3|SIGABRT|SIGKILL" if error is WorkerLostError else None):
            await r_
        assert await (one @ Cores(1))() == 1
        found = pids(daemons)
        assert len(found) >= 5 or end == "timeout"  # on a busy machine the time is over before there are all
        assert alive(found) == []


@pytest.mark.parametrize("victim", ["worker", "worker and keeper", "keeper before the worker"])
async def test_a_killed_worker_takes_its_jobs_daemons_along(victim, tmp_path, start_worker, gates, still_running):
    daemons = str(tmp_path / "daemons")
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen="tcp://127.0.0.1:0") as executor:
        visit = gate.visit

        def job():
            if "keeper" in victim:  # nobody is left to end a daemon; but the group of the job is
                children = [subprocess.Popen(SLEEPER).pid for _ in range(3)]
                Path(daemons).write_text("\n".join(map(str, children)))
            else:
                daemonise(5, daemons)
            visit("here")

        worker = start_worker(executor.address)
        r_ = start((delayed(job, retries=0) @ Cores(1))())
        runner = (await gate.arrival()).pid
        keeper = psutil.Process(runner).ppid()
        if "keeper" in victim:
            os.kill(keeper, signal.SIGSTOP)
        # Of two that are killed at once either may be gone first: a worker that sleeps goes last.
        os.kill(worker.pid, signal.SIGSTOP if "before" in victim else signal.SIGKILL)
        if "keeper" in victim:
            os.kill(keeper, signal.SIGKILL)
        # They are orphans: when they are buried is for the system to say.
        left = [runner, *pids(daemons)]
        assert await still_running(left if "before" in victim else [keeper, *left]) == []
        worker.process.kill()
        cancel(r_)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_worker_outlives_its_keeper_and_no_runner_does(number, still_running):
    @delayed
    def where():
        return os.getpid(), os.getppid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        runner, keeper = await (where @ Cores(1))()
        os.kill(keeper, number)
        assert await still_running([runner]) == []
        again, other = await (where @ Cores(1))()
        assert (again, other) != (runner, keeper)


async def test_a_directory_and_an_environment_that_a_job_changed_are_put_back(tmp_path):
    @delayed
    def change(path):
        os.chdir(path)
        os.environ["LEFT_BEHIND"] = "by an earlier job"
        os.environ["OMP_NUM_THREADS"] = "77"
        del os.environ["PATH"]
        return os.getpid()

    @delayed
    def look():
        environment = {name: value for name, value in os.environ.items() if name != "GRAINLIKE_JOB"}
        return os.getpid(), os.getcwd(), environment  # noqa: PTH109

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        runner, directory, environment = await (look @ Cores(1))()
        assert await (change @ Cores(1))(str(tmp_path)) == runner
        assert await (look @ Cores(1))() == (runner, directory, environment)
        assert environment["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("how", ["sys.modules.clear()", "os.environ = {}"])
async def test_a_process_whose_insides_were_torn_out_is_not_used_again(how):
    @delayed
    def tear():
        import os
        import sys  # noqa: F401 - for what is executed

        mine = os.getpid()
        exec(how)
        return mine

    @delayed
    def where():
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        torn = await (tear @ Cores(1))()
        assert await gather((where @ Cores(1))() for _ in range(5)) != [torn] * 5
        assert alive([torn]) == []


async def test_a_process_that_came_to_hold_much_more_memory_is_not_used_again():
    @delayed
    def hoard(size):
        import builtins

        from grainlike_worker.runner.process import _reset

        _reset._WEIGH_S = 0.0  # before each lease, here, and not once a second
        builtins.hoarded = b"\1" * size
        return os.getpid()

    @delayed
    def where():
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        small = await (hoard @ Cores(1))(10_000_000)
        assert await (where @ Cores(1))() == small
        assert await (hoard @ Cores(1))(600_000_000) == small
        assert await (where @ Cores(1))() != small
        assert alive([small]) == []


async def test_native_code_that_holds_pythons_lock_delays_nobody_else(start_worker, tmp_path):
    """Heartbeats, a neighbour, and the job's own end go on; the worker is not given up."""
    path = tmp_path / "released"
    os.mkfifo(path)

    @delayed
    def hold():
        end = os.open(path, os.O_RDWR)
        ctypes.PyDLL(None).read(end, ctypes.create_string_buffer(1), 1)
        return os.getpid()

    @delayed
    def one():
        return 1

    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address)
        assert await (pulse @ Cores(1))()
        held = start((hold @ Cores(1))())
        await (one @ Cores(1))()
        for _ in range(50):
            assert await (pulse @ Cores(1))()
        assert (info(held).state, executor.workers()[0].shut) == ("running", "")
        release = os.open(path, os.O_RDWR)
        os.write(release, b"x")
        await held
        os.close(release)


async def test_a_crash_without_a_word_is_told_of_and_the_worker_lives():
    @delayed
    def crash():
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.abort()

    @delayed
    def one():
        return 1

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        with pytest.raises(WorkerLostError, match="SIGABRT"):
            await (crash @ Cores(1))()
        assert await (one @ Cores(1))() == 1


async def test_a_fork_of_the_program_does_not_hold_the_executor_up():
    """It holds a copy of every descriptor that the executor had."""

    @delayed
    def one():
        return 1

    async with asyncio.timeout(LIMIT_S):
        async with Executor(local=Cores(1)):
            await (one @ Cores(1))()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
                child = os.fork()
            if child == 0:
                signal.pause()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)  # noqa: ASYNC222
