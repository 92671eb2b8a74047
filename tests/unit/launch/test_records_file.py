"""Records of pools and blocks on disk: read back as they were, replaced as a whole, refused where they are damaged."""

import pytest

from grainlike.errors import JournalError
from grainlike.fleet import FleetPool, FleetScheduler, Joined, PoolSet, SubmissionAccepted, Wanted
from grainlike.head.fleet import RecordsFile
from grainlike.launch import LSF, PBS, SGE, SSH, Kubernetes, Local, Slurm, pool_from

POOLS = [
    Slurm("cores=2 memory=1Gi", walltime="1:00:00", max=4, nodes=2, native=["--qos=a"], setup=["true"], budget=50),
    PBS("cores=2", walltime=600, torque=True),
    LSF("cores=2", walltime="0:10:00", queue="q"),
    SGE("cores=2", walltime="0:10:00", pe="mpi"),
    SSH("cores=1", hosts=["n[1-2]"], max=2),
    Local("cores=1", env=["A=b"]),
    Kubernetes("cores=1", image="i", pod={"tolerations": [{"key": "gpu"}]}),
]


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.kind)
def test_a_pool_is_made_again_of_its_settings(pool):
    assert pool_from(pool.settings(), "x") == pool


def some_records():
    fleet = FleetScheduler("1a2b3c4d")
    fleet.handle(PoolSet(FleetPool("cpu", "slurm", max=4, nodes=2, walltime_s=3600.0, cores=2)), 10.0)
    fleet.handle(Wanted({"cpu": 2}, fleet.version, frozenset({"cpu-1"})), 11.0)
    fleet.handle(SubmissionAccepted("cpu-1", "77"), 12.0)
    fleet.handle(Joined("cpu-1", 1, 2, idle=False), 13.0)
    return fleet.records


def test_records_are_read_back_as_they_were(tmp_path):
    records = some_records()
    file = RecordsFile(tmp_path / "fleet.json")
    assert file.read() is None
    data = file.encode(records, {"cpu": POOLS[0]}, {"cpu": "cores=2"}, 13.0)
    file.write(data)
    read, pools, offers, at = RecordsFile(tmp_path / "fleet.json").read()
    assert (pools, offers, at) == ({"cpu": POOLS[0]}, {"cpu": "cores=2"}, 13.0)
    assert read.blocks == records.blocks
    assert read.pools == records.pools
    assert (read.digest, read.last_number) == (records.digest, records.last_number)
    assert list(read.systems) == ["slurm"]
    assert (tmp_path / "fleet.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.json"]


def test_records_that_say_the_same_are_not_written_again(tmp_path):
    records = some_records()
    file = RecordsFile(tmp_path / "fleet.json")
    assert file.encode(records, {}, {}, 13.0) is not None
    assert file.encode(records, {}, {}, 14.0) is None
    records.last_number += 1
    assert file.encode(records, {}, {}, 15.0) is not None


def test_a_disk_that_refuses_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "fleet.json"
    file = RecordsFile(path)
    file.write(b"old")
    records = some_records()
    data = file.encode(records, {}, {}, 13.0)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("grainlike.head.fleet._records_file.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.write(data)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["fleet.json"]
    assert file.encode(records, {}, {}, 14.0) is not None, "it is tried again"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1}', "\0\0"])
def test_damaged_records_are_refused_by_name(tmp_path, text):
    path = tmp_path / "fleet.json"
    path.write_text(text)
    with pytest.raises(JournalError, match=r"fleet\.json"):
        RecordsFile(path).read()


def test_records_of_another_release_are_refused(tmp_path):
    path = tmp_path / "fleet.json"
    file = RecordsFile(path)
    data = file.encode(some_records(), {}, {}, 13.0)
    path.write_bytes(data.replace(b'"format":1', b'"format":9'))
    with pytest.raises(JournalError, match="format 9"):
        file.read()
