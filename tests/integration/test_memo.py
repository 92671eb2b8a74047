"""`@delayed(cache=...)`: a call whose result is kept does not run, whoever kept it, and `explain` says why."""

import asyncio
import logging
import os
import subprocess
import sys
import types
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from limits import LIMIT_S
from memo_calls import double, double_async, endless, fails, write_down

from grainlike import Cores, Executor, SerializationError, amap, connect, delayed, gather, info, start
from grainlike.cache._lookup import key_of
from grainlike.cache._store import ResultStore, results_directory
from grainlike.cli import main as command_line

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRAINLIKE_CACHE__DIRECTORY", str(folder))
    return folder


def runs(path):
    return Path(path).read_text().split() if Path(path).exists() else []


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.mark.parametrize("fn", [double, double_async], ids=["plain", "async"])
@pytest.mark.parametrize("request_", [None, Cores(1)], ids=["here", "on a worker"])
async def test_a_call_whose_result_is_kept_does_not_run(fn, request_, log):
    call = fn if request_ is None else fn @ request_
    async with Executor(local=Cores(2)) as executor:
        first_ = call(log, 3)
        assert await first_ == [6]
        assert str(await executor.explain(first_)) == "It has succeeded. It ran: its result had not been kept."
        (await first_).append("changed by its owner")
    async with Executor(local=Cores(2)) as executor:
        again_ = call(log, x=3, y=2)  # the same call, however it is written
        assert await again_ == [6]
        assert "It did not run: version 'v1' of its result was kept" in str(await executor.explain(again_))
        assert (info(again_).state, info(again_).worker, info(again_).attempt) == ("succeeded", None, 0)
        assert await call(log, 3, 5) == [15]
        assert await call(log, 4) == [8]
    assert runs(log) == ["3", "3", "4"]


async def test_values_flow_between_calls_that_are_kept_and_those_that_are_not(log):
    plain = delayed(sum)
    for _ in range(2):
        async with Executor(local=Cores(2)):
            r_ = (double @ Cores(1))(log, (plain @ Cores(1))((double @ Cores(1))(log, 1)) + 1)
            assert await r_ == [6]
            assert await gather((double @ Cores(1))(log, x) for x in (1, 3)) == [[2], [6]]
    assert runs(log) == ["1", "3"]


async def test_errors_are_not_kept(log):
    async with Executor(local=Cores(1)):
        for _ in range(2):
            with pytest.raises(OSError, match="no luck"):
                await (fails @ Cores(1))(log)
    assert runs(log) == ["ran", "ran"]


async def test_explain_says_why_a_call_runs_while_it_does(log, directory, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with Executor(local=Cores(1)) as executor:
        await double(log, 3)
        [folder] = directory.iterdir()
        (folder / "v1").rename(folder / "v0")
        first_ = start((delayed(lambda path: Path(path).read_text()) @ Cores(1))(str(gate)))
        r_ = start((double @ Cores(1))(log, 3))
        while "no result" not in (words := str(await executor.explain(r_))):
            await delayed(int)()
        assert "It runs: no result of version 'v1' is kept for these arguments, only 'v0'." in words
        await anyio.to_thread.run_sync(gate.write_text, "go")  # the head lives in this loop, so it may not wait
        assert await gather(first_, r_) == ["go", [6]]


async def test_a_damaged_result_is_told_of_and_runs_again(log, caplog):
    async with Executor(local=Cores(1)):
        await (double @ Cores(1))(log, 3)
        [(path, _)] = ResultStore(results_directory())
        path.write_bytes(path.read_bytes()[:-1])
        assert await (double @ Cores(1))(log, 3) == [6]
        assert await (double @ Cores(1))(log, 3) == [6]
    assert runs(log) == ["3", "3"]
    assert "cannot be opened: its content is not what was written" in caplog.text


async def test_a_value_that_cannot_be_kept_is_there_all_the_same(caplog):
    caplog.set_level(logging.WARNING, "grainlike")
    async with Executor(local=None):
        assert list(await endless(3)) == [0, 1, 2]
    assert "the result of endless is not kept: the result cannot travel" in caplog.text


async def test_arguments_that_cannot_be_told_apart_are_an_error_and_nothing_runs(log):
    async with Executor(local=Cores(1)):
        with pytest.raises(SerializationError, match="argument 'x' of double is the same as another time: object says"):
            await (double @ Cores(1))(log, object())
        with pytest.raises(TypeError, match="missing"):  # as without cache=
            await double_async(log)
    assert runs(log) == []


class Leaves:
    """Ends whoever asks what it is."""

    def __grainlike_identity__(self):
        raise SystemExit("while it was asked what it is")


class Unkeepable:
    def __reduce__(self):
        raise SystemExit("while it was kept")


@delayed(cache="v1")
def unkeepable():
    return Unkeepable()


async def test_objects_that_would_end_their_process_are_told_of_and_leave_nobody_waiting(log, caplog):
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1)):
            with pytest.raises(SystemExit, match="asked what it is"):
                await double(log, Leaves())
            assert isinstance(await unkeepable(), Unkeepable)
    assert "the result of unkeepable is not kept" in caplog.text
    assert runs(log) == []


async def test_a_directory_that_others_can_write_to_is_an_error(log, directory):
    directory.mkdir()
    directory.chmod(0o777)
    async with Executor(local=Cores(1)) as executor:
        r_ = (double @ Cores(1))(log, 3)
        with pytest.raises(PermissionError, match="chmod -R go-w"):
            await r_
        assert "It did not run." in str(await executor.explain(r_))
    assert runs(log) == []


async def test_amap_looks_each_item_up(log):
    async with Executor(local=Cores(2)):
        for _ in range(2):
            assert [y async for y in amap(double @ Cores(1), [log, log + "2"])] == [[4], [4]]
    assert runs(log) == runs(log + "2") == ["2"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_clients_of_a_head_keep_results_themselves(log, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with Executor(listen="tcp://127.0.0.1:0", local=Cores(1)) as head, connect(head.address) as executor:
        first_, again_ = (double @ Cores(1))(log, 3), (double @ Cores(1))(log, 3)
        assert await first_ == [6]
        assert await again_ == [6]
        assert "It did not run" in str(await executor.explain(again_))
    assert runs(log) == ["3"]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: delayed(lambda: 0, cache="v1"), ValueError, "goes by a function's name"),
        (lambda: delayed([].append, cache="v1"), ValueError, "append has none|holds more than that"),
        (lambda: delayed(log_of(3), cache="v1"), ValueError, "holds more than that says"),
        (lambda: delayed(counting, cache="v1"), TypeError, "is a stream"),
        (lambda: delayed(cache=1)(write_down), TypeError, "cache= takes a string"),
    ],
)
def test_what_has_no_name_of_its_own_is_refused_where_it_is_written(make, error, words):
    with pytest.raises(error, match=words):
        make()


def typed(source, monkeypatch, file=None):
    """The function or class that `source` defines, as if it had been typed into `file` of the main script."""
    monkeypatch.setitem(sys.modules, "__main__", main := types.ModuleType("__main__"))
    if file is not None:
        main.__file__ = asyncio.__file__  # whose prompt it is
    exec(compile(source, file or "<stdin>", "exec"), main.__dict__)
    return main.typed


@pytest.mark.parametrize("source", ["def typed(x): return x", "class typed:\n  def __init__(self, x): pass"])
@pytest.mark.parametrize(
    "file",
    ["<console>", "<stdin>", "<string>", "<python-input-0>", "<ipython-input-1-a>", "/tmp/ipykernel_1/2.py", None],
)
def test_what_is_typed_at_a_prompt_is_refused(source, file, monkeypatch):
    function = typed(source, monkeypatch, file)
    with pytest.raises(ValueError, match=r"goes by a function's name, and typed was typed .*at the top of a module"):
        delayed(function, cache="v1")
    delayed(function)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("source", ["def typed(x): return x", "class typed:\n  def __init__(self, x): pass"])
def test_a_function_of_the_main_script_goes_by_the_file_that_it_is_in(source, zipped, monkeypatch, tmp_path):
    path = tmp_path / "script"
    path.touch()
    file = path / "__main__.py" if zipped else path
    function = delayed(typed(source, monkeypatch, str(file)), cache="v1").function
    assert key_of(function, (1,), {}).function == f"{file}:typed"


def log_of(x):
    def inner():
        return x

    return inner


async def counting():
    yield 1


PROGRAM = """
import sys
from grainlike import Cores, delayed, run

@delayed(cache="v1")
def slow(x):
    print("runs", flush=True)
    return x + 1

async def main():
    print(await (slow @ Cores(1))(int(sys.argv[1])))

run(main, local=Cores(1))
"""


def test_programs_find_what_others_kept_and_it_is_listed_and_removed(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}

    def said(x):
        command = [sys.executable, str(script), str(x)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT_S)
        return done.stdout.split()

    assert said(1) == ["runs", "2"]
    assert said(1) == ["2"]
    assert command_line(["cache", "ls"]) == 0
    assert "script.py:slow" in capsys.readouterr().out.replace("\n", "")
    assert command_line(["cache", "rm", "slow", "--version", "v2"]) == 1
    assert command_line(["cache", "rm", "slow", "--older", "1"]) == 1
    [kept] = Path(os.environ["GRAINLIKE_CACHE__DIRECTORY"]).glob("*/v1/*")
    begun = kept.with_name(".new-by-a-program-that-died")
    begun.touch()
    os.utime(begun, (0, 0))
    assert command_line(["cache", "rm", "slow"]) == 0
    assert "removed 1 result, 5B" in capsys.readouterr().out
    assert not begun.exists()
    assert said(1) == ["runs", "2"]
    assert command_line(["cache", "rm", "--all"]) == 0
    assert command_line(["cache", "rm"]) == 2
    assert command_line(["cache", "rm", "--all", "slow"]) == 2
    capsys.readouterr()
    assert command_line(["cache", "ls", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
