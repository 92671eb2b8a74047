"""From a fresh interpreter to its first line: `python -m grainlike_bench._first_line NAME`, once.

It runs once before, so that all is compiled. CPU time is that of the program and all that it started, until that line.
"""

from __future__ import annotations

import json
import subprocess
import sys

from grainlike_bench.bench_start import DAEMON, EMBEDDED
from grainlike_bench.compare import Spent, detail

__all__ = ["PROGRAMS"]

PROGRAMS = {
    "import": ("`import grainlike`", ("-c", "import grainlike; print(flush=True)")),
    "run": ("first result of `run`, plain", ("-c", EMBEDDED.format(kind="def"))),
    "async": ("first result of `run`, async", ("-c", EMBEDDED.format(kind="async def"))),
    "default": ("first result of `asyncio.run`, a daemon over TLS", ("-c", DAEMON)),
    "version": ("`grainlike --version`", ("-m", "grainlike", "--version")),
    "help": ("`grainlike --help`", ("-m", "grainlike", "--help")),
    "ls": ("`grainlike ls` without a head", ("-m", "grainlike", "ls")),
    "wrong": ("`grainlike` with a wrong word", ("-m", "grainlike", "nosuch")),
    "up": ("`grainlike up local --dry`", ("-m", "grainlike", "up", "local", "--dry")),
    "simulate": ("`grainlike simulate`", ("-m", "grainlike", "simulate")),
    "worker": ("`grainlike worker start --help`", ("-m", "grainlike", "worker", "start", "--help")),
}
"""Of each program, what it is, and its arguments for Python."""


def measure(arguments: tuple[str, ...]) -> dict[str, float]:
    """Milliseconds until the first line, and what they took of the CPU.

    Raises:
        RuntimeError: it printed nothing.
    """
    command = [sys.executable, *arguments]
    spent = Spent(None)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = spent.stop()
        process.stdout.read()
    if not line:
        raise RuntimeError(f"{command} printed nothing")
    return {"first line": seconds * 1e3} | {detail("start", part): value for part, value in spent.each(1).items()}


if __name__ == "__main__":
    _, program = PROGRAMS[sys.argv[1]]
    measure(program)
    print("\n" + json.dumps(measure(program)), flush=True)
