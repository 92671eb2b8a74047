"""An environment for each revision: its own build of grainlike, and the dependencies and benchmarks of this process.

So two environments differ in grainlike alone. The files of a revision come out of git without touching the checkout,
and everything is in one folder that goes when the run ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grainlike_bench
from grainlike_bench._child import with_scripts

__all__ = ["BuildError", "Environment", "build", "changed", "checkout", "commit_of"]

_BENCHMARKS = Path(grainlike_bench.__file__).parent
_PROBE = "import grainlike, grainlike_bench.compare as b; print(grainlike.__version__, grainlike.__file__, b.__file__)"
_INHERITED = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH")
"""Variables that would put other files before those of the environment, or have it compile them in each process."""


class BuildError(Exception):
    """A revision that there is not, or that cannot be built or imported."""


@dataclass(frozen=True)
class Environment:
    """A build of one revision that can be run."""

    commit: str
    """Its number, or that of the revision that the checkout is at, with `+changes`."""
    version: str
    home: Path
    """A folder without files of Python, to run in: Python looks for modules where it runs."""
    python: Path

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of its programs."""
        kept = {name: value for name, value in os.environ.items() if name not in _INHERITED}
        return kept | {"VIRTUAL_ENV": str(self.python.parents[1]), "PATH": with_scripts(self.python)}


def checkout() -> Path:
    """Return the root of the checkout in which this runs.

    Raises:
        BuildError: it runs in none.
    """
    return Path(_git(Path.cwd(), "rev-parse", "--show-toplevel").strip())


def commit_of(root: Path, revision: str) -> str:
    """Return the number of a revision.

    Raises:
        BuildError: there is no such revision.
    """
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except BuildError:
        raise BuildError(f"git knows no revision {revision!r} in {root}") from None


def changed(root: Path) -> list[str]:
    """Return the files of the checkout that are not as the revision has them which it is at, or not in it at all."""
    return [line[3:] for line in _git(root, "status", "--porcelain").splitlines()]


def build(root: Path, commit: str | None, scratch: Path) -> Environment:
    """Build a revision, or the files of the checkout as they are, into an environment in `scratch`.

    Raises:
        BuildError: it cannot be built, or what was built cannot be imported.
    """
    scratch.mkdir()
    name = commit or f"{commit_of(root, 'HEAD')}+changes"
    wheels, home = scratch / "wheels", scratch / "home"
    for folder in (wheels, home):
        folder.mkdir()
    files = root if commit is None else _files_of(root, commit, scratch)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _call([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(files)], name)
    _call([sys.executable, "-m", "venv", "--without-pip", str(scratch / "venv")], name)
    python = scratch / "venv" / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", "--no-compile"]
    _call([*install, *map(str, wheels.iterdir())], name)
    _lend(files, scratch)
    made = Environment(name, "", home, python)
    version, ours, theirs = _call([str(python), "-c", _PROBE], name, made).split()
    for path in (ours, theirs):
        if not Path(path).is_relative_to(scratch):
            raise BuildError(f"{name}: its environment imports {path}, which is not its own")
    return Environment(name, version, home, python)


def _files_of(root: Path, commit: str, scratch: Path) -> Path:
    """Write the files of a revision, by an index of their own: that of the checkout stays as it is."""
    tree, index = scratch / "tree", {"GIT_INDEX_FILE": str(scratch / "index")}
    _git(root, "read-tree", commit, **index)
    _git(root, "checkout-index", "--all", f"--prefix={tree}/", **index)
    return tree


def _lend(files: Path, scratch: Path) -> None:
    """Give an environment what is installed in that of this process, behind its own, and a copy of the benchmarks; and
    its revision's own simulation, which no wheel has.

    Paths in the other's `.pth` files are not followed, so a grainlike that is installed there as editable stays unseen.
    """
    for folder in (_BENCHMARKS, files / "simtest"):
        if folder.exists():
            shutil.copytree(folder, scratch / "bench" / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (packages,) = (scratch / "venv" / "lib").glob("python*/site-packages")
    paths = [str(scratch / "bench"), *dict.fromkeys(map(sysconfig.get_path, ("purelib", "platlib")))]
    (packages / "lent.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")


def _call(command: Sequence[str], name: str, environment: Environment | None = None) -> str:
    """Run a step of a build; return what it prints."""
    variables, cwd = (environment.variables, environment.home) if environment else (None, None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables, cwd=cwd)
    if done.returncode:
        raise BuildError(f"{name} cannot be built and imported:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _git(root: Path, *arguments: str, **variables: str) -> str:
    command, environment = ["git", "-C", str(root), *arguments], {**os.environ, **variables}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise BuildError("revisions are compared by git, which is not installed") from None
    if done.returncode:
        raise BuildError(done.stderr.strip() or f"git {arguments[0]} failed in {root}")
    return done.stdout
