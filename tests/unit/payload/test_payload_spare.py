"""Files of values that nobody needs: written over by the next ones, and never while anybody has them mapped or open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grainlike.payload import SPARE_LEAST, SharedDirectory, SpareFiles, private_map

SIZE = SPARE_LEAST + 100_000


@pytest.fixture
def place() -> Iterator[Path]:
    made = SharedDirectory.make()
    if made is None:
        pytest.skip("no shared memory in the file system")
    yield made.path
    made.remove()


@pytest.fixture
def spare(place: Path) -> SpareFiles:
    return SpareFiles(place)


def made(place: Path, name: str, size: int = SIZE) -> Path:
    path = place / name
    path.write_bytes(b"x" * size)
    return path


def test_a_file_is_taken_as_it_is_with_its_memory(place: Path, spare: SpareFiles) -> None:
    file = made(place, "v1-1")
    number = file.stat().st_ino
    assert spare.keep(file)
    assert not file.exists()
    assert (len(spare), spare.nbytes) == (1, SIZE)
    assert spare.take(place / "room", SIZE)
    assert ((place / "room").stat().st_ino, (place / "room").stat().st_size) == (number, SIZE)
    assert (len(spare), spare.nbytes) == (0, 0)
    assert not spare.take(place / "another", SIZE)


@pytest.mark.parametrize(("size", "taken"), [(SIZE + 1, False), (SIZE - 1000, True), (SIZE // 2, False)])
def test_only_what_is_of_that_size_or_a_little_more_is_taken(
    place: Path, spare: SpareFiles, size: int, taken: bool
) -> None:
    spare.keep(made(place, "v1-1"))
    assert spare.take(place / "room", size) is taken
    assert not taken or (place / "room").stat().st_size == size


def test_what_is_mapped_is_not_written_over_until_it_is_no_more(place: Path, spare: SpareFiles) -> None:
    file = made(place, "v1-1")
    fd = os.open(file, os.O_RDONLY)
    mapped = private_map(fd, SIZE)
    os.close(fd)
    part = mapped[5:10]
    del mapped
    assert spare.keep(file)
    assert not spare.take(place / "room", SIZE)
    assert bytes(part) == b"xxxxx"
    del part
    assert spare.take(place / "room", SIZE)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
def test_what_is_open_is_not_written_over(place: Path, spare: SpareFiles, flags: int) -> None:
    file = made(place, "v1-1")
    fd = os.open(file, flags)
    spare.keep(file)
    assert not spare.take(place / "room", SIZE)
    os.close(fd)
    assert spare.take(place / "room", SIZE)


def test_one_that_is_mapped_is_passed_over_for_another(place: Path, spare: SpareFiles) -> None:
    first, second = made(place, "v1-1"), made(place, "v2-1")
    fd = os.open(first, os.O_RDONLY)
    number = second.stat().st_ino
    for file in (first, second):
        spare.keep(file)
    assert spare.take(place / "room", SIZE)
    assert (place / "room").stat().st_ino == number
    os.close(fd)


def test_links_small_files_and_those_with_other_names_are_not_kept(place: Path, spare: SpareFiles) -> None:
    link = place / "v1-1"
    link.symlink_to(made(place, "elsewhere"))
    assert not spare.keep(link)
    assert not spare.keep(made(place, "v2-1", SPARE_LEAST - 1))
    shared = made(place, "v3-1")
    os.link(shared, place / "v3-1-of-another-worker")
    assert not spare.keep(shared)
    assert not spare.keep(place / "none")
    assert shared.exists()
    assert len(spare) == 0


def test_the_oldest_are_removed_first(place: Path, spare: SpareFiles) -> None:
    for number in range(4):
        spare.keep(made(place, f"v{number}-1"))
    early = spare.count
    spare.keep(made(place, "v4-1"))
    spare.shrink(4 * SIZE)
    assert sorted(path.name for path in place.glob("spare-*")) == [f"spare-{number}" for number in range(1, 5)]
    spare.shrink(spare.nbytes, early)
    assert [path.name for path in place.glob("spare-*")] == ["spare-4"]
    assert (len(spare), spare.nbytes) == (1, SIZE)
