"""The recipe for containers is built by Buildah, step by step, and a worker in the image runs jobs for a head outside.

The base is a Debian with its own Python, in the archive GRAINLIKE_TEST_IMAGE. Steps run in a chroot: no runtime of
containers is needed, nor a kernel that lets one make namespaces.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, __version__, delayed
from grainlike.net import find_access, write_access

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "worker" / "Containerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
USER = 1000
PIP = """[global]
no-index = true
find-links = /opt/wheels
"""


class Buildah:
    """Buildah with images of its own in a folder. It chooses whether layers are laid over each other or copied."""

    def __init__(self, folder: Path) -> None:
        self._words = ["buildah", "--root", str(folder / "images"), "--runroot", str(folder / "run")]
        self._environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}

    def do(self, *words: str) -> str:
        """Return what a command wrote; fail with what it complained of."""
        argv = [*self._words, *words]
        done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    async def begin(self, *words: str) -> asyncio.subprocess.Process:
        """Start a command, and do not wait."""
        argv = [*self._words, *words]
        return await asyncio.create_subprocess_exec(
            *argv, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def config(self, image: str) -> dict[str, Any]:
        """Return what an image says of itself."""
        return json.loads(self.do("inspect", "--type", "image", image))["OCIv1"]["config"]

    def size(self, image: str) -> float:
        """Return the size of an image, in MB."""
        (found,) = (
            one for one in json.loads(self.do("images", "--json")) if f"localhost/{image}:latest" in one["names"]
        )
        number, unit = found["size"].split()
        return float(number) * {"MB": 1, "GB": 1000}[unit]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """A Buildah that has the image `worker`, built from the recipe on the image `base`."""
    folder = tmp_path_factory.mktemp("buildah")
    buildah = Buildah(folder)
    wheels = folder / "wheels"
    download(wheels)
    (folder / "pip.conf").write_text(PIP)
    container = buildah.do("from", "--name", "base", "scratch")
    buildah.do("add", "--quiet", container, os.environ["GRAINLIKE_TEST_IMAGE"], "/")
    buildah.do("copy", "--quiet", container, str(wheels), "/opt/wheels")
    buildah.do("copy", "--quiet", container, str(folder / "pip.conf"), "/etc/pip.conf")
    buildah.do("commit", "--quiet", "--rm", container, "base")
    buildah.do("build", "--file", str(RECIPE), "--build-arg", "BASE=localhost/base", "--tag", "worker", str(ROOT))
    yield buildah
    buildah.do("rm", "--all")
    shutil.rmtree(folder)  # two hundred megabytes, that nobody will look at


def download(folder: Path) -> None:
    """Put what the image takes into a folder: pip in it need not know how this machine reaches an index."""
    needed = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    subprocess.run([*pip, "--dest", str(folder), *needed], check=True)


def test_the_base_has_the_python_that_runs_this() -> None:
    """Else the failures of all that is below would not say why."""
    with tarfile.open(os.environ["GRAINLIKE_TEST_IMAGE"]) as base:
        names = [name for name in base.getnames() if re.fullmatch(r"\./usr/bin/python3\.\d+", name)]
    assert names == [f"./usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"]


def test_the_image_says_what_the_recipe_says(buildah: Buildah) -> None:
    config = buildah.config("worker")
    words = dict(line.split(" ", 1) for line in RECIPE.read_text().splitlines() if line and not line.startswith("#"))
    assert config["Entrypoint"] == json.loads(words["ENTRYPOINT"])
    assert (config["User"], config["WorkingDir"], config["StopSignal"]) == (
        words["USER"],
        words["WORKDIR"],
        words["STOPSIGNAL"],
    )
    assert config["Env"][0].startswith("PATH=/opt/grainlike/bin:/")


def test_it_takes_the_room_that_the_page_says(buildah: Buildah) -> None:
    page = (ROOT / "docs" / "start" / "install.md").read_text()
    (said,) = re.findall(r"Beside the base it takes (\d+) MB", page)
    took = buildah.size("worker") - buildah.size("base")
    assert took == pytest.approx(int(said), rel=0.1)


def test_only_what_the_package_is_made_of_was_in_the_build(buildah: Buildah) -> None:
    """The image has no sources, and its command is of this version."""
    container = buildah.do("from", "worker")
    try:
        run = partial(buildah.do, "run", container, "--")
        assert run("grainlike", "--version").endswith(__version__)
        assert run("python", "-c", "import grainlike; print(grainlike.__file__)").startswith("/opt/grainlike/lib/")
        assert run("sh", "-c", "test ! -e /src && id -u") == str(USER)
    finally:
        buildah.do("rm", container)


@pytest.mark.asyncio
async def test_a_worker_in_it_runs_jobs_for_a_head_outside_and_ends_by_its_signal(
    buildah: Buildah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = buildah.config("worker")
    container = buildah.do("from", "worker")
    cluster = tmp_path / "cluster"
    worker = None
    try:
        async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
            assert executor.address is not None
            write_access(find_access(executor.address), cluster / "worker.json")
            for path in (cluster, cluster / "worker.json"):  # of the user in the container, as the page says
                os.chown(path, USER, USER)
            worker = await buildah.begin(
                "run", "--volume", f"{cluster}:/cluster:ro", container, "--", *config["Entrypoint"]
            )
            await executor.wait_for_workers(1)
            assert await (delayed(os.getuid) @ Cores(1))() == USER
            assert await (delayed(lambda: sys.prefix) @ Cores(1))() == "/opt/grainlike"
            (daemon,) = executor.workers()
            os.kill(daemon.pid, getattr(signal, config["StopSignal"]))
            said, _ = await worker.communicate()
            assert worker.returncode == 0, said.decode()
    finally:
        if worker is not None and worker.returncode is None:
            worker.kill()
            await worker.wait()
        buildah.do("rm", container)
