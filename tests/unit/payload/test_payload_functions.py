"""Functions: bytes made once, made again when they must be, and what is said of those that cannot travel."""

import asyncio
import gc
import hashlib
import importlib
import importlib.util
import linecache
import queue
import sys
import threading
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from grainlike.errors import SerializationError
from grainlike.payload import (
    Serializer,
    _names,
    dump_arguments,
    dump_function,
    dump_value,
    load_arguments,
    load_function,
    load_value,
)

COUNTED = []


@dataclass(frozen=True)
class Counted:
    """Cannot change, so that what holds it is dumped once."""

    def __reduce__(self):
        COUNTED.append(1)
        return Counted, ()


def closing_over(value):
    def function():
        return value

    return function


def test_bytes_are_made_once_and_known_by_digest() -> None:
    COUNTED.clear()
    function = closing_over(Counted())
    blob = dump_function(function)
    made = len(COUNTED)
    assert made > 0
    assert dump_function(function) is blob
    assert len(COUNTED) == made
    assert blob.digest == hashlib.sha256(blob.data).digest()[:16]


def test_each_serializer_has_its_own_bytes() -> None:
    function = closing_over(1)
    assert dump_function(function).data != dump_function(function, "cloudpickle").data
    assert load_function(dump_function(function, "cloudpickle").data)() == 1


def test_a_function_that_goes_after_the_names_of_the_module_is_forgotten_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from grainlike.payload import _functions

    def one() -> int:
        return 1

    dump_function(one)
    cache = _functions._cache
    before = len(cache)
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    for name in ("_cache", "_forget"):  # as an interpreter does when it ends
        monkeypatch.setattr(_functions, name, None)
    del one
    gc.collect()
    assert (raised, len(cache)) == ([], before - 1)


def test_the_bytes_go_with_the_function() -> None:
    from grainlike.payload import _functions

    gc.collect()
    before = len(_functions._cache)
    function = closing_over([1])
    dump_function(function)
    assert len(_functions._cache) == before + 1
    del function
    gc.collect()
    assert len(_functions._cache) == before


def test_a_function_that_holds_itself_is_freed_too() -> None:
    from grainlike.payload import _functions

    class Owner:
        def __init__(self):
            self.function = lambda: self

    def calls_itself():
        return calls_itself

    gc.collect()  # else what earlier tests have left may go meanwhile
    before = len(_functions._cache)
    owner = Owner()
    dump_function(owner.function)
    dump_function(calls_itself)
    assert len(_functions._cache) == before + 2
    owner = calls_itself = None
    gc.collect()
    assert len(_functions._cache) == before


def made_in(space: dict, text: str):
    space.setdefault("__name__", "__main__")
    exec(text, space)
    return space["f"]


def result(function):
    return load_function(dump_function(function).data)()


def test_rebound_globals_are_seen_also_behind_helpers_and_wrappers() -> None:
    space: dict = {"wrap": lambda g: types.SimpleNamespace(__wrapped__=g)}
    f = made_in(space, "N = None\ndef h(): return N\nw = wrap(h)\ndef f(): return w.__wrapped__()")
    for value in (None, 1, 2, "x", [3], None, [4]):
        space["N"] = value
        assert result(f) == value
    space["h"] = None  # not what `w` wraps
    assert result(f) == [4]


def test_a_global_that_is_gone_is_not_taken_for_none() -> None:
    space: dict = {"N": Counted()}
    f = made_in(space, "def f(): return N")
    assert isinstance(result(f), Counted)
    space["N"] = None
    gc.collect()
    assert result(f) is None


def test_a_callable_keeps_its_class_where_main_has_another_of_that_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space: dict = {"__name__": "__main__"}
    exec("class Odd:\n    def __call__(self): return 'right'\nf = Odd()", space)
    monkeypatch.setattr(
        sys.modules["__main__"], "Odd", type("Odd", (), {"__call__": lambda self: "wrong"}), raising=False
    )
    assert result(space["f"]) == "right"


def test_a_submodule_that_the_receiver_lacks_is_no_trouble_until_used(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "json.no_such_part"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    f = made_in({}, "import json\ndef f(): return json.dumps(1) or json.no_such_part")
    data = dump_function(f).data
    assert name.encode() in data
    monkeypatch.undo()
    assert load_function(data)() == "1"


def test_rebound_globals_are_seen_through_a_partial() -> None:
    space = {"N": 1}
    function = partial(made_in(space, "def f(): return N"))
    assert result(function) == 1
    space["N"] = 2
    assert result(function) == 2


def test_rebound_closure_variables_are_seen() -> None:
    n = 1

    def f():
        return n

    assert result(f) == 1
    n = 2
    assert result(f) == 2


IN_MAIN = """
from dataclasses import dataclass
from functools import partial
import logging, math

CONFIG = {"rate": 0.1}
NUMBERS = (1, 2.5, "three", frozenset({4}))
LOG = logging.getLogger("of the test")

class Settings:
    rate = 0.1
    sizes = [1]
    def scaled(self): return NUMBERS[0] * self.rate

@dataclass(frozen=True)
class Point:
    x: object = 1

POINT = Point((1, [2]))

def reads(): return CONFIG["rate"]
def asks_another(): return reads()
def reads_a_class(): return Settings.rate
def reads_in_a_class(): return Settings.sizes[0]
def reads_in_an_object(): return POINT.x[1][0]
def has_a_default(of=CONFIG): return of["rate"]
def has_a_default_by_name(*, of=CONFIG): return of["rate"]
def closes_over(of): return lambda: of["rate"]
def changes_nothing(point=Point(), log=LOG): return math.pi, NUMBERS, Settings.rate, LOG
def reads_itself(): return reads_itself.of["rate"]
reads_itself.of = CONFIG
THINGS = [Settings()]
def reads_of_a_thing(): return THINGS[0].rate
in_a_closure, given = closes_over(CONFIG), partial(has_a_default, CONFIG)
"""


def in_main(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What a script finds among its globals."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(IN_MAIN, main.__dict__)
    return main.__dict__


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("reads", "CONFIG['rate'] = 0.2"),
        ("asks_another", "CONFIG['rate'] = 0.2"),
        ("reads_a_class", "Settings.rate = 0.2"),
        ("reads_in_a_class", "Settings.sizes[0] = 0.2"),
        ("reads_in_an_object", "POINT.x[1][0] = 0.2"),
        ("has_a_default", "CONFIG['rate'] = 0.2"),
        ("has_a_default_by_name", "CONFIG['rate'] = 0.2"),
        ("in_a_closure", "CONFIG['rate'] = 0.2"),
        ("given", "CONFIG['rate'] = 0.2"),
        ("reads_of_a_thing", "THINGS[0].rate = 0.2"),
        ("reads_of_a_thing", "Settings.rate = 0.2"),
        ("reads_itself", "CONFIG['rate'] = 0.2"),
    ],
)
def test_what_changed_in_place_travels_again(name: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    space = in_main(monkeypatch)
    function = cast("Callable[[], float]", space[name])
    before = dump_function(function)
    assert dump_function(function) is before
    exec(change, space)
    after = dump_function(function)
    assert after.digest != before.digest
    assert load_function(after.data)() == 0.2
    assert dump_function(function) is after


def test_what_may_change_but_does_not_is_copied_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    function = cast("Callable[[], float]", in_main(monkeypatch)["asks_another"])
    blob = dump_function(function)
    assert dump_function(function) is blob
    monkeypatch.setattr("grainlike.payload._functions._dump", None)
    assert dump_function(function) is blob


def test_what_is_made_of_constants_is_dumped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    space = in_main(monkeypatch)
    function = cast("Callable[[], object]", space["changes_nothing"])
    exec("Settings.sizes = (1,)", space)
    blob = dump_function(function)
    monkeypatch.setattr("grainlike.payload._functions._dump", None)
    assert dump_function(function) is blob


def test_what_is_large_is_dumped_once() -> None:
    large = bytearray(1 << 20)
    function = closing_over(large)
    blob = dump_function(function)
    large[0] = 1
    assert dump_function(function) is blob


def test_a_function_that_has_travelled_goes_on_when_what_cannot_travel_comes_into_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A task in a list of the main script is no reason to refuse what worked before."""
    held: list[object] = [1]
    function = closing_over(held)
    blob = dump_function(function)
    held.append(x for x in "ab")
    assert dump_function(function) is blob
    assert dump_function(function) is blob
    (record,) = caplog.records
    assert "goes on with what it held before" in record.getMessage()
    assert "generator" in record.getMessage()


def test_objects_with_state_are_dumped_anew() -> None:
    content = [1]
    method = content.copy
    assert result(method) == [1]
    content.append(2)
    assert result(method) == [1, 2]
    assert dump_function(method).digest == dump_function(method).digest


def test_a_partial_is_dumped_once() -> None:
    COUNTED.clear()
    function = partial(closing_over, Counted())
    assert dump_function(function) is dump_function(function)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            closing_over(x for x in "ab"),
            "at closure variable 'value', cannot travel: an object of type builtins.generator",
        ),
        (closing_over([{"k": sys._getframe()}]), "at closure variable 'value'[0]['k'], cannot travel"),
        (partial(closing_over, (x for x in "ab")), "at .args[0], cannot travel"),
    ],
)
def test_refused_functions_name_the_variable(function: object, expected: str) -> None:
    with pytest.raises(SerializationError, match=r"^the function ") as caught:
        dump_function(function)
    assert expected in str(caught.value)


def test_refused_globals_are_named() -> None:
    f = made_in({"frame": sys._getframe()}, "def f(): return frame")
    with pytest.raises(SerializationError, match=r"the function 'f', at global 'frame', cannot travel"):
        dump_function(f)


HOLD_A_FILE = """
class Holds:
    kept = file

class Keeps:
    kept = [1]

def names(): return file
def names_inside(): return lambda: file
def names_a_helper(): return names()
def has_a_default(at=file): return at
def has_a_default_by_name(*, at=file): return at
def has_an_attribute(): return 1
has_an_attribute.kept = file
def closes_over(at): return lambda: at
in_a_closure = closes_over({"log": file})
def names_a_class(): return Holds
def names_an_object(): return held
held = Holds()
def names_a_list(): return kept
kept = Keeps()
kept.own = [1, file]
"""

WHERE = {
    "names": "global 'file'",
    "names_inside": "global 'file'",
    "names_a_helper": "global 'names' global 'file'",
    "has_a_default": "default[0]",
    "has_a_default_by_name": "keyword default['at']",
    "has_an_attribute": ".kept",
    "in_a_closure": "closure variable 'at'['log']",
    "names_a_class": "global 'Holds'.kept",
    "names_an_object": "global 'held'.__class__.kept",
    "names_a_list": "global 'kept'.own[1]",
}


def in_main_with(monkeypatch: pytest.MonkeyPatch, **held: object) -> dict[str, object]:
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    vars(main).update(held)
    exec(HOLD_A_FILE, main.__dict__)
    return main.__dict__


@pytest.mark.parametrize("serializer", ["dill", "cloudpickle"])
@pytest.mark.parametrize("name", WHERE)
def test_a_file_is_refused_wherever_a_function_holds_it(
    name: str, serializer: Serializer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with path.open("w") as file:
        file.write("kept")
        file.flush()
        function = cast("Callable[[], object]", in_main_with(monkeypatch, file=file)[name])
        with pytest.raises(SerializationError) as caught:
            dump_function(function, serializer)
    assert f", at {WHERE[name]}, cannot travel: an object of type _io.TextIOWrapper" in str(caught.value)
    assert "an open file belongs to its process: send its path" in str(caught.value)
    assert path.read_text() == "kept"


@pytest.mark.parametrize("mode", ["w", "wb", "r+b", "r", "rb", "a"])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_files_of_every_kind_are_refused_and_left_alone(mode: str, buffering: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before")
    with path.open(mode, buffering if "b" in mode else -1) as file:
        if mode[0] == "w":
            file.write("before" if mode == "w" else b"before")
            file.flush()
        function = closing_over(file)
        for _ in ("open", "closed"):
            with pytest.raises(SerializationError, match=r"closure variable 'value', .* an open file belongs"):
                dump_function(function)
            file.close()
    assert path.read_text() == "before"


def test_a_standard_stream_is_the_one_of_whoever_calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as here, (tmp_path / "far").open("w") as far:
        monkeypatch.setattr(sys, "stdout", here)
        functions = [closing_over(here), closing_over([here.buffer.raw, here.buffer, sys.__stderr__])]
        streams = [dump_function(f, serializer).data for f in functions for serializer in ("dill", "cloudpickle")]
        value = dump_value([here, functions[0]])
        monkeypatch.setattr(sys, "stdout", far)
        alone, alone_again, parts, parts_again = [load_function(stream)() for stream in streams]
        stream, function = load_value(value)
    assert alone is alone_again is stream is function() is far
    assert parts == parts_again == [far.buffer.raw, far.buffer, sys.__stderr__]


@pytest.mark.parametrize("serializer", ["dill", "cloudpickle"])
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Condition])
def test_locks_that_are_held_are_refused_in_functions(make: Callable[[], Any], serializer: Serializer) -> None:
    lock = make()
    with lock, pytest.raises(SerializationError, match=r"closure variable 'value'.* a lock belongs to its process"):
        dump_function(closing_over(lock), serializer)


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock, threading.Condition, threading.Event, queue.Queue])
def test_a_free_lock_travels_with_a_function_and_is_free_there(make: Callable[[], Any]) -> None:
    assert type(load_function(dump_function(closing_over(make())).data)()) is type(make())


def test_a_class_with_a_cached_property_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Python 3.12 such a property has a lock of its own."""
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(
        "from functools import cached_property\nclass Once:\n    @cached_property\n    def it(self): return [1]\n"
        "def once(): return Once().it",
        main.__dict__,
    )
    for serializer in ("dill", "cloudpickle"):
        assert load_function(dump_function(vars(main)["once"], serializer).data)() == [1]
    again = load_value(dump_value(vars(main)["Once"]()))
    assert again.it is again.it


class Raising:
    """Raises when it is dumped, once it has something to raise."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        if self.error is not None:
            raise self.error
        return int, ()


@pytest.mark.parametrize("error", [asyncio.CancelledError("no"), BaseException("no"), SystemExit("no")])
def test_functions_are_refused_whatever_is_raised_on_the_way(error: BaseException) -> None:
    with pytest.raises(SerializationError, match=r"at closure variable 'value', cannot travel: .*\.Raising"):
        dump_function(closing_over(Raising(error)))


def test_what_a_function_holds_may_come_to_raise_anything(caplog: pytest.LogCaptureFixture) -> None:
    held = Raising(None)
    function = closing_over(held)
    before = dump_function(function)
    held.error = asyncio.CancelledError("no")
    assert dump_function(function) is before
    assert "goes on with what it held before" in caplog.text


def test_an_interrupt_is_for_the_program() -> None:
    with pytest.raises(KeyboardInterrupt):
        dump_function(closing_over(Raising(KeyboardInterrupt())))


def raise_cancelled() -> None:
    raise asyncio.CancelledError("no")


class RaisingOnceThere:
    def __reduce__(self) -> tuple[Any, ...]:
        return raise_cancelled, ()


def test_a_function_that_raises_anything_when_it_is_rebuilt_is_refused() -> None:
    data = dump_function(closing_over(RaisingOnceThere())).data
    with pytest.raises(SerializationError, match=r"the function cannot be rebuilt here"):
        load_function(data)


@pytest.mark.parametrize("data", [b"", b"junk", b"cno_such_module_anywhere\nf\n."])
def test_what_is_no_function_says_so(data: bytes) -> None:
    with pytest.raises(SerializationError, match=r"the function cannot be rebuilt here"):
        load_function(data)


def test_a_function_that_came_into_its_module_later_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where a program reloads a module that the process of its jobs has imported before."""
    (tmp_path / "module_reloaded.py").write_text("class New: pass\ndef new(): return 1")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_reloaded")
    blob, closure = dump_function(module.new), dump_function(closing_over(module.new))
    arguments = dump_arguments((module.New(),), {}, what="f")
    del module.new, module.New
    for load in (
        lambda: load_function(blob.data),
        lambda: load_function(closure.data),
        lambda: load_arguments(arguments),
    ):
        with pytest.raises(SerializationError, match=r"has imported the module as it was; what was put into it since"):
            load()


def test_copies_of_functions_look_at_the_users_modules_only_once_one_was_imported_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "module_of_many.py"
    path.write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_of_many")
    monkeypatch.setattr(_names, "_MOST", 1 << 20)  # a process that runs very many tests has imported more modules
    monkeypatch.setattr("grainlike.payload._functions.versions_stamp", _names._Stamps().read)
    dump_function(closing_over(1))
    looks: list[str] = []
    real = _names.module_origin
    monkeypatch.setattr(_names, "module_origin", lambda name, module: (looks.append(name), real(name, module))[1])

    def stamp() -> bytes:
        return dump_function(closing_over(1)).data[-_names.STAMP_BYTES :]

    first = stamp()
    assert stamp() == first
    assert not looks
    path.write_text("x = 22")
    assert stamp() == first  # it has the old code
    importlib.reload(module)
    second = stamp()
    assert second != first
    assert "module_of_many" in looks
    looks.clear()
    assert stamp() == second
    assert not looks
    path.write_text("x = 333")
    other = importlib.util.module_from_spec(module.__spec__)
    monkeypatch.setitem(sys.modules, "module_of_many", other)  # as a test runner may, with the same spec
    assert stamp() == second
    assert "module_of_many" in looks
    del module.__spec__, other.__spec__
    assert len(stamp()) == len(second)


def test_lines_of_a_prompt_travel_and_survive_a_check_of_the_cache() -> None:
    name, text = "<a cell of a test>", "\n\n\ndef f():\n    raise ValueError('from afar')\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)
    data = dump_function(space["f"]).data
    del linecache.cache[name]
    try:
        with pytest.raises(ValueError, match="from afar") as caught:
            load_function(data)()
        linecache.checkcache()
        assert "raise ValueError('from afar')" in "".join(traceback.format_exception(caught.value))
    finally:
        linecache.cache.pop(name, None)


def test_what_belongs_to_a_module_that_no_import_finds_travels_by_value() -> None:
    name = "grainlike_module_made_by_hand"
    module = types.ModuleType(name)
    exec("class C:\n    pass\nN = 5\ndef g(): return N\ndef f(): return C, g()", module.__dict__)
    sys.modules[name] = module
    try:
        function, value = dump_function(module.f).data, dump_value(module.C())
    finally:
        del sys.modules[name]
    cls, number = load_function(function)()
    assert (cls, number) == (module.C, 5)
    assert type(load_value(value)) is module.C


def test_many_threads_at_once() -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for n in range(10):
                assert load_function(dump_function(closing_over({n})).data)() == {n}
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
