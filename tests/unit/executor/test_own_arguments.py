"""Large arguments of calls as values of a program's own: which are, for how long, and which travel."""

import gc

import numpy as np
import pytest

from grainlike import Cores, delayed, delayed_value
from grainlike.graph import RemoteValue, node_of
from grainlike.jobs import OwnArguments, _own_arguments
from grainlike.payload import SHARED_LEAST, STAY_BYTES, dump_arguments

MIB = SHARED_LEAST


class Holder:
    """Keeps values as a fetcher does."""

    used, is_open, own_most = False, True, 1 << 30

    def __init__(self):
        self.kept, self.released = {}, []

    def own(self, payload, value):
        number = 100 + len(self.kept) + len(self.released)
        self.kept[number] = payload.detached()
        reference = RemoteValue(self, number, payload.nbytes)
        reference.value, reference.fetched = value, True
        return reference

    def own_payload(self, value):
        return self.kept.get(value)

    def release(self, value):
        del self.kept[value]
        self.released.append(value)


@pytest.fixture
def holder():
    return Holder()


@pytest.fixture
def own(holder):
    return OwnArguments(holder)


def calls_with(*arrays):
    return [dump_arguments((array, at), {}, what="f") for at, array in enumerate(arrays)]


def shared(own, *arrays):
    """The values in place of these arrays, one for each call."""
    found = [values for _, values in own.share(calls_with(*arrays))]
    own.end_batch()
    return found


def test_a_buffer_of_several_calls_is_one_value_and_goes_with_its_array(own, holder):
    array, alone = np.zeros(MIB), np.ones(MIB)
    assert shared(own, array, alone, array) == [[100], [], [100]]
    assert shared(own, array) == [[100]]
    del array
    gc.collect()
    assert holder.released == [100]
    assert shared(own, alone) == [[]]


def test_one_that_has_changed_is_another_value(own, holder):
    array = np.zeros(MIB)
    assert shared(own, array, array) == [[100], [100]]
    array[-1] = 1.0
    assert shared(own, array) == [[]]
    assert shared(own, array, array) == [[101], [101]]
    assert holder.released == [100]
    assert holder.kept[101].buffers[0][-8:] == array[-1:].tobytes()


def test_a_view_that_lived_for_its_calls_goes_with_the_batch(own, holder):
    array = np.zeros(2 * MIB)
    payloads = calls_with(*[array[: MIB + at // 9] for at in range(3)])
    assert [values for _, values in own.share(payloads)] == [[100]] * 3
    del payloads
    gc.collect()
    assert holder.released == []
    own.end_batch()
    gc.collect()
    assert holder.released == [100]


def test_no_more_than_so_much_is_kept_for_later(own, holder, monkeypatch):
    monkeypatch.setattr(_own_arguments, "KNOWN_MOST", 20 * MIB)
    first, second, third = [np.zeros(MIB) for _ in range(3)]  # of 8 MiB each
    for array in (first, second, third):
        shared(own, array, array)
    assert holder.released == [100]
    assert shared(own, first, second, third) == [[], [101], [102]]


def test_a_buffer_of_one_call_is_a_value_for_that_call_alone_where_that_is_asked_for(holder):
    own = OwnArguments(holder, alone=True)
    array = np.zeros(MIB)
    assert shared(own, array) == [[100]]
    gc.collect()
    assert holder.released == [100]
    assert shared(own, array, array) == [[101], [101]]
    assert shared(own, array) == [[101]]


def test_a_large_stream_is_a_value_then_too(holder):
    own = OwnArguments(holder, alone=True)
    whole = dump_arguments(([1.0] * MIB, np.zeros(2)), {"few": 3}, what="f")
    ((payload, values),) = own.share([whole])
    assert values == [100]
    assert payload.nbytes < 1000
    assert holder.kept[100].buffers[0] == whole.data
    assert len(whole.data) > MIB
    assert own.share([dump_arguments(([1.0] * 8,), {}, what="f")])[0][1] == []


def test_a_buffer_for_which_there_is_no_memory_travels(holder, monkeypatch):
    own = OwnArguments(holder, alone=True)
    monkeypatch.setattr(holder, "own", _without_memory)
    assert shared(own, np.zeros(MIB)) == [[]]


def _without_memory(*_):
    raise MemoryError("no memory")


def test_small_buffers_travel(own):
    array = np.zeros(MIB // 8 - 1)
    assert shared(own, array, array) == [[], []]


def test_a_ready_value_is_one_value_for_all_calls(own, holder):
    model_ = delayed_value([b"m" * STAY_BYTES])
    call = delayed(len) @ Cores(1)
    for _ in range(3):
        own.refer(node_of(call(model_)))
    assert list(holder.kept) == [100]
    assert node_of(model_).value == [b"m" * STAY_BYTES]
    assert node_of(model_).reference.size > STAY_BYTES
    del model_
    gc.collect()
    assert holder.released == [100]


def test_a_small_one_is_looked_at_once(own, holder, monkeypatch):
    looked = []
    dump = _own_arguments.dump_value
    monkeypatch.setattr(_own_arguments, "dump_value", lambda value: looked.append(value) or dump(value))
    small_, number_ = delayed_value([1, 2]), delayed_value(3)
    for _ in range(3):
        own.refer(node_of((delayed(sum) @ Cores(1))(small_, number_)))
    assert looked == [[1, 2]]
    assert not holder.kept
    assert node_of(small_).label() == "value"


def test_what_cannot_travel_is_left_to_whoever_packs_the_call(own, holder):
    bad_ = delayed_value(x for x in ())
    own.refer(node_of((delayed(len) @ Cores(1))(bad_)))
    assert not holder.kept
    assert node_of(bad_).reference is None


def test_all_travels_where_workers_have_nowhere_to_keep_it(own, holder):
    holder.own_most = 0
    array, model_ = np.zeros(MIB), delayed_value(b"m" * 2 * STAY_BYTES)
    own.refer(node_of((delayed(len) @ Cores(1))(model_)))
    assert shared(own, array, array) == [[], []]
    holder.own_most = 1 << 30
    own.refer(node_of((delayed(len) @ Cores(1))(model_)))
    assert list(holder.kept) == [100]


def test_another_executor_has_a_value_of_its_own(own, holder):
    other = Holder()
    model_ = delayed_value(b"m" * 2 * STAY_BYTES)
    own.refer(node_of((delayed(len) @ Cores(1))(model_)))
    OwnArguments(other).refer(node_of((delayed(len) @ Cores(1))(model_)))
    assert list(other.kept) == [100]
    assert holder.released == [100]
