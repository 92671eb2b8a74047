"""An image of plain objects: what they hold and how they refer to each other, without a word of code.

Not a pickle: only classes that the reader names itself are made, by putting values into their fields. No
constructor runs, nothing is imported, and nothing is called but what the reader gives.

An image is a series of messages in msgpack, each a list. Objects are numbered in the order in which they are made. A
value in a list is itself where it is a number, a string, bytes, True, False or None; `[n]` is object n::

    ["c", class, field, ...]    the names of the fields of a class, before the first object of it
    ["o", class]                an object, filled later          ["l"]  ["d"]  ["s"]  ["q", longest]   the same: list,
    ["v", class, field, ...]    an object that is its value                      dictionary, set, deque
    ["t", item, ...]            a tuple                          ["n", class, item, ...]   a named one
    ["f", item, ...]            a frozen set                     ["p", key, value, ...]     a read-only mapping
    ["e", class, value]         a member of an enumeration
    ["b", bytes]                a bytearray                      ["i", digits]             a large whole number
    ["m", object, name]         a method of an object            ["g", name, item, ...]    made by who reads
    ["F", n, field, ...]        fill object n                ["r", value]   the last message: what it is the image of

A field that holds nothing is `[-1]`.

Classes, fields and methods go under names of their own (`Record`), so code may be renamed without a word in old images;
and as an image names the fields of its classes, `Conversion`s can make those of today of it.

Objects that may be keys are their values: they are whole when they are made, and what they hold comes first. All others
are filled when all that they hold has been made, so objects may refer to each other in circles. A field `_hash`, where
an object remembers its hash, is written as None: another process would work out another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType, MethodType
from typing import Any

import msgspec

from grainlike.errors import JournalError

__all__ = ["Conversion", "Record", "draw_image", "fields_of", "read_image"]

_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
_CHUNK = 256 * 1024

Made = Callable[[Any], tuple[str, Sequence[object]] | None]
"""How a reader can make an object that has no image: by a name, of these; None for all others."""


def _nothing(_: Any) -> None:
    """Everything has an image."""


@dataclass(frozen=True, slots=True)
class Record:
    """Class in an image: `names` are those of its fields there, `attributes` those of the same fields in the code."""

    cls: type
    names: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """Step from one schema to the next.

    Attributes:
        renamed: new names of classes, by their old ones.
        fields: changes of the fields of an object, in place, by the old name of its class.
    """

    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    fields: Mapping[str, Callable[[dict[str, Any]], object]] = field(default_factory=dict)


Classes = Mapping[str, type] | Mapping[str, Record]
"""Classes that may be in an image, by the names under which they go; of a type, the fields keep their names."""

_SAME: Mapping[str, str] = {}


def draw_image(
    root: object, classes: Classes, made: Made = _nothing, methods: Mapping[str, str] = _SAME
) -> Iterator[bytes]:
    """Return the image of `root` and all that it refers to, in pieces of some 256 KiB.

    `classes` are those that may be in it. `methods` has the attributes of methods by their names in images; one that is
    not there goes under its own.

    Raises:
        JournalError: an object is of none of these.
    """
    return _GraphWriter(_records(classes), made, methods).draw(root)


def read_image(
    chunks: Iterable[bytes],
    classes: Classes,
    given: Mapping[str, Callable[..., object]],
    methods: Mapping[str, str] = _SAME,
    conversions: Sequence[Conversion] = (),
) -> Any:
    """Return the object of which this is the image. `given` makes those that had none, by their names.

    Raises:
        JournalError: it is no image, or one of a class or a field that is not in `classes`, nor is made so by
            `conversions`.
    """
    reader = _GraphReader(_records(classes), given, methods, conversions)
    try:
        for row in _rows(chunks):
            reader.take(row)
        return reader.root()
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise JournalError(f"a damaged image: {error!r}") from None


def _records(classes: Classes) -> dict[str, Record]:
    return {name: thing if isinstance(thing, Record) else _record_of(thing) for name, thing in classes.items()}


def _record_of(cls: type) -> Record:
    return Record(cls, fields_of(cls), fields_of(cls))


def fields_of(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a class, but for those that only its instances' dictionaries have."""
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    if issubclass(cls, tuple):
        return tuple(getattr(cls, "_fields", ()))
    found: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                found[_mangled(base, name)] = None
    return tuple(found)


def _mangled(cls: type, name: str) -> str:
    return f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name


def _is_value(cls: type) -> bool:
    """Return True if objects of a class are equal if they hold the same, and may be keys; or can only be made whole."""
    return issubclass(cls, msgspec.Struct) or (cls.__hash__ is not object.__hash__ and cls.__hash__ is not None)


_UNSET = object()
"""In the place of a field that holds nothing: no value of a field can be this one."""


class _GraphWriter:
    """Numbers what it meets. What is filled later waits in `_todo`."""

    def __init__(self, records: Mapping[str, Record], made: Made, methods: Mapping[str, str]) -> None:
        self._names = {record.cls: name for name, record in records.items()}
        self._attributes = {record.cls: record.attributes for record in records.values()}
        self._records = records
        self._methods = {attribute: name for name, attribute in methods.items()}
        self._said = set[str]()
        """Classes whose fields have been named."""
        self._made = made
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        """So that no number is that of an object which came to be where another was."""
        self._todo: deque[tuple[int, object]] = deque()
        self._out: list[bytes] = []
        self._size = 0
        self._encode = msgspec.msgpack.Encoder().encode

    def draw(self, root: object) -> Iterator[bytes]:
        last = self._value(root)
        while self._todo:
            number, thing = self._todo.popleft()
            self._write(["F", number, *self._inside(thing)])
            if self._size >= _CHUNK:
                yield self._chunk()
        self._write(["r", last])
        yield self._chunk()

    def _chunk(self) -> bytes:
        chunk, self._out, self._size = b"".join(self._out), [], 0
        return chunk

    def _write(self, row: list[object]) -> None:
        data = self._encode(row)
        self._out += (len(data).to_bytes(4, "little"), data)
        self._size += 4 + len(data)

    def _value(self, thing: object) -> object:
        """Return what stands for an object where it is referred to; it is made before, if it was not."""
        if type(thing) in _PLAIN and not (type(thing) is int and thing.bit_length() > _MOST_BITS):
            return thing
        number = self._numbers.get(id(thing))
        if number is None:
            number = self._make(thing)
        return [number]

    def _values(self, things: Iterable[object]) -> list[object]:
        return [self._value(thing) for thing in things]

    def _make(self, thing: object) -> int:
        row, filled = self._row(thing)
        number = len(self._kept)
        self._numbers[id(thing)] = number
        self._kept.append(thing)
        self._write(row)
        if filled:
            self._todo.append((number, thing))
        return number

    def _row(self, thing: Any) -> tuple[list[object], bool]:
        """Return how an object is made, and whether it is filled later."""
        made = self._made(thing)
        if made is not None:
            name, items = made
            return ["g", name, *self._values(items)], False
        match thing:
            case deque():
                return ["q", thing.maxlen], True
            case int() if type(thing) is int:
                return ["i", str(thing)], False
            case bytearray():
                return ["b", bytes(thing)], False
            case MappingProxyType():
                return ["p", *self._values(item for pair in thing.items() for item in pair)], False
            case MethodType():
                method = thing.__func__.__name__
                return ["m", self._value(thing.__self__), self._methods.get(method, method)], False
        kind = _BUILT_IN.get(type(thing))
        if kind is not None:
            return ([kind], True) if kind in "lds" else ([kind, *self._values(thing)], False)
        return self._row_of_class(thing, type(thing))

    def _row_of_class(self, thing: Any, cls: type) -> tuple[list[object], bool]:
        name = self._names.get(cls)
        if name is None:
            raise JournalError(f"there can be no image of a {cls.__module__}.{cls.__qualname__}: {thing!r:.200}")
        if name not in self._said:
            self._said.add(name)
            self._write(["c", name, *self._records[name].names])
        if isinstance(thing, Enum):
            return ["e", name, thing.value], False
        if isinstance(thing, tuple):
            return ["n", name, *self._values(thing)], False
        if _is_value(cls):
            return ["v", name, *self._inside(thing)], False
        return ["o", name], True

    def _inside(self, thing: Any) -> list[object]:
        if isinstance(thing, dict):
            return [self._value(item) for pair in thing.items() for item in pair]
        if isinstance(thing, (list, deque, set)):
            return self._values(thing)
        attributes = self._attributes[type(thing)]
        found = [self._field(thing, name) for name in attributes]
        extra = getattr(thing, "__dict__", None)
        if extra:
            pairs = [pair for pair in extra.items() if pair[0] not in attributes]
            found += self._values(item for pair in pairs for item in pair)
        return found

    def _field(self, thing: Any, name: str) -> object:
        value = None if name in _WORKED_OUT else getattr(thing, name, _UNSET)
        return [_UNSET_NUMBER] if value is _UNSET else self._value(value)


_UNSET_NUMBER = -1
_WORKED_OUT = frozenset({"_hash"})
"""What an object remembers having worked out of itself, and another process would work out otherwise."""

_BUILT_IN: dict[type, str] = {tuple: "t", frozenset: "f", list: "l", dict: "d", set: "s"}
_MOST_BITS = 63
"""What msgpack has for whole numbers; amounts of memory are larger."""


def _rows(chunks: Iterable[bytes]) -> Iterator[list[Any]]:
    decode = msgspec.msgpack.Decoder(list[Any]).decode
    for chunk in chunks:
        view, at = memoryview(chunk), 0
        while at < len(view):
            length = int.from_bytes(view[at : at + 4], "little")
            yield decode(view[at + 4 : at + 4 + length])
            at += 4 + length


class _Layout:
    """Fields of one class as an image has them, and how they become those of today."""

    __slots__ = ("_names", "_steps", "record")

    def __init__(
        self, name: str, names: list[str], records: Mapping[str, Record], conversions: Sequence[Conversion]
    ) -> None:
        self._names = names
        self._steps: list[Callable[[dict[str, Any]], object]] = []
        for conversion in conversions:
            if name in conversion.fields:
                self._steps.append(conversion.fields[name])
            name = conversion.renamed.get(name, name)
        self.record = records[name]

    def fields(self, items: list[Any]) -> list[Any]:
        """Return values in the order of the class's fields; behind them names and values of others."""
        names, record = self._names, self.record
        if not self._steps and len(names) == len(record.names) and tuple(names) == record.names:
            return items
        found = dict(zip(names, items, strict=False))
        for step in self._steps:
            step(found)
        unlike = found.keys() ^ set(record.names)
        if unlike - _with_defaults(record) or not found.keys() <= set(record.names):
            raise ValueError(f"{record.cls.__name__} has other fields: {sorted(unlike)}")
        return [*(found.get(name, _UNSET) for name in record.names), *items[len(names) :]]


def _with_defaults(record: Record) -> set[str]:
    """Return the fields of a message that an image may lack."""
    if not issubclass(record.cls, msgspec.Struct):
        return set()
    optional = {info.name for info in msgspec.structs.fields(record.cls) if not info.required}
    return {name for name, attribute in zip(record.names, record.attributes, strict=True) if attribute in optional}


class _GraphReader:
    """Makes and fills objects, in the order of the rows."""

    def __init__(
        self,
        records: Mapping[str, Record],
        given: Mapping[str, Callable[..., object]],
        methods: Mapping[str, str],
        conversions: Sequence[Conversion],
    ) -> None:
        self._records = records
        self._given = given
        self._methods = methods
        self._conversions = conversions
        self._layouts: dict[str, _Layout] = {}
        self._of_class: dict[type, _Layout] = {}
        self._things: list[Any] = []
        self._root: list[Any] = []

    def root(self) -> Any:
        """Return the object of which this is the image."""
        (root,) = self._root
        return root

    def take(self, row: list[Any]) -> None:
        """Do what one row says."""
        kind, *rest = row
        if kind == "F":
            number, *items = rest
            thing = self._things[number]
            _fill(thing, self._values(items), self._of_class.get(type(thing)))
        elif kind == "c":
            name, *names = rest
            layout = self._layouts[name] = _Layout(name, names, self._records, self._conversions)
            self._of_class[layout.record.cls] = layout
        elif kind == "r":
            self._root = self._values(rest)
        else:
            self._things.append(self._made(kind, rest))

    def _values(self, items: list[Any]) -> list[Any]:
        things = self._things
        return [
            (_UNSET if item[0] == _UNSET_NUMBER else things[item[0]]) if type(item) is list else item for item in items
        ]

    def _made(self, kind: str, rest: list[Any]) -> Any:
        match kind:
            case "o":
                return object.__new__(self._layouts[rest[0]].record.cls)
            case "l":
                return []
            case "d":
                return {}
            case "s":
                return set()
            case "q":
                return deque(maxlen=rest[0])
            case "t":
                return tuple(self._values(rest))
            case "p":
                items = self._values(rest)
                return MappingProxyType(dict(zip(items[::2], items[1::2], strict=True)))
            case "f":
                return frozenset(self._values(rest))
            case "i":
                return int(rest[0])
            case "b":
                return bytearray(rest[0])
            case "e":
                return self._layouts[rest[0]].record.cls(rest[1])
            case "n":
                layout = self._layouts[rest[0]]
                return layout.record.cls(*layout.fields(self._values(rest[1:])))
            case "v":
                return _value_of(self._layouts[rest[0]], self._values(rest[1:]))
            case "m":
                return getattr(self._values(rest[:1])[0], self._methods.get(rest[1], rest[1]))
            case "g":
                return self._given[rest[0]](*self._values(rest[1:]))
        raise ValueError(f"a row of kind {kind!r}")


def _value_of(layout: _Layout, items: list[Any]) -> Any:
    cls = layout.record.cls
    if issubclass(cls, msgspec.Struct):
        named = zip(layout.record.attributes, layout.fields(items), strict=True)
        return cls(**{name: value for name, value in named if value is not _UNSET})
    thing = object.__new__(cls)
    _fill(thing, items, layout)
    return thing


def _fill(thing: Any, items: list[Any], layout: _Layout | None) -> None:
    if isinstance(thing, dict):
        thing.update(zip(items[::2], items[1::2], strict=True))
    elif isinstance(thing, (list, deque)):
        thing.extend(items)
    elif isinstance(thing, set):
        thing.update(items)
    elif layout is not None:
        names, items = layout.record.attributes, layout.fields(items)
        put = msgspec.structs.force_setattr if isinstance(thing, msgspec.Struct) else object.__setattr__
        for name, value in zip(names, items, strict=False):
            if value is not _UNSET:
                put(thing, name, value)
        for name, value in zip(items[len(names) :: 2], items[len(names) + 1 :: 2], strict=True):
            put(thing, name, value)
    else:
        raise TypeError(f"a {type(thing).__name__} has no fields")
