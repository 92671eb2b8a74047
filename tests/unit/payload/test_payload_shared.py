"""Large buffers that several payloads have: one file for all, until the last of them is dropped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grainlike.payload import SHARED_LEAST, Payload, SharedBuffers, SharedCopies, Store, drop, dump_value, load_value
from grainlike.payload import _store as room

pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory in the file system")


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store.make()
    assert made is not None
    yield made
    made.remove()


@pytest.fixture
def shared(store: Store) -> SharedBuffers:
    return SharedBuffers(store)


def files(store: Store) -> list[Path]:
    return sorted(path for path in store.directory.iterdir() if path.name != "owner.lock")


def an_array(value: float = 1.0, size: int = SHARED_LEAST) -> Any:
    return np.full(size // 8, value)


def test_one_file_for_many_payloads_which_goes_with_the_last(store: Store, shared: SharedBuffers) -> None:
    array = an_array()
    payloads = [shared.put(dump_value((at, array)), f"a{at}") for at in range(50)]
    shared.end_batch()
    (file,) = files(store)
    assert file.stat().st_size == SHARED_LEAST
    for at, payload in enumerate(payloads):
        assert not payload.buffers
        number, loaded = load_value(payload)
        assert number == at
        assert (loaded == array).all()
        loaded[:] = at  # it is that job's alone
        drop(payload.data)
        assert files(store) == ([file] if at < 49 else [])


def test_in_a_later_batch_it_is_the_same_while_it_is_needed_and_has_the_same_bytes(
    store: Store, shared: SharedBuffers
) -> None:
    array = an_array()
    first = shared.put(dump_value(array), "a1")
    shared.end_batch()
    again = shared.put(dump_value(array), "a2")
    shared.end_batch()
    assert len(files(store)) == 1
    array[-1] = 7
    changed = shared.put(dump_value(array), "a3")
    shared.end_batch()
    assert len(files(store)) == 2
    assert [load_value(payload)[-1] for payload in (first, again, changed)] == [1, 1, 7]
    for payload in (first, again, changed):
        drop(payload.data)
    assert not files(store)
    later = shared.put(dump_value(array), "a4")
    assert load_value(later)[-1] == 7
    assert len(files(store)) == 1


def test_another_object_at_the_same_place_is_another_value(store: Store, shared: SharedBuffers) -> None:
    payloads = []
    for value in range(4):
        array = an_array(value)
        payloads.append(shared.put(dump_value(array), f"a{value}"))
        shared.end_batch()
        del array
    assert [load_value(payload)[0] for payload in payloads] == [0, 1, 2, 3]


def test_within_a_batch_nothing_else_can_be_at_the_place_of_what_was_packed(
    store: Store, shared: SharedBuffers
) -> None:
    payloads = [shared.put(dump_value(an_array(value)), f"a{value}") for value in range(8)]
    assert [load_value(payload)[0] for payload in payloads] == list(range(8))


def test_buffers_of_all_sizes_come_back_in_their_order(store: Store, shared: SharedBuffers) -> None:
    values = [an_array(1, 10_000), an_array(2), an_array(3, 20_000), an_array(4), an_array(5, 9_000)]
    values.append(values[1])
    reads_only = an_array(6)
    reads_only.flags.writeable = False
    values.append(reads_only)
    payload = shared.put(dump_value([*values, b"y" * SHARED_LEAST]), "a1")
    assert len(files(store)) == 4
    *arrays, last = load_value(payload)
    assert [float(array[-1]) for array in arrays] == [1, 2, 3, 4, 5, 2, 6]
    assert last == b"y" * SHARED_LEAST
    drop(payload.data)
    assert not files(store)


def test_small_buffers_are_as_they_were(store: Store, shared: SharedBuffers) -> None:
    payload = dump_value(an_array(1, 10_000))
    assert shared.put(payload, "a1") is payload
    assert shared.put(dump_value(an_array(1, 300_000)), "a2").data[:6] == room.MARK[:6]
    assert [path.name for path in files(store)] == ["a2"]


def test_where_there_is_no_room_the_payload_travels_and_nothing_is_left(
    store: Store, shared: SharedBuffers, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = an_array()
    write = Store._write

    def full(self: Store, name: str, buffers: Any) -> None:
        write(self, name, buffers)
        if name == "a2":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "_write", full)
    kept = shared.put(dump_value(array), "a1")
    payload: Payload = dump_value([array, an_array(2), an_array(3, 10_000)])
    assert shared.put(payload, "a2") is payload
    assert len(files(store)) == 1
    drop(kept.data)
    assert not files(store)


def test_calls_that_leave_this_process_have_one_copy_of_what_they_share() -> None:
    array, small = an_array(), an_array(2, 10_000)
    copies = SharedCopies()
    packed = [copies.detached(dump_value((at, array, small, an_array(at)))) for at in range(4)]
    held = {id(memoryview(payload.buffers[0]).obj) for payload in packed}
    assert len(held) == 1
    array[:] = small[:] = 9
    for at, payload in enumerate(packed):
        number, first, second, own = load_value(payload)
        assert (number, first[0], second[0], own[0]) == (at, 1, 2, at)
        first[:] = -1  # on memory of its own
