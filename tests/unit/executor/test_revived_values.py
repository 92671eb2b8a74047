"""Warnings of values that are made again: one for all of a moment, and not more than one a second."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from grainlike.head import _results
from grainlike.head._kept_calls import RevivedJob
from grainlike.head._results import ResultHandler
from grainlike.head.values._client_values import ClientValues
from grainlike.jobs import Job, Placement
from grainlike.payload import Payload
from grainlike.wire import Notice


class Program:
    number = 1

    def __init__(self) -> None:
        self.heard: list[str] = []

    def post(self, message: Notice) -> None:
        self.heard.append(message.words)


def revived(number: int) -> RevivedJob:
    former = Job(number, 1, None, Payload(b""))
    former.placement = Placement("n1", 1)
    return RevivedJob(number, former, "big", "cores=1", None)


def test_one_warning_tells_of_all_of_a_second_and_each_program_hears_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = Program()
    results: Any = ResultHandler.__new__(ResultHandler)
    results.revived, results._revived_at = [revived(3)], -math.inf
    results._values = ClientValues.__new__(ClientValues)
    results._values._state = SimpleNamespace(owners=SimpleNamespace(of=lambda value: program if value != 5 else None))
    results.tell_revived(10.0)
    for number in (4, 5, 6, 7):
        results.revived.append(revived(number))
        results.tell_revived(10.0 + _results._REVIVED_S / 2)
    assert len(program.heard) == 1
    results.tell_revived(10.0 + _results._REVIVED_S)
    assert results.revived == []
    assert [record.getMessage() for record in caplog.records] == [
        "the value of big (job 3), made at worker n1, was lost, and is made again",
        "the values of 4 calls were lost, and are made again: big (job 4), big (job 5), big (job 6) ...",
    ]
    assert program.heard == [
        "the value of big (job 3), made at worker n1, was lost, and is made again",
        "the values of 3 calls were lost, and are made again: big (job 4), big (job 6), big (job 7)",
    ]
