"""A call with resources that nobody awaits, starts or passes on is warned of, as a coroutine is."""

import asyncio
import gc
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from grainlike import Cores, cancel, delayed, dry_run, gather, graph, run

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


@delayed
def train(x):
    return x


HEAVY = train @ Cores(1)


def warnings_of(use):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use()
        gc.collect()
    return [str(warning.message) for warning in caught if issubclass(warning.category, RuntimeWarning)]


def test_a_call_that_is_dropped_is_warned_of_where_it_is_dropped() -> None:
    with pytest.warns(RuntimeWarning, match="^call of 'train' was never awaited$") as caught:
        HEAVY(1)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("runs", [lambda main: run(main, local=Cores(1)), lambda main: asyncio.run(main())])
def test_where_no_line_of_the_user_drops_it_it_says_how_to_find_the_line(runs) -> None:
    async def main() -> None:
        r_ = HEAVY(1)  # noqa: F841 - it is forgotten

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs(main)
    (told,) = [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]
    assert str(told.message) == (
        "call of 'train' was never awaited; `python -X dev` says where the call is made, this is its function"
    )
    code = train.__wrapped__.__code__
    assert (told.filename, told.lineno) == (__file__, code.co_firstlineno)


def test_of_a_function_in_c_the_line_that_drops_it_is_shown() -> None:
    async def main() -> None:
        r_ = (delayed(abs) @ Cores(1))(1)  # noqa: F841 - it is forgotten

    (said,) = warnings_of(lambda: asyncio.run(main()))
    assert said == "call of 'abs' was never awaited; `python -X dev` says where the call is made"


def test_of_calls_in_each_other_the_outermost_is_named_once() -> None:
    assert warnings_of(lambda: HEAVY([HEAVY(1), {"deep": HEAVY(2)}])) == ["call of 'train' was never awaited"]


@pytest.mark.parametrize(
    "use",
    [
        lambda: train(1),  # runs here, and costs nothing that was asked for
        lambda: graph(HEAVY(1)),
        lambda: graph(HEAVY(HEAVY(1))),
        lambda: cancel(HEAVY(1)),
        lambda: run(lambda: gather([HEAVY(1), HEAVY(2)]), local=Cores(1)),
        lambda: run(lambda: dry_run(HEAVY(1), workers=[Cores(1)], durations={"train": 1.0})),
    ],
    ids=["no resources", "drawn", "drawn, and what it needs", "cancelled", "awaited", "planned"],
)
def test_what_was_used_is_not(use) -> None:
    assert warnings_of(use) == []


def test_what_a_plan_was_made_of_may_go_in_any_order() -> None:
    def plan() -> None:
        inner_ = HEAVY(1)
        outer_ = HEAVY(inner_)
        graph(outer_)
        del outer_
        del inner_

    assert warnings_of(plan) == []


def test_a_placeholder_that_was_copied_is_warned_of_with_the_last() -> None:
    def use() -> None:
        import copy

        r_ = HEAVY(1)
        other = copy.copy(r_)
        del r_
        said.append("first")
        del other

    said: list[str] = []
    assert warnings_of(use) == ["call of 'train' was never awaited"]


PROGRAM = """
from grainlike import Cores, delayed

@delayed
def train(x): return x

def make():
    return (train @ Cores(1))(1)

r_ = make()
del r_
"""


@pytest.mark.parametrize("options", [["-X", "dev"], []])
def test_in_development_mode_it_says_where_the_call_was_made(options: list[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *options, str(program)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RuntimeWarning: call of 'train' was never awaited" in done.stderr
    assert (f"Call made at {program}:8" in done.stderr) == bool(options)
    assert f"{program}:{8 if options else 11}: RuntimeWarning" in done.stderr
