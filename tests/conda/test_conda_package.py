"""The recipe for conda is built by rattler-build and tested as it says; a solver installs its package, and jobs run.

All that takes is in a channel of this machine (local_channel.py): its packages are not conda-forge's, but of the same
projects, and of versions that the recipe allows.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_channel import HERE, build, build_file, make_channel
from rattler import Channel, Subdir, VirtualPackage, install, solve
from rattler.package_streaming import extract
from rattler_build import Package, Stage0Recipe

from grainlike import __version__

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
SMOKE = ROOT / ".ci" / "smoke.py"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the channel, what is built and installed from it, and what rattler unpacks."""
    folder = tmp_path_factory.mktemp("conda")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATTLER_CACHE_DIR", str(folder / "cache"))
        yield folder
    shutil.rmtree(folder)  # some hundred megabytes, that nobody will look at


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    (variant,) = Stage0Recipe.from_file(RECIPE).render()
    return variant.recipe.to_dict()


@pytest.fixture(scope="module")
def channel(scratch: Path, recipe: dict[str, Any]) -> str:
    """The address of a channel that has all that the recipe requires, and not the package itself."""
    return make_channel(scratch, recipe)


@pytest.fixture(scope="module")
def package(scratch: Path, channel: str) -> Package:
    return Package.from_file(build_file(RECIPE, scratch / "built", channel))


@pytest.fixture(scope="module")
def prefix(scratch: Path, channel: str, package: Package) -> Path:
    """A fresh environment with the package, what a solver chose for it, and nothing else."""
    prefix = scratch / "prefix"
    asyncio.run(installed(prefix, [(scratch / "built").as_uri(), channel]))
    return prefix


async def installed(prefix: Path, channels: list[str]) -> None:
    records = await solve(
        [Channel(one) for one in channels],
        ["grainlike"],
        platforms=[Subdir(HERE), Subdir("noarch")],
        virtual_packages=VirtualPackage.detect(),
    )
    await install(records, prefix)


def ran(words: list[str], prefix: Path, where: Path) -> str:
    """Return what a command of an environment wrote; fail with what it complained of."""
    environment = {"PATH": f"{prefix / 'bin'}:/usr/bin:/bin", "HOME": str(where)}
    done = subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


def test_what_it_requires_is_what_the_recipe_says(package: Package, recipe: dict[str, Any]) -> None:
    assert (package.name, package.version, package.noarch, package.subdir) == (
        "grainlike",
        __version__,
        "python",
        "noarch",
    )
    assert package.depends == recipe["requirements"]["run"]
    assert package.constrains == recipe["requirements"]["run_constraints"]
    assert package.license == recipe["about"]["license"]


def test_it_has_both_packages_with_all_their_modules_and_nothing_else(package: Package) -> None:
    in_source = {
        f"site-packages/{file.relative_to(folder)}"
        for folder, name in ((ROOT, "grainlike"), (ROOT / "worker", "grainlike_worker"))
        for file in (folder / name).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    metadata = f"site-packages/grainlike-{__version__}.dist-info/"
    files = {name for name in package.files if not name.startswith(metadata)}
    assert files == in_source | {
        "etc/conda/test-files/grainlike/1/.ci/smoke.py"
    }  # where its tests look for their files
    assert {"site-packages/grainlike/py.typed", "site-packages/grainlike_worker/py.typed"} <= files


def test_it_brings_its_licence_and_its_command(package: Package, recipe: dict[str, Any], tmp_path: Path) -> None:
    extract(package.path, tmp_path)
    assert (tmp_path / "info" / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    link = json.loads((tmp_path / "info" / "link.json").read_text())
    assert link["noarch"] == {"type": "python", "entry_points": recipe["build"]["python"]["entry_points"]}


def test_the_tests_of_the_recipe_pass(package: Package, channel: str) -> None:
    imports, commands = package.run_tests(channel=[channel])
    assert imports.success, "\n".join(imports.output)
    assert "pip check passed" in "\n".join(imports.output)
    assert commands.success, "\n".join(commands.output)
    assert f"grainlike {__version__} works from" in "\n".join(commands.output)


def test_jobs_run_where_a_solver_installed_it(prefix: Path, tmp_path: Path) -> None:
    assert ran(["grainlike", "--version"], prefix, tmp_path) == f"grainlike {__version__}"
    assert ran(["python", str(SMOKE)], prefix, tmp_path).startswith(f"grainlike {__version__} works from {prefix}/lib/")
    ran(["grainlike", "simulate", "--jobs", "20"], prefix, tmp_path)


def test_a_requirement_that_the_recipe_forgets_is_found_by_its_tests(scratch: Path, channel: str) -> None:
    """Else that they pass would say nothing of what the package requires."""
    forgetful = yaml.safe_load(RECIPE.read_text())
    forgetful["source"]["path"] = os.fspath(ROOT)
    forgetful["requirements"]["run"].remove("dill >=0.3.8")
    package = Package.from_file(build(forgetful, scratch / "forgetful", scratch / "forgetful" / "built", channel))
    imports = package.run_test(0, channel=[channel])
    assert not imports.success
    assert "requires dill, which is not installed" in "\n".join(imports.output)
