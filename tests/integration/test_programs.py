"""Whole programs: scripts, sessions typed at a prompt, and forks, each in an interpreter of its own."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from limits import LIMIT_S
from waiting import still_running

ROOT = Path(__file__).parents[2]


@pytest.fixture
def interpreter(tmp_path: Path):
    """Run an interpreter with these arguments; nothing may be left of it but what it printed."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> "subprocess.CompletedProcess[str]":
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=environment,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stderr
        assert _left(str(tmp_path)) == []
        assert list((tmp_path / "state").rglob("*.json")) == []
        return done

    return run


def _left(mark: str) -> list[str]:
    """Processes that a program left and that do not end, by what stands in their environment."""
    while found := _marked(mark):
        if still_running(list(found)):
            return list(found.values())
    return []


def _marked(mark: str) -> dict[int, str]:
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if mark in process.environ().get("XDG_STATE_HOME", "") and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = " ".join(process.cmdline())
    return found


@pytest.fixture
def script(interpreter, tmp_path: Path):
    """Run a script of this text; return what it printed."""

    def run(text: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        path = tmp_path / "program.py"
        path.write_text(text)
        return interpreter(str(path), code=code)

    return run


FUNCTIONS = """
import asyncio, functools, os, subprocess, sys, anyio
from grainlike import *

BASE = 100

class Box:
    def __init__(self, x):
        self.x = x
    def plus(self, y):
        return Box(self.x + y + BASE)
    def __eq__(self, other):
        return type(other) is Box and other.x == self.x

def helper(x):
    return x + BASE

@delayed
async def soft(x):
    return helper(x)

@delayed
def hard(x):
    return helper(x)

@delayed
def factorial(n):
    return n * factorial.__wrapped__(n - 1) if n else 1

async def main():
    step = 1
    checks = {
        "decorated async": ((soft @ Cores(1))(1), 101),
        "decorated plain": ((hard @ Cores(1))(1), 101),
        "recursive": ((factorial @ Cores(1))(5), 120),
        "lambda": ((delayed(lambda x: x + step) @ Cores(1))(1), 2),
        "partial": ((delayed(functools.partial(helper, 5)) @ Cores(1))(), 105),
        "method": ((delayed(Box(1).plus) @ Cores(1))(2), Box(103)),
        "value": ((delayed(lambda box: box.plus(1)) @ Cores(1))(Box(0)), Box(101)),
        "builtin": ((delayed(sum) @ Cores(1))([1, 2]), 3),
    }
    for what, (r_, expected) in checks.items():
        got = await r_
        assert got == expected, (what, got)
        assert info(r_).worker == WORKER, info(r_)
    print("all is well")
"""

EMBEDDED = """
WORKER = "local"
run(main, local=Cores(2), backend=BACKEND)
"""

DAEMON = """
WORKER = "n1"
async def program():
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        command = [sys.executable, "-m", "grainlike_worker", "--head", executor.address, "--resources", "cores=2"]
        worker = subprocess.Popen([*command, "--name", "n1", "--log-level", "error"])
        await executor.wait_for_workers(1)
        await main()
    assert worker.wait() == 0
anyio.run(program, backend=BACKEND)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", [EMBEDDED, DAEMON], ids=["embedded", "daemon"])
def test_g10_functions_of_the_main_script_travel(script, kind, backend):
    assert script(f"BACKEND = {backend!r}\n{FUNCTIONS}\n{kind}").stdout == "all is well\n"


IMPLICIT = """
import asyncio, logging, os
from grainlike import *

logging.basicConfig(level=logging.INFO, format="%(message)s")

@delayed
async def double(x):
    return 2 * x

@delayed
def triple(x):
    return 3 * x, os.getpid()

@delayed
async def outer(x):
    value, pid = await (triple @ Cores(1))(x)
    assert pid != os.getpid()
    return value + await (double @ Cores(1))(x)
"""


def test_g4_on_asyncio_an_executor_opens_by_itself(script):
    """And says so once, and is gone with its loop."""
    done = script(
        IMPLICIT
        + """
async def main():
    assert (await triple(1))[1] == os.getpid()
    assert await outer(1) == 5
    assert await gather(double(1), (double @ Cores(1))(2)) == [2, 4]
asyncio.run(main())
asyncio.run(main())
"""
    )
    assert done.stderr.count("opened an implicit executor over cores=[") == 2
    assert "Traceback" not in done.stderr


def test_a_loop_that_ends_with_work_under_way_leaves_nothing(script):
    done = script(
        IMPLICIT
        + """
import time
async def main():
    start((delayed(time.sleep) @ Cores(1))(3600))
    start((delayed(asyncio.sleep) @ Cores(1))(3600))
    start(delayed(asyncio.sleep)(3600))
    print((await (triple @ Cores(1))(1))[1] if len(os.sched_getaffinity(0)) > 2 else os.getpid())
    raise LookupError("mine")
try:
    asyncio.run(main())
except LookupError:
    print("ended")
"""
    )
    assert done.stdout.split()[-1] == "ended"


def test_a_session_typed_at_the_asyncio_prompt_needs_no_set_up(interpreter):
    """Functions take a line each: from a pipe, Python 3.13's prompt reads no more of a block."""
    done = interpreter(
        "-m",
        "asyncio",
        stdin="""
from grainlike import *
async def double(x): return 2 * x

double = delayed(double)
import os
def where(x): return x, os.getpid() != parent

parent = os.getpid()
await (double @ Cores(1))(21)
await (delayed(where) @ Cores(1))("there")
await gather(double(i) for i in range(3))
await (delayed(lambda x: 1 / x) @ Cores(1))(0)
await (double @ Cores(1))("still alive ")
delayed(where, cache="v1")
""",
    )
    assert "ValueError: cache= goes by a function's name" in done.stderr
    for line in ("42", "('there', True)", "[0, 2, 4]", "'still alive still alive '"):
        assert line in re.sub(r"(>>> |\.\.\. )", "", done.stdout).splitlines(), done
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "grainlike: job 3, on worker local, slots cores=[0], attempt 1 of <lambda>" in done.stderr


def test_a_forked_child_may_not_await(script):
    done = script(
        """
import os
from grainlike import *

async def main():
    r_ = delayed(abs)(-1)
    pid = os.fork()
    if pid == 0:
        try:
            r_.__await__().send(None)
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print(await r_)

run(main, local=Cores(1))
"""
    )
    said, value = done.stdout.splitlines()
    assert "lives in the asyncio loop" in said
    assert "no event loop" in said
    assert value == "1"


def test_ctrl_c_ends_what_runs_with_one_message(script):
    done = script(
        """
import os, signal
from grainlike import *
from grainlike.scheduler.node import _runners

_runners.GRACE_S = 180.0  # a busy machine may let the job's process wait for a core

def hold():
    try:
        os.kill(parent, signal.SIGINT)
        signal.pause()
    finally:
        print("tidied", flush=True)

parent = os.getpid()

async def main():
    await (delayed(hold) @ Cores(1))()

try:
    run(main, local=Cores(1))
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert done.stdout.splitlines() == ["tidied", "interrupted"]
    assert done.stderr == ""


CHANGES = """
import asyncio
from grainlike import *

CONFIG = {"rate": 0}

SIZES = []

@delayed
def look(number=0):
    return CONFIG["rate"], len(SIZES)

async def change(times):
    for _ in range(times):
        CONFIG["rate"] += 1
        SIZES.append(1)
        yield await gather((look @ Cores(1))(number) for number in range(2))

@delayed
async def job():
    return [seen async for seen in change(2)]

async def main():
    async with Executor(local=Cores(2), listen="tcp://127.0.0.1:0") as head:
        print([seen async for seen in change(2)])
        print(await (job @ Cores(1))())
        async with connect(head.address):
            print([seen async for seen in change(2)])

asyncio.run(main())
"""


def test_jobs_see_what_was_changed_in_place(script):
    assert script(CHANGES).stdout.splitlines() == [
        "[[(1, 1), (1, 1)], [(2, 2), (2, 2)]]",  # here
        "[[(3, 3), (3, 3)], [(4, 4), (4, 4)]]",  # in a job of a job, which has a copy
        "[[(3, 3), (3, 3)], [(4, 4), (4, 4)]]",  # over a connection
    ]
