"""Failures by reason: which are alike, how many they are, and which of them was the last."""

from grainlike.observe import FailureGroup, failures_by_reason
from grainlike.wire import EndedJob


def failed(number, error, *, name="fit", worker="n1", outcome="failed"):
    return EndedJob(number, name, outcome, error, worker, "", "", 1, 0, "", 0, None, 1.0, 0.0, 0, 100.0 + number)


def test_alike_failures_are_one_group_with_its_latest_job():
    jobs = [failed(number, "OSError: disk full") for number in (9, 4, 2)]
    assert failures_by_reason(jobs) == [FailureGroup("fit", "OSError: disk full", "n1", 3, 9, 109.0)]


def test_errors_that_differ_in_numbers_alone_are_alike_and_show_where_they_differ():
    jobs = [
        failed(3, "ValueError: x=-1.5 at 0x7f12"),
        failed(2, "ValueError: x=-20 at 0xAB"),
        failed(1, "ValueError: x=a"),
        failed(4, "ValueError: x=0.0 at 0x1"),
        failed(5, "ValueError: x=1e-05 at 0x1"),
        failed(6, "KeyError: n-1 of (-2)"),
        failed(7, "KeyError: n-2 of (3)"),
    ]
    assert [(group.reason, group.jobs) for group in failures_by_reason(jobs)] == [
        ("ValueError: x=# at #", 4),
        ("KeyError: n-# of (#)", 2),
        ("ValueError: x=a", 1),
    ]


def test_other_functions_and_workers_are_other_groups_the_largest_first():
    jobs = [
        failed(1, "no"),
        failed(2, "no", worker="n2"),
        failed(3, "no", worker="n2"),
        failed(4, "no", name="load"),
        failed(5, "JobTimeoutError: fit ran past its timeout of 3 s", outcome="timed_out"),
        failed(6, "", outcome="cancelled"),
        failed(7, "", outcome="succeeded"),
    ]
    assert [(group.name, group.worker, group.jobs) for group in failures_by_reason(jobs)] == [
        *(("fit", "n2", 2), ("fit", "n1", 1), ("fit", "n1", 1), ("load", "n1", 1))
    ]
    assert failures_by_reason([]) == []
