"""The judge of histories is judged: each way of breaking a promise is written into a good history, and is told."""

import json

import pytest
from histories import Record, complaints, note, read


def begin(job, attempt, worker, process, what="begin", how=""):
    return Record(what, job, attempt, (worker,), process, how=how)


def end(job, attempt, worker, process, how="done"):
    return begin(job, attempt, worker, process, "end", how)


def told(job, how="right"):
    return Record("outcome", job, who="c1", how=how)


def falls(who):
    return Record("falls", who=who)


GOOD = [
    Record("wanted", "a", who="c1"),
    Record("wanted", "b", who="c1"),
    Record("wanted", "c", who="c2"),
    begin("a", 1, "w1", "p1"),
    begin("b", 1, "w2", "p2"),
    end("a", 1, "w1", "p1"),
    falls("w2"),
    told("a"),
    begin("b", 2, "w1", "p1"),
    end("b", 2, "w1", "p1", "raised"),
    falls("c2"),
    begin("b", 3, "w1", "p1"),
    end("b", 3, "w1", "p1"),
    told("b"),
]
"""`b` was run again because its worker fell, and again because it failed; nobody waits for `c` any more."""

AT = {(record.what, record.job, record.attempt, record.who): at for at, record in enumerate(GOOD)}


def without(what, job="", attempt=0, who=""):
    at = AT[what, job, attempt, who]
    return [*GOOD[:at], *GOOD[at + 1 :]]


def behind(record, what, job="", attempt=0, who=""):
    at = AT[what, job, attempt, who] + 1
    return [*GOOD[:at], record, *GOOD[at:]]


CORRUPTED = [
    (without("outcome", "a", who="c1"), [("lost", "a")]),
    (without("falls", who="c2"), [("lost", "c")]),
    (behind(told("a"), "outcome", "a", who="c1"), [("duplicate outcome", "a")]),
    (behind(told("b", "lost"), "outcome", "b", who="c1"), [("duplicate outcome", "b")]),
    (without("falls", who="w2"), [("at the same time", "b"), ("at the same time", "b")]),
    (behind(begin("a", 2, "w2", "p2"), "begin", "a", 1), [("at the same time", "a")]),
    (behind(begin("a", 2, "w2", "p2"), "end", "a", 1), [("again", "a")]),
    (behind(begin("b", 4, "w1", "p1"), "end", "b", 3), [("again", "b")]),
    (behind(begin("a", 2, "w2", "p2"), "outcome", "a", who="c1"), [("after its outcome", "a"), ("again", "a")]),
    (without("end", "a", 1), [("invented", "a")]),
    (without("end", "b", 3), [("invented", "b")]),
    (without("begin", "a", 1), [("invented", "a"), ("invented", "a")]),
    (behind(end("a", 1, "w1", "p9"), "begin", "a", 1), [("invented", "a")]),
    ([*GOOD, Record("left", process="p2", who="w2")], [("orphan", "")]),
    ([*GOOD[: AT["outcome", "a", 0, "c1"]], told("a", "wrong"), *GOOD[8:]], [("wrong", "a")]),
    ([*GOOD[: AT["outcome", "a", 0, "c1"]], told("a", "lost"), *GOOD[8:]], [("lost", "a")]),
]


def test_a_good_history_is_not_complained_of():
    assert complaints(GOOD) == []


@pytest.mark.parametrize(("history", "kinds"), CORRUPTED)
def test_each_corruption_is_told(history, kinds):
    assert sorted((found.kind, found.job) for found in complaints(history)) == sorted(kinds)


def test_a_job_that_is_given_up_after_its_worker_fell_is_no_lie():
    lost = [Record("wanted", "a", who="c1"), begin("a", 1, "w1", "p1"), falls("w1"), told("a", "lost")]
    assert complaints(lost) == []
    assert [found.kind for found in complaints([one for one in lost if one.what != "falls"])] == ["lost"]


def test_any_member_of_a_gang_that_falls_ends_its_attempt():
    gang = Record("begin", "a", 1, ("w1", "w2"), "p1")
    assert complaints([gang, falls("w2"), begin("a", 2, "w3", "p3")]) == []
    assert [found.kind for found in complaints([gang, falls("w3"), begin("a", 2, "w1", "p1")])] == ["at the same time"]


def test_a_worker_falls_by_the_name_that_it_was_started_with():
    renamed = begin("a", 1, "w4-2", "p1")
    assert complaints([renamed, falls("w4"), begin("a", 2, "w6", "p2")]) == []
    another = complaints([renamed, falls("w42"), begin("a", 2, "w6", "p2")])
    assert [found.kind for found in another] == ["at the same time"]


def test_a_process_that_falls_ends_its_attempt_and_no_other():
    two = [begin("a", 1, "w1", "p1"), begin("b", 1, "w1", "p2"), falls("p1")]
    assert complaints([*two, begin("a", 2, "w1", "p3")]) == []
    assert [found.job for found in complaints([*two, begin("b", 2, "w1", "p3")])] == ["b"]


def test_records_are_read_as_they_were_written(tmp_path):
    for record in GOOD:
        note(tmp_path / "history", record)
    assert read(tmp_path / "history") == GOOD
    lines = (tmp_path / "history").read_text().splitlines()
    assert len(lines) == len(GOOD)
    assert all("" not in json.loads(line).values() for line in lines)


def test_what_is_no_record_is_not_passed_over():
    with pytest.raises(ValueError, match="no record"):
        complaints([Record("begun", "a")])
