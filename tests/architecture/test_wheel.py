"""What `pip install grainlike` puts on a user's machine, and what it must not."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The paths inside a wheel built from this checkout by its own build backend, without the network."""
    folder = tmp_path_factory.mktemp("dist")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("grainlike-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_only_the_two_packages_reach_site_packages(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"grainlike", "grainlike_worker"}


def test_the_judge_of_simulations_is_in_no_package_of_the_wheel() -> None:
    """By the list of packages alone: nothing that only tests import travels to users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    inside = {part for path in files for part in (*path.parent.relative_to(ROOT).parts, path.stem)}
    assert "_witness" in inside
    assert inside.isdisjoint({"simtest", "judge", "_referee", "_trial"})
    assert (ROOT / "simtest" / "judge" / "_referee.py").exists()


def test_both_packages_are_typed(names: set[str]) -> None:
    assert {"grainlike/py.typed", "grainlike_worker/py.typed"} <= names


def test_the_licence_travels_along(names: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_no_package_shadows_a_users_own_worker_module() -> None:
    assert not (ROOT / "worker" / "__init__.py").exists()
