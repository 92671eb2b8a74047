"""Refusals of a worker's report: as a whole, before anything follows from it."""

from math import inf, nan

import pytest
from msgspec.structs import replace

from grainlike.errors import ProtocolError
from grainlike.head._validation import check_frames
from grainlike.wire import Code, Completed, Frame, LeaseStart, LeaseWait, Report, Stored

START = LeaseStart(1, 7, "cores=0", [4, 5], [1, 1], 1.0)
ENDS = Completed(1, [4, 5], [1, 1], [0, 0], [1.0, 1.5], [0.5, 0.5], [0.1, 0.1], [9, 9], [b"a", b"b"], [], 2.0)
BUFFERS = replace(ENDS, counts=[0, 1])


def check(report: Report, buffers: tuple[bytes, ...] = ()) -> None:
    check_frames([Frame(report, buffers)], {7}, None)


def test_a_true_report_is_taken() -> None:
    check(Report(3.0, [START], [ENDS], [1]))
    check(Report(3.0, [], [BUFFERS, ENDS], []), (b"large",))
    check(Report(3.0, [], [replace(ENDS, codes=[0, int(max(Code))])], []))


@pytest.mark.parametrize("at", [nan, inf, -inf, 1e13, 1e10, -1e10])
def test_no_time_of_it_is_out_of_range(at: float) -> None:
    for report in (
        Report(at, [], [], []),
        Report(3.0, [replace(START, at=at)], [], []),
        Report(3.0, [START, replace(START, at=at)], [ENDS], []),
        Report(3.0, [], [replace(ENDS, sent_at=at)], []),
        *(Report(3.0, [], [ENDS, replace(ENDS, **{name: [1.0, at]})], []) for name in ("begun", "wall", "cpu")),
    ):
        with pytest.raises(ProtocolError, match="a time in Report is out of range"):
            check(report)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cls": 8}, "of class 8, which no worker was told of"),
        ({"lease": 0}, "lease 0 of 2 jobs in 2 attempts cannot begin"),
        ({"jobs": [], "attempts": []}, "lease 1 of 0 jobs in 0 attempts cannot begin"),
        ({"attempts": [1]}, "lease 1 of 2 jobs in 1 attempts cannot begin"),
    ],
)
def test_a_lease_that_cannot_begin(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        check(Report(3.0, [START, replace(START, **changes)], [ENDS], [1]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({name: []}, "a column of Completed has 0 rows of 2") for name in ("attempts", "codes", "begun", "wall")),
        *(({name: []}, "a column of Completed has 0 rows of 2") for name in ("cpu", "rss", "data")),
        ({"codes": [0, int(max(Code)) + 1]}, f"there is no code {int(max(Code)) + 1}"),
        ({"codes": [-1, 0]}, "there is no code -1"),
        ({"counts": [0]}, "2 payloads declare 0 buffers in 1 rows"),
        ({"counts": [-1, 1]}, "declare 0 buffers"),
        ({"counts": [0, 1]}, "a report declares 1 buffers, the frame has 0"),
        ({"sizes": [1]}, "a column of Completed has 1 rows of 2"),
        ({"sizes": [1, -1]}, "there is no size -1"),
        ({"wanted": {4: 0}}, "there is no size 0"),
    ],
)
def test_ends_that_cannot_be(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        check(Report(3.0, [START], [ENDS, replace(ENDS, **changes)], [1]))


def test_buffers_that_no_end_declares() -> None:
    with pytest.raises(ProtocolError, match="a report declares 0 buffers, the frame has 1"):
        check(Report(3.0, [], [ENDS], []), (b"large",))


def test_a_wait_that_is_none() -> None:
    with pytest.raises(ProtocolError, match="there is no wait 9"):
        check(Report(3.0, [], [], [], [LeaseWait(1, 4, 1, 9, 0, False, "cores=0")]))


@pytest.mark.parametrize("changes", [{"spilled": -1}, {"over": -1}, {"spilled": 2**60}, {"over": 2**63}])
def test_a_store_with_more_than_any_machine_or_less_than_nothing(changes: dict[str, int]) -> None:
    check_frames([Frame(Stored(0, "", 0), ()), Frame(Stored(5, "full", 7), ())], (), None)
    with pytest.raises(ProtocolError, match="there is no size"):
        check_frames([Frame(replace(Stored(0), **changes), ())], (), None)
