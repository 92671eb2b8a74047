"""Both type checkers read the assertion files of this directory and have nothing to say."""

import json
import os
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


def test_every_type_of_the_package_is_written_down(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes", "grainlike"]
    own = Path(sys.executable).parent  # what it imports is looked for where `python` of the path has it
    done = subprocess.run(
        command,
        cwd=tmp_path,  # with the checkout's own settings it would look for the package there
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{own}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["typeCompleteness"]
    incomplete = [
        f"{symbol['name']}: {report['message']}"
        for symbol in found["symbols"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
        for report in symbol["diagnostics"]
    ]
    assert incomplete == []
    assert found["exportedSymbolCounts"]["withKnownType"] > 1200
