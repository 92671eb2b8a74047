"""Images of plain objects: what is drawn is what is read, whoever reads it, and nothing else is made."""

import os
import subprocess
import sys
from collections import deque
from enum import Enum, IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grainlike.errors import JournalError
from grainlike.journal import draw_image, read_image
from grainlike.resources import Cores, Memory, Request

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.text()) | st.frozensets(st.integers())
THINGS = st.recursive(
    PLAIN | KEYS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(KEYS, inner)
        | st.tuples(inner, inner)
        | st.lists(inner).map(deque)
        | st.sets(st.integers())
    ),
    max_leaves=30,
)


class Colour(Enum):
    RED = "red"


class Step(IntEnum):
    FIRST = 1


class Place(NamedTuple):
    row: int
    of: list[int]


class Fact(msgspec.Struct, frozen=True):
    name: str
    parts: tuple[int, ...]


class Base:
    __slots__ = ("left", "unset")


class Slotted(Base):
    __slots__ = ("right",)


class Loose:
    """Has a dictionary, and a method that others may hold."""

    def greet(self):
        return self.name


CLASSES = {cls.__name__: cls for cls in (Colour, Step, Place, Fact, Slotted, Loose)}


def again(thing, classes=CLASSES, made=None, given=()):
    chunks = list(draw_image(thing, classes, made) if made else draw_image(thing, classes))
    return read_image(chunks, classes, dict(given))


@settings(max_examples=300, deadline=None)
@given(THINGS)
def test_what_is_drawn_is_read(thing):
    assert again(thing) == thing


def test_order_and_types_are_kept():
    found = again({"b": True, "a": 1, "c": 1.0, 0: None})
    assert repr(found) == "{'b': True, 'a': 1, 'c': 1.0, 0: None}"


def test_each_kind_of_object_comes_back_as_what_it_was():
    slotted, loose = Slotted(), Loose()
    slotted.left, slotted.right = loose, [1, 2**80, -(2**70)]
    loose.name, loose.peer, loose.greeting = "one", slotted, loose.greet
    thing = {
        "members": [Colour.RED, Step.FIRST],
        "place": Place(3, [4]),
        "fact": Fact("f", (1, 2)),
        "slotted": slotted,
        "last": deque([1, 2, 3], maxlen=3),
        "frozen": MappingProxyType({"a": (1,)}),
        "bytes": bytearray(b"xy"),
    }
    found = again(thing)
    assert found["members"] == [Colour.RED, Step.FIRST]
    assert type(found["members"][1]) is Step
    assert found["place"] == Place(3, [4])
    assert found["fact"] == Fact("f", (1, 2))
    assert found["last"].maxlen == 3
    assert found["frozen"]["a"] == (1,)
    assert found["bytes"] == b"xy"
    one = found["slotted"].left
    assert one.peer is found["slotted"]
    assert one.greeting() == "one"
    assert one.greeting.__self__ is one
    assert found["slotted"].right == [1, 2**80, -(2**70)]
    assert not hasattr(found["slotted"], "unset")


def test_no_value_is_taken_for_a_field_that_holds_nothing():
    slotted = Slotted()
    slotted.left, slotted.right = "unset", [-1]
    found = again(slotted)
    assert (found.left, found.right) == ("unset", [-1])


def test_what_was_one_object_is_one_object():
    shared = [1]
    circle = {"self": None, "twice": (shared, shared)}
    circle["self"] = circle
    found = again(circle)
    assert found["self"] is found
    assert found["twice"][0] is found["twice"][1]


def test_long_chains_of_objects_need_no_deep_stack():
    first = last = Loose()
    for number in range(20_000):
        last.next = Loose()
        last.number, last = number, last.next
    found, length = again(first), 0
    while hasattr(found, "next"):
        assert found.number == length
        found, length = found.next, length + 1
    assert length == 20_000


def test_what_has_no_image_is_made_by_who_reads():
    def made(thing):
        return ("file", (thing.name, 3)) if isinstance(thing, Loose) else None

    loose = Loose()
    loose.name = "n"
    assert again([loose, loose], made=made, given={"file": lambda *parts: parts}) == [("n", 3), ("n", 3)]


def test_a_class_that_was_not_named_is_neither_drawn_nor_made():
    with pytest.raises(JournalError, match=r"there can be no image of a .*Loose"):
        list(draw_image([Loose()], {}))
    chunks = list(draw_image([Colour.RED], CLASSES))
    with pytest.raises(JournalError, match="damaged image"):
        read_image(chunks, {}, {})
    with pytest.raises(JournalError, match=r"there can be no image of a builtins\.function"):
        list(draw_image(test_order_and_types_are_kept, CLASSES))


def test_damage_is_told_and_makes_nothing_unexpected():
    (chunk,) = draw_image({"a": [1, (2, Colour.RED)]}, CLASSES)
    for end in range(len(chunk)):
        with pytest.raises(JournalError, match="damaged image"):
            read_image([chunk[:end]], CLASSES, {})
    for at in range(len(chunk)):
        flipped = chunk[:at] + bytes([chunk[at] ^ 0x41]) + chunk[at + 1 :]
        try:
            found = read_image([flipped], CLASSES, {})
        except JournalError:
            continue
        assert isinstance(found, (dict, list, tuple, int, str, Colour))


def test_keys_are_found_by_a_process_with_other_hashes(tmp_path):
    """A request remembers its hash; another process hashes strings otherwise."""
    state = {(Cores(2) & Memory("64Gi"), False): 1, Cores(1): 2}
    assert all(map(hash, state))
    image = tmp_path / "image"
    image.write_bytes(b"".join(draw_image(state, classes_of_requests())))
    command = [sys.executable, "-c", f"from {__name__} import look; look({str(image)!r})"]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        assert subprocess.run(command, check=True, capture_output=True, env=environment).stdout == b"1 2\n"


def classes_of_requests():
    found = [Request, type(Cores(1).terms), type(Cores(1))]
    return {cls.__name__: cls for cls in found}


def look(path):
    state = read_image([Path(path).read_bytes()], classes_of_requests(), {})
    print(state[Cores(2) & Memory("64Gi"), False], state[Cores(1)])
