"""The distribution grainlike-bench: its wheel has the benchmarks, and belongs to one version of grainlike."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import grainlike

ROOT = Path(__file__).parents[2]


def test_the_wheel_has_the_benchmarks(tmp_path: Path) -> None:
    """Built by its own build backend, without the network."""
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, cwd=ROOT / "benchmarks", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("grainlike_bench-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {str(path.relative_to(ROOT / "benchmarks")) for path in (ROOT / "benchmarks").rglob("*.py")}


def test_it_is_of_the_same_version() -> None:
    """The benchmarks use private modules."""
    project = tomllib.loads((ROOT / "benchmarks" / "pyproject.toml").read_text())["project"]
    assert project["version"] == grainlike.__version__
    assert project["dependencies"] == [f"grainlike=={grainlike.__version__}"]
