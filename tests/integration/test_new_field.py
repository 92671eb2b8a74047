"""Fields of `info()` new to the code, added in the files that CONTRIBUTING.md names and in no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).parents[2]

KNOWN = {
    "grainlike/graph/_questions.py": ("    ended: float | None = None\n", "    number: int = 0\n"),
    "grainlike/graph/_record.py": (
        "    __slots__ = ()\n",
        "\n    @property\n    def number(self) -> int:\n        return 0\n",
    ),
    "grainlike/jobs/_job.py": (
        "        return None if slots is None else allocation_of(slots)\n",
        "\n    @property\n    def number(self) -> int:\n        return self.id\n",
    ),
}
"""A field that the program knows: after which line of which file stands what."""

MEASURED = {
    "grainlike/resources/_records.py": ("    devices: tuple[int, ...]\n    memory_tier: str\n", "    niceness: int\n"),
    "grainlike/wire/_reports.py": ("    devices: list[int]\n    memory_tier: str\n", "    niceness: int = 0\n"),
    "grainlike/jobs/_job.py": ("tuple(spec.devices), spec.memory_tier", ", spec.niceness"),
    "worker/grainlike_worker/runner/common/_enforce.py": ("self._seen[1], memory_tier", ", os.nice(0)"),
}
"""A field of the receipt, which a worker reads in the job's process."""

NICER = 3
"""How much the niceness of the program is raised over that of the tests, which need not run at 0 themselves."""

PROGRAM = """
import asyncio, json
from grainlike import Cores, Executor, delayed, info
async def main():
    async with Executor(local=Cores(1)):
        job = delayed(abs) @ Cores(1)
        r_ = job(-1)
        await r_
        told = info(r_)
        print(json.dumps([getattr(told, "number", None), getattr(told.receipt, "niceness", None)]))
asyncio.run(main())
"""


def told_by(place: Path) -> list[object]:
    """Return what a program prints that imports the packages in `place`."""
    environment = {**os.environ, "PYTHONPATH": f"{place}:{place / 'worker'}"}
    command = ["nice", "-n", str(NICER), sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=place
    )
    assert done.returncode == 0, done.stderr
    told: list[object] = json.loads(done.stdout)
    return told


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Copy both packages."""
    for package in ("grainlike", "worker/grainlike_worker"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize(
    ("edits", "told"),
    [(KNOWN, [1, None]), (MEASURED, [None, min(os.nice(0) + NICER, 19)])],
    ids=["known", "measured"],
)
def test_a_new_field_is_shown(edits: dict[str, tuple[str, str]], told: list[object], copied: Path) -> None:
    for name, (after, lines) in edits.items():
        text = (copied / name).read_text()
        assert text.count(after) == 1, f"{name} has no such line any more: move this test along"
        (copied / name).write_text(text.replace(after, after + lines))
    assert told_by(copied) == told


def test_the_page_names_the_files_of_both_fields() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    (row,) = re.findall(r"^\| a field of `info\(\)`.*$", page, re.MULTILINE)
    for name in [*KNOWN, *MEASURED]:
        assert re.sub(r"^(grainlike|worker/grainlike_worker)/", "", name) in row
