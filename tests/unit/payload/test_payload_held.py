"""Memory that a process holds for replicas: whole, sealed, and never another's bytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from grainlike import SerializationError
from grainlike.payload import (
    Payload,
    copy_replica,
    dump_value,
    hold_memory,
    load_value,
    map_replica,
    memory_id,
    open_replica,
    open_room,
    remove_replica,
    replica_path,
    replica_room,
    replica_size,
    seal_held,
    seal_replica,
    write_replica,
)
from grainlike.payload import _shared_directory as shared

LARGE = np.arange(200_000, dtype=np.float64)


def held(path: Path, payload: Payload) -> int:
    """Have a replica in memory of this process; return its descriptor."""
    fd = hold_memory(path, replica_size(payload))
    assert os.fstat(fd).st_blocks * 512 >= replica_size(payload)
    assert write_replica(room_of(fd), path, payload) == replica_size(payload)
    return fd


def room_of(fd: int) -> Path:
    return Path(f"/proc/{os.getpid()}/fd/{fd}")


def test_a_replica_in_held_memory_is_mapped_by_its_name_and_outlives_its_holder(tmp_path: Path) -> None:
    path = replica_path(tmp_path, 7, 1)
    fd = held(path, dump_value(LARGE))
    seal_held(fd)
    assert [one.name for one in tmp_path.iterdir()] == ["v7-1"]
    value = load_value(map_replica(path))
    remove_replica(path)
    os.close(fd)
    assert (value == LARGE).all()
    assert list(tmp_path.iterdir()) == []


def test_what_is_sealed_is_changed_by_nobody(tmp_path: Path) -> None:
    path = replica_path(tmp_path, 7, 1)
    fd = held(path, dump_value(LARGE))
    seal_held(fd)
    again = open_room(room_of(fd), path, os.O_RDWR)
    for harm in (
        lambda: os.pwrite(again, b"x", 0),
        lambda: os.ftruncate(again, 0),
        lambda: os.ftruncate(again, 1 << 30),
    ):
        with pytest.raises(PermissionError):
            harm()
    os.close(again)
    os.close(fd)


def test_a_number_that_is_another_replicas_now_is_one_that_is_gone(tmp_path: Path) -> None:
    path, other = replica_path(tmp_path, 7, 1), replica_path(tmp_path, 8, 1)
    fd = held(path, dump_value(LARGE))
    os.close(fd)
    with pytest.raises(SerializationError, match="v7-1 is gone"):
        map_replica(path)
    assert hold_memory(other, replica_size(dump_value(LARGE))) == fd
    with pytest.raises(SerializationError, match="v7-1 is gone"):
        map_replica(path)
    assert write_replica(room_of(fd), path, dump_value(LARGE)) is None
    assert os.pread(fd, 8, 0) == bytes(8), "it was written to another's room"
    os.close(fd)


def test_a_number_that_is_a_file_of_another_process_is_one_that_is_gone(tmp_path: Path) -> None:
    path = replica_path(tmp_path, 7, 1)
    (tmp_path / "secret").write_bytes(b"another's")
    fd = os.open(tmp_path / "secret", os.O_RDWR)
    path.symlink_to(room_of(fd))
    with pytest.raises(SerializationError, match="gone"):
        map_replica(path)
    assert write_replica(room_of(fd), path, dump_value(LARGE)) is None
    assert os.pread(fd, 9, 0) == b"another's"
    os.close(fd)


def test_held_memory_goes_to_disk_as_a_file_does(tmp_path: Path) -> None:
    path, disk = replica_path(tmp_path, 7, 1), tmp_path / "disk"
    disk.mkdir()
    fd = held(path, dump_value(LARGE))
    room = replica_room(disk, path)
    seal_replica(room, path, copy_replica(path, room))
    os.close(fd)
    opened, crc = open_replica(path)
    os.close(opened)
    assert crc is not None
    assert (load_value(map_replica(path)) == LARGE).all()


def test_where_shared_memory_is_small_only_who_counts_processes_alike_shares_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not memory_id():
        pytest.skip("no shared memory in the file system")
    monkeypatch.setattr(shared, "_SMALL", 0.0)
    large = memory_id()
    monkeypatch.setattr(shared, "_SMALL", 1e9)
    assert memory_id() == f"{large}:{Path('/proc/self/ns/pid').stat().st_ino}"
