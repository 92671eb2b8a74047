"""Output of jobs in a notebook is shown below the cell that awaits them, by a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebooks import Kernel
from waiting import until_files_blocking

SET_UP = """
import asyncio, subprocess, sys
from pathlib import Path
import anyio
from grainlike import Cores, Executor, delayed, gather, start
from waiting import until_files, until_files_blocking

@delayed
def say(word):
    print(word, flush=True)
    print(word, "complains", file=sys.stderr)
    return word

@delayed
async def say_async(word):
    print(word)
    print(word, "complains", file=sys.stderr)
    return word

@delayed
def say_when(word, sign, after):
    until_files_blocking(Path(sign).parent, Path(sign).exists)
    print(word, flush=True)
    Path(after).touch()

@delayed
async def say_nested(word):
    return await (say @ Cores(1))(word)
"""


@pytest.fixture(scope="module", autouse=True)
def _functions(kernel: Kernel) -> None:
    kernel.run(SET_UP)


@pytest.mark.parametrize("name", ["say", "say_async", "say_nested"])
def test_each_cell_shows_what_its_own_jobs_print(kernel: Kernel, name: str) -> None:
    cells = [kernel.run(f"await ({name} @ Cores(1))('cell {n}')") for n in range(3)]
    assert [cell.written() for cell in cells] == [f"cell {n}\n" for n in range(3)]
    assert [cell.written("stderr") for cell in cells] == [f"cell {n} complains\n" for n in range(3)]
    assert [cell.value for cell in cells] == [f"'cell {n}'" for n in range(3)]


def test_calls_that_travel_together_are_shown_by_the_cell_that_awaits_the_last(kernel: Kernel) -> None:
    kernel.run("await gather([(say @ Cores(1))(n) for n in range(50)])")  # so that they are known to be quick
    cell = kernel.run("""
chain_ = (say @ Cores(1))("link 0")
for n in range(1, 5):
    chain_ = (delayed(lambda before, n: print("link", n), name="link") @ Cores(1))(chain_, n)
await chain_
say_ = (say @ Cores(1))("a")
for word in "bcde":
    say_ = (say @ Cores(1))(say_ + word)
await say_
""")
    assert cell.written() == "".join(f"link {n}\n" for n in range(5)) + "a\nab\nabc\nabcd\nabcde\n"


@pytest.mark.parametrize("name", ["say", "say_async"])
def test_nothing_of_very_many_quick_jobs_is_lost(kernel: Kernel, name: str) -> None:
    cell = kernel.run(f"await gather([({name} @ Cores(1))(n) for n in range(500)]); None")
    assert sorted(map(int, cell.written().split())) == list(range(500))
    assert cell.written("stderr").count("complains") == 500


def test_a_program_that_a_job_starts_prints_below_the_cell_too(kernel: Kernel) -> None:
    kernel.run("run_echo = delayed(lambda word: subprocess.run(['echo', word], check=True).returncode)")
    cell = kernel.run("await (run_echo @ Cores(1))('from a program')")
    assert cell.written() == "from a program\n"


def test_two_cells_at_a_time_show_what_is_their_own(kernel: Kernel, tmp_path: Path) -> None:
    first = kernel.run(f"""
async def wait_for(r_):
    await r_
    print("the first has ended")

task = asyncio.create_task(wait_for((say_when @ Cores(1))("first", "{tmp_path}/1", "{tmp_path}/2")))
""")
    second = kernel.run(f"""
executor = Executor(local=Cores(1))
async with executor:
    r_ = start((say_when @ Cores(1))("second", "{tmp_path}/2", "{tmp_path}/3"))
    Path("{tmp_path}/1").touch()
    await r_
await task
""")
    assert (first.written(), second.written()) == ("first\nthe first has ended\n", "second\n")


def test_a_job_that_one_cell_starts_prints_below_the_one_that_awaits_it(kernel: Kernel, tmp_path: Path) -> None:
    started = kernel.run(f"r_ = start((say_when @ Cores(1))('word', '{tmp_path}/1', '{tmp_path}/2'))")
    between = kernel.run("print('between')")
    awaits = kernel.run(f"sum_ = gather(r_)\nPath('{tmp_path}/1').touch()\nawait sum_")
    assert (started.written(), between.written(), awaits.written()) == ("", "between\n", "word\n")


def test_what_nobody_awaits_prints_below_the_cell_that_started_it(kernel: Kernel, tmp_path: Path) -> None:
    started = kernel.run(f"r_ = start((say_when @ Cores(1))('word', '{tmp_path}/1', '{tmp_path}/2'))")
    later = kernel.run(
        f"Path('{tmp_path}/1').touch()\nawait until_files(Path('{tmp_path}'), Path('{tmp_path}/2').exists)"
    )
    kernel.run("await r_")
    assert (started.written(), later.written()) == ("word\n", "")


@pytest.mark.parametrize("first", ["begun\n", ""], ids=["spoke", "silent"])
def test_what_a_cancelled_job_still_prints_is_shown_by_no_other_cell(
    kernel: Kernel, tmp_path: Path, first: str
) -> None:
    kernel.run("""
@delayed
async def say_at_the_end(began, first):
    if first:
        print(first, end="")
    try:
        Path(began).touch()
        await anyio.sleep_forever()
    finally:
        print("late")
""")
    before = "".join(cell.written() for cell in kernel.cells)
    cell = kernel.send(f"await (say_at_the_end @ Cores(1))('{tmp_path}/1', {first!r})")
    until_files_blocking(tmp_path, (tmp_path / "1").exists)
    kernel.interrupt()
    kernel.until(lambda: cell.ended)
    assert cell.error == "CancelledError: "
    after = kernel.run("await (say @ Cores(1))('after')")
    own = "begun\nlate\n" if first else ""  # of one that has not spoken before, the cell is known no more
    assert (cell.written(), after.written()) == (own, "after\n")
    assert "".join(cell.written() for cell in kernel.cells) == before + own + "after\n"
