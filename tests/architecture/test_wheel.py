"""What `pip install grainlike` puts on a user's machine, and what it must not."""

import re
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


def test_the_pages_of_the_dashboard_travel_as_they_are(names: set[str]) -> None:
    static = ROOT / "grainlike" / "dashboard" / "static"
    pages = {f"grainlike/dashboard/static/{path.name}" for path in static.iterdir()}
    assert {path.rpartition(".")[2] for path in pages} == {"css", "html", "js", "svg"}
    assert pages <= names


def test_pages_load_nothing_of_others_and_have_no_script_or_style_inside() -> None:
    static = ROOT / "grainlike" / "dashboard" / "static"
    page = (static / "index.html").read_text()
    assert re.findall(r"<(?:script|link)[^>]*(?:src|href)=\"([^\"]*)", page)
    assert not re.search(r"<style|style=|<script(?![^>]* src=)|\son[a-z]+=", page)
    for path in static.iterdir():
        loaded = re.findall(r"(?:from|import|url|src=|@import)\s*\(?[\"'](https?:[^\"']*)", path.read_text())
        assert loaded == [], path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text()), path
