"""An executor that is made and not opened is warned of at the line that made it, as a coroutine that nobody awaits."""

import asyncio
import gc
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from grainlike import Cores, Executor, ResourceSpecError, connect, delayed, run
from grainlike.executor import offer_with

ROOT = Path(__file__).parents[2]

NEVER = "an executor was never opened: write `async with Executor(...) as ex:`, or `ex = await Executor(...)`"
FELL_BACK = (
    "this executor was not opened, so a call runs on an implicit one, over the cores of this process: write "
    "`async with connect(...) as ex:`, or `ex = await connect(...)`"
)


@delayed
def where() -> str:
    return "here"


def told(use) -> list[tuple[str, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use()
        gc.collect()
    return [
        (str(warning.message), Path(warning.filename).read_text().splitlines()[warning.lineno - 1].strip())
        for warning in caught
        if issubclass(warning.category, RuntimeWarning)
    ]


def test_one_that_is_dropped_is_warned_of_where_it_was_made() -> None:
    def use() -> None:
        ex = Executor(local=Cores(1))
        assert ex.address is None

    assert told(use) == [(NEVER, "ex = Executor(local=Cores(1))")]


PROGRAM = """
import asyncio
from grainlike import Cores, Executor, connect, delayed

def program(main):
    asyncio.run(main())

async def plain():
    return 3

async def heavy():
    assert await (delayed(abs) @ Cores(1))(-3) == 3

"""

FORGOTTEN = """
async def main():
    ex = connect()
    await heavy()
    await heavy()

program(main)
"""

IN_A_MODULE = """
ex = connect()
program(heavy)
"""

OPENED_LATER = """
ex = Executor(local=Cores(1))

async def main():
    assert await delayed(plain)() == 3  # has no resources: it runs in this process in any case
    async with ex:
        await heavy()

program(main)
"""

LEFT_ALONE = """
ex = Executor(local=Cores(1))
"""


def ended(rest: str, tmp_path: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + rest)
    return subprocess.run(
        [sys.executable, *options, str(program)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("rest", [FORGOTTEN, IN_A_MODULE])
def test_a_call_that_runs_on_an_implicit_one_instead_warns_once(rest: str, tmp_path: Path) -> None:
    done = ended(rest, tmp_path)
    assert done.returncode == 0
    where, said = done.stderr.split(": RuntimeWarning: ")
    assert said == f"{FELL_BACK}\n  ex = connect()\n"
    file, line = where.rsplit(":", 1)
    assert Path(file).read_text().splitlines()[int(line) - 1].strip() == "ex = connect()"


@pytest.mark.parametrize("rest", [OPENED_LATER, LEFT_ALONE])
def test_of_one_that_a_module_makes_for_later_nothing_is_said(rest: str, tmp_path: Path) -> None:
    done = ended(rest, tmp_path, "-W", "error")
    assert (done.returncode, done.stderr) == (0, "")


async def stands() -> None:
    ex = await Executor(local=Cores(1))
    await ex.aclose()


def refuses_its_arguments() -> None:
    with pytest.raises(ResourceSpecError):
        Executor(local=3)  # type: ignore[arg-type]


def is_told_how_to_open_it() -> None:
    with pytest.raises(TypeError, match="async with"), Executor(local=Cores(1)):
        pass  # never reached


async def finds_no_head() -> None:
    with pytest.raises(ConnectionError):
        async with connect("tcp://127.0.0.1:9", insecure=True):
            pass  # never reached


def inherits_without_a_word_to_its_parent() -> None:
    class Own(Executor):
        def __init__(self) -> None:
            self.mine = 1

    assert Own().mine == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda: asyncio.run(stands()),
        refuses_its_arguments,
        is_told_how_to_open_it,
        lambda: asyncio.run(finds_no_head()),
        inherits_without_a_word_to_its_parent,
        lambda: run(where @ Cores(1), local=Cores(1)),
    ],
)
def test_of_these_nothing_is_said(use) -> None:
    assert told(use) == []


def test_what_is_asked_of_one_that_was_not_opened_says_how_to_open_it() -> None:
    def use() -> None:
        ex = connect(session="s")
        how = r" is not open: write `async with connect\(\.\.\.\) as ex:`"
        with pytest.raises(RuntimeError, match=how):
            asyncio.run(ex.history())
        with pytest.raises(RuntimeError, match=how):
            ex.name("fit", (where @ Cores(1))())

    assert told(use) == []


def test_of_one_that_is_made_for_its_offer_alone_or_closed_unopened_nothing_is_said() -> None:
    def use() -> None:
        assert offer_with(local=Cores([0])) == Cores([0])
        asyncio.run(Executor(local=Cores(1)).aclose())

    assert told(use) == []
