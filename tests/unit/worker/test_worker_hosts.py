"""The file and the environment that tell a job's programs of its hosts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from grainlike.wire import Gang, NodeSpec
from grainlike_worker._hosts import HOSTFILE, NODES, HostFiles, show_nodes

GANG = Gang(7, 1, [NodeSpec("n1", "10.0.0.1", "cores=[0,1,2]"), NodeSpec("n2", "localhost", "memory=5")])


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in (HOSTFILE, NODES):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    return tmp_path


def test_a_line_for_each_node_in_a_directory_of_ones_own(private):
    files = HostFiles()
    path = Path(files.write(3, GANG))
    assert path.read_text() == "10.0.0.1 slots=3\nlocalhost slots=1\n"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    files.write(4, GANG)
    files.remove(3)
    files.remove(99)
    assert len(list(private.iterdir())) == 1
    files.remove_all()
    assert not list(private.iterdir())


def test_where_it_cannot_be_made_the_job_goes_without(private, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(private / "absent"))
    files = HostFiles()
    assert files.write(3, GANG) == ""
    assert "job 7 gets no host file" in caplog.text
    files.remove_all()


def test_the_environment_is_that_of_the_next_job_alone():
    show_nodes(Gang(7, 1, GANG.nodes, "/tmp/hosts"))
    assert (os.environ[HOSTFILE], os.environ[NODES]) == ("/tmp/hosts", "2")
    show_nodes(GANG)
    assert HOSTFILE not in os.environ
    assert os.environ[NODES] == "2"
    show_nodes(None)
    assert NODES not in os.environ
