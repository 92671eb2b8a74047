"""The recipe for conda says what pyproject.toml says, renders, and its script and the commands of its tests run."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rattler_build import Stage0Recipe

from grainlike import __version__

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ELSEWHERE = {"celery[redis]": "celery", "ray": "ray-core"}
"""Names that differ on conda-forge, where a package has no extras."""


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    """Return the recipe as rattler-build renders it: with versions filled in, and nothing in it that is no key."""
    (variant,) = Stage0Recipe.from_file(RECIPE).render()
    return variant.recipe.to_dict()


def spec(requirement: str) -> str:
    """Return a requirement as conda writes it: without a marker, and a space before the versions."""
    found = re.fullmatch(r"([\w.-]+(?:\[\w+\])?)(.*)", requirement.partition(";")[0].strip())
    assert found is not None, requirement
    name, versions = found.groups()
    return f"{ELSEWHERE.get(name, name)} {versions}"


def test_it_is_of_this_version_and_for_every_python_from_the_oldest(recipe: dict[str, Any]) -> None:
    assert recipe["package"] == {"name": PROJECT["project"]["name"], "version": __version__}
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert recipe["build"]["noarch"] == "python"
    assert f"python >={oldest}" in recipe["requirements"]["run"]
    assert f"python {oldest}.*" in recipe["requirements"]["host"]


def test_it_requires_what_the_wheel_requires(recipe: dict[str, Any]) -> None:
    required = [one for one in recipe["requirements"]["run"] if not one.startswith(("__linux", "python "))]
    assert required == [spec(one) for one in PROJECT["project"]["dependencies"]]


def test_a_marker_of_the_wheel_holds_wherever_conda_installs_it(recipe: dict[str, Any]) -> None:
    """A package without an architecture cannot ask where it is: it is for Linux alone, and conda has CPython alone."""
    markers = {one.partition(";")[2].strip() for one in PROJECT["project"]["dependencies"]} - {""}
    assert markers == {"platform_system != 'Windows' and implementation_name == 'cpython'"}
    assert "__linux" in recipe["requirements"]["run"]


def test_what_it_builds_with_is_what_the_wheel_is_built_with(recipe: dict[str, Any]) -> None:
    needed = [one for one in recipe["requirements"]["host"] if one != "pip" and not one.startswith("python ")]
    assert needed == [spec(one) for one in PROJECT["build-system"]["requires"]]


def test_versions_of_what_is_optional_are_those_of_the_extras(recipe: dict[str, Any]) -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    assert recipe["requirements"]["run_constraints"] == sorted({spec(one) for extra in extras for one in extra})


def test_its_command_licence_and_summary_are_those_of_the_wheel(recipe: dict[str, Any]) -> None:
    project = PROJECT["project"]
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    about = recipe["about"]
    assert (about["summary"], about["license"], about["license_file"]) == (
        project["description"],
        project["license"],
        project["license-files"],
    )


def test_its_script_installs_the_package_and_what_it_tests_then_passes(recipe: dict[str, Any], tmp_path: Path) -> None:
    """As a build does it: the script in the source, then tests where there is no source but the files that they name.

    What the package requires comes from the environment of these tests, where a build has an environment of conda.
    """
    installed = tmp_path / "installed"
    script = recipe["build"]["script"].replace("${{ PYTHON }}", sys.executable)
    source = RECIPE.parent / recipe["source"][0]["path"]
    ran(f"{script} --target {installed}", source, {})
    imports, commands = recipe["tests"]
    elsewhere = tmp_path / "elsewhere"
    for name in commands["files"]["source"]:
        file = elsewhere / name
        file.parent.mkdir(parents=True)
        file.write_bytes((source / name).read_bytes())
    environment = {"PYTHONPATH": str(installed), "PATH": f"{installed / 'bin'}:{Path(sys.executable).parent}:/bin"}
    for name in imports["python"]["imports"]:
        found = ran(f"python -c 'import {name}; print({name}.__file__)'", elsewhere, environment)
        assert found.startswith(str(installed))
    said = [ran(command, elsewhere, environment) for command in commands["script"]]
    assert said[0].strip().endswith(__version__)
    assert str(installed) in said[1]


def ran(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Return what a command wrote; fail with what it complained of."""
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
