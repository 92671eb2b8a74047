"""What `info` tells of a job becomes a span on the cores that the job was really held to."""

from dataclasses import replace

import pytest

from grainlike.graph import Info
from grainlike.observe import Lane, Span, span_of
from grainlike.observe._rows import busy
from grainlike.observe._timeline import Scale
from grainlike.resources import Allocation, Receipt, parse_allocation


def allocation(text: str) -> Allocation:
    return parse_allocation(text)


def receipt(*affinity: int) -> Receipt:
    return Receipt(affinity, {}, (), "none")


TOLD = Info("fit", "succeeded", "n1", allocation("cores=[4,5]"), 1, None, receipt(4, 5), None, 10.0, 12.5)


def test_a_pinned_job_lies_on_the_cores_of_its_receipt() -> None:
    span = span_of(TOLD)
    assert span == Span((Lane("n1", 4), Lane("n1", 5)), 10.0, 12.5, "fit")
    assert span.seconds == 2.5


def test_the_receipt_counts_and_not_the_allocation() -> None:
    span = span_of(replace(TOLD, receipt=receipt(5)), kind="SVC", label="C=1", strength=0.5)
    assert span == Span((Lane("n1", 5),), 10.0, 12.5, "SVC", "C=1", 0.5)


@pytest.mark.parametrize("held", [receipt(0, 1, 2, 3, 4, 5), receipt(0), receipt(), None])
def test_a_job_that_could_have_run_elsewhere_is_marked(held: Receipt | None) -> None:
    span = span_of(replace(TOLD, receipt=held))
    assert span is not None
    assert (span.lanes, span.pinned) == ((Lane("n1", 4), Lane("n1", 5)), False)


@pytest.mark.parametrize("unknown", ["worker", "allocation", "began", "ended"])
def test_what_has_not_run_has_no_span(unknown: str) -> None:
    assert span_of(replace(TOLD, **{unknown: None})) is None


def test_a_job_without_cores_has_no_span() -> None:
    assert span_of(replace(TOLD, allocation=allocation("memory=1Gi"), receipt=receipt(0))) is None


def on(core: int, began: float, ended: float) -> Span:
    return Span((Lane("n1", core),), began, ended, "fit")


def test_time_that_two_spans_take_counts_once() -> None:
    spans = [on(0, 0, 4), on(0, 1, 2), on(1, 0, 9), on(0, 3, 5), on(0, 7, 8)]
    assert busy(spans, Lane("n1", 0)) == 6
    assert busy(spans, Lane("n1", 2)) == 0


@pytest.mark.parametrize(
    ("seconds", "first", "last"),
    [
        (11.4, ["0 s", "1 s", "2 s"], "11 s"),
        (0.5, ["0.00 s", "0.05 s", "0.10 s"], "0.50 s"),
        (230.0, ["0 s", "20 s", "40 s"], "220 s"),
        (0.00012, ["0.00000 s", "0.00001 s", "0.00002 s"], "0.00012 s"),
    ],
)
def test_ticks_are_round_and_few(seconds: float, first: list[str], last: str) -> None:
    ticks = Scale(100.0, 100.0 + seconds, 0.0, 1000.0).ticks()
    assert [text for _, text in ticks[:3]] == first
    assert ticks[-1][1] == last
    assert len(ticks) <= 13


def test_an_instant_can_be_drawn() -> None:
    assert Scale(5.0, 5.0, 0.0, 100.0).at(5.0) == 0.0
