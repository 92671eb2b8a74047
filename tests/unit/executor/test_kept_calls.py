"""Calls that are kept for values that stay at workers: bounds, what runs again, and what is let go."""

from __future__ import annotations

from typing import Any

import pytest

from grainlike.calls import UrlCopy
from grainlike.graph import Function
from grainlike.head import _kept_calls
from grainlike.head._functions import FunctionTable
from grainlike.head._kept_calls import CALL_MOST, KeptCalls
from grainlike.jobs import Job, Placement
from grainlike.payload import dump_plain_arguments, dump_value


def called(x: Any) -> Any:
    return x


@pytest.fixture
def functions() -> FunctionTable:
    return FunctionTable(lambda defined: None)


@pytest.fixture
def fn(functions: FunctionTable) -> int:
    return functions.number(Function(called))


def job(number: int, fn: int, data: bytes = b"abc") -> Job:
    made = Job(number, fn, None, (data, ()))
    made.placement = Placement("n1", 1, size=1_000_000)
    return made


def test_a_kept_call_runs_again_with_its_arguments_and_name(functions: FunctionTable, fn: int) -> None:
    kept = KeptCalls(functions)
    data = dump_plain_arguments((5,))
    assert data is not None
    first = job(7, fn, data)
    assert kept.keep(first, "cores=2", again=True) == []
    again = kept.revive(7)
    assert again is not None
    assert (again.id, again.fn, again.parcel, again.name, again.request) == (7, fn, (data, ()), "called", "cores=2")
    assert again.node is None
    again.placement = Placement("n2", 2)
    again.ends(good=True)
    assert (first.worker, first.attempt, first.recomputed, first.size) == ("n2", 2, 1, 1_000_000)


def test_the_url_of_a_copy_is_that_which_its_call_reads(functions: FunctionTable, fn: int) -> None:
    kept = KeptCalls(functions)
    for number, copy in ((7, ("file:///a/b", 5, b"digest", "make")), (8, UrlCopy("file:///c", 5, b""))):
        kept.keep(job(number, fn, bytes(dump_value(((copy,), {})).data)), "", again=True)
    kept.read_by(1, 7)
    kept.read_by(2, 8)  # of an earlier release
    assert [kept.copy_url(value) for value in (1, 2, 3)] == ["file:///a/b", "", ""]
    kept.lose_copy(1)
    assert kept.copy_url(1) == ""


def test_a_run_that_gives_no_value_changes_nothing_of_the_record(functions: FunctionTable, fn: int) -> None:
    kept = KeptCalls(functions)
    first = job(7, fn)
    kept.keep(first, "", again=True)
    again = kept.revive(7)
    assert again is not None
    again.placement = Placement("n2", 2)
    again.ends(good=False)
    assert (first.worker, first.recomputed) == ("n1", 0)


def test_large_calls_and_those_that_may_not_run_again_are_not_kept(functions: FunctionTable, fn: int) -> None:
    kept = KeptCalls(functions)
    assert kept.keep(job(1, fn, bytes(CALL_MOST + 1)), "", again=True) == [1]
    assert kept.keep(job(2, fn), "", again=False) == [2]
    assert (len(kept), kept.nbytes, kept.revive(1), kept.revive(2)) == (0, 0, None, None)


def test_the_oldest_is_given_up_for_the_newest(
    functions: FunctionTable, fn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptCalls(functions)
    kept.keep(job(1, fn), "", again=True)
    monkeypatch.setattr(_kept_calls, "KEPT_MOST", 2 * kept.nbytes)
    assert kept.keep(job(2, fn), "", again=True) == []
    assert kept.keep(job(3, fn), "", again=True) == [1]
    assert (len(kept), kept.revive(1)) == (2, None)
    assert kept.functions() == {fn}


def test_what_is_released_is_let_go(functions: FunctionTable, fn: int) -> None:
    kept = KeptCalls(functions)
    first = job(1, fn)
    kept.keep(first, "", again=True)
    kept.release([1, 2])
    assert (len(kept), kept.nbytes, first.travels) == (0, 0, b"")
    assert kept.functions() == set()


def test_a_call_that_reads_a_copy_is_kept_apart_and_makes_nothing_again(
    functions: FunctionTable, fn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptCalls(functions)
    first, reader = job(7, fn), job(8, fn, b"read")
    kept.keep(first, "cores=2", again=True)
    kept.keep(reader, "cores=1", again=True)
    kept.read_by(7, 8)
    assert kept.revive(8) is not None  # whoever wants its value has it as before
    kept.release([8])
    assert reader.travels == b""
    assert 7 in kept
    again = kept.revive(7, by_copy=True)
    assert again is not None
    assert (again.id, again.parcel[0], again.request, again.reads_copy) == (7, b"read", "cores=1", True)
    again.placement = Placement("n2", 2)
    again.ends(good=True)
    assert (first.worker, first.recomputed, reader.recomputed) == ("n1", 0, 0)
    monkeypatch.setattr(_kept_calls, "KEPT_MOST", 0)
    kept.keep(job(9, fn), "", again=True)
    assert len(kept) == kept.nbytes == 0
    assert kept.revive(7, by_copy=True) is not None  # what reads a copy is never given up
    assert kept.functions() == {fn}
    kept.lose_copy(7)
    assert kept.revive(7, by_copy=True) is None


def test_a_copy_is_let_go_with_its_value(functions: FunctionTable, fn: int) -> None:
    kept = KeptCalls(functions)
    for number in (8, 9):
        kept.keep(job(number, fn), "", again=True)
        kept.read_by(7, number)  # the later one takes the place of the other
        kept.release([number])
    kept.release([7])
    assert (kept.nbytes, kept.functions()) == (0, set())
