"""From nothing to the first result: a fresh interpreter until its first job has ended, and `import grainlike` alone.

The parent starts the interpreter and waits for a line, which the program prints when it has the result; so closing down
is not counted. Imports are measured beside those of an interpreter that imports nothing, run by run. Compiled code is
kept, in a directory of its own, as that of installed packages is: a shell that forbids to keep it, as in many
containers, would add the time to compile all of it, every time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

ROUNDS = 7

JOB = """
from grainlike import Cores, delayed, run
@delayed
{kind} one():
    return 1
async def main():
    print(await (one @ Cores(1))(), flush=True)
run(main, local=Cores(2))
"""


def first_line(program: str, environment: dict[str, str]) -> float:
    """Seconds from the start of a fresh interpreter to its first line."""
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took = time.perf_counter() - begun
    assert process.returncode == 0
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        measure({**kept, "PYTHONPYCACHEPREFIX": compiled})


def measure(environment: dict[str, str]) -> None:
    bare, imported = "print(1, flush=True)", "import grainlike; print(1, flush=True)"
    programs = {"async": JOB.format(kind="async def"), "plain": JOB.format(kind="def")}
    for program in (bare, imported, *programs.values()):
        first_line(program, environment)
    imports: list[float] = []
    seconds: dict[str, list[float]] = {kind: [] for kind in programs}
    for _ in range(ROUNDS):
        imports.append(first_line(imported, environment) - first_line(bare, environment))
        for kind, program in programs.items():
            seconds[kind].append(first_line(program, environment))
    print(f"import grainlike: {median(imports):.3f} s more than nothing")
    for kind, took in seconds.items():
        print(f"first result, {kind}: {median(took):.2f} s ({min(took):.2f}-{max(took):.2f})")
