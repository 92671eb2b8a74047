"""Arguments with values beside them, in place of references to these."""

import numpy as np
import pytest

from grainlike.errors import SerializationError
from grainlike.payload import (
    Payload,
    Reference,
    buffer_reference,
    dump_arguments,
    dump_value,
    enclose_values,
    load_arguments,
    resolving,
    write_replica,
)

ARRAY = np.arange(100_000, dtype=np.float64)


def alone(array):
    """The value that a buffer of an array is."""
    return Payload(b"", (memoryview(array).cast("B"),))


def test_references_are_the_values_beside_them_the_same_object_each_time():
    packed = dump_arguments((Reference(7), [Reference(7)], Reference(8)), {"x": ARRAY}, what="f")
    enclosed = enclose_values(packed, {7: dump_value({"model": ARRAY}), 8: dump_value("small")})
    (model, (again,), small), kwargs = load_arguments(enclosed)
    assert model is again
    assert small == "small"
    np.testing.assert_array_equal(model["model"], ARRAY)
    np.testing.assert_array_equal(kwargs["x"], ARRAY)


def test_buffers_take_the_places_of_references_and_nothing_else_is_added():
    data, _ = dump_arguments((ARRAY, 1), {}, what="f")
    enclosed = enclose_values(Payload(data, (buffer_reference(7),)), {7: alone(ARRAY)})
    assert enclosed.data == data
    (array, one), _ = load_arguments(enclosed)
    np.testing.assert_array_equal(array, ARRAY)
    assert one == 1


def test_nothing_large_is_copied():
    data, _ = dump_arguments((ARRAY, Reference(8)), {}, what="f")
    values = {7: alone(ARRAY), 8: dump_value(ARRAY)}
    enclosed = enclose_values(Payload(data, (buffer_reference(7),)), values)
    places = [np.frombuffer(buffer, np.uint8).ctypes.data for buffer in enclosed.buffers if len(buffer) == ARRAY.nbytes]
    assert places == [ARRAY.ctypes.data] * 2


def test_other_references_are_what_they_were(tmp_path):
    packed = dump_arguments((Reference(7), Reference(9)), {}, what="f")
    enclosed = enclose_values(packed, {7: dump_value("here")})
    with pytest.raises(SerializationError, match="value 9"):
        load_arguments(enclosed)
    room, path = tmp_path / "room", tmp_path / "v9"
    room.write_bytes(b"")
    write_replica(room, path, dump_value("there"))
    with resolving({9: path}) as referenced:
        assert load_arguments(referenced.filled(enclosed)) == (("here", "there"), {})
        assert referenced.gone == []
