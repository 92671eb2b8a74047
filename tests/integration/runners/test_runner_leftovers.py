"""What a job leaves in its process with the kernel, which the next one is not to find."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from raw_runner import Runner, by_value, linux_only

from grainlike.wire import Code


@by_value
def look() -> dict[str, object]:
    import faulthandler
    import resource
    import signal

    umask = os.umask(0)
    os.umask(umask)
    return {
        "process": os.getpid(),
        "umask": umask,
        "timers": [signal.getitimer(timer) for timer in range(3)],
        "handlers": [str(signal.getsignal(number)) for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGSEGV)],
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "faults": faulthandler.is_enabled(),
    }


@by_value
def leave_all_kinds() -> None:
    import resource
    import signal

    os.umask(0)
    for timer in range(3):
        signal.setitimer(timer, 1000.0)
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGSEGV):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD})
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@linux_only
def test_what_a_job_leaves_in_its_process_the_next_one_does_not_find() -> None:
    with Runner(look, leave_all_kinds) as runner:
        fresh = runner.call(0)
        assert fresh["timers"] == [(0.0, 0.0)] * 3
        runner.call(1)
        assert runner.call(0) == fresh


@linux_only
def test_nor_does_the_next_one_of_a_lease_if_it_calls_another_function_or_is_kept_apart() -> None:
    def leave_more() -> None:
        leave_all_kinds()
        os.chdir("/")
        os.environ["LEFT"] = "behind"
        os.environb[b"LEFT_BYTES"] = b"behind"

    def look_for_more() -> dict[str, object]:
        return look() | {
            "directory": os.getcwd(),  # noqa: PTH109 - of a job's process
            "left": os.environ.get("LEFT"),
            "bytes": os.environ.get("LEFT_BYTES"),
        }

    def look_and_leave() -> dict[str, object]:
        found = look_for_more()
        leave_more()
        return found

    with Runner(by_value(look_for_more), by_value(leave_more), by_value(look_and_leave)) as runner:
        fresh = runner.call(0)
        runner.run({1: (1, ()), 2: (0, ()), 3: (1, ()), 4: (0, ())})
        runner.run({5: (2, ()), 6: (2, ())})
        runner.run({7: (2, ()), 8: (2, ()), 9: (1, ()), 10: (0, ())}, apart=True)
        runner.until(*range(1, 11))
        assert all(runner.values[job] == fresh for job in (2, 4, 5, 7, 8, 10))
        assert runner.values[6]["left"] == "behind", "calls of one function see each other's traces"


@linux_only
def test_of_jobs_kept_apart_those_behind_one_that_has_spoiled_the_process_are_handed_back() -> None:
    def leave_a_child() -> None:
        import subprocess

        subprocess.Popen(["sleep", "1000"])

    with Runner(by_value(leave_a_child), os.getpid) as runner:
        runner.run({1: (1, ()), 2: (0, ()), 3: (1, ()), 4: (1, ())}, apart=True)
        assert runner.until_end() == 0
        assert runner.renews
        assert list(runner.codes.values()) == [Code.SUCCEEDED, Code.SUCCEEDED, Code.RETURNED, Code.RETURNED]


@linux_only
def test_a_fault_leaves_its_stack_after_a_job_that_took_faults_itself(capfd: pytest.CaptureFixture[str]) -> None:
    def fault() -> None:
        import faulthandler

        faulthandler._sigsegv()  # type: ignore[attr-defined]

    with Runner(leave_all_kinds, by_value(fault)) as runner:
        runner.call(0)
        runner.run({1: (1, ())})
        assert runner.until_end() == -signal.SIGSEGV
    assert "Segmentation fault" in capfd.readouterr().err


def leave_shared_memory(what: str) -> list[str]:
    import multiprocessing
    from multiprocessing.shared_memory import SharedMemory

    if what == "memory":
        return [SharedMemory(create=True, size=1).name]
    globals()["kept"] = pool = multiprocessing.get_context("spawn").Pool(1)
    assert pool.map(abs, [-1]) == [1]
    queues = (pool._inqueue, pool._outqueue, pool._change_notifier)
    return ["sem." + lock._semlock.name[1:] for queue in queues for lock in (queue._rlock, queue._wlock)]


def shared_files(names: list[str]) -> list[str]:
    return [name for name in names if Path("/dev/shm", name).exists()]


@linux_only
@pytest.mark.parametrize("what", ["pool", "memory"])
def test_a_job_that_leaves_a_pool_or_shared_memory_leaves_no_files_of_it(
    what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with Runner(by_value(leave_shared_memory), by_value(shared_files)) as runner:
        runner.run({1: (0, (what,)), 2: (1, (["none"],))}, apart=True)
        assert runner.until_end() == 0
        assert runner.renews
        assert len(runner.values[1]) == (6 if what == "pool" else 1)
        assert shared_files(runner.values[1]) == []
    assert "do not die" not in capfd.readouterr().err


def lower(what: str) -> None:
    import resource

    if what == "limit":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard - 1))
    else:
        os.nice(1)
    if os.getuid() == 0:
        os.setuid(65534)  # who has all rights can put it back


@linux_only
@pytest.mark.parametrize("what", ["limit", "priority"])
def test_a_process_in_which_a_job_has_left_what_cannot_be_put_back_takes_no_other(what: str) -> None:
    with Runner(by_value(lower), look) as runner:
        runner.call(0, what)
        runner.run({1: (1, ())})
        assert runner.until_end() == 0
        assert runner.renews
        assert 1 not in runner.codes


def use_up_descriptors() -> int:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with suppress(OSError):
        while True:
            os.open("/dev/null", os.O_RDONLY)
    return 1


@linux_only
@pytest.mark.parametrize("begins", ["fresh", "used"])
def test_a_process_whose_jobs_have_left_open_all_files_that_it_may_have_takes_no_other(begins: str) -> None:
    with Runner(by_value(use_up_descriptors), os.getpid) as runner:
        if begins == "used":
            runner.call(1)
        assert runner.call(0) == 1
        assert runner.until_end() == 0
        assert runner.renews


@linux_only
def test_jobs_behind_one_that_has_left_all_files_open_run_in_a_fresh_process() -> None:
    with Runner(by_value(use_up_descriptors), os.getpid) as runner:
        runner.run({1: (0, ()), 2: (1, ())}, apart=True)
        assert runner.until_end() == 0
        assert runner.renews
        assert list(runner.codes.values()) == [Code.SUCCEEDED, Code.RETURNED]


@linux_only
def test_a_process_without_a_standard_input_goes_on() -> None:
    with Runner(os.close, os.getpid) as runner:
        pid = runner.call(1)
        runner.call(0, 0)
        assert runner.call(1) == pid
