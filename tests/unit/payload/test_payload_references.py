"""References inside arguments: which are noted when they are pickled, and what they are where they arrive."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from replicas import replica_written

from grainlike import SerializationError
from grainlike.payload import (
    Payload,
    Reference,
    collecting,
    dump_arguments,
    dump_value,
    load_arguments,
    replica_path,
    resolving,
)

LARGE = np.arange(20_000, dtype=np.float64)


class Pair(NamedTuple):
    """A container that a plain pickle names."""

    left: Any
    right: Any


@pytest.fixture
def paths(tmp_path: Path) -> Mapping[int, Path]:
    values = {1: LARGE, 2: {"rows": LARGE * 2}}
    found = {value: replica_path(tmp_path, value, 1) for value in values}
    for value, path in found.items():
        replica_written(path, dump_value(values[value]))
    return found


def sent(*args: object) -> Payload:
    return dump_arguments(args, {}, what="f").detached()


def test_references_are_noted_in_order_each_once() -> None:
    with collecting() as values:
        sent(Reference(5), [Reference(2), {"x": Reference(5)}], Pair(Reference(9), 1))
        assert values == [5, 2, 9]


def test_what_cloudpickle_copies_has_its_references_noted_once_too() -> None:
    class Local:  # plain pickle refuses it, after it met the reference in front of it
        def __init__(self, held: object) -> None:
            self.held = held

    with collecting() as values:
        sent(Reference(1), Local(Reference(3)), lambda: Reference(4))
    assert values == [1, 3]


def test_a_block_notes_only_what_is_pickled_inside_it() -> None:
    with collecting() as outer:
        sent(Reference(1))
        with collecting() as inner:
            sent(Reference(2))
        sent(Reference(3))
    sent(Reference(4))
    assert (outer, inner) == ([1, 3], [2])


def test_a_reference_is_its_value_where_it_arrives(paths: Mapping[int, Path]) -> None:
    payload = sent(Reference(1), [Pair(Reference(2), LARGE)])
    with resolving(paths) as referenced:
        (first, [(second, own)]), _ = load_arguments(payload)
    assert (first == LARGE).all()
    assert (second["rows"] == LARGE * 2).all()
    assert (own == LARGE).all()
    assert referenced.gone == []


def test_inside_what_cloudpickle_copied_too(paths: Mapping[int, Path]) -> None:
    class Local:
        def __init__(self, held: object) -> None:
            self.held = held

    payload = sent(Local([Reference(1)]))
    with resolving(paths):
        (local,), _ = load_arguments(payload)
    assert (local.held[0] == LARGE).all()


def test_the_same_reference_twice_is_one_object(paths: Mapping[int, Path]) -> None:
    payload = sent(Reference(1), [Reference(1)], Pair(Reference(2), Reference(2)))
    with resolving(paths):
        (first, [again], pair), _ = load_arguments(payload)
    assert first is again
    assert pair.left is pair.right


def test_another_block_has_a_copy_of_its_own(paths: Mapping[int, Path]) -> None:
    payload = sent(Reference(1))
    with resolving(paths):
        (first,), _ = load_arguments(payload)
    first += 1
    with resolving(paths):
        (second,), _ = load_arguments(payload)
    assert (second == LARGE).all()


def test_replicas_that_are_gone_are_told_apart_from_other_errors(paths: Mapping[int, Path]) -> None:
    paths[2].write_bytes(b"damaged")
    with resolving(paths) as referenced, pytest.raises(SerializationError, match=r"v2-1|damaged"):
        load_arguments(sent(Reference(1), Reference(2)))
    assert referenced.gone == [2]
    paths[1].unlink()
    with resolving(paths) as referenced, pytest.raises(SerializationError, match="v1-1 is gone"):
        load_arguments(sent(Reference(1)))
    assert referenced.gone == [1]


def fail() -> None:
    raise RuntimeError("cannot be made here")


class Unloadable:
    def __reduce__(self) -> tuple[Any, ...]:
        return fail, ()


def test_a_value_that_cannot_be_rebuilt_is_not_gone(tmp_path: Path) -> None:
    path = replica_path(tmp_path, 3, 1)
    replica_written(path, dump_value(Unloadable()))
    with resolving({3: path}) as referenced, pytest.raises(SerializationError, match="value 3 cannot be rebuilt here"):
        load_arguments(sent(Reference(3)))
    assert referenced.gone == []


def test_a_value_that_was_not_sent_along_or_outside_any_block_is_refused(paths: Mapping[int, Path]) -> None:
    payload = sent(Reference(4))
    with resolving(paths) as referenced, pytest.raises(SerializationError, match="value 4 is not here"):
        load_arguments(payload)
    assert referenced.gone == []
    with pytest.raises(SerializationError, match="value 4 is at a worker"):
        load_arguments(payload)
