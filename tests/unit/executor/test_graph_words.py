"""Calls of graphs that no honest client submits: they are refused before anything is done, or written down."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grainlike.errors import ProtocolError
from grainlike.head._validation import check_frames
from grainlike.wire import Frame, RetrySpec, Submit, SubmittedFunction

FUNCTION = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, True)
GRAPH = Submit(
    0, 0, "cores=1", 0, False, [FUNCTION], [3, 4, 5], [0, 0, 0], [b"a"] * 3, [], ["", "", "end"],
    needs=[[], [3], [4, 1]],
)  # fmt: skip


def check(**changes: Any) -> None:
    check_frames([Frame(msgspec.structs.replace(GRAPH, **changes), [b"code"])], (), ())


def test_calls_may_need_what_came_before() -> None:
    check()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"needs": [[], [4], [3]]}, "call 4 needs call 4, which is not before it"),
        ({"needs": [[5], [3], [4]]}, "call 3 needs call 5, which is not before it"),
        ({"needs": [[], [2**62], []]}, "call 4 needs call 4611686018427387904"),
        ({"needs": [[], [3]]}, "has 2 rows of 3"),
        ({"children": [3, 4, 4]}, "each with a number of its own"),
        ({"parent": 1, "attempt": 1, "names": []}, "are of clients"),
        ({"functions": [msgspec.structs.replace(FUNCTION, stream=True)]}, "a stream is no part of a graph"),
    ],
)
def test_circles_and_calls_of_others_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        check(**changes)
