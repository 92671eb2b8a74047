"""The walls between the rooms hold, and the machine that checks them can see a hole."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HOLES = [
    ("floors", "grainlike/resources/_hole.py", "import grainlike.graph\n", "grainlike.graph"),
    ("floors", "grainlike/wire/_hole.py", "import grainlike.payload\n", "grainlike.payload"),
    ("floors", "grainlike/attic.py", "'A room that no floor knows.'\n", ""),
    ("schedulers", "grainlike/scheduler/_hole.py", "import time\n", "time"),
    ("schedulers", "grainlike/graph/_hole.py", "def late():\n    import asyncio\n    return asyncio\n", "asyncio"),
    ("pickles", "grainlike/net/_hole.py", "from pickle import loads\n", "pickle"),
    ("worker", "worker/grainlike_worker/_hole.py", "import grainlike.executor\n", "grainlike.executor"),
    ("wheel", "grainlike/executor/_hole.py", "def judged():\n    import simtest\n    return simtest\n", "simtest"),
    ("wheel", "grainlike/cli/_hole.py", "import grainlike_bench\n", "grainlike_bench"),
    ("by-name", "grainlike/maps/_hole.py", "import grainlike_worker\n", "grainlike_worker"),
]
"""Contracts, modules that break them, each in a room of its own, and what these must not import."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages and of the contracts, to make holes in."""
    folder = tmp_path_factory.mktemp("house")
    for name in ("grainlike", "worker", "simtest", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture(scope="module")
def complaints(house: Path) -> dict[str, str]:
    """Return the report of each contract that is broken where all holes are there: to look for them takes seconds."""
    for _, path, source, _ in HOLES:
        assert not (house / path).exists()
        (house / path).write_text(source)
    try:
        done = lint(house)
    finally:
        for _, path, _, _ in HOLES:
            (house / path).unlink()
    assert done.returncode == 1, done.stdout + done.stderr
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    said = re.sub(r"\s+", " ", done.stdout.partition("Broken contracts")[2])
    places = {contract["id"]: said.find(f"{contract['name']} ---") for contract in contracts}
    begins = sorted((place, name) for name, place in places.items() if place >= 0)
    ends = [place for place, _ in begins[1:]]
    return {name: said[begin:end] for (begin, name), end in zip(begins, [*ends, len(said)], strict=True)}


def lint(house: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
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


@pytest.mark.parametrize(
    ("contract", "path", "imported"),
    [(contract, path, imported) for contract, path, _, imported in HOLES],
    ids=[f"{contract}-{Path(path).parent.name}" for contract, path, _, _ in HOLES],
)
def test_a_hole_in_a_wall_is_seen(contract: str, path: str, imported: str, complaints: dict[str, str]) -> None:
    hole = ".".join(Path(path.removeprefix("worker/")).with_suffix("").parts)
    assert (f"- {hole} -> {imported} " if imported else f"not listed as layers: - {hole} ") in complaints[contract]


def test_nothing_is_seen_where_no_hole_is(complaints: dict[str, str]) -> None:
    assert complaints.keys() == {contract for contract, *_ in HOLES}
    for said in complaints.values():
        firsts = re.findall(r"(?<!-)- (grainlike\S*) ", said)
        assert firsts
        assert all(first.endswith(("._hole", ".attic")) for first in firsts), said
