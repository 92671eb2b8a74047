"""From nothing to the first result: a fresh interpreter until its first job has ended, and `import grainlike` alone.

The parent starts the interpreter and waits for a line, which the program prints when it has the result; so closing down
is not counted. The worker is embedded in the program, or a daemon that the program starts. Imports are measured beside
those of an interpreter that imports nothing, run by run. Compiled code is kept, in a directory of its own, as that of
installed packages is: a shell that forbids to keep it, as in many containers, would add the time to compile all of it,
every time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

ROUNDS = 7

EMBEDDED = """
from grainlike import Cores, delayed, run
@delayed
{kind} one():
    return 1
async def main():
    print(await (one @ Cores(1))(), flush=True)
run(main, local=Cores(2))
"""

DAEMON = """
import asyncio, sys
from grainlike import Cores, Executor, delayed
@delayed
def one():
    return 1
async def main():
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        command = ["-m", "grainlike_worker", "--head", executor.address, "--resources", "cores=2"]
        worker = await asyncio.create_subprocess_exec(sys.executable, *command, "--log-level", "error")
        print(await (one @ Cores(1))(), flush=True)
    await worker.wait()
asyncio.run(main())
"""

PROGRAMS = {
    "async": EMBEDDED.format(kind="async def"),
    "plain": EMBEDDED.format(kind="def"),
    "plain, a daemon of its own": DAEMON,
}


def first_line(program: str, environment: dict[str, str]) -> float:
    """Seconds from the start of a fresh interpreter to its first line."""
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took = time.perf_counter() - begun
    assert process.returncode == 0
    return took


def measure() -> tuple[list[float], dict[str, list[float]]]:
    """Seconds of each round: what the import adds to an interpreter; and until the first result, for each program."""
    with tempfile.TemporaryDirectory() as compiled:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return measure_in({**kept, "PYTHONPYCACHEPREFIX": compiled})


def measure_in(environment: dict[str, str]) -> tuple[list[float], dict[str, list[float]]]:
    bare, imported = "print(1, flush=True)", "import grainlike; print(1, flush=True)"
    for program in (bare, imported, *PROGRAMS.values()):
        first_line(program, environment)
    imports: list[float] = []
    seconds: dict[str, list[float]] = {kind: [] for kind in PROGRAMS}
    for _ in range(ROUNDS):
        imports.append(first_line(imported, environment) - first_line(bare, environment))
        for kind, program in PROGRAMS.items():
            seconds[kind].append(first_line(program, environment))
    return imports, seconds


def main() -> None:
    imports, seconds = measure()
    print(f"import grainlike: {median(imports):.3f} s more than nothing")
    for kind, took in seconds.items():
        print(f"first result, {kind}: {median(took):.2f} s ({min(took):.2f}-{max(took):.2f})")
