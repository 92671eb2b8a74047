"""A head's process does not look at a long queue again in each full collection, and still collects in the end; a
command collects once it is loaded.
"""

import gc
import subprocess
import sys
import weakref

import pytest
import typer

from grainlike.cli._root import exit_with
from grainlike.cli.heads import _start
from grainlike.cli.heads._start import collecting_less


class Clock:
    """Each look takes so many seconds more than the one before."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def perf_counter(self) -> float:
        self.now += self.seconds
        return self.now


class Knot:
    """Garbage that only the collector finds, once nobody else holds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1.0)
    monkeypatch.setattr(_start, "time", clock)
    return clock


def test_what_outlived_a_long_collection_is_set_aside_until_little_is_left(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    knot = Knot()
    gone = weakref.ref(knot)
    with collecting_less():
        gc.collect()
        assert gc.get_freeze_count() > 0
        del knot
        gc.collect()
        assert gone() is not None
        clock.seconds = 0.0
        gc.collect()
        assert gc.get_freeze_count() > 0  # more than a few
        monkeypatch.setattr(_start, "_FEW", 10**9)
        gc.collect()
        assert gc.get_freeze_count() == 0
        gc.collect()
        assert gone() is None


def test_afterwards_all_is_looked_at_as_before(clock: Clock) -> None:
    before = list(gc.callbacks)
    with collecting_less():
        gc.collect()
    assert gc.callbacks == before
    assert gc.get_freeze_count() == 0


def test_a_short_collection_sets_nothing_aside(clock: Clock) -> None:
    clock.seconds = 0.0
    with collecting_less():
        gc.collect()
        assert gc.get_freeze_count() == 0


def test_nothing_is_collected_while_a_command_is_loaded() -> None:
    program = (
        "import gc, sys; from grainlike.cli import main; sys.argv[1:] = ['--version']; main(); print(gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"


def test_a_command_that_is_loaded_collects() -> None:
    gc.disable()
    try:
        with pytest.raises(typer.Exit) as end:
            exit_with(lambda: 7 if gc.isenabled() else 8)
    finally:
        gc.enable()
    assert end.value.exit_code == 7
    assert gc.get_freeze_count() > 0
