"""The file and the environment that tell a job's programs of its hosts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from grainlike.resources import BINDINGS
from grainlike.wire import Gang, NodeSpec
from grainlike_worker.daemon._hostfiles import HostFiles
from grainlike_worker.runner.common._context import HOSTFILE, NODES, RANKFILE, show_nodes

GANG = Gang(7, 1, [NodeSpec("n1", "10.0.0.1", "cores=[0,1,2]"), NodeSpec("n2", "localhost", "memory=5")])


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in (HOSTFILE, NODES, RANKFILE, *BINDINGS):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    return tmp_path


def test_a_line_for_each_node_in_a_directory_of_ones_own(private):
    files = HostFiles()
    path = Path(files.write(3, GANG))
    assert path.read_text() == "10.0.0.1 slots=3\nlocalhost slots=1\n"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.with_name("rankfile").read_text() == "".join(f"rank {n}=10.0.0.1 slot={n}\n" for n in range(3))
    files.write(4, GANG)
    files.remove(3)
    files.remove(99)
    assert len(list(private.iterdir())) == 1
    files.remove_all()
    assert not list(private.iterdir())


def test_several_workers_of_a_host_make_one_line_with_the_sum_of_their_slots():
    places = [("h", "4"), ("127.0.0.1", "0,1"), ("h", "6"), ("localhost", "3")]
    nodes = [NodeSpec(f"n{at}", host, f"cores=[{cores}]") for at, (host, cores) in enumerate(places)]
    files = HostFiles()
    path = Path(files.write(3, Gang(7, 1, nodes)))
    assert path.read_text() == "h slots=2\nlocalhost slots=3\n"
    assert path.with_name("rankfile").read_text().splitlines() == [
        "rank 0=h slot=4", "rank 1=localhost slot=0", "rank 2=localhost slot=1", "rank 3=h slot=6",
        "rank 4=localhost slot=3",
    ]  # fmt: skip
    files.remove_all()


def test_a_list_of_cores_is_not_for_nodes_that_have_others(monkeypatch):
    monkeypatch.setenv(BINDINGS[0], "core")
    show_nodes(GANG)
    assert [os.environ[name] for name in BINDINGS] == ["none", "none"]
    show_nodes(Gang(7, 1, [NodeSpec("n1", "a", "cores=[0]"), NodeSpec("n2", "b", "cores=[0]")]))
    assert os.environ[BINDINGS[0]] == "core"
    assert BINDINGS[1] not in os.environ
    show_nodes(None)


def test_where_it_cannot_be_made_the_job_goes_without(private, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.tempdir", str(private / "absent"))
    files = HostFiles()
    assert files.write(3, GANG) == ""
    assert "job 7 gets no host file" in caplog.text
    files.remove_all()


def test_the_environment_is_that_of_the_next_job_alone():
    show_nodes(Gang(7, 1, GANG.nodes, "/tmp/hosts"))
    assert (os.environ[HOSTFILE], os.environ[NODES]) == ("/tmp/hosts", "2")
    assert os.environ[RANKFILE] == "/tmp/rankfile"
    show_nodes(GANG)
    assert HOSTFILE not in os.environ
    assert os.environ[NODES] == "2"
    show_nodes(None)
    assert NODES not in os.environ
