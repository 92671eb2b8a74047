"""Runners that import a module of tests get markers alone in place of pytest, until something asks for more."""

import os
import subprocess
import sys
from pathlib import Path

PATH = Path(__file__).parents[1] / "helpers" / "in_runners"

MODULE = """
import sys
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(True, reason="no")]
Both = pytest.MonkeyPatch | None

@pytest.fixture(params=[1, 2])
def given(request: pytest.FixtureRequest) -> int:
    return request.param

@pytest.mark.asyncio
@pytest.mark.parametrize(("a", "b"), [pytest.param(1, 2, id="x")])
def job(a: int, capsys: "pytest.CaptureFixture[str]" = None) -> int:
    return a + 1

assert job(1) == 2
assert "_pytest" not in sys.modules
with pytest.raises(ZeroDivisionError):
    1 / 0
assert "_pytest" in sys.modules
with pytest.raises(ValueError):
    int("x")
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(PATH)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_a_module_of_tests_loads_markers_alone_until_it_uses_another_name():
    ended = run("-c", MODULE)
    assert ended.returncode == 0, ended.stderr


def test_no_tests_are_run_with_it_by_mistake():
    ended = run("-m", "pytest", "--version")
    assert ended.returncode == 1
    assert "runs no tests" in ended.stderr
