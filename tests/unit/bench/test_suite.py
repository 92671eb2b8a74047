"""`python -m grainlike_bench`: which benchmarks there are, and what a benchmark misses."""

import sys

import pytest
from grainlike_bench.__main__ import main


def test_an_unknown_benchmark_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job"]) == 2
    told = capsys.readouterr().err
    assert "no benchmark named job" in told
    assert "targets, compare, bare" in told


def test_a_benchmark_that_misses_a_module_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with an installed wheel of the benchmarks: the simulated worlds are only in a checkout."""
    monkeypatch.delitem(sys.modules, "grainlike_bench.bench_simulation", raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "simtest"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "simtest", None)  # as if it were not installed
    assert main(["simulation"]) == 1
    assert "it needs the module simtest, which is only in a checkout" in capsys.readouterr().err
