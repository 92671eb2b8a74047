"""Functions at the head are held for as long as somebody may call them, and some longer; then they are dropped."""

import gc

import pytest

from grainlike.errors import ProtocolError
from grainlike.graph import Function
from grainlike.head import _functions
from grainlike.head._functions import FunctionTable
from grainlike.head._nested import RelayedJobs
from grainlike.head.durable._schema import records
from grainlike.head.values._owners import ValueOwners
from grainlike.jobs._job import NO_PARCEL, FirstOfChain, JobCounters
from grainlike.jobs._job import Job as HeadJob
from grainlike.jobs._shipped import Shipped
from grainlike.journal import draw_image, read_image
from grainlike.scheduler import FunctionDefined
from grainlike.scheduler._records import HeadFunction
from grainlike.wire import RetrySpec, Submit, SubmittedFunction


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    """Two functions may stay though nobody owns them."""
    monkeypatch.setattr(_functions, "UNOWNED_MOST", 2)


class Book:
    """A job of the scheduler: all that is asked of it is its function."""

    def __init__(self, fn):
        self.fn = HeadFunction(FunctionDefined(fn))


def spec(letter, *, here=True, name="f", logs=b"", stays=False, internal=False):
    return SubmittedFunction(
        letter * 16, name, False, None, RetrySpec(losses=1), False, False, here, False, logs, stays, internal
    )


def sent(functions, letters, owner):
    """The numbers of functions that an owner sends and calls."""
    return [functions.adopt(spec(bytes([letter])), bytes([letter]) * 10, owner) for letter in letters]


def swept(functions, fns=(), jobs=()):
    """Sweep while jobs of these functions are live."""
    return functions.sweep(dict(enumerate(jobs)), {100 + at: Book(fn) for at, fn in enumerate(fns)}, 0)


def closure(number):
    def f():
        return number

    return Function(f)


def test_what_a_client_sent_is_dropped_when_it_has_left_but_for_a_few():
    functions = FunctionTable(lambda event: None)
    numbers = sent(functions, b"abcde", (1, 0))
    assert swept(functions) == []
    functions.release((1, 0))
    assert swept(functions) == numbers[:3]
    assert functions.count == 2


@pytest.mark.parametrize("logs", [b"", b"levels"])
@pytest.mark.parametrize("stays", [False, True])
def test_a_function_of_internal_jobs_has_a_number_of_its_own(logs, stays):
    functions = FunctionTable(lambda event: None)
    users, internal = (
        functions.adopt(spec(b"a", logs=logs, stays=stays, internal=mark), b"a", (1, 0)) for mark in (False, True)
    )
    assert users != internal
    assert functions.internal == {internal}
    assert [functions.shipment(fn)[0].stays for fn in (users, internal)] == [stays, stays]
    assert functions.losses(internal) == 1
    named = {name: records()[name] for name in ("FunctionTable", "Blob", "FunctionSpec", "RetrySpec")}
    image = draw_image(functions, named, lambda thing: ("define", ()) if thing is functions._define else None)
    restored = read_image(image, named, {"define": lambda: print})
    assert restored.internal == {internal}
    functions.release((1, 0))
    sent(functions, b"bcd", (1, 0))
    functions.release((1, 0))
    assert users in swept(functions)
    assert functions.internal == set()


def test_bytes_without_an_owner_are_bounded_too(monkeypatch):
    monkeypatch.setattr(_functions, "UNOWNED_BYTES", 15)
    functions = FunctionTable(lambda event: None)
    numbers = sent(functions, b"ab", (1, 0))
    functions.release((1, 0))
    assert swept(functions) == numbers[:1]
    assert functions.dropped_bytes == 10


def test_what_another_client_sent_too_stays_until_both_have_left():
    functions = FunctionTable(lambda event: None)
    first, second = sent(functions, b"abcde", (1, 0)), sent(functions, b"abcde", (2, 0))
    assert first == second
    functions.release((1, 0))
    assert swept(functions) == []
    functions.release((2, 0))
    assert len(swept(functions)) == 3


def test_what_a_live_job_calls_stays_until_the_job_has_ended():
    functions = FunctionTable(lambda event: None)
    numbers = sent(functions, b"abcde", (1, 0))
    functions.release((1, 0))
    assert swept(functions, numbers) == []
    assert swept(functions, numbers[:1]) == numbers[1:4]
    assert functions.shipment(numbers[0])[1] == b"a" * 10


def test_what_travels_along_with_a_live_job_stays():
    functions = FunctionTable(lambda event: None)
    numbers = sent(functions, b"abc", (1, 0))
    functions.release((1, 0))
    chain = FirstOfChain(1, 99, None, NO_PARCEL, 99, [HeadJob(2, fn, None, NO_PARCEL) for fn in numbers])
    assert swept(functions, (), [chain]) == []


def test_a_function_that_is_sent_again_before_it_is_dropped_keeps_its_number():
    functions = FunctionTable(lambda event: None)
    [fn] = sent(functions, b"a", (1, 0))
    functions.release((1, 0))
    assert sent(functions, b"a", (2, 0)) == [fn]
    functions.release((1, 0))  # has nothing any more
    sent(functions, b"bcd", (3, 0))
    functions.release((3, 0))
    assert fn not in swept(functions)


def test_no_number_is_given_twice():
    told = []
    functions = FunctionTable(lambda event: told.append(event.fn))
    for client in range(1, 6):
        sent(functions, b"abcde", (client, 0))
        functions.release((client, 0))
        swept(functions)
    assert len(set(told)) == len(told) > 5


def test_a_client_lets_go_of_some():
    functions = FunctionTable(lambda event: None)
    numbers = sent(functions, b"abcde", (1, 0))
    functions.release((1, 0), [b"a" * 16, b"b" * 16, b"c" * 16, b"z" * 16])
    assert swept(functions) == numbers[:1]
    with pytest.raises(ProtocolError, match="never sent"):
        functions.adopt(spec(b"a", here=False), None, (1, 0))
    assert functions.adopt(spec(b"d", here=False), None, (1, 0)) == numbers[3]


def test_one_client_does_not_call_what_another_sent():
    functions = FunctionTable(lambda event: None)
    sent(functions, b"a", (1, 0))
    with pytest.raises(ProtocolError, match="never sent"):
        functions.adopt(spec(b"a", here=False), None, (2, 0))


def test_what_a_job_sent_is_its_own_until_it_has_ended():
    functions = FunctionTable(lambda event: None)
    numbers = sent(functions, b"abcde", (0, 100))
    assert not functions.lacks([spec(b"a", here=False)], (0, 100))
    assert swept(functions, [1]) == []  # job 100 is live
    assert swept(functions) == numbers[:3]
    assert functions.lacks([spec(b"e", here=False)], (0, 100))
    assert not functions.lacks([spec(b"e"), spec(b"e", here=False, name="g")], (0, 100))


def test_functions_of_the_program_are_dropped_when_they_were_collected():
    functions = FunctionTable(lambda event: None)
    kept = closure(-1)
    mine = functions.number(kept)
    for number in range(5):
        functions.number(closure(number))
    gc.collect()
    assert functions.count == 6
    assert len(swept(functions)) == 3
    assert functions.number(kept) == mine


def test_a_function_whose_closure_was_rebound_lets_go_of_what_it_was():
    functions = FunctionTable(lambda event: None)
    value = 0

    def f():
        return value

    function = Function(f)
    numbers: list[int] = []
    while value < 6:
        numbers += [functions.number(function)]
        value += 1
    assert len(set(numbers)) == 6
    assert swept(functions) == numbers[:3]


def test_a_sweep_walks_over_live_jobs_only_when_half_of_them_ended_or_as_many_came():
    functions = FunctionTable(lambda event: None)
    assert not functions.sweep_is_due(range(0), 0)
    sent(functions, b"abc", (1, 0))
    functions.release((1, 0))
    assert functions.sweep_is_due(range(0), 0)
    functions.sweep({}, {number: Book(1 + number % 3) for number in range(1000)}, 1000)
    assert not functions.sweep_is_due(range(1000), 1000)
    assert not functions.sweep_is_due(range(501), 1999)
    assert functions.sweep_is_due(range(500), 1000)
    assert functions.sweep_is_due(range(1000), 2000)


def test_a_program_sends_again_what_it_has_let_go_of():
    shipped = Shipped()
    function, twin, digest = closure(1), closure(1), b"d" * 16
    assert digest not in shipped
    shipped.add(digest)
    shipped.note(function, digest)
    shipped.note(twin, digest)
    del function
    gc.collect()
    assert shipped.take_released() == []
    assert digest in shipped
    del twin
    gc.collect()
    assert shipped.take_released() == [digest]
    assert digest not in shipped
    assert len(shipped) == 0


def test_a_function_whose_message_was_not_sent_goes_along_with_the_next_call():
    shipped = Shipped()
    function = closure(1)
    shipped.add(b"sent")
    shipped.note(function, b"sent")
    shipped.add(b"not sent")
    shipped.discard(b"sent")
    shipped.discard(b"not sent")
    assert b"sent" in shipped
    assert b"not sent" not in shipped


def test_a_program_lets_go_of_what_a_function_was_before_it_was_rebound():
    shipped = Shipped()
    function = closure(1)
    for digest in (b"a", b"b", b"a"):
        shipped.add(digest)
        shipped.note(function, digest)
    assert shipped.take_released() == [b"b"]
    assert b"a" in shipped


class Worker:
    """Where a job that submits runs."""

    number = 7

    def post(self, message, buffers=()):
        raise AssertionError(f"{message} is said to nobody")


def test_calls_of_a_job_that_has_ended_and_whose_functions_are_dropped_are_nothing():
    told, counters, functions = [], JobCounters(0.0), FunctionTable(lambda event: None)
    nested = RelayedJobs({}, functions, lambda: 1, told.append, counters, ValueOwners())
    late = Submit(100, 1, "cores=1", 0, False, [spec(b"a", here=False)], [1, 2], [0, 0], [b"", b""], [])
    assert nested.submit(Worker(), late, []) == []
    assert (told, counters.cancelled) == ([], 2)
