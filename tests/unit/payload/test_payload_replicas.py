"""Files that hold one value each: what comes back, what is never seen half-written, and what is refused."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from replicas import replica_written

from grainlike import SerializationError
from grainlike.payload import (
    Payload,
    allocate_replica,
    copy_replica,
    dump_value,
    load_value,
    map_replica,
    remove_replica,
    replica_path,
    replica_payload,
    replica_room,
    replica_size,
    seal_replica,
    write_replica,
)

LARGE = np.arange(20_000, dtype=np.float64)
VALUES = [LARGE, np.arange(9_000, dtype=np.int8), {"text": "a" * 100_000}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return replica_path(tmp_path, 7, 2)


def allocated(path: Path) -> Path:
    """Room for `LARGE`."""
    room = replica_room(path.parent, path)
    allocate_replica(room, replica_size(dump_value(LARGE)))
    return room


def names(path: Path) -> list[str]:
    return [beside.name for beside in path.parent.iterdir()]


def test_the_value_comes_back_from_one_file_of_the_size_that_was_told(path: Path) -> None:
    size = replica_written(path, dump_value(VALUES))
    assert names(path) == ["v7-2"]
    assert size == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first, second, third = load_value(map_replica(path))
    assert (first == VALUES[0]).all()
    assert (second == VALUES[1]).all()
    assert third == VALUES[2]


def test_arrays_lie_where_arrays_should(path: Path) -> None:
    replica_written(path, dump_value(VALUES))
    assert [memoryview(buffer).nbytes for buffer in map_replica(path).buffers] == [160_000, 9_000]
    for array in load_value(map_replica(path))[:2]:
        assert array.__array_interface__["data"][0] % 64 == 0


def test_each_reader_may_change_what_it_got_and_keeps_it_when_the_file_goes(path: Path) -> None:
    replica_written(path, dump_value(LARGE))
    first, second = load_value(map_replica(path)), load_value(map_replica(path))
    path.unlink()
    first *= 2
    assert (second == LARGE).all()
    assert (first == LARGE * 2).all()


def test_the_same_bytes_mean_the_same_wherever_they_are(path: Path) -> None:
    replica_written(path, dump_value(VALUES))
    assert (load_value(replica_payload(bytearray(path.read_bytes())))[0] == LARGE).all()


def test_small_files_are_read_and_large_ones_are_mapped(path: Path) -> None:
    for count, mapped in ((200_000, False), (400_000, True)):
        file = path.with_name(str(count))
        replica_written(file, dump_value(np.ones(count, "u1")))
        value = load_value(map_replica(file))
        assert value.sum() == count
        value += 1
        assert (str(file) in Path("/proc/self/maps").read_text()) is mapped


def test_a_payload_without_buffers_or_bytes(path: Path) -> None:
    size = replica_written(path, Payload(b""))
    assert size == path.stat().st_size
    assert map_replica(path) == Payload(b"")


def test_where_there_is_no_room_nothing_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [50_000]

    def fills(fd: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        count = min(room[0], data.nbytes)
        room[0] -= count
        return real(fd, data[:count])

    real = os.write
    monkeypatch.setattr(os, "write", fills)
    assert write_replica(allocated(path), path, dump_value(LARGE)) is None
    assert room == [0]
    assert names(path) == []


@pytest.mark.parametrize("scratch", [False, True])
def test_room_that_is_gone_is_no_harm(path: Path, tmp_path: Path, scratch: bool) -> None:
    room = replica_room(tmp_path / "disk" if scratch else tmp_path, path)
    assert write_replica(room, path, dump_value(LARGE)) is None
    assert names(path) == []


def test_a_job_that_is_ended_in_mid_write_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(fd: int, data: memoryview) -> int:
        assert names(path) == ["v7-2.0.part"]
        raise SystemExit

    monkeypatch.setattr(os, "write", ended)
    with pytest.raises(SystemExit):
        replica_written(path, dump_value(LARGE))
    assert names(path) == []


def test_a_replica_that_is_gone_says_so(path: Path) -> None:
    with pytest.raises(SerializationError, match="v7-2 is gone"):
        map_replica(path)


def test_a_link_is_not_followed(path: Path) -> None:
    replica_written(path, dump_value(LARGE))
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(SerializationError, match="v7-2 is gone"):
        map_replica(path)


@pytest.mark.parametrize("size", [0, 1, 8, 19, 20, 40, 63, 64, 100, 160_000])
def test_a_file_that_was_cut_is_refused(path: Path, size: int) -> None:
    replica_written(path, dump_value(LARGE))
    os.truncate(path, size)
    with pytest.raises(SerializationError, match="damaged"):
        map_replica(path)


@pytest.mark.parametrize("at", range(32))
def test_a_damaged_head_is_refused(path: Path, at: int) -> None:
    replica_written(path, dump_value(LARGE))
    data = bytearray(path.read_bytes())
    for bit in range(8):
        data[at] ^= 1 << bit
        with pytest.raises(SerializationError, match="damaged"):
            replica_payload(data)
        data[at] ^= 1 << bit


def test_more_bytes_than_the_head_says_are_refused(path: Path) -> None:
    replica_written(path, dump_value(LARGE))
    with pytest.raises(SerializationError, match="more or fewer"):
        replica_payload(path.read_bytes() + bytes(64))


# --- on disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    found = tmp_path / "disk"
    found.mkdir()
    return found


def spill(path: Path, disk: Path) -> None:
    room = replica_room(disk, path)
    seal_replica(room, path, copy_replica(path, room))


def test_room_is_allocated_before_a_byte_is_written(path: Path) -> None:
    allocate_replica(path, 1_000_000)
    status = path.stat()
    assert (status.st_size, stat.S_IMODE(status.st_mode)) == (1_000_000, 0o600)
    assert status.st_blocks * 512 >= 1_000_000


def test_where_room_cannot_be_allocated_there_is_no_file(path: Path) -> None:
    with pytest.raises(OSError, match=r"too large|No space"):
        allocate_replica(path, 1 << 62)
    assert names(path) == []


def test_a_value_that_was_written_to_disk_comes_back_by_its_name_in_memory(path: Path, disk: Path) -> None:
    size = replica_written(path, dump_value(VALUES), disk)
    assert path.is_symlink()
    assert path.stat().st_size == size
    assert (load_value(map_replica(path))[0] == LARGE).all()


def test_a_value_that_was_spilled_comes_back_and_who_has_mapped_it_keeps_it(path: Path, disk: Path) -> None:
    replica_written(path, dump_value(LARGE))
    before = load_value(map_replica(path))
    spill(path, disk)
    assert (load_value(map_replica(path)) == LARGE).all()
    assert (before == LARGE).all()
    assert sorted(names(path)) == ["disk", "v7-2"]


def test_a_spilled_value_is_the_same_file_as_one_that_was_written_to_disk(path: Path, disk: Path) -> None:
    replica_written(path, dump_value(LARGE))
    spill(path, disk)
    first = path.readlink()
    remove_replica(path)
    replica_written(path, dump_value(LARGE), disk)
    assert path.readlink() == first


def test_each_byte_on_disk_is_checked(path: Path, disk: Path) -> None:
    replica_written(path, dump_value(LARGE), disk)
    data = bytearray(path.read_bytes())
    for at in (0, 70, len(data) // 2, len(data) - 1):
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(SerializationError, match="damaged"):
            map_replica(path)
        data[at] ^= 1
    path.write_bytes(data)
    assert (load_value(map_replica(path)) == LARGE).all()


def test_a_value_whose_file_on_disk_is_gone_is_gone(path: Path, disk: Path) -> None:
    replica_written(path, dump_value(LARGE), disk)
    path.readlink().unlink()
    with pytest.raises(SerializationError, match="gone"):
        map_replica(path)


def test_both_names_are_removed(path: Path, disk: Path) -> None:
    replica_written(path, dump_value(LARGE), disk)
    remove_replica(path)
    remove_replica(path)
    assert names(path) == ["disk"]
    assert list(disk.iterdir()) == []


def test_what_another_link_leads_to_is_left_alone(path: Path, disk: Path) -> None:
    (disk / "v7-3.00000000").write_bytes(b"another's")
    path.symlink_to(disk / "v7-3.00000000")
    with pytest.raises(SerializationError, match="v7-2 is gone"):
        map_replica(path)
    remove_replica(path)
    assert [one.name for one in disk.iterdir()] == ["v7-3.00000000"]


def test_a_value_that_is_gone_before_it_is_spilled_leaves_nothing(path: Path, disk: Path) -> None:
    with pytest.raises(FileNotFoundError):
        copy_replica(path, replica_room(disk, path))
    assert list(disk.iterdir()) == []


def test_a_disk_that_fails_while_a_value_is_spilled_leaves_nothing(
    path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(fd: int, data: memoryview) -> int:
        raise OSError(5, "Input/output error")

    replica_written(path, dump_value(LARGE))
    monkeypatch.setattr(os, "write", fails)
    with pytest.raises(OSError, match="Input/output error"):
        copy_replica(path, replica_room(disk, path))
    assert list(disk.iterdir()) == []
    assert (load_value(map_replica(path)) == LARGE).all()
