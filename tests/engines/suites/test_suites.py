"""The suites of other projects pass on our parts, but for the exceptions that are listed with their reasons."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from suite_runs import Outcomes, Suite, judge, read_suite, run_suite

NO_TESTS = "Debian's package has the tests of Python 3.11"
OF_PYTHON = pytest.param("cpython", marks=pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason=NO_TESTS))
SIDE_BY_SIDE = 2  # half of what they do is to wait


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcomes]]]:
    """The runs of those that are asked for."""
    asked = [item.callspec.params["name"] for item in request.session.items if "runs" in item.fixturenames]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {name: pool.submit(run, name, tmp_path_factory.mktemp(name)) for name in asked}


def run(name: str, folder: Path) -> Outcomes:
    packages = None
    if name == "cpython":
        packages = folder / "packages"
        packages.mkdir()
        (packages / "test").symlink_to("/usr/lib/python3.11/test")  # where libpython3.11-testsuite puts them
    return run_suite(read_suite(name), folder, packages)


@pytest.mark.parametrize("name", [OF_PYTHON, "joblib", "sklearn", "dask"])
def test_its_suite_passes_but_for_its_exceptions(name: str, runs: dict[str, Future[Outcomes]]) -> None:
    wrong = judge(read_suite(name), runs[name].result())
    assert not wrong, "\n\n".join(wrong)


SLOW = """
import pathlib

def test_late():
    tried = pathlib.Path(__file__).with_name("late")
    was = tried.exists()
    tried.touch()
    assert was

def test_wrong():
    tried = pathlib.Path(__file__).with_name("wrong")
    was = tried.exists()
    tried.touch()
    assert was

def test_never():
    assert False
"""


def test_only_what_holds_us_to_the_clock_runs_again(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "test_slow.py").write_text(SLOW)
    timed = {"test_slow.py::test_late": "the clock", "test_slow.py::test_never": "the clock"}
    suite = Suite("made up", ["test_slow.py"], 0, {}, {}, timed, shim="suite_outcomes")
    ended = run_suite(suite, tmp_path, packages).ended
    assert ended == {
        "test_slow.py::test_late": "passed",
        "test_slow.py::test_wrong": "failed",
        "test_slow.py::test_never": "failed",
    }
