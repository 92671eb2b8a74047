"""Exceptions: own type or stand-in, with where they come from, whatever their class does."""

import asyncio
import copyreg
import importlib
import json
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
from tblib.pickling_support import pickle_exception

from grainlike.errors import JobMemoryError, JobTimeoutError, RemoteError, SerializationError
from grainlike.payload import (
    Payload,
    RemoteTraceback,
    _functions,
    _names,
    _values,
    dump_error,
    dump_function,
    load_error,
    no_ctrl_c_comes,
)
from grainlike.payload._values import unreachable


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001
        return caught


def back(error: BaseException, note: str | None = None) -> Exception:
    return load_error(dump_error(raised(error)), note)


class Plain(Exception):
    pass


class Needy(Exception):
    def __init__(self, code, *, reason):
        super().__init__(f"{reason} ({code})")
        self.code = code


class Forgetful(Exception):
    def __init__(self, code):
        self.code = code  # never calls super().__init__


class NeedyFile(FileNotFoundError):
    def __init__(self, name):
        super().__init__(2, "gone", name)


class NeedyDecoding(UnicodeDecodeError):
    def __init__(self, data):
        super().__init__("utf-8", data, 0, 1, "odd")


class MadeByNew(Exception):
    def __new__(cls, a, b):
        return super().__new__(cls, a)

    def __init__(self, a, b):
        super().__init__(a)


class OwnWay(Exception):
    def __init__(self, a, b):
        super().__init__("own way")
        self.pair = a, b

    def __reduce__(self):
        return OwnWay, self.pair


class Group(ExceptionGroup):
    def derive(self, excs):
        return Group(self.message, excs)


def decoding_error():
    try:
        json.loads("{")
    except ValueError as error:
        return error


OWN_TYPE = {
    "plain": Plain("text", 1),
    "no arguments": ValueError(),
    "key": KeyError("k"),
    "needs arguments": Needy(7, reason="because"),
    "forgets its base": Forgetful(3),
    "file": FileNotFoundError(2, "gone", "name"),
    "needy file": NeedyFile("name"),
    "decoding": UnicodeDecodeError("utf-8", b"x", 0, 1, "odd"),
    "needy decoding": NeedyDecoding(b"x"),
    "made by new": MadeByNew(1, 2),
    "own way": OwnWay(1, 2),
    "stop": StopIteration(5),
    "import": ImportError("no", name="n", path="p"),
    "syntax": SyntaxError("bad", ("file", 1, 2, "text")),
    "attribute": AttributeError("a", name="n"),
    "recursion": RecursionError("deep"),
    "memory": MemoryError(),
    "timeout of ours": JobTimeoutError("late"),
    "json": decoding_error(),
    "url": urllib.error.URLError("why"),
    "remote": RemoteError("T", "m", "tb"),
    "group": ExceptionGroup("g", [Plain(1), ExceptionGroup("h", [Needy(1, reason="r")])]),
    "own group": Group("g", [Plain(1)]),
}


@pytest.mark.parametrize("name", OWN_TYPE)
def test_own_type(name: str) -> None:
    error = OWN_TYPE[name]
    again = back(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    if not isinstance(error, ExceptionGroup):
        assert again.args == error.args
        assert {k: v for k, v in vars(again).items() if k != "__notes__"} == vars(error)
    assert isinstance(again.__cause__, RemoteTraceback)


def test_fields_of_the_interpreters_own_exceptions_survive() -> None:
    assert back(NeedyFile("name")).filename == "name"
    assert back(NeedyDecoding(b"x")).object == b"x"
    assert back(StopIteration(5)).value == 5
    assert back(ImportError("no", name="n")).name == "n"


class WithLock(Exception):
    def __init__(self):
        super().__init__("locked")
        self.lock = threading.Lock()


class ReduceRaises(Exception):
    def __reduce__(self):
        raise ValueError("no")


class ReduceExits(Exception):
    def __reduce__(self):
        raise SystemExit(1)


class BreaksOnLoading(Exception):
    def __reduce__(self):
        return int, ("not a number",)


class BecomesAnother(Exception):
    def __reduce__(self):
        return ValueError, ("changed",)


class BecomesNoException(Exception):
    def __reduce__(self):
        return int, ()


class BadState(Exception):
    def __setstate__(self, state):
        raise ValueError("no")


class NoText(Exception):
    def __str__(self):
        raise ValueError("no text")

    def __reduce__(self):
        raise ValueError("no")


class FancyText(str):
    __slots__ = ()


class Fancy(Exception):
    def __str__(self):
        return FancyText("fancy")

    def __reduce__(self):
        raise ValueError("no")


def hostile_class():
    """Return a class that others cannot look at, for its test alone: Dask, when it is imported, visits all that are."""

    class HostileMeta(type):
        __hash__ = None

    class HostileClass(Exception, metaclass=HostileMeta):
        pass

    return HostileClass


def hostile_at_every_look():
    class HostileAtEveryLook(Exception):
        def __getattribute__(self, name):
            raise ValueError(f"no {name}")

    return HostileAtEveryLook


def bad_state():
    error = BadState("m")
    error.x = 1
    return error


STAND_IN = {
    "lock": (WithLock(), "locked"),
    "lock in arguments": (ValueError(threading.Lock()), "lock"),
    "reduce raises": (ReduceRaises("m"), "m"),
    "reduce exits": (ReduceExits("m"), "m"),
    "breaks on loading": (BreaksOnLoading("m"), "m"),
    "becomes another": (BecomesAnother("m"), "m"),
    "becomes no exception": (BecomesNoException("m"), "m"),
    "bad state": (bad_state(), "m"),
    "no text": (NoText(), "<its text cannot be made>"),
    "fancy text": (Fancy(), "fancy"),
    "exit": (SystemExit(3), "3"),
    "interrupt": (KeyboardInterrupt(), ""),
    "generator exit": (GeneratorExit(), ""),
    "cancelled": (asyncio.CancelledError("c"), "c"),
    "group with an exit": (BaseExceptionGroup("g", [SystemExit(1), ValueError()]), "g (2 sub-exceptions)"),
}


@pytest.mark.parametrize("name", STAND_IN)
def test_stand_in(name: str) -> None:
    error, message = STAND_IN[name]
    again = back(error, "a note")
    assert type(again) is RemoteError
    assert again.type_name.rpartition(".")[2] == type(error).__name__
    assert message in again.message
    assert "Traceback (most recent call last)" in again.remote_traceback
    assert again.__notes__ == ["a note"]


@pytest.mark.parametrize("make", [hostile_class, hostile_at_every_look])
def test_an_exception_that_cannot_be_looked_at_still_has_its_name(make: Callable[[], type[Exception]]) -> None:
    cls = make()
    again = load_error(dump_error(cls("m")))
    assert type(again) is RemoteError
    assert cls.__name__ in again.type_name


def test_the_message_of_a_stand_in_is_an_exact_string() -> None:
    assert type(back(Fancy()).message) is str


def test_one_bad_member_does_not_cost_the_others_their_types() -> None:
    again = back(ExceptionGroup("g", [WithLock(), ExceptionGroup("h", [Plain(2), ReduceRaises("m")])]))
    first, second = again.exceptions
    assert type(first) is RemoteError
    assert [type(member) for member in second.exceptions] == [Plain, RemoteError]
    assert "Plain: 2" in str(second.exceptions[0].__cause__)


def test_the_traceback_shows_source_lines_causes_and_notes() -> None:
    error = raised(Plain("outer"), raised(ValueError("inner")))
    error.add_note("the user's note")
    again = load_error(dump_error(error), "ours")
    text = str(again.__cause__.__cause__)
    assert "raise error from cause" in text
    assert "ValueError: inner" in text
    assert "the direct cause of" in text
    assert "the user's note" in text
    assert again.__notes__ == ["the user's note", "ours"]


def test_frames_of_ours_are_left_out() -> None:
    space = {"__name__": "grainlike_worker.runner"}
    exec("def step(f):\n    f()", space)

    def users():
        raise Plain("here")

    try:
        space["step"](users)
    except Plain as caught:
        error = caught
    error.__traceback__ = error.__traceback__.tb_next
    text = load_error(dump_error(error)).__cause__.text
    assert "in users" in text
    assert "in step" not in text


def test_a_note_is_added_once_on_the_way_through_several_jobs() -> None:
    inner = back(Plain("x"), "inner job")
    outer = load_error(dump_error(raised_again(inner)), "outer job")
    assert outer.__notes__ == ["inner job"]
    assert "raise Plain" not in outer.__cause__.text
    assert outer.__cause__.text.count("(most recent call last)") == 2


def raised_again(error):
    try:
        raise error
    except Exception as caught:  # noqa: BLE001
        return caught


def test_without_a_note_none_is_added() -> None:
    assert not hasattr(back(Plain("x")), "__notes__")


def test_endless_recursion_has_a_traceback_of_sensible_size() -> None:
    def forever(n):
        return other(n)

    def other(n):
        return forever(n)

    try:
        forever(0)
    except RecursionError as error:
        payload = dump_error(error)
    assert payload.nbytes < 100_000
    again = load_error(payload)
    assert type(again) is RecursionError
    assert "left out" in again.__cause__.text or sys.version_info >= (3, 12)


class ReduceInterrupts(Exception):
    def __reduce__(self):
        raise KeyboardInterrupt


class InterruptsAtEveryLook(Exception):
    @property
    def __cause__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("cls", [ReduceInterrupts, InterruptsAtEveryLook])
def test_an_exception_that_interrupts_in_a_runner_is_a_stand_in(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_values, "_has_ctrl_c", True)
    no_ctrl_c_comes()
    again = back(ExceptionGroup("g", [cls("m"), Plain(1)]))
    assert [type(one) for one in again.exceptions] == [RemoteError, Plain]
    assert again.exceptions[0].message == "m"


def test_an_exception_that_interrupts_in_a_thread_is_a_stand_in() -> None:
    told: list[Exception] = []
    thread = threading.Thread(target=lambda: told.append(back(ReduceInterrupts("m"))))
    thread.start()
    thread.join()
    assert [type(one) for one in told] == [RemoteError]


def test_a_ctrl_c_while_an_exception_is_packed_in_the_program_gets_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        dump_error(ReduceInterrupts("m"))


class TakesNoNote(Exception):
    def __init__(self):
        self.__notes__ = 5


class KeepsItsCause(Exception):
    def __setattr__(self, name, value):
        raise ValueError(name)


@pytest.mark.parametrize("error", [TakesNoNote(), KeepsItsCause("m")])
def test_one_that_nobody_may_write_on_comes_as_a_stand_in_with_its_note(error: Exception) -> None:
    again = back(error, "n")
    assert type(again) is RemoteError
    assert again.type_name.endswith(type(error).__name__)
    assert again.__notes__ == ["n"]
    assert isinstance(again.__cause__, RemoteTraceback)


def test_causes_in_a_ring_are_no_trouble() -> None:
    first, second = Plain(1), Needy(2, reason="r")
    first.__cause__, second.__cause__ = second, first
    again = load_error(dump_error(first), "n")
    assert [type(error) for error in chain_of(again)] == [Plain, Needy, RemoteTraceback]


def chain_of(error):
    chain = []
    while error is not None:
        chain.append(error)
        error = error.__cause__
    return chain


def test_causes_come_along_each_as_well_as_it_can() -> None:
    error = raised(SystemExit(3), KeyError("k"))
    for cls in (WithLock, KeepsItsCause, Needy, Plain):
        error = raised(cls(7, reason="r") if cls is Needy else cls(), error)
    group = raised(ExceptionGroup("g", [raised(Plain("in"), ValueError("of it"))]), error)
    again = load_error(dump_error(group), "n")
    kinds = [ExceptionGroup, Plain, Needy, RemoteError, RemoteError, RemoteError, KeyError, RemoteTraceback]
    chain = chain_of(again)
    assert [type(one) for one in chain] == kinds
    names = [one.type_name.rpartition(".")[2] for one in chain[3:6]]
    assert names == ["KeepsItsCause", "WithLock", "SystemExit"]
    assert chain[2].code == 7
    assert "raise error from cause" in chain[4].remote_traceback
    assert chain[-1].text.count("direct cause of") >= 6
    assert [type(one) for one in chain_of(again.exceptions[0])] == [Plain, ValueError, RemoteTraceback]
    assert again.__notes__ == ["n"]
    assert not hasattr(chain[1], "__notes__")


def test_a_cause_that_cannot_be_looked_at_ends_the_chain() -> None:
    error = raised(Plain(1), raised(ValueError("why"), hostile_at_every_look()()))
    assert [type(one) for one in chain_of(load_error(dump_error(error)))] == [Plain, ValueError, RemoteTraceback]


def test_a_chain_keeps_its_causes_and_its_note_through_several_jobs() -> None:
    inner = load_error(dump_error(raised(Plain("x"), raised(ValueError("why")))), "inner job")
    outer = load_error(dump_error(raised_again(inner)), "outer job")
    assert [type(error) for error in chain_of(outer)] == [Plain, ValueError, RemoteTraceback]
    assert outer.__notes__ == ["inner job"]


def test_only_so_many_causes_come_along() -> None:
    error = Plain(0)
    for number in range(1, 40):
        error = raised(Plain(number), error)
    chain = chain_of(load_error(dump_error(error), "n"))
    assert [one.args for one in chain[:-1]] == [(number,) for number in range(39, 22, -1)]
    assert isinstance(chain[-1], RemoteTraceback)
    assert chain[-1].noted


class Counting(Exception):
    """An exception that counts how often its text is made."""

    def __init__(self, name):
        super().__init__(name)
        self.made = []

    def __str__(self):
        self.made.append(True)
        return self.args[0]


def test_the_text_of_an_exception_is_made_once() -> None:
    error = raised(Counting("outer"), raised(Counting("inner")))
    dump_error(error)
    assert (len(error.made), len(error.__cause__.made)) == (1, 1)


def levels(count: int) -> tuple[BaseException, list[Counting]]:
    """Return groups of two members each, whose cause is the next group, and all their members."""
    error, members = Counting("deepest"), []
    for number in range(count):
        pair = [Counting(f"left {number}"), Counting(f"right {number}")]
        for member in pair:
            member.__cause__ = error
        members += pair
        error = ExceptionGroup(f"level {number}", pair)
    return error, members


def test_members_that_share_a_cause_are_looked_at_once_each() -> None:
    error, members = levels(5)
    again = load_error(dump_error(error))
    assert {len(member.made) for member in members} == {1}
    for number in reversed(range(5)):
        assert [str(member) for member in again.exceptions] == [f"left {number}", f"right {number}"]
        causes = [member.__cause__ for member in again.exceptions]
        assert [type(cause) for cause in causes] == [type(causes[0])] * 2
        again = causes[1]
    assert str(again) == "deepest"


def test_hundreds_of_groups_that_share_causes_come_to_an_end() -> None:
    error, members = levels(300)
    again = load_error(dump_error(error))
    assert type(again.exceptions[1].__cause__.exceptions[0].__cause__) is ExceptionGroup
    assert max(len(member.made) for member in members) == 1


def test_a_group_that_is_the_cause_of_its_members_comes_without_the_cycle() -> None:
    members = [Plain(number) for number in range(5)]
    group = ExceptionGroup("g", members)
    for member in members:
        member.__cause__ = group
    again = load_error(dump_error(raised(group)))
    assert [member.args for member in again.exceptions] == [(number,) for number in range(5)]
    assert {type(member.__cause__) for member in again.exceptions} == {RemoteTraceback}
    assert again.__cause__.text.count("Plain: 3") == 1


def test_a_member_raised_from_its_group_is_itself_and_the_group_its_cause() -> None:
    group = raised(ExceptionGroup("g", [raised(Needy(1, reason="the reason")), Plain(2)]))
    again = load_error(dump_error(raised(group.exceptions[0], group)), "n")
    assert [type(one) for one in chain_of(again)] == [Needy, ExceptionGroup, RemoteTraceback]
    assert str(again) == "the reason (1)"
    assert [type(member) for member in again.__cause__.exceptions] == [Needy, Plain]
    assert "raise error from cause" in chain_of(again)[-1].text
    assert again.__notes__ == ["n"]


def test_a_member_in_two_places_is_one_exception() -> None:
    shared = Plain("shared")
    again = back(ExceptionGroup("g", [shared, ExceptionGroup("h", [shared])]))
    assert again.exceptions[0] is again.exceptions[1].exceptions[0]


def test_groups_that_stand_in_several_groups_come_to_an_end() -> None:
    error: Exception = Plain("in all")
    for _ in range(40):
        error = ExceptionGroup("g", [error, error])
    again = back(error)
    assert "more than 20,000 exceptions" in again.__cause__.text
    while isinstance(again, ExceptionGroup):
        assert again.exceptions[0] is again.exceptions[1]
        again = again.exceptions[0]
    assert again.args == ("in all",)


def test_of_thousands_of_groups_in_one_another_the_outer_ones_have_their_types() -> None:
    error: Exception = Plain("inmost")
    for number in range(3_000):
        error = ExceptionGroup(f"level {number}", [error])
    again, depth = back(error), 0
    while isinstance(again, ExceptionGroup):
        again, depth = again.exceptions[0], depth + 1
    assert depth == 50
    assert (type(again), again.type_name) == (RemoteError, "ExceptionGroup")
    assert again.message.startswith("level 2949 ")


@pytest.mark.parametrize("data", [b"", b"junk", dump_error(Plain(1)).data[:20]])
def test_bytes_that_are_none_give_an_error_not_raise_one(data: bytes) -> None:
    again = load_error(Payload(data))
    assert type(again) is SerializationError
    assert "the job's exception cannot be rebuilt here" in str(again)


def test_a_type_unknown_at_home_comes_as_a_stand_in() -> None:
    name = "grainlike_no_such_module"
    module = type(sys)(name)
    exec("class Odd(Exception): pass", module.__dict__)
    sys.modules[name] = module
    try:
        payload = dump_error(raised(module.Odd("m")))
    finally:
        del sys.modules[name]
    again = load_error(payload, "n")
    assert type(again) is RemoteError
    assert (again.type_name, again.message, again.__notes__) == (f"{name}.Odd", "m", ["n"])


def test_our_own_errors_come_back_as_they_are_whatever_an_import_finds_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an import once fails to find grainlike, that must not make it travel by value for the rest of the program."""

    def ours() -> None: ...

    ours.__module__ = "grainlike"
    monkeypatch.setattr(_functions, "_cache", {})
    dump_function(lambda: unreachable)  # what this needs is loaded now
    monkeypatch.setattr(_names, "_known", {})
    with monkeypatch.context() as nothing_is_found:
        nothing_is_found.setattr(sys, "meta_path", [])
        dump_function(ours)
    try:
        assert type(back(JobMemoryError("too much", 1, 2))) is JobMemoryError
        assert b"grainlike" not in unreachable
    finally:
        if b"grainlike" in unreachable:
            unreachable.remove(b"grainlike")
            cloudpickle.unregister_pickle_by_value(sys.modules["grainlike"])


def test_a_module_that_is_not_loaded_yet_may_be_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_names, "_known", {})
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "json.tool", raising=False)
        assert not _names.importable("json.tool")
    importlib.import_module("json.tool")
    assert _names.importable("json.tool")


class Wanting(Plain, MemoryError):
    """Of which `MemoryError.__new__` alone makes none."""


@pytest.mark.parametrize("error", [JobMemoryError("too much", 1, 2), Wanting("too much"), Needy(4, reason="why")])
def test_a_program_that_has_imported_distributed_gets_errors_as_they_are(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That registers a reducer for all exceptions of the process."""
    monkeypatch.setitem(copyreg.dispatch_table, type(error), pickle_exception)
    again = back(error)
    assert type(again) is type(error)
    assert (str(again), vars(again).get("asked")) == (str(error), vars(error).get("asked"))
    assert b"tblib" not in dump_error(error).data


class Registered(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)
        self.sum = one + two


def rebuilt(total: int) -> Registered:
    return Registered(total, 0)


def test_a_reducer_that_was_registered_for_a_class_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda error: (rebuilt, (error.sum,)))
    assert back(Registered(1, 2)).args == (3,)


@pytest.mark.parametrize("size", [20_000, 5 * 1024 * 1024])
def test_an_exception_brings_the_large_buffers_that_it_holds(size: int) -> None:
    numpy = pytest.importorskip("numpy")
    again = back(Plain(numpy.full(size, 7, "u1")))
    assert type(again) is Plain
    assert again.args[0].nbytes == size
    assert (again.args[0] == 7).all()


# --- what programs wrote last ----------------------------------------------------------------------------------------


def notes_of(error: BaseException | None) -> list[str]:
    return getattr(error, "__notes__", [])


WROTE, ERRED = "it wrote last on standard output: ", "it wrote last on standard error: "


@pytest.mark.parametrize(
    ("output", "errors", "notes"),
    [
        (None, None, []),
        (b" \n", "", []),
        (b"out\n", b"why\n", [WROTE + "out", ERRED + "why"]),
        ("out\n", "why\n", [WROTE + "out", ERRED + "why"]),
        (b"one\ntwo\n\nthree\n", "\n", [WROTE + "one\n  two\n\n  three"]),
        (b"\xff", "\udcff", [WROTE + "\ufffd", ERRED + "\\udcff"]),
        (b"a" * 5000 + b"b", "a" * 5000 + "b", [WROTE + "a" * 1999 + "b", ERRED + "a" * 1999 + "b"]),
        ("\u20ac".encode() * 1000, None, [WROTE + "\u20ac" * 666]),
        (17, object, []),
    ],
)
@pytest.mark.parametrize("kind", [subprocess.CalledProcessError, subprocess.TimeoutExpired])
def test_the_error_of_a_program_has_the_end_of_its_output_and_error(kind, output, errors, notes):
    error = raised(kind(3, ["solver"], output=output, stderr=errors))
    for _ in range(2):  # it comes through a second job
        error = load_error(dump_error(error), "where it ran")
        assert type(error) is kind
        assert notes_of(error) == [*notes, "where it ran"]


def test_causes_contexts_and_members_have_the_ends_of_their_programs():
    def failed(word):
        return subprocess.CalledProcessError(1, "p", output=word)

    group = raised(ExceptionGroup("two", [failed("one"), Plain("other")]), cause=failed("caused"))
    group.__context__ = failed("before")
    told = load_error(dump_error(group))
    assert isinstance(told, ExceptionGroup)
    assert notes_of(told.exceptions[0]) == [WROTE + "one"]
    assert notes_of(told.__cause__) == [WROTE + "caused"]
    assert notes_of(group.__context__) == [WROTE + "before"]


def test_a_ring_of_causes_ends():
    error, cause = subprocess.CalledProcessError(1, "p", output="one"), Plain("other")
    error.__cause__, cause.__cause__ = cause, error
    assert notes_of(load_error(dump_error(cause)).__cause__) == [WROTE + "one"]


class NoNotes(subprocess.CalledProcessError):
    @property
    def output(self):
        raise ValueError("never")

    @output.setter
    def output(self, _):
        pass


def test_an_error_of_a_program_that_takes_no_look_comes_all_the_same():
    assert isinstance(back(NoNotes(1, "p")), subprocess.CalledProcessError)
