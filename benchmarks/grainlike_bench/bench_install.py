"""Weight of an installation: each requirement on disk and as a download, and what the last three cost a first job.

Everything is installed from the index that pip uses, twice: whole, and without the command line's part. Sizes are those
of files without compiled code, and of wheels. A package counts for the requirement that brings it first.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROWS = (
    ("grainlike",),
    ("anyio",),
    ("msgspec",),
    ("cloudpickle", "dill"),
    ("threadpoolctl",),
    ("uvloop",),
    ("typer",),
    ("rich",),
    ("cryptography",),
)
"""Rows of the table, in its order but for one: what both typer and rich bring is rich's."""
SPARED = ("typer", "rich", "cryptography")
ROUNDS = 15
JOB = """
from grainlike import Cores, delayed, run
@delayed
{kind} one():
    return 1
async def main():
    assert await (one @ Cores(1))() == 1
run(main, local=Cores(2))
"""
PROGRAMS = {
    "Python alone": "",
    "import grainlike": "import grainlike",
    "a first job of a coroutine": JOB.format(kind="async def"),
    "a first job in a process of its own": JOB.format(kind="def"),
}


def main() -> None:
    checkout = Path(__file__).parents[2]
    if not (checkout / "grainlike").is_dir():
        print("not measured: what is installed is built from a checkout")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = folder / "wheels"
        pip("wheel", "--no-deps", "--wheel-dir", str(wheels), str(checkout))
        pip("download", "--only-binary=:all:", "--dest", str(wheels), *map(str, wheels.glob("grainlike-*.whl")))
        whole = installed(folder / "whole", wheels, [])
        show_sizes(folder / "whole", wheels)
        spared = installed(folder / "spared", wheels, brought(folder / "whole", SPARED))
        show_times(whole, spared)


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *words[:1], "--quiet", *words[1:]], check=True)


def installed(folder: Path, wheels: Path, without: list[str]) -> Path:
    """Return the Python of a new environment that has the wheels, but for some."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    chosen = [str(path) for path in wheels.glob("*.whl") if plain(path.name.partition("-")[0]) not in without]
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile", *chosen]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *words], check=True)
    return python


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def inside(environment: Path) -> dict[str, Distribution]:
    """Return what is installed in an environment, by name."""
    folder = sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)})
    return {plain(found.metadata["Name"]): found for found in distributions(path=[folder])}


def needs(found: Distribution) -> list[str]:
    """Return names of what a distribution requires without extras."""
    wanted = [one for one in found.requires or [] if "extra ==" not in one]
    return [plain(re.split(r"[^\w.-]", one, maxsplit=1)[0]) for one in wanted]


def brought(environment: Path, names: tuple[str, ...], taken: set[str] | None = None) -> list[str]:
    """Return these packages and all that they require, less what is taken, which then has them, too."""
    there = inside(environment)
    taken = (
        closure(there, [row for row in sum(ROWS, ()) if row not in {"grainlike", *SPARED}]) if taken is None else taken
    )
    found = [name for name in closure(there, names) if name not in taken]
    taken.update(found)
    return sorted(found)


def closure(there: dict[str, Distribution], names: tuple[str, ...] | list[str]) -> set[str]:
    left, found = list(names), set[str]()
    while left:
        name = left.pop()
        if name in there and name not in found:
            found.add(name)
            left += needs(there[name])
    return found


def show_sizes(environment: Path, wheels: Path) -> None:
    there = inside(environment)
    weights = {name: sum(file.size or 0 for file in found.files or []) for name, found in there.items()}
    downloads = {plain(path.name.partition("-")[0]): path.stat().st_size for path in wheels.glob("*.whl")}
    taken = {"grainlike"}
    order = [*ROWS[1:6], ROWS[7], ROWS[6], ROWS[8]]
    parts = {("grainlike",): ["grainlike"]} | {row: brought(environment, row, taken) for row in order}
    print(f"{'MB':40} {'disk':>6} {'download':>9}")
    for row in ROWS:
        print_sizes(", ".join(row), parts[row], weights, downloads)
    print_sizes("in all", list(there), weights, downloads)
    print_sizes("of it, the last three", [name for row in ROWS[-3:] for name in parts[row]], weights, downloads)


def print_sizes(title: str, names: list[str], weights: dict[str, int], downloads: dict[str, int]) -> None:
    disk, download = (sum(sizes[name] for name in names) / 1e6 for sizes in (weights, downloads))
    print(f"{title:40} {disk:6.1f} {download:9.2f}   {', '.join(names) if len(names) < 9 else ''}".rstrip())


def show_times(whole: Path, spared: Path) -> None:
    print(f"{'s of CPU, the least of ' + str(ROUNDS):40} {'with':>6} {'without':>9}")
    for title, program in PROGRAMS.items():
        least = [float("inf")] * 2
        for _ in range(ROUNDS):
            least = [min(best, cpu_time(python, program)) for best, python in zip(least, (whole, spared), strict=True)]
        print(f"{title:40} {least[0]:6.2f} {least[1]:9.2f}")


def cpu_time(python: Path, program: str) -> float:
    """Return the CPU time of a whole process and of all that it starts and waits for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, "-c", program], env=environment, cwd=python.parent, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
