"""A channel of conda in a folder, made of what is at hand: the Python that runs this, and wheels that pip finds.

It has what a recipe requires to be built and run, and what that requires in turn, so that a recipe is built and
installed where no channel can be reached. Its packages have the names, versions and requirements of the wheels, which
on conda-forge are mostly the same. Nothing of it is for anyone else: what is in it keeps its own licences.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from rattler import Subdir
from rattler_build import Stage0Recipe, ToolConfiguration, assemble_package

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
HERE = str(Subdir.current())
NOT_NEEDED = ("site-packages", "__pycache__", "test", "tests", "idlelib", "tkinter", "ensurepip", "config-*")
"""Parts of the standard library that are left out: tests, what draws windows, and what belongs to this machine."""


def make_channel(folder: Path, recipe: dict[str, Any]) -> str:
    """Return the address of a new channel in a folder, with all that a rendered recipe requires."""
    channel = folder / "channel"
    for subdir in ("noarch", HERE):
        (channel / subdir).mkdir(parents=True)
    for wheel in wheels(folder / "wheels", recipe["requirements"]["host"] + recipe["requirements"]["run"]):
        add_wheel(channel, wheel, folder / "staged" / wheel.stem)
    add_python(channel, folder / "python")  # the last: a build writes the channel's index, of all that is there
    return channel.as_uri()


def wheels(folder: Path, required: list[str]) -> list[Path]:
    """Return the wheels that pip chooses for what a recipe requires, fetched into a folder."""
    needed = [one.replace(" ", "") for one in required if not one.startswith(("__", "python "))]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    subprocess.run([*pip, "--dest", str(folder), *needed], check=True)
    return sorted(folder.glob("*.whl"))


def add_wheel(channel: Path, wheel: Path, staged: Path) -> None:
    """Put a wheel into a channel."""
    name, version, _, tags = parse_wheel_filename(wheel.name)
    pure = all(tag.platform == "any" for tag in tags)
    site = staged / ("site-packages" if pure else f"lib/python{MINOR}/site-packages")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(site)
    add_commands(site, staged / ("python-scripts" if pure else "bin"))
    (metadata,) = site.glob("*.dist-info/METADATA")
    subdir = "noarch" if pure else HERE
    assemble_package(
        name,
        str(version),
        subdir,
        "py_0" if pure else f"py{MINOR.replace('.', '')}_0",
        channel / subdir,
        files_dir=staged,
        depends=["python" if pure else f"python {MINOR}.*", *depends(Parser().parsestr(metadata.read_text()))],
        noarch="python" if pure else None,
        compression_level=1,
    )


def add_commands(site: Path, folder: Path) -> None:
    """Write the commands that wheels declare: without its own pip an environment is checked by another one's."""
    for file in site.glob("*.dist-info/entry_points.txt"):
        declared = ConfigParser()
        declared.optionxform = str  # type: ignore[assignment, method-assign]  # names are as they are written
        declared.read_string(file.read_text())
        for name, target in declared.items("console_scripts") if declared.has_section("console_scripts") else ():
            module, _, function = target.partition(":")
            folder.mkdir(exist_ok=True)
            command = folder / name
            command.write_text(
                f"#!/usr/bin/env python\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
            )
            command.chmod(0o755)


def depends(metadata: Message) -> list[str]:
    """Return what a wheel requires here, with no extra, as conda writes it."""
    requirements = [Requirement(one) for one in metadata.get_all("Requires-Dist", [])]
    return [
        f"{canonicalize_name(one.name)} {one.specifier}".strip()
        for one in requirements
        if one.marker is None or one.marker.evaluate({"extra": ""})
    ]


def add_python(channel: Path, folder: Path) -> None:
    """Put the Python that runs this into a channel. A build makes its program find its library anywhere.

    It has no compiled code: what of it is imported is compiled by who imports it.
    """
    if "deb_system" in sysconfig.get_scheme_names():
        raise RuntimeError(
            "a Debian's Python installs where conda does not look: take one that was built from its sources"
        )
    stage_python(folder / "staged")
    recipe = {
        "schema_version": 1,
        "package": {"name": "python", "version": platform.python_version()},
        "build": {
            "script": [f'cp -a {folder}/staged/. "$PREFIX"'],
            "python": {"skip_pyc_compilation": ["**/*.py"]},
            # Of this machine are the libraries of the system that its modules are linked with.
            "dynamic_linking": {"missing_dso_allowlist": ["**"], "overlinking_behavior": "ignore"},
        },
        "about": {"license": "PSF-2.0"},
    }
    build(recipe, folder, channel, channel.as_uri())


def stage_python(folder: Path) -> None:
    """Copy the program, its library if it has one, and the standard library to where conda has them."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), folder / "bin" / f"python{MINOR}")
    for name in ("python3", "python"):
        (folder / "bin" / name).symlink_to(f"python{MINOR}")
    stdlib = folder / "lib" / f"python{MINOR}"
    ignored = shutil.ignore_patterns(*NOT_NEEDED)
    shutil.copytree(sysconfig.get_path("stdlib"), stdlib, symlinks=True, ignore=ignored)
    (stdlib / "site-packages").mkdir()
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        for library in Path(sysconfig.get_config_var("LIBDIR")).glob("libpython*.so*"):
            shutil.copy2(library, folder / "lib", follow_symlinks=False)


def build(recipe: dict[str, Any], folder: Path, output: Path, channel: str) -> Path:
    """Return the package that rattler-build makes of a recipe, with what one channel has and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "recipe.yaml"
    written.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return build_file(written, output, channel)


def build_file(recipe: Path, output: Path, channel: str) -> Path:
    """Return the package that rattler-build makes of the recipe in a file; it is not yet tested."""
    (variant,) = Stage0Recipe.from_file(recipe).render()
    built = variant.run_build(ToolConfiguration(), output, channels=[channel], package_format="conda:1")
    (package,) = built.packages
    return Path(os.fspath(package))
