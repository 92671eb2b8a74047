"""Large buffers by way of shared memory: what comes back, what is left behind, and what is refused."""

import fcntl
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from limits import LIMIT_S
from waiting import until_blocking

from grainlike import SerializationError
from grainlike.payload import (
    Payload,
    Store,
    drop,
    dump_arguments,
    dump_value,
    know,
    load_arguments,
    load_value,
    memory_id,
)
from grainlike.payload import _store as room
from grainlike.payload._shared_directory import SharedDirectory
from grainlike.payload._store import LEAST, MARK

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory in the file system")

LARGE = np.arange(LEAST // 8, dtype=np.float64)


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store.make()
    assert made is not None
    yield made
    made.remove()


def files(store: Store) -> list[str]:
    return sorted(path.name for path in store.directory.iterdir() if path.name != "owner.lock")


def test_large_buffers_go_to_one_file_and_the_stream_names_it(store: Store) -> None:
    payload = store.put(dump_value([LARGE, LARGE * 2, b"small"]), "r1-1")
    assert payload.buffers == ()
    assert len(payload.data) < 1000
    assert files(store) == ["r1-1"]
    first, second, small = load_value(payload)
    assert (first == LARGE).all()
    assert (second == LARGE * 2).all()
    assert small == b"small"


def test_arguments_too(store: Store) -> None:
    payload = store.put(dump_arguments((1, LARGE), {"x": LARGE}, what="f"), "a1")
    args, kwargs = load_arguments(payload)
    assert args[0] == 1
    assert (args[1] == kwargs["x"]).all()


def test_small_buffers_stay(store: Store) -> None:
    payload = dump_value(LARGE[:-1])
    assert store.put(payload, "a1") is payload
    assert files(store) == []


def test_each_reader_may_change_what_it_got(store: Store) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    first = load_value(payload)
    first *= 2
    assert (load_value(payload) == LARGE).all()
    assert first.flags.writeable


def test_what_was_mapped_stays_after_the_file_is_dropped(store: Store) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    value = load_value(payload)
    drop(payload.data)
    assert files(store) == []
    assert (value == LARGE).all()
    with pytest.raises(SerializationError, match="'a1' is gone"):
        load_value(payload)


def test_dropping_what_is_in_no_store_changes_nothing(store: Store) -> None:
    kept = store.put(dump_value(LARGE), "a1")
    drop(dump_value(LARGE).data)
    assert (load_value(kept) == LARGE).all()


def test_where_there_is_no_room_the_buffers_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    payload = dump_value(LARGE)
    assert store.put(payload, "a1") is payload
    assert files(store) == []


def test_a_name_that_is_taken_is_not_written_over(store: Store) -> None:
    first = store.put(dump_value(LARGE), "a1")
    second = store.put(dump_value(LARGE * 3), "a1")
    assert second.buffers
    assert (load_value(second) == LARGE * 3).all()
    assert first.buffers == ()


def test_an_array_without_items_beside_a_large_one(store: Store) -> None:
    values = [np.empty((0, 3)), LARGE, np.zeros(8192, dtype=np.uint8)]
    back = load_value(store.put(dump_value(values), "a1"))
    assert [value.shape for value in back] == [value.shape for value in values]
    assert (back[2] == 0).all()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "a/b", "UPPER", "a" * 65])
def test_a_name_that_leads_elsewhere_is_refused(store: Store, name: str) -> None:
    genuine = store.put(dump_value(LARGE), "a1").data
    forged = genuine.replace(
        b"\x02\x00\x01\0\0\0" + bytes(8) + b"a1",
        len(name).to_bytes(2, "little") + b"\x01\0\0\0" + bytes(8) + name.encode(),
    )
    assert forged != genuine
    with pytest.raises(SerializationError, match="shared memory"):
        load_value(Payload(forged))


def test_buffers_far_behind_the_end_of_a_file_are_refused(store: Store) -> None:
    genuine = store.put(dump_value(LARGE), "a1").data
    begins = genuine.index(b"a1") - 8
    for at in (64, 1 << 40, (1 << 62) + 1, (1 << 64) - 1):
        with pytest.raises(SerializationError, match="shared memory"):
            load_value(Payload(genuine[:begins] + at.to_bytes(8, "little") + genuine[begins + 8 :]))


def test_a_link_in_the_directory_is_not_followed(store: Store) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    target = store.directory / "moved"
    (store.directory / "a1").rename(target)
    (store.directory / "a1").symlink_to(target)
    with pytest.raises(SerializationError, match="cannot be opened"):
        load_value(payload)


@pytest.mark.parametrize("cut", range(len(MARK), len(MARK) + 26))
def test_a_cut_stream_is_refused(store: Store, cut: int) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    with pytest.raises(SerializationError):
        load_value(Payload(payload.data[:cut]))


def test_a_file_of_another_size_is_refused(store: Store) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    os.truncate(store.directory / "a1", 10)
    with pytest.raises(SerializationError, match="size"):
        load_value(payload)


def test_no_pickle_begins_as_a_stored_payload_does() -> None:
    assert all(pickle.dumps(1, protocol)[:1] != MARK[:1] for protocol in range(6))


def test_the_directory_is_its_owners_alone_and_goes_with_all_in_it(store: Store) -> None:
    store.put(dump_value(LARGE), "a1")
    assert store.directory.stat().st_mode & 0o777 == 0o700
    assert (store.directory / "a1").stat().st_mode & 0o777 == 0o600
    store.remove()
    assert not store.directory.exists()


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(store: Store) -> None:
    # The process itself looks for its directory: once it has ended, any other program on this machine may sweep that.
    script = (
        "import os; from grainlike.payload._store import Store; made = Store.make().directory;"
        "print(made, made.is_dir(), flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
    left, was_made = done.stdout.split()
    assert was_made == "True"
    other = Store.make()
    assert other is not None
    try:
        until_blocking(lambda: not Path(left).exists())  # another program may be about to remove it
        assert store.directory.is_dir()
    finally:
        other.remove()


def test_a_directory_that_goes_while_it_is_looked_at_keeps_no_other_from_being_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"grainlike-store-{number}").mkdir()
        (tmp_path / f"grainlike-store-{number}" / "owner.lock").touch()
    first, lstat = os.listdir(tmp_path)[0], Path.lstat  # noqa: PTH208 - the order in which they are looked at

    def removed_by_another(path: Path) -> os.stat_result:
        if path.name == first:
            shutil.rmtree(path)
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", removed_by_another)
    SharedDirectory.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_sweeps_a_directory_before_its_maker_has_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def while_others_sweep(fd: int, how: int) -> None:
        if how == fcntl.LOCK_EX:  # the maker is about to lock
            SharedDirectory.sweep(tmp_path)
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", while_others_sweep)
    made = SharedDirectory.make(tmp_path)
    assert made is not None
    assert made.path.is_dir()
    SharedDirectory.sweep(tmp_path)
    assert made.path.is_dir()
    made.remove()
    assert not made.path.exists()


def test_a_process_that_was_told_of_the_directory_reads_it(store: Store) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    script = (
        "import sys; from pathlib import Path; from grainlike.payload import Payload, load_value;"
        "from grainlike.payload._store import know; know(Path(sys.argv[1]));"
        "print(load_value(Payload(bytes.fromhex(sys.argv[2]))).sum())"
    )
    command = [sys.executable, "-c", script, str(store.directory), bytes(payload.data).hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert float(done.stdout) == LARGE.sum()


def test_knowing_a_directory_twice_is_knowing_it_once(store: Store) -> None:
    know(store.directory)
    assert room._known.count(store.directory) == 1


@pytest.mark.parametrize("how", ["load", "drop"])
def test_a_store_that_another_thread_removes_hides_no_other(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    first, second = Store.make(), Store.make()
    assert first is not None
    assert second is not None
    payload = second.put(dump_value(LARGE), "7-1")

    def meanwhile(path: Path, *more: Any) -> Any:
        if path.parent == first.directory:
            first.remove()
        return really(path, *more)

    if how == "load":
        really: Any = os.open
        monkeypatch.setattr(room.os, "open", meanwhile)
        assert (load_value(payload) == LARGE).all()
    else:
        really = room.unlink
        monkeypatch.setattr(room, "unlink", meanwhile)
        drop(payload.data)
        assert files(second) == []
    monkeypatch.undo()
    second.remove()


def test_processes_of_one_machine_and_user_name_their_memory_alike() -> None:
    script = "from grainlike.payload import memory_id; print(memory_id())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.strip() == memory_id()
    assert memory_id()


def maps() -> int:
    return sum("grainlike-store-" in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_what_is_mapped_costs_no_descriptor_and_is_unmapped_when_nobody_has_it(store: Store) -> None:
    payload = store.put(dump_value(LARGE), "a1")
    before = len(list(Path("/proc/self/fd").iterdir()))
    values = [load_value(payload) for _ in range(5)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert maps() == 5
    part = values[0][10:20]
    del values
    assert maps() == 1
    assert part.sum() == sum(range(10, 20))
    del part
    assert maps() == 0


def test_what_was_put_may_be_discarded_by_its_name_and_what_was_not_too(store: Store) -> None:
    store.put(dump_value(LARGE), "r1-1")
    store.discard("r1-1")
    store.discard("r1-1")
    assert files(store) == []
