"""`run_process`: a coroutine's program runs in the job's slots, and is gone with all that it started."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from limits import LIMIT_S
from program_calls import place
from waiting import until_ended, until_files

from grainlike import Cores, Executor, cancel, delayed, gather, run_process, start

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins")]

DAEMONS = """
import os, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(sys.argv[1], "a") as file:
                file.write(f"{os.getpid()}\\n")
            time.sleep(3600)
        os._exit(0)
    os.wait()
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(3600)
"""


def lives(pid: int) -> bool:
    """Whether it runs: when its dead are buried is for the system to say."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_program_has_the_jobs_cores_and_widths_and_no_others(isolate: bool) -> None:
    own = os.sched_getaffinity(0)
    async with Executor(local=Cores(2)):
        job = delayed(isolate=isolate)(place)
        for cores, told in await gather((job @ Cores(1))() for _ in range(4)):
            assert told == f"{list(cores)} 1"
        cores, told = await (job @ Cores(2))()
        assert told == f"{list(cores)} 2"
    assert os.sched_getaffinity(0) == own


async def test_input_output_and_failure_are_as_with_anyio() -> None:
    @delayed
    async def talk() -> tuple[bytes, bytes | None, int, list[int | bool | None]]:
        big = b"x" * 1_000_000
        echo = await run_process(["cat"], input=big)
        assert echo.stdout == big
        both = await run_process("echo out; echo err >&2; exit 3", check=False)
        quiet = await run_process(["echo", "gone"], stdout=subprocess.DEVNULL)
        codes: list[int | bool | None] = []
        try:
            await run_process(["sh", "-c", "echo why; echo because >&2; exit 4"])
        except subprocess.CalledProcessError as error:
            codes = [
                error.returncode,
                len(error.output),
                error.__notes__[-1:] == ["it wrote last on standard error: because"],
            ]
        return both.stdout + both.stderr, quiet.stdout, both.returncode, codes

    async with Executor(local=Cores(1)):
        assert await (talk @ Cores(1))() == (b"out\nerr\n", None, 3, [4, 4, True])


async def test_a_plain_job_s_program_that_fails_is_told_of_with_the_end_of_its_output() -> None:
    @delayed
    def fail(timeout: float | None) -> None:
        script = "echo how; echo why >&2; read forever"
        held, there = os.pipe()
        if timeout is None:
            os.close(there)
        subprocess.run(
            ["sh", "-c", f"{script} || exit 4"], stdin=held, check=True, capture_output=True, timeout=timeout
        )

    async with Executor(local=Cores(1)):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            await (fail @ Cores(1))(None)
        ends = ["it wrote last on standard output: how", "it wrote last on standard error: why"]
        assert caught.value.__notes__[:2] == ends
        assert len(caught.value.__notes__) == 3  # where it ran


@pytest.mark.parametrize(
    ("script", "notes"),
    [
        ("echo why", ["it wrote last on standard output: why"]),
        ("echo why >&2", ["it wrote last on standard error: why"]),
        ("echo why; echo how >&2", ["it wrote last on standard output: why", "it wrote last on standard error: how"]),
        ("echo; echo >&2", []),
    ],
)
async def test_a_failure_has_the_end_of_output_and_error(script: str, notes: list[str]) -> None:
    @delayed
    async def fail() -> list[str]:
        try:
            await run_process(f"{script}; exit 4")
        except subprocess.CalledProcessError as error:
            return getattr(error, "__notes__", [])
        return ["it did not fail"]

    async with Executor(local=Cores(1)):
        assert await (fail @ Cores(1))() == notes
        with pytest.raises(FileNotFoundError):
            await (delayed(run_process) @ Cores(1))(["/no/such/program"])


async def test_the_environment_that_is_given_is_kept_but_for_what_nobody_chose() -> None:
    @delayed
    async def widths(env: dict[str, str]) -> str:
        shown = await run_process(["sh", "-c", "echo $OMP_NUM_THREADS-$MKL_NUM_THREADS-$OWN-$HOME"], env=env)
        return shown.stdout.decode().strip()

    async with Executor(local=Cores(2)):
        path = os.environ["PATH"]
        assert await (widths @ Cores(2))({"PATH": path, "OMP_NUM_THREADS": "7", "OWN": "mine"}) == "7-2-mine-"


async def test_cancelled_it_takes_the_whole_tree_along_and_waits_for_it(tmp_path: Path) -> None:
    listed = tmp_path / "pids"

    @delayed
    async def job(path: str) -> None:
        await run_process([sys.executable, "-S", "-c", DAEMONS, path])

    async with Executor(local=Cores(1)):
        r_ = start((job @ Cores(1))(str(listed)))
        with anyio.fail_after(LIMIT_S):
            await until_files(tmp_path, lambda: listed.exists() and len(listed.read_text().split()) == 4)
            cancel(r_)
            # The slots are free when the program is gone.
            assert (await (delayed(place) @ Cores(1))())[0]
        assert not any(map(lives, map(int, listed.read_text().split())))


async def test_what_it_leaves_in_its_group_is_ended_with_it() -> None:
    @delayed
    async def job() -> int:
        done = await run_process(["sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo $!"])
        return int(done.stdout)

    async with Executor(local=Cores(1)):
        await until_ended(await (job @ Cores(1))())


async def test_outside_a_job_it_is_anyios() -> None:
    done = await run_process(["sh", "-c", "echo $GRAINLIKE_PROGRAM-"], stdin=subprocess.DEVNULL)
    assert done.stdout == b"-\n"
    with pytest.raises(ValueError, match="only one"):
        await run_process(["cat"], input=b"", stdin=subprocess.DEVNULL)
