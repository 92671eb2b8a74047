"""Bytes of replicas in memory, and references in place of buffers."""

import numpy as np
import pytest

from grainlike.errors import SerializationError
from grainlike.payload import (
    Payload,
    ReplicaBytes,
    allocate_replica,
    buffer_reference,
    dump_arguments,
    dump_value,
    have_same_bytes,
    load_arguments,
    load_value,
    place_of,
    replica_path,
    replica_payload,
    replica_room,
    replica_size,
    resolving,
    write_replica,
)


def write(directory, value, payload):
    path = replica_path(directory, value, 1)
    room = replica_room(directory, path)
    allocate_replica(room, replica_size(payload))
    assert write_replica(room, path, payload) == replica_size(payload)
    return path


@pytest.mark.parametrize("step", [1, 63, 64, 1000, 4096, 10**6])
def test_the_bytes_in_memory_are_those_of_the_file(tmp_path, step):
    payload = dump_value([np.arange(3001, dtype="u1").repeat(7), "text", np.ones(2000)])
    image = ReplicaBytes(payload)
    found = b"".join(bytes(image.read(at, min(at + step, image.size))) for at in range(0, image.size, step))
    assert found == write(tmp_path, 7, payload).read_bytes()
    assert image.size == replica_size(payload)
    assert load_value(replica_payload(found))[1] == "text"


def test_a_part_of_one_buffer_is_not_copied():
    array = np.zeros(100_000)
    image = ReplicaBytes(dump_value(array))
    part = memoryview(image.read(4096, 8192))
    array[:] = 1.0
    assert np.frombuffer(part, "f8").max() == 1.0


def test_a_reference_stands_for_a_buffer(tmp_path):
    array, other = np.arange(200_000.0), np.ones(3000)
    payload = dump_arguments((array, other, array), {}, what="f")
    path = write(tmp_path, 7, Payload(b"", (payload.buffers[0],)))
    sent = Payload(payload.data, (buffer_reference(7), payload.buffers[1]))
    assert sent.nbytes < 30_000
    with resolving({7: path}) as values:
        (first, second, third), _ = load_arguments(values.filled(sent))
    assert (first == array).all()
    assert (second == other).all()
    assert third is first
    first[:] = 0.0  # on memory of its own
    with resolving({7: path}) as values:
        (again, *_), _ = load_arguments(values.filled(sent))
    assert (again == array).all()


def test_a_buffer_that_is_not_here_is_refused_and_noted(tmp_path):
    sent = Payload(dump_value(np.zeros(20_000)).data, (buffer_reference(7),))
    with resolving({}) as values, pytest.raises(SerializationError, match="value 7 is not here"):
        values.filled(sent)
    with resolving({7: tmp_path / "v7-1"}) as values, pytest.raises(SerializationError, match="is gone"):
        values.filled(sent)
    assert values.gone == [7]


def test_two_buffers_are_the_same_or_have_the_same_bytes():
    one, other = memoryview(b"a" * 100), memoryview(bytearray(b"a" * 100))
    assert have_same_bytes(one, other)
    assert not have_same_bytes(one, other[:99])
    other[99] = 0
    assert not have_same_bytes(one, other)
    assert place_of(one) == place_of(memoryview(one.obj)) != place_of(other)
