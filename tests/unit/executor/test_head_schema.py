"""Schema of a head's images: each class that may be in one keeps its fields, or the schema is raised."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from enum import Enum
from hashlib import blake2b

import msgspec
import pytest

from grainlike.errors import JournalError
from grainlike.head.durable import _schema
from grainlike.head.durable._schema import CONVERSIONS, SCHEMA, check_schema, records
from grainlike.journal import Conversion, Record, draw_image, fields_of, read_image
from grainlike.wire import RetrySpec, SubmittedFunction

FINGERPRINTS = {
    1: "6cee136cdf4ebf836cc4b520ed202edb",
    2: "17c68f0791700168b8fc79d4b26d289b",
    3: "a0a9b1493fbb7133155708a0008746c3",
    4: "c0211e266f72647a85bb3ba8304400ca",  # f5e21f87... before `SubmittedFunction.internal`: see `test_marks_...`
    5: "7ef09ba063cd7381ccd17bd4facf8b11",
    6: "37ea77a54c9b57b52bb1335038833ff9",
    7: "f6bc7a4ee124a13dbbdc3e1afc68a9ef",
    8: "b8950fadef56532e12ee838bd8b3747b",
    9: "b8950fadef56532e12ee838bd8b3747b",  # the rules alone are others
}
"""Of each schema. Never change a released one: raise `SCHEMA` in `_schema.py`, add its conversion, and a line here."""

ROOMS = (
    "grainlike.resources",
    "grainlike.scheduler",
    "grainlike.scheduler.planning",
    "grainlike.scheduler.values",
    "grainlike.wire",
)
MODULES = (
    "grainlike.head._functions",
    "grainlike.head._kept_calls",
    "grainlike.head._nested",
    "grainlike.head._peers",
    "grainlike.head._state",
    "grainlike.jobs._call_graph",
    "grainlike.head.values._owners",
    "grainlike.head.values._transfers",
    "grainlike.head.server._client",
    "grainlike.head.server._sessions",
    "grainlike.jobs._job",
    "grainlike.net._resumable_session",
)
PASSING = (
    "wire._data",
    "wire._fleet",
    "wire._questions",
    "wire._history",
    "wire._live",
    "wire._logged",
    "wire._metrics",
    "wire._rows",
    "wire._runners",
    "wire._handshake",
    "wire._frames",
    "scheduler._explanation",
    "scheduler._scale_hint",
    "scheduler.planning._near_words",
)
"""Modules of these rooms whose objects no head keeps."""


def classes():
    """The classes that may be in an image."""
    modules = [
        f"{room}.{module.name}"
        for room in ROOMS
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__)
    ]
    for name in (*modules, *MODULES):
        if name.removeprefix("grainlike.") not in PASSING and not name.endswith("__main__"):
            for thing in vars(importlib.import_module(name)).values():
                if isinstance(thing, type) and thing.__module__ == name and not getattr(thing, "_is_protocol", False):
                    yield thing


def attributes_of(cls):
    """What objects of a class have: its declared fields, and all that its methods assign to `self`."""
    if issubclass(cls, Enum):
        return {str(member.value) for member in cls}
    found = set(fields_of(cls))
    if not issubclass(cls, (msgspec.Struct, tuple)):
        for base in cls.__mro__:
            if base.__module__.startswith("grainlike"):
                found |= assigned(base, cls)
    return found


def assigned(base, cls):
    tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and not isinstance(inspect.getattr_static(cls, node.attr, None), property)
    }


def test_the_records_have_the_fields_of_their_classes():
    """Red: mend the line of the class in `_schema_scheduler.py` or `_schema_head.py`; a renamed one is `old=new`."""
    known = {record.cls: set(record.attributes) for record in records().values()}
    unlike = {cls.__qualname__: attributes_of(cls) ^ known.get(cls, set()) for cls in classes()}
    assert {name: fields for name, fields in unlike.items() if fields} == {}
    assert known.keys() == set(classes())


def fingerprint():
    named = [(name, record.names) for name, record in sorted(records().items())]
    return blake2b(repr((named, sorted(_schema.METHODS))).encode(), digest_size=16).hexdigest()


def test_marks_of_internal_functions_are_passed_over_by_earlier_releases_of_the_schema():
    """No other field was added to schema 4. No image has this message, so earlier releases of the schema read all."""
    fields = msgspec.structs.fields(SubmittedFunction)
    assert fields[-1].encode_name == "internal"
    before = msgspec.defstruct("Before", [(field.name, field.type) for field in fields[:-1]], array_like=True)
    now = SubmittedFunction(b"d" * 16, "part", False, None, RetrySpec(), False, False, True, internal=True)
    passed_over = msgspec.msgpack.decode(msgspec.msgpack.encode(now), type=before)
    assert (passed_over.name, passed_over.here) == ("part", True)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(passed_over), type=SubmittedFunction)
    assert (again.name, again.internal) == ("part", False)


def test_what_is_named_in_images_changes_with_the_schema_alone():
    assert FINGERPRINTS[SCHEMA] == fingerprint()
    assert set(CONVERSIONS) == set(range(1, SCHEMA)), "a step from each schema to the next"


def test_both_kinds_of_schema_that_are_not_read_are_told():
    check_schema(SCHEMA, "9.9.9")
    with pytest.raises(
        JournalError, match=rf"schema {SCHEMA + 1}, of grainlike 9\.9\.9, .* has schema {SCHEMA}: start it"
    ):
        check_schema(SCHEMA + 1, "9.9.9")
    for before in (0, "a text"):
        with pytest.raises(
            JournalError, match=rf"schema 0, of grainlike 0\.1, .* has schema {SCHEMA}, which has no conv"
        ):
            check_schema(before, "0.1")


# --- images of other schemas --------------------------------------------------------------------------------------


class Before:
    __slots__ = ("first", "second")


class Now:
    __slots__ = ("_one", "third")


class Word(msgspec.Struct, array_like=True):
    text: str


class LongerWord(msgspec.Struct, array_like=True):
    text: str
    loud: bool = False


def converted(thing, classes, now, *conversions):
    return read_image(draw_image(thing, classes), now, {}, {}, conversions)


def test_an_image_outlives_the_names_of_classes_and_fields():
    before = Before()
    before.first, before.second = before, 2
    step = Conversion({"before": "now"}, {"before": lambda fields: fields.update(third=fields.pop("second") + 1)})
    now = {"now": Record(Now, ("first", "third"), ("_one", "third"))}
    found = converted(before, {"before": Before}, now, step)
    assert type(found) is Now
    assert found._one is found
    assert found.third == 3


def test_fields_that_nobody_converts_are_refused():
    before = Before()
    before.first = before.second = 1
    for fields in (("first",), ("first", "second", "third"), ("first", "third")):
        now = {"before": Record(Now, fields, fields)}
        with pytest.raises(JournalError, match="damaged image"):
            converted(before, {"before": Before}, now)


def test_a_message_gets_the_defaults_of_fields_that_were_not_there():
    assert converted([Word("x")], {"word": Word}, {"word": LongerWord}) == [LongerWord("x", False)]
