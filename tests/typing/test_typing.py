"""Both type checkers read the files of assertions of this directory, and every type of the package is known."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = [*sorted(HERE.glob("*_types.py")), HERE / "errors_are_builtins.py"]


def test_both_checkers_read_every_file_of_assertions() -> None:
    """As `make check` runs them; pyright, which does not by itself, reports ignored errors that are not there."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert "tests/typing" in tools["mypy"]["files"]
    assert tools["mypy"]["strict"]
    assert "tests/typing" in tools["pyright"]["include"]
    assert len(FILES) >= 4
    for path in FILES:
        assert "\n# pyright: reportUnnecessaryTypeIgnoreComment=error\n" in path.read_text(), path


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
