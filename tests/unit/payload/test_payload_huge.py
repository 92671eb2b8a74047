"""Files in shared memory have huge pages where the kernel gives them, and are the same files where it does not."""

import ctypes
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from grainlike.payload import (
    Payload,
    SharedDirectory,
    SpareFiles,
    Store,
    allocate_replica,
    dump_value,
    hold_memory,
    load_value,
    map_replica,
    replica_path,
    replica_size,
    write_replica,
)
from grainlike.payload import _mapping as mapping
from grainlike.payload._mapping import HUGE_PAGE

SIZE = 4 * HUGE_PAGE + 10_000
ARRAY = np.arange(SIZE // 8, dtype=np.float64)
SMALL_PAGES_AT_ONCE = 16
"""Pages of 4 KiB that the kernel maps at one fault."""


@pytest.fixture
def place() -> Iterator[Path]:
    made = SharedDirectory.make()
    assert made is not None
    yield made.path
    made.remove()


@pytest.fixture
def gives(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Skip the test where this kernel has no huge pages for shared memory."""
    monkeypatch.setattr(mapping, "_SLOW_S", 60.0)
    fd = os.open(place / "tried", os.O_RDWR | os.O_CREAT)
    try:
        if mapping.take_huge_pages(fd, SIZE) or mapping._refused:
            pytest.skip("the kernel gives no huge pages")
    finally:
        os.close(fd)


class Kernel:
    """C library whose `madvise` fails with an error; `asked` counts the calls."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.asked = 0
        self.mmap, self.munmap = mapping._libc().mmap, mapping._libc().munmap

    def madvise(self, address: int, size: int, advice: int) -> int:
        self.asked += 1
        ctypes.set_errno(self._number)
        return -1


def refusing(monkeypatch: pytest.MonkeyPatch, number: int) -> Kernel:
    kernel = Kernel(number)
    monkeypatch.setattr(mapping, "_refused", [])
    monkeypatch.setattr(mapping, "_libc", lambda: kernel)
    return kernel


def faults_of_reading(path: Path | str) -> int:
    """Return the page faults of reading a file in a mapping."""
    fd = os.open(path, os.O_RDONLY)
    array = np.frombuffer(mapping.private_map(fd, os.fstat(fd).st_size), dtype=np.uint8)
    os.close(fd)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    array[:: os.sysconf("SC_PAGE_SIZE")].max()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def replica_of(payload: Payload, place: Path) -> Path:
    path, room = replica_path(place, 7, 1), place / "room"
    allocate_replica(room, replica_size(payload))
    assert write_replica(room, path, payload) == path.stat().st_size
    return path


@pytest.mark.usefixtures("gives")
def test_a_large_replica_is_read_with_few_page_faults(place: Path) -> None:
    path = replica_of(dump_value(ARRAY), place)
    assert faults_of_reading(path) < SIZE // os.sysconf("SC_PAGE_SIZE") // SMALL_PAGES_AT_ONCE // 2
    assert (load_value(map_replica(path)) == ARRAY).all()


@pytest.mark.usefixtures("gives")
def test_so_are_large_arguments_and_held_memory(place: Path) -> None:
    most = SIZE // os.sysconf("SC_PAGE_SIZE") // SMALL_PAGES_AT_ONCE // 2
    store = Store(place)
    store.write("7-1", [ARRAY.data.cast("B")])
    assert faults_of_reading(place / "7-1") < most
    fd = hold_memory(replica_path(place, 8, 1), SIZE)
    assert faults_of_reading(f"/proc/self/fd/{fd}") < most
    os.close(fd)


@pytest.mark.parametrize("number", [0, errno.EINVAL, errno.ENOMEM])
def test_all_room_is_allocated_and_empty(place: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    if number:
        refusing(monkeypatch, number)
    allocate_replica(place / "room", SIZE)
    status = (place / "room").stat()
    assert status.st_size == SIZE
    assert SIZE <= status.st_blocks * 512 < SIZE + HUGE_PAGE // 2  # no more memory than the store counts
    assert not any((place / "room").read_bytes())


def test_room_is_allocated_where_no_address_is_free(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOMEM, "no address is free")

    monkeypatch.setattr(mapping, "_aligned_map", full)
    allocate_replica(place / "room", SIZE)
    assert (place / "room").stat().st_blocks * 512 >= SIZE


@pytest.mark.parametrize(("number", "asked"), [(errno.EINVAL, 1), (errno.ENOMEM, 3)])
def test_a_kernel_that_never_gives_huge_pages_is_asked_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int, asked: int
) -> None:
    kernel = refusing(monkeypatch, number)
    for name in ("a", "b", "c"):
        allocate_replica(place / name, SIZE)
    assert kernel.asked == asked


def test_no_more_is_asked_for_once_the_kernel_takes_too_long(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = refusing(monkeypatch, 0)
    monkeypatch.setattr(kernel, "madvise", lambda *_: kernel.__dict__.update(asked=kernel.asked + 1) or 0)
    monkeypatch.setattr(mapping, "_STEP", HUGE_PAGE)
    times = iter([0.0, 0.001, 1.0, 1.0 + 2 * mapping._SLOW_S])
    monkeypatch.setattr(mapping.time, "thread_time", lambda: next(times))
    allocate_replica(place / "room", SIZE)
    assert kernel.asked == 2


@pytest.mark.parametrize(("blocks", "free", "asked"), [(100, SIZE // 4096, 0), (100, SIZE // 4096 + 1, 1), (0, 0, 1)])
def test_no_page_is_asked_for_where_there_is_no_room(
    place: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, asked: int
) -> None:
    kernel = refusing(monkeypatch, errno.ENOMEM)
    told = SimpleNamespace(f_blocks=blocks, f_bavail=free, f_frsize=4096)
    monkeypatch.setattr(mapping.os, "fstatvfs", lambda _: told)
    allocate_replica(place / "room", SIZE)
    assert kernel.asked == asked


def test_where_there_is_no_room_there_is_no_file(place: Path) -> None:
    with pytest.raises(OSError, match=r"too large|No space"):
        allocate_replica(place / "room", 1 << 62)
    assert not (place / "room").exists()


def test_files_on_disk_and_small_files_are_not_asked_for(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = refusing(monkeypatch, errno.EINVAL)
    allocate_replica(tmp_path / "room", SIZE)
    allocate_replica(place / "room", HUGE_PAGE)
    assert kernel.asked == 0


@pytest.mark.parametrize("size", [SIZE, 4 * HUGE_PAGE, SIZE + 4096 - SIZE % 4096])
def test_a_mapping_begins_where_huge_pages_do_and_takes_no_other_memory(place: Path, size: int) -> None:
    allocate_replica(place / "room", size)
    fd = os.open(place / "room", os.O_RDWR)
    try:
        before = mappings()
        address = mapping._aligned_map(fd, size, 2)
        assert address % HUGE_PAGE == 0
        assert len(mappings() - before) == 1
        mapping._libc().munmap(address, size)
        assert mappings() == before
        with pytest.raises(OSError, match="cannot map"):
            mapping._aligned_map(-1, size, 2)
        assert mappings() == before
    finally:
        os.close(fd)


def mappings() -> set[str]:
    """Return the ranges of memory that this process has mapped from shared memory, or reserved."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if "/dev/shm/" in line or line.split()[1] == "---p"}


def test_a_file_that_was_read_in_huge_pages_may_be_written_over(place: Path) -> None:
    path = replica_of(dump_value(ARRAY), place)
    number, mapped = path.stat().st_ino, map_replica(path)
    spare = SpareFiles(place)
    spare.keep(path)
    assert not spare.take(place / "room", SIZE)
    del mapped
    assert spare.take(place / "room", SIZE)
    assert (place / "room").stat().st_ino == number
