"""Copies of values in traces: both ends of each, by which way, and what a worker wrote to its disk."""

from __future__ import annotations

import pytest

from grainlike.head.values._copy_spans import CopySpans
from grainlike.observe import Stretch
from grainlike.scheduler import ReplicasArrived, ReplicasFailed, ValuesGiven
from grainlike.wire import Stored

N1, N2, HERE = (1, "n1"), (2, "n2"), (0, "this process")


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spans(clock: Clock) -> CopySpans:
    return CopySpans(2, clock)


def drawn(spans: CopySpans) -> list[tuple[str, str, float, float]]:
    return [(one.worker, one.lane, one.began, one.ended) for one in spans.stretches()]


def test_a_copy_is_drawn_at_both_ends_from_its_begin_to_its_end(spans: CopySpans, clock: Clock) -> None:
    spans.begun(7, 2_000_000, N1, N2, "direct")
    clock.at = 1.0
    assert drawn(spans) == [("n1", "out", 0.0, 1.0), ("n2", "in", 0.0, 1.0)]  # it goes on
    spans.answered(ReplicasArrived(2, [7, 8], [1, 1]))
    clock.at = 5.0
    out, there = spans.stretches()
    assert (out.name, there.name) == ("2.0 MB to n2", "2.0 MB from n1")
    assert (out.ended, there.ended) == (1.0, 1.0)
    assert out.details == {"way": "direct", "bytes": 2_000_000, "from": "n1", "to": "n2", "value": 7}


def test_a_copy_that_fails_says_why_and_another_way_goes_on_from_its_begin(spans: CopySpans, clock: Clock) -> None:
    spans.begun(7, 100_000, N1, N2, "direct")
    clock.at = 1.0
    spans.begun(7, 100_000, N1, N2, "relayed")
    clock.at = 2.0
    spans.answered(ReplicasFailed(2, [7], [1], "the link broke"))
    (out, _) = spans.stretches()
    assert (out.began, out.ended) == (0.0, 2.0)
    assert (out.details["way"], out.details["failed"]) == ("relayed", "the link broke")


def test_what_a_program_was_given_ends_its_fetch_and_no_copy_between_workers(spans: CopySpans, clock: Clock) -> None:
    spans.begun(7, 100_000, N1, HERE, "fetched")
    spans.begun(7, 100_000, N1, N2, "direct")
    clock.at = 1.0
    spans.answered(ValuesGiven([7]))
    clock.at = 2.0
    assert drawn(spans) == [
        *(("n1", "out", 0.0, 1.0), ("this process", "in", 0.0, 1.0)),
        *(("n1", "out", 0.0, 2.0), ("n2", "in", 0.0, 2.0)),
    ]


def test_bytes_that_a_worker_writes_to_its_disk_are_drawn_and_those_that_it_frees_are_not(
    spans: CopySpans, clock: Clock
) -> None:
    for at, spilled in ((1.0, 5_000_000), (2.0, 5_000_000), (3.0, 1_000_000), (4.0, 2_000_000)):
        clock.at = at
        spans.stored(1, "n1", Stored(spilled))
    assert [(one.lane, one.details["bytes"], round(one.began, 3), one.ended) for one in spans.stretches()] == [
        ("disk", 5_000_000, 0.9, 1.0),
        ("disk", 1_000_000, 3.9, 4.0),
    ]


def test_the_latest_are_kept(spans: CopySpans) -> None:
    for value in range(5):
        spans.begun(value, 100_000, N1, N2, "mapped")
        spans.ended(2, [value])
    kept: list[Stretch] = list(spans.stretches())
    assert [one.details["value"] for one in kept] == [3, 3, 4, 4]
