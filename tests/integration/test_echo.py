"""`echo=False`: this program's own streams do not show what its executor runs prints."""

from __future__ import annotations

import logging
import sys

import pytest
from echo_calls import say, say_plainly, say_twice
from limits import LIMIT_S

from grainlike import Cores, Executor, connect, delayed
from grainlike.adapters import GrainlikePool

pytestmark = pytest.mark.anyio


async def _everything():
    """One after another: two threads that print at the same time may mix their lines."""
    for fn in (say, say_plainly):
        await (delayed(fn) @ Cores(1))(fn.__name__)
    for fn in (say_twice, say_plainly):
        await delayed(fn)(f"call of {fn.__name__}")


@pytest.mark.parametrize("local", [Cores([0]), None], ids=["worker", "no-worker"])
async def test_nothing_is_shown_of_what_runs_without_echo(local, capfd):
    async with Executor(local=local, echo=False):
        print("the program printed")
        await (_everything() if local is not None else delayed(say)("call"))
        print("the program printed")
    out, err = capfd.readouterr()
    assert out == "the program printed\n" * 2
    assert "complained" not in err


@pytest.mark.parametrize(("echo", "shown"), [(False, 2), (None, 3)])
async def test_nor_is_it_of_a_connected_program(echo, shown, capfd, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with (
        Executor(local=Cores([0]), listen="tcp://127.0.0.1:0", echo=False) as head,
        connect(head.address, echo=echo),
    ):
        print("the program printed")
        await (delayed(say_plainly) @ Cores(1))("job")
        await delayed(say_plainly)("call")
        print("the program printed")
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == shown
    assert ("call complained" in err) == (shown > 2)
    assert "job" not in out + err


async def test_all_is_shown_with_echo(capfd):
    async with Executor(local=Cores([0])):
        await _everything()
    captured = capfd.readouterr()
    for word in ("say", "say_plainly", "nested", "call of say_twice", "call of say_plainly"):
        assert f"{word} printed\n" in captured.out
        assert f"{word} complained\n" in captured.err


async def test_the_log_has_what_jobs_print_without_echo():
    async with Executor(local=Cores([0]), echo=False) as executor:
        for fn in (say, say_plainly):
            r_ = (delayed(fn) @ Cores(1))("job")
            await r_
            assert {str(line) async for line in executor.logs(r_)} == {"job printed", "job complained"}


async def test_handlers_of_logging_are_silent_in_calls_without_echo(capsys):
    logger, handler = logging.getLogger("grainlike-test-echo"), logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)

    async def log(word):
        logger.warning(word)

    try:
        async with Executor(local=None, echo=False):
            await delayed(log)("hushed")
            await log("heard")
        await log("heard")
    finally:
        logger.removeHandler(handler)
    err = capsys.readouterr().err
    assert "hushed" not in err
    assert "heard" in err


def test_a_pool_takes_it(capfd):
    with GrainlikePool(local=Cores([0]), echo=False) as pool:
        assert pool.submit(say_plainly, "job").result(LIMIT_S) == "job"
        assert pool.submit(say, "job").result(LIMIT_S) == "job"
        assert pool.start(delayed(say_plainly)("call")).result(LIMIT_S) == "call"
    assert capfd.readouterr().out == ""
