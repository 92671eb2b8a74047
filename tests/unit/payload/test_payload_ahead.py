"""Arguments that are filled in after they were packed."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grainlike.errors import SerializationError
from grainlike.payload import (
    AppliedStep,
    Awaited,
    Payload,
    Reference,
    StepResult,
    dump_arguments_ahead,
    dump_error,
    dump_value,
    fill_arguments,
    load_arguments,
    load_error,
    noted_error,
    replica_size,
    resolving,
    told_of_error,
    write_replica,
)


def filled(marked: Payload, **given: Any) -> Payload:
    return fill_arguments(marked, {int(number[1:]): outcome for number, outcome in given.items()})


def test_marks_are_replaced_by_values_each_the_same_object_wherever_it_stands() -> None:
    marked = dump_arguments_ahead([], ([Awaited(1), Awaited(2)], Awaited(1)), {"k": {Awaited(2): 3}}, what="f")
    (values, again), kwargs = load_arguments(filled(marked, _1=dump_value([1]), _2=dump_value("b")))
    assert (values, kwargs) == ([[1], "b"], {"k": {"b": 3}})
    assert values[0] is again


def test_large_buffers_travel_apart_and_are_writable() -> None:
    large = np.arange(12_500)
    payload = filled(dump_arguments_ahead([], (Awaited(1), large), {}, what="f"), _1=dump_value(large + 1))
    assert len(payload.data) < 1000
    assert [memoryview(buffer).nbytes for buffer in payload.buffers] == [100_000] * 2
    (value, other), _ = load_arguments(payload)
    value -= 1
    assert value.tolist() == other.tolist() == large.tolist()


def test_operators_are_applied_once_in_order() -> None:
    steps = [AppliedStep(operator.add, (Awaited(1), [3]), {}), AppliedStep(len, (StepResult(0),), {})]
    marked = dump_arguments_ahead(steps, (StepResult(0), StepResult(1), StepResult(0)), {}, what="f")
    (first, length, again), _ = load_arguments(filled(marked, _1=dump_value([1, 2])))
    assert (first, length) == ([1, 2, 3], 3)
    assert first is again


def test_the_error_of_an_operator_is_passed_on_as_it_is() -> None:
    marked = dump_arguments_ahead([AppliedStep(operator.getitem, (Awaited(1), 7), {})], (StepResult(0),), {}, what="f")
    with pytest.raises(IndexError):
        load_arguments(filled(marked, _1=dump_value([1])))
    with pytest.raises(SerializationError, match="cannot be rebuilt here"):
        load_arguments(filled(marked, _1=Payload(b"damaged")))


def test_references_are_to_values_that_stay(tmp_path: Path) -> None:
    payload = dump_value({"large": 1})
    (tmp_path / "room").write_bytes(bytes(replica_size(payload)))
    assert write_replica(tmp_path / "room", tmp_path / "v7-1", payload)
    marked = dump_arguments_ahead([], (Awaited(1), Reference(7)), {}, what="f")
    with resolving({7: tmp_path / "v7-1"}):
        (value, other), _ = load_arguments(filled(marked, _1=7))
    assert value == {"large": 1}
    assert value is other


def test_an_argument_that_cannot_travel_is_told_with_its_call() -> None:
    with pytest.raises(SerializationError, match="an argument of f"):
        dump_arguments_ahead([], (Awaited(1), (item for item in ())), {}, what="f")


def test_a_note_is_added_to_an_error_that_nobody_rebuilds_and_only_once() -> None:
    data = bytes(dump_error(ValueError("no")).data)
    noted = noted_error(data, "from n1")
    assert load_error(Payload(noted), "from n2").__notes__ == ["from n1"]
    assert noted_error(noted, "from n3") == noted
    assert told_of_error(noted) == "ValueError: no"
    assert noted_error(b"damaged", "from n1") == b"damaged"
