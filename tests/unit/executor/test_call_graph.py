"""Calls of a session's graphs: which wait, and what is kept for whom."""

from __future__ import annotations

import pytest

from grainlike.jobs import CallGraph, GraphCall, Job
from grainlike.wire import Parcel, RetrySpec, Submit, SubmittedFunction

FUNCTION = SubmittedFunction(b"digest", "f", False, None, RetrySpec(), False, False, False)
VALUE: Parcel = (b"value", [b"buffer"])
ERROR: Parcel = (b"error", ())


def made(child: int, *needs: int, name: str = "", goes_on: bool = False, inputs: tuple[int, ...] = ()) -> GraphCall:
    message = Submit(
        0, 0, "cores=1", 0, False, [FUNCTION], [child], [0], [b""], [], inputs=[list(inputs)], needs=[list(needs)],
        goes_on=goes_on,
    )  # fmt: skip
    return GraphCall(child, Job(0, 1, None, VALUE), name, message, 0)


@pytest.fixture
def graph() -> CallGraph:
    """1 and 2 are jobs 11 and 12; 3 needs both, and 4, which has a name, needs 3 and 1."""
    graph = CallGraph()
    for call in (made(1), made(2), made(3, 1, 2, 1), made(4, 3, 1, name="end")):
        assert graph.enter(call) is None
    for child in (1, 2):
        call = graph.calls[child]
        assert call.job is not None
        call.job.id = child + 10
    return graph


def ended(graph: CallGraph, child: int, outcome: Parcel | int = VALUE, *, good: bool = True) -> list[int]:
    return [call.child for call in graph.end(graph.calls[child], outcome, good=good)]


def began(graph: CallGraph, child: int) -> dict[int, Parcel | int]:
    call = graph.calls[child]
    found = graph.given(call)
    assert call.job is not None
    call.job.id = child + 10
    graph.begun(call)
    return found


def test_a_call_begins_with_what_it_needs_when_the_last_of_it_has_ended(graph: CallGraph) -> None:
    assert (graph.calls[1].waits, graph.calls[3].waits) == (False, True)
    assert ended(graph, 1) == []
    assert ended(graph, 2, 12) == [3]
    assert began(graph, 3) == {1: VALUE, 2: 12}
    assert ended(graph, 3, (b"third", ())) == [4]
    assert began(graph, 4) == {3: (b"third", ()), 1: VALUE}


def test_an_outcome_is_kept_until_its_program_has_heard_of_it_and_all_who_need_it_have_begun(graph: CallGraph) -> None:
    ended(graph, 2, 12)
    ended(graph, 1)
    assert graph.nbytes == len(b"value") + len(b"buffer")
    graph.heard([1, 2, 3, 99])
    assert list(graph.calls) == [1, 2, 3, 4]
    began(graph, 3)
    assert (list(graph.calls), graph.take_unpinned()) == ([1, 3, 4], [12])
    ended(graph, 3)
    began(graph, 4)
    assert (list(graph.calls), graph.nbytes) == ([3, 4], len(b"value") + len(b"buffer"))
    graph.detach()
    assert (list(graph.calls), graph.nbytes, graph.take_unpinned()) == ([4], 0, [])
    ended(graph, 4, ERROR, good=False)
    assert not graph.calls


def test_the_next_program_may_refer_to_names_that_have_not_ended(graph: CallGraph) -> None:
    graph.detach()
    graph.attach()
    ended(graph, 1)
    ended(graph, 2)
    began(graph, 3)
    ended(graph, 3)
    began(graph, 4)
    assert ended(graph, 4) == []
    assert list(graph.calls) == [4]
    assert graph.enter(made(5, 4)) is None
    assert began(graph, 5) == {4: VALUE}
    graph.heard([4])
    assert list(graph.calls) == [5]


def test_what_waits_for_a_failed_call_fails_whatever_else_it_needs(graph: CallGraph) -> None:
    assert ended(graph, 1, ERROR, good=False) == [3, 4]
    assert graph.fail(graph.calls[3]) == []  # its program holds the other one, and decides
    assert graph.fail(graph.calls[4]) == []
    assert ended(graph, 3, ERROR, good=False) == []
    assert graph.enter(made(5, 1)) == ERROR


def test_calls_that_only_a_failed_one_needed_are_named_once_no_program_decides(graph: CallGraph) -> None:
    for call in (made(5), made(6, 1, 5, goes_on=True)):
        graph.enter(call)
    graph.detach()
    assert ended(graph, 1, ERROR, good=False) == [3, 4, 6]
    assert graph.fail(graph.calls[6]) == []
    assert [call.child for call in graph.fail(graph.calls[3])] == [2]
    assert [call.child for call in graph.fail(graph.calls[4])] == [3]


def test_withdrawn_calls_take_along_what_nobody_else_needs(graph: CallGraph) -> None:
    graph.enter(made(5, 1, name="other"))
    graph.detach()
    users, idle = graph.withdraw([4, 77])
    assert ([call.child for call in users], [call.child for call in idle]) == ([], [3])
    assert [call.child for call in graph.fail(idle[0])] == [2]
    assert list(graph.calls) == [1, 2, 3, 5]


def test_what_needs_a_withdrawn_call_is_to_fail(graph: CallGraph) -> None:
    users, idle = graph.withdraw([1, 3])
    assert ([call.child for call in users], idle) == ([graph.calls[4].child], [])
    assert list(graph.calls) == [2, 4]


def test_references_are_to_what_is_known_and_came_before(graph: CallGraph) -> None:
    for needs in ((99,), (5,), (6,)):
        with pytest.raises(LookupError, match=f"needs call {needs[0]}"):
            graph.enter(made(5, *needs))
        assert graph.calls.pop(5).needs == ()


def test_values_that_arguments_refer_to_are_kept_until_their_call_has_begun(graph: CallGraph) -> None:
    graph.enter(made(5, 1, inputs=(7,)))
    assert graph.take_unpinned() == []
    ended(graph, 1)
    began(graph, 5)
    assert (graph.take_unpinned(), graph.take_unpinned()) == ([7], [])


def test_functions_of_waiting_calls_are_kept(graph: CallGraph) -> None:
    assert graph.functions() == {1}
    graph.withdraw([3, 4])
    assert graph.functions() == set()
