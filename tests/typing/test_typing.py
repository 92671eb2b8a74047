"""Both type checkers read the assertion files of this directory and have nothing to say."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = sorted(str(path) for path in HERE.glob("*_types.py"))


def test_mypy_strict_agrees_with_every_assertion() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", *FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_agrees_with_every_assertion() -> None:
    command = [sys.executable, "-m", "pyright", "-p", str(HERE), "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
