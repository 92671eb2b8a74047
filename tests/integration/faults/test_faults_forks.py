"""A child that a program forks with an executor open leaves by whatever way: nothing of its parent's is touched."""

import subprocess
import sys

import pytest
from limits import LIMIT_S

PROGRAM = """
import asyncio
import os
import sys
from functools import partial

import anyio

from grainlike import Cores, Executor, connect, delayed, run


@delayed
def square(x):
    return x * x


async def leave(how):
    if how == "exits":
        sys.exit(3)
    if how == "says":
        sys.exit("goodbye")
    if how == "raises":
        raise LookupError("in the child")
    if how == "awaits":
        await (anyio.lowlevel.checkpoint if "trio" in sys.modules else partial(asyncio.sleep, 0))()
        print("it went on")
        os._exit(0)


async def use(how):
    print(await (square @ Cores(1))(2))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        print("child", flush=True)
        await leave(how)
        return
    _, status = os.waitpid(child, 0)
    print("left with", os.waitstatus_to_exitcode(status))
    print(await (square @ Cores(1))(3))


async def inside(how):
    async with Executor(local=Cores(1)):
        await use(how)


async def connected(how):
    async with Executor(listen="tcp://127.0.0.1:0", local=Cores(1)):
        async with connect():
            await use(how)
        print(await (square @ Cores(1))(4))


async def tasked(how):
    async with Executor(local=Cores(1)):
        await asyncio.gather(use(how))


async def standing(how):
    executor = await Executor(local=Cores(1))
    await use(how)
    await executor.aclose()


if __name__ == "__main__":
    _, way, how = sys.argv
    if way in ("run", "trio"):
        run(use, how, local=Cores(1), backend="trio" if way == "trio" else "asyncio")
    else:
        ways = {"block": inside, "connected": connected, "task": tasked, "standing": standing, "implicit": use}
        asyncio.run(ways[way](how))
"""


def ran(tmp_path, way, how):
    """Run the program; return what it and its child have said. Red: its parent may wait for ever."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), way, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("way", ["run", "trio", "task", "standing", "implicit"])
def test_a_child_that_exits_has_its_status_and_its_parent_goes_on(tmp_path, way):
    out, err = ran(tmp_path, way, "exits")
    assert out == ["4", "child", "left with 3", "9"]
    assert err == ""


def test_a_connection_of_its_parent_is_not_closed(tmp_path):
    out, err = ran(tmp_path, "connected", "exits")
    assert out == ["4", "child", "left with 3", "9", "16"]
    assert err == ""


def test_an_exception_in_the_child_is_told_and_is_the_childs_alone(tmp_path):
    out, err = ran(tmp_path, "run", "raises")
    assert out == ["4", "child", "left with 1", "9"]
    assert err.startswith("Traceback ")
    assert err.endswith("LookupError: in the child\n")


def test_a_child_that_exits_with_words_says_them(tmp_path):
    assert ran(tmp_path, "block", "says") == (["4", "child", "left with 1", "9"], "goodbye\n")


@pytest.mark.parametrize(("way", "how"), [("block", "awaits"), ("trio", "awaits"), ("block", "returns")])
def test_a_child_ends_where_it_would_come_back_and_says_so(tmp_path, way, how):
    out, err = ran(tmp_path, way, how)
    assert out == ["4", "child", "left with 1", "9"]
    assert "was forked from one that has an executor open, and ends here" in err
