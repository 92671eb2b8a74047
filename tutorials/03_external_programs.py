"""External programs: a job starts one, and it runs on exactly the job's cores.

A plain function runs in a process that is pinned to its cores, and children inherit that. So a program that the
job starts can use these cores and no others, and a program with OpenMP finds `OMP_NUM_THREADS` set. Open MPI's `mpirun`
binds its ranks by itself, whatever it inherits; so it finds the list of the job's cores in the variable that it reads,
and `mpirun -n 2 solver` needs no option. A script finds its slots in `GRAINLIKE_CORES`, `GRAINLIKE_GPUS` and
`GRAINLIKE_MEMORY` (bytes), and the number of its job in `GRAINLIKE_JOB`; `OMP_PLACES` has the cores for programs that
set `OMP_PROC_BIND`. In Python, `GVAR.res.cores` has the ids.

An `async def` job is not pinned, for it shares its process with other jobs. It suits thousands of programs that are
waited for rather than computed with. There `run_process` starts the program in the job's slots: it is anyio's, and the
program gets the job's cores, the variables above, and `GRAINLIKE_SCRATCH`.

When a job is cancelled, or runs into its `timeout`, a plain function's process gets SIGTERM, and SIGKILL five seconds
later; a program of `run_process` is killed at once. All that they started goes with them, and only then are the cores
given to another job. For files that a program needs while it runs there is `GVAR.job.scratch`, a directory that is
removed with the job; a program of `run_process` finds it in `GRAINLIKE_SCRATCH`.

It prints::

    a child inherits the cores: True, and OMP_NUM_THREADS=2
    so does a coroutine's program: True, and OMP_NUM_THREADS=1
    a rank of mpirun is on the job's core: True
    4 programs on one core each, in 4 places
    the timeout ended it: sleep ran past its timeout of 0.5 s
"""

import os
import shutil
import subprocess
import sys

from grainlike import GVAR, Cores, JobTimeoutError, delayed, gather, run, run_process

# A stand-in for a real program: it prints the cores that it may use. Any executable does.
PROGRAM = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)), os.environ.get('OMP_NUM_THREADS'))"]


@delayed
def child() -> str:
    """Start a program and wait. Its output is the job's to read; what it prints otherwise goes to our terminal."""
    return subprocess.run(PROGRAM, check=True, capture_output=True, text=True).stdout.strip()


@delayed
async def awaited_child() -> tuple[tuple[int, ...], str]:
    """A coroutine that waits for a program. Many of these share one event loop while their programs run."""
    program = await run_process(PROGRAM)
    return GVAR.res.cores, program.stdout.decode().strip()


@delayed
async def rank() -> tuple[tuple[int, ...], str]:
    """The same for an MPI program, where MPI is installed. What it needs on disk goes where it is tidied up."""
    mpirun = ["mpirun", "-n", str(GVAR.res.N)] if shutil.which("mpirun") else []
    program = await run_process([*mpirun, *PROGRAM], cwd=GVAR.job.scratch)
    return GVAR.res.cores, program.stdout.decode().splitlines()[0]


@delayed(timeout=0.5)
def sleep(seconds: float) -> None:
    """A program that takes too long; it ends with the job."""
    subprocess.run(["sleep", str(seconds)], check=True)


async def main() -> None:
    cores = f"[{', '.join(map(str, sorted(os.sched_getaffinity(0))[:2]))}]"  # as `local=Cores(2)` chooses them

    told, threads = (await (child @ Cores(2))()).rsplit(maxsplit=1)
    print(f"a child inherits the cores: {told == cores}, and OMP_NUM_THREADS={threads}")

    given, told = await (awaited_child @ Cores(1))()
    told, threads = told.rsplit(maxsplit=1)
    print(f"so does a coroutine's program: {told == str(list(given))}, and OMP_NUM_THREADS={threads}")

    given, told = await (rank @ Cores(1))()
    print("a rank of mpirun is on the job's core:", told.startswith(str(list(given))))

    places = await gather((awaited_child @ Cores(1))() for _ in range(4))
    right = [told.startswith(str(list(given))) for given, told in places]
    print(len(places), "programs on one core each, in", sum(right), "places")

    try:
        await (sleep @ Cores(1))(60)
    except JobTimeoutError as error:
        print("the timeout ended it:", error)


if __name__ == "__main__":
    run(main, local=Cores(2))
