"""The walls between the rooms hold, and the machine that checks them can see a hole."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HOLES = [
    ("floors", "grainlike/resources/_hole.py", "import grainlike.graph\n"),
    ("floors", "grainlike/wire/_hole.py", "import grainlike.payload\n"),
    ("floors", "grainlike/attic.py", "'A room that no floor knows.'\n"),
    ("schedulers", "grainlike/scheduler/_hole.py", "import time\n"),
    ("schedulers", "grainlike/graph/_hole.py", "def late():\n    import asyncio\n    return asyncio\n"),
    ("pickles", "grainlike/net/_hole.py", "from pickle import loads\n"),
    ("worker", "worker/grainlike_worker/_hole.py", "import grainlike.executor\n"),
    ("wheel", "grainlike/executor/_hole.py", "def judged():\n    import simtest\n    return simtest\n"),
    ("wheel", "grainlike/cli/_hole.py", "import grainlike_bench\n"),
    ("by-name", "grainlike/executor/_hole.py", "import grainlike_worker\n"),
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the packages and of the contracts, to make holes in."""
    for name in ("grainlike", "worker", "simtest", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
            *options,
        ],
        cwd=house,
        env={"PYTHONPATH": f"{house}:{house / 'worker'}:{house / 'benchmarks'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_wall_stands(house: Path) -> None:
    done = lint(house)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(("contract", "path", "source"), HOLES, ids=[f"{c}-{Path(p).parent.name}" for c, p, _ in HOLES])
def test_a_hole_in_a_wall_is_seen(house: Path, contract: str, path: str, source: str) -> None:
    (house / path).write_text(source)
    done = lint(house, "--contract", contract)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 broken" in done.stdout
