"""Client of machines by SSH, with an `ssh` that runs the shell on this machine: what it removes there, and what not."""

import os
import time

import pytest

from grainlike.launch import SSH, LaunchContext, client_of

pytestmark = pytest.mark.anyio

OLD_S = 600.0


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Home directory of the machine, with blocks that were made ten minutes ago."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done; shift 2; exec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def block(home, name):
    """Make the directory of a block that has not begun; return it."""
    folder = home / ".local/state/grainlike/blocks" / name
    folder.mkdir(parents=True)
    (folder / "log").write_text("a line\n")
    os.utime(folder, (time.time() - OLD_S,) * 2)
    return folder


@pytest.fixture
def client(tmp_path):
    """Client of one machine."""
    context = LaunchContext(tmp_path / "state", tmp_path / "worker.json", "1a2b3c4d")
    return client_of(SSH("cores=1", hosts=["n1"]), context)


async def test_directories_of_batch_systems_blocks_in_the_same_place_are_left(home, client):
    of_slurm = block(home, "gl1a2b3c4d-7")
    ours = block(home, "gl1a2b3c4d-8")
    client.remember([("gl1a2b3c4d-8", "", "n1")])
    listing = await client.listing()
    assert not listing.failed
    assert of_slurm.exists()
    assert not ours.exists()
    assert await client.read_log("gl1a2b3c4d-8") == "a line"
