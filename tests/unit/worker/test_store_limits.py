"""Limits of a worker's store: what they are by default, and which wishes are refused, and why."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest

from grainlike import Cores, Memory, ResourceSpecError
from grainlike.resources import offer_of
from grainlike.system import free_bytes, is_in_memory, own_memory
from grainlike_worker.store import _limits
from grainlike_worker.store._limits import StoreOptions, store_limits

SHARED = Path("/dev/shm")
OFFER = offer_of(Cores(2) & Memory("1Gi"), own_cores=range(2))


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of temporary files."""
    if is_in_memory(tmp_path):
        pytest.skip("temporary files are in memory here")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path


def test_by_default_it_is_30_percent_of_the_memory_and_80_of_what_is_free_of_the_disk(disk: Path) -> None:
    limits = store_limits(StoreOptions(), OFFER)
    assert limits.memory == min((1 << 30) * 30 // 100, free_bytes(SHARED))
    assert 0.7 * free_bytes(disk) < limits.scratch < 0.9 * free_bytes(disk)
    assert (limits.place, limits.slots, limits.machine) == (disk, 2, 1 << 30)


def test_a_worker_that_offers_no_memory_counts_what_it_may_use() -> None:
    limits = store_limits(StoreOptions(), offer_of(Cores(1), own_cores=range(1)))
    assert limits.memory <= own_memory() * 30 // 100
    assert limits.machine == 0


def test_wishes_are_taken(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "mine"
    place.mkdir(mode=0o700)
    limits = store_limits(StoreOptions("8Mi", place, "1G"), OFFER)
    assert limits[:3] == (8 << 20, 10**9, place)
    assert list(place.iterdir()) == []
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store_limits(StoreOptions(scratch="~/mine"), OFFER).place == place


def test_a_limit_for_more_than_the_disk_has_room_for_is_told(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert store_limits(StoreOptions(scratch_limit="1Gi"), OFFER).scratch == 1 << 30
    assert not caplog.records
    assert store_limits(StoreOptions(scratch_limit="1000Ti"), OFFER).scratch == 1000 << 40
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"1000Ti of the disk, but {disk} has room for only " in told


def test_no_scratch_is_one_of_nothing(disk: Path) -> None:
    assert store_limits(StoreOptions(scratch_limit="0"), OFFER).scratch == 0


@pytest.mark.skipif(not SHARED.is_dir() or not is_in_memory(SHARED), reason="no file system in memory")
def test_temporary_files_in_memory_are_no_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(SHARED))
    assert store_limits(StoreOptions(), OFFER).place in (Path("/tmp"), Path("/var/tmp"), None)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        (StoreOptions("2Gi"), r"store: 2Gi is more than the worker's memory of 1Gi"),
        (StoreOptions("much"), r"store: .*much"),
        (StoreOptions("-1"), r"store: '-1' is no number of bytes, such as 8Gi"),
        (StoreOptions("0.5"), r"store: '0.5' is no number of bytes"),
        (StoreOptions(scratch_limit="all"), r"scratch_limit: .*all"),
        (StoreOptions(scratch="/dev/shm"), r"scratch: /dev/shm is in memory: name a directory on a disk"),
        (StoreOptions(scratch="/none/at/all"), r"scratch: /none/at/all cannot be used: No such file or directory"),
        (StoreOptions(scratch="/etc/passwd"), r"scratch: /etc/passwd is no directory"),
        (StoreOptions(scratch="/proc"), r"scratch: /proc may not be written to"),
        (StoreOptions(scratch="~nobody-like-this/x"), r"scratch: '~nobody-like-this/x' is no directory"),
        (StoreOptions(scratch=""), r"scratch: '' is no directory"),
        (StoreOptions(scratch=cast("str", 5)), r"scratch: 5 is no directory"),
    ],
)
def test_what_cannot_be_is_refused(wishes: StoreOptions, why: str) -> None:
    with pytest.raises(ResourceSpecError, match=why):
        store_limits(wishes, OFFER)


def test_a_directory_that_others_could_change_is_refused_unless_it_is_made_for_all(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(ResourceSpecError, match="could be changed by others; close it with: chmod go-w"):
        store_limits(StoreOptions(scratch=place), OFFER)
    place.chmod(0o1777)
    assert store_limits(StoreOptions(scratch=place), OFFER).place == place


@contextmanager
def no_root() -> Iterator[None]:
    """Let access be checked as for another user, if root runs the tests, who may write anywhere."""
    real = os.getresuid()[0]
    if real == 0:
        os.setresuid(65534, -1, -1)
    try:
        yield
    finally:
        os.setresuid(real, -1, -1)


def test_a_directory_without_rights_is_refused() -> None:
    with TemporaryDirectory(dir="/tmp") as folder, no_root():  # where every user may go
        place = Path(folder)
        place.chmod(0o500)
        with pytest.raises(ResourceSpecError, match="may not be written to by this user"):
            store_limits(StoreOptions(scratch=place), OFFER)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    place.mkdir(mode=0o700)
    os.chown(place, 12345, 12345)
    with pytest.raises(ResourceSpecError, match="belongs to user id 12345"):
        store_limits(StoreOptions(scratch=place), OFFER)


def test_a_disk_without_room_for_a_file_is_refused_and_left_as_it_was(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ResourceSpecError, match=r"may not be written to: No space left"):
        store_limits(StoreOptions(scratch=disk), OFFER)
    assert store_limits(StoreOptions(), OFFER).place != disk
    assert list(disk.iterdir()) == []


def test_without_a_disk_a_limit_for_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grainlike_worker.store._limits._default_place", lambda: None)
    assert store_limits(StoreOptions(), OFFER).scratch == 0
    with pytest.raises(ResourceSpecError, match="scratch_limit: there is no disk for it"):
        store_limits(StoreOptions(scratch_limit="1G"), OFFER)


@pytest.mark.parametrize("asked", [None, "128Mi"])
def test_where_shared_memory_is_small_the_worker_holds_the_memory_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, asked: str | None
) -> None:
    small = 64 << 20
    monkeypatch.setattr(_limits, "free_bytes", lambda path: small if path == SHARED else free_bytes(path))
    monkeypatch.setattr(_limits, "is_memory_small", lambda: True)
    limits = store_limits(StoreOptions(asked), OFFER)
    assert (limits.memory, limits.is_held) == ((1 << 30) * 30 // 100 if asked is None else 128 << 20, True)
    assert not caplog.records
    assert not store_limits(StoreOptions("32Mi"), OFFER).is_held
    monkeypatch.setattr(_limits, "is_memory_small", lambda: False)  # it is full of what others have there
    limits = store_limits(StoreOptions(asked), OFFER)
    assert (limits.memory, limits.is_held) == (small if asked is None else 128 << 20, False)
    assert len(caplog.records) == (asked is not None)
