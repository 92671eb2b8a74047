"""A runner drops functions when it is told to, but not those of leases that have not ended."""

import pytest

from grainlike.payload import dump_function
from grainlike.wire import Define, Frame, FunctionSpec, Setup
from grainlike_worker.daemon._runner_supervisor import _without
from grainlike_worker.runner.common._functions import LoadedFunctions


def define(*fns):
    blob = dump_function(len)
    return Define([FunctionSpec(fn, blob.digest, f"f{fn}", False, None) for fn in fns], []), [blob.data] * len(fns)


def test_what_was_loaded_and_what_was_not_is_dropped():
    functions = LoadedFunctions()
    functions.define(*define(1, 2, 3))
    assert functions.get(1).callable([1]) == 1
    functions.undefine([1, 2], ())
    assert functions.count == 1
    assert functions.get(3).callable([]) == 0
    with pytest.raises(KeyError):
        functions.get(1)


def test_what_a_lease_still_uses_goes_the_next_time():
    functions = LoadedFunctions()
    functions.define(*define(1, 2))
    functions.undefine([1], {1})
    assert functions.get(1).name == "f1"
    functions.undefine([2], ())
    assert functions.count == 0


def test_what_every_process_of_a_runner_is_told_first_shrinks():
    first = [Frame(Setup("n1", []), []), Frame(*define(1, 2)), Frame(*define(3))]
    kept = list(_without(first, {1, 3}))
    assert [type(message) for message, _ in kept] == [Setup, Define]
    assert [spec.fn for spec in kept[1].message.functions] == [2]
    assert len(kept[1].buffers) == 1
