"""The ring of ended jobs: what is kept of each, how it is found again, and how little that takes."""

from subprocess import CalledProcessError
from types import SimpleNamespace

import msgspec
import pytest

from grainlike import Cores, JobMemoryError, Memory
from grainlike.head import _attempts, _history
from grainlike.head._history import _SEGMENT_JOBS, KEPT_BYTES, JobHistory, first_line
from grainlike.head._nested import RelayedJob
from grainlike.history import _form, _patterns, matcher
from grainlike.jobs import NO_PARCEL, Job, Placement
from grainlike.payload import dump_error, told_of_error
from grainlike.wire import KEPT_JOBS, AskHistory, Completed, EndedAttempt, ReceiptRow, ReceiptSpec

AHEAD = 1_000_000.0
"""Seconds by which the calendar of these tests is ahead of the head's clock."""

SESSION = SimpleNamespace(number=7, name="sweep", name_of="call {}".format)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def live():
    return {}


@pytest.fixture
def history(clock, live):
    return JobHistory(lambda: live, clock, ahead=lambda: AHEAD)


def job_of(number, name="fit", fn=1, **placed):
    function = SimpleNamespace(name=name, is_async=name.startswith("async"))
    job = Job(number, fn, SimpleNamespace(function=function, request=Cores(2)), NO_PARCEL)
    if placed:
        job.placement = Placement("n1", 1, slots="cores=[2]", **placed)
    return job


def batch(history, numbers, *, name="fit", begun=90.0, wall=2.0):
    jobs = [job_of(number, name, began=begun) for number in numbers]
    count = len(jobs)
    rest = [begun] * count, [wall] * count, [1.5] * count, [4096] * count
    history.succeeded(
        "n1",
        1.0,
        jobs,
        [job.node for job in jobs],
        Completed(1, list(numbers), [1] * count, [0] * count, *rest, [], [], 0.0),
        jobs[0].placement.receipt,
    )


def page(history, most=500, **asked):
    return history.page(AskHistory(0, most, **asked))


def numbers(history, **asked):
    return [job.job for job in page(history, **asked).jobs]


def test_a_batch_is_kept_with_all_that_is_known_of_each(history):
    history.submitted(1, 80.0)
    history.submitted(3, 85.0)
    batch(history, [1, 2, 3])
    last, *_, first = page(history).jobs
    assert (last.job, last.queued_s) == (3, 6.0)
    assert (first.job, first.queued_s) == (1, 11.0)
    assert (first.name, first.outcome, first.error, first.worker) == ("fit", "succeeded", "", "n1")
    assert (first.slots, first.attempts, first.client, first.parent) == ("cores=[2]", 1, 0, 0)
    assert (first.ran_s, first.cpu_s, first.peak_memory) == (2.0, 1.5, 4096)
    assert first.ended_at == 90 + 1 + 2 + AHEAD
    assert (first.request, first.coroutine) == ("cores=2", False)


def rebuilt_by(monkeypatch):
    """Numbers of jobs that are rebuilt from now on."""
    found = []

    def unpack(data):
        entries = _form.unpack(data)
        found.extend(number for entry in entries for number in entry.jobs)
        return entries

    monkeypatch.setattr(_history, "unpack", unpack)
    return found


def test_jobs_that_are_asked_for_one_by_one_are_rebuilt_once_while_more_of_them_end(history, monkeypatch):
    rebuilt = rebuilt_by(monkeypatch)
    count = _SEGMENT_JOBS - 1
    for number in range(1, count + 1):
        batch(history, [number])
        assert history.find(number).job == number
    for number in range(1, count + 1):
        assert history.find(number).job == number
    assert rebuilt == list(range(1, count + 1))


def test_jobs_of_two_segments_that_are_asked_for_in_turn_are_rebuilt_once(history, monkeypatch):
    for first in range(1, 3 * _SEGMENT_JOBS, 8):
        batch(history, range(first, first + 8))
    rebuilt = rebuilt_by(monkeypatch)
    for number in range(2_000, 2_030):
        asked = number, number - _SEGMENT_JOBS
        assert [history.find(job).job for job in asked] == list(asked)
    assert len(rebuilt) == 2 * _SEGMENT_JOBS


def test_of_segments_that_are_searched_few_stay_rebuilt_and_none_that_is_forgotten(clock):
    history = JobHistory(dict, clock, most=2 * _SEGMENT_JOBS)
    for first in range(1, 3 * _SEGMENT_JOBS, 8):
        batch(history, range(first, first + 8))
        assert history.find(first + 7).job == first + 7
        assert history.find(max(1, first - _SEGMENT_JOBS)).job
        assert len(history._found) <= _history._MOST_REBUILT
    kept = {segment.first for segment in history._segments}
    batch(history, range(10_000, 10_000 + _SEGMENT_JOBS))
    assert history._found.keys() <= {segment.first for segment in history._segments} < kept | {3 * _SEGMENT_JOBS + 1}
    assert history.find(1) is None


def test_a_job_that_ended_twice_is_found_as_it_ended_last(history):
    for wall in (2.0, 3.0):
        batch(history, [1, 2], wall=wall)
        assert history.find(1).ran_s == wall


def test_what_was_found_before_another_history_was_taken_is_not_found_after_it(history, clock, live):
    other = JobHistory(lambda: live, clock, ahead=lambda: AHEAD)
    batch(other, range(1, _SEGMENT_JOBS + 1), name="other")
    batch(history, range(1, _SEGMENT_JOBS + 1))
    batch(history, [5_000])
    assert history.find(1).name == "fit"
    assert history.find(5_000)
    again = other.packed()
    assert history.restore(again)
    history._segments.popleft()  # the one from before
    assert history.find(1).name == "other"
    assert history.find(5_000) is None


@pytest.mark.parametrize(
    ("slots", "awaited"),
    [
        (["cores=[1]"] * 3, False),
        (["cores=[1] memory=10", "cores=[1] memory=9", "cores=[1] memory=10"], False),
        (["cores=[1]", "cores=[2]", "cores=[2]"], False),
        (["cores=[1]", "cores=[2]", "cores=[1]"], True),
        ([None, None, "cores=[1]"], False),
        ([None] * 3, False),
    ],
)
def test_slots_of_a_batch_are_each_ones_own(history, slots, awaited):
    jobs = [job_of(number, began=90.0) for number in (1, 2, 3)]
    for job, held in zip(jobs, slots, strict=True):
        job.placement.slots = held
    rest = [90.0] * 3, [2.0] * 3, [1.5] * 3, [4096] * 3
    history.succeeded(
        "n1",
        1.0,
        jobs,
        [job.node for job in jobs],
        Completed(1, [3, 1, 2], [1] * 3, [0] * 3, *rest, [], [], 0.0, awaited),
        None,
    )
    assert [job.slots for job in reversed(page(history).jobs)] == [held or "" for held in slots]
    assert [history.find(number) is not None for number in range(5)] == [False, True, True, True, False]


def test_what_jobs_asked_for_is_kept_of_a_programs_own_and_of_clients(clock, live):
    history = JobHistory(lambda: live, clock, ahead=lambda: AHEAD, is_coroutine=lambda fn: fn == 9)
    batch(history, [1, 2], name="async fit")
    own = job_of(3)
    history.requested(4, Cores(1))
    history.requested(6, Cores(1))
    history.requested(9, Cores(1) & Memory("1Gi"))
    for number, fn in ((5, 1), (6, 9), (10, 1), (2, 1)):
        history.ended(RelayedJob(number, fn, NO_PARCEL, SESSION, (7, 0, 0), number, "outer"), "succeeded")
    node, own.node = own.node, None
    history.ended(own, "failed", "", node)
    found = {job.job: (job.request, job.coroutine) for job in page(history, name="outer").jobs}
    gib = "cores=1 memory=1073741824"
    assert found == {5: ("cores=1", False), 6: ("cores=1", True), 10: (gib, False), 2: ("", False)}
    assert {(job.request, job.coroutine) for job in page(history, name="async*").jobs} == {("cores=2", True)}
    assert {job.peak_memory for job in page(history, name="async*").jobs} == {0}, "its process is that of others"
    assert [(job.name, job.request) for job in page(history, outcomes=["failed"]).jobs] == [("fit", "cores=2")]


def test_requests_are_bounded(history, monkeypatch):
    monkeypatch.setattr(_history, "_MOST_REQUESTS", 10)
    monkeypatch.setattr(_history, "_MOST_TEXTS", 3)
    for number in range(1, 100):
        history.requested(number, Cores(number))
        batch(history, [number + 1_000])
        assert len(history._relayed) + 1 == len(history._requests) <= 11
        assert len(history._texts) <= 3
    for number in (1, 97):
        history.ended(RelayedJob(number, 1, NO_PARCEL, SESSION, (7, 0, 0), number, "outer"), "succeeded")
    assert [job.request for job in page(history, name="outer").jobs] == ["cores=97", ""]


def test_a_job_that_never_ran_has_no_times_of_its_own(history, clock):
    history.submitted(1, 80.0)
    history.ended(job_of(1), "failed", "UnsatisfiableError: no\nworker")
    [job] = page(history).jobs
    assert (job.outcome, job.error, job.worker, job.attempts) == ("failed", "UnsatisfiableError: no", "", 0)
    assert (job.ran_s, job.queued_s, job.ended_at) == (None, 20.0, clock.now + AHEAD)


def test_a_job_that_was_stopped_ran_until_then(history):
    history.unwanted([job_of(1, began=97.0), job_of(2)], skipped=True)
    skipped, stopped = page(history).jobs
    assert (stopped.outcome, stopped.ran_s, stopped.queued_s) == ("cancelled", 3.0, None)
    assert (skipped.outcome, skipped.ran_s) == ("skipped", None)


def test_a_job_of_a_job_is_of_the_client_that_submitted_that(history, live):
    worker = SimpleNamespace(number=2, name="n1")
    live[1] = RelayedJob(1, 1, NO_PARCEL, SESSION, (7, 0, 0), 1, "outer")
    inner = RelayedJob(2, 1, NO_PARCEL, worker, (2, 1, 1), 1, "inner")
    for job in (inner, live[1]):
        history.ended(job, "succeeded")
    told = [(job.client, job.program, job.parent, job.named) for job in page(history).jobs]
    assert told == [(7, "sweep", 0, "call 1"), (7, "sweep", 1, "")]


def test_the_last_ones_are_kept_and_no_more(clock, live):
    history = JobHistory(lambda: live, clock, most=3 * _SEGMENT_JOBS, ahead=lambda: AHEAD)
    for number in range(1, 5 * _SEGMENT_JOBS):
        batch(history, [number])
    told = page(history)
    assert told.kept == len(history) == 3 * _SEGMENT_JOBS
    found = [job.job for job in told.jobs]
    while told.before:
        told = page(history, before=told.before)
        found += [job.job for job in told.jobs]
    assert found == list(range(5 * _SEGMENT_JOBS - 1, 2 * _SEGMENT_JOBS - 1, -1))


def test_the_next_head_goes_on_where_the_last_one_was(history, clock, live):
    history.submitted(1, 80.0)
    history.requested(3_000, Cores(1))
    batch(history, range(1, 2 * _SEGMENT_JOBS))
    clock.now = 110.0
    history.joined("n1")
    history.ended(job_of(4_000), "failed", "no")
    again = JobHistory(lambda: live, clock, ahead=lambda: AHEAD)
    assert again.restore(history.packed())
    assert (len(again), again.page(AskHistory(0, 500))) == (len(history), page(history))
    assert again.find(5) == history.find(5) is not None
    assert again.outlived(again.find(5), "n1")
    for each in (history, again):
        each.ended(RelayedJob(3_500, 1, NO_PARCEL, SESSION, (7, 0, 0), 1, "outer"), "succeeded")
        batch(each, range(5_000, 5_000 + _SEGMENT_JOBS))
    assert page(again) == page(history)
    assert again.find(3_500) == history.find(3_500)
    assert again.find(3_500).request == "cores=1"
    assert again.find(3_500).queued_s == 30.0
    assert not again.restore(b"garbage")


def test_what_is_kept_for_the_next_head_is_bounded(history):
    for number in range(1, 130_000, 10):
        history.submitted(number, number / 10)
        history.requested(number, Cores(number % 7 + 1))
        batch(history, range(number, number + 10), name="a_function_of_some_length")
    assert len(history.packed()) < 6_500_000


def test_a_hundred_thousand_take_less_than_they_may(history):
    for first in range(1, 110_000, 10):
        batch(history, range(first, first + 10), name="a_function_of_some_length")
    assert len(history) == KEPT_JOBS
    assert history.nbytes < 6_000_000


def test_long_errors_leave_room_for_fewer(clock, live):
    history = JobHistory(lambda: live, clock, most_bytes=1_000_000, ahead=lambda: AHEAD)
    for number in range(1, 10_000):
        history.ended(job_of(number), "failed", "x" * 5_000)
        assert history.nbytes < 1_000_000 + _SEGMENT_JOBS * 450
    assert 2 * _SEGMENT_JOBS < len(history) < 5_000
    assert KEPT_BYTES + _SEGMENT_JOBS * 450 < 25_000_000


def test_a_question_looks_at_a_few_only_and_goes_on_where_it_ended(history):
    history.ended(job_of(1, "rare"), "failed")
    for number in range(2, 12 * _SEGMENT_JOBS, 4):
        batch(history, range(number, number + 4))
    told = page(history, name="rare")
    assert (told.jobs, told.before > 1) == ([], True)
    while not told.jobs:
        told = page(history, name="rare", before=told.before)
    assert [job.job for job in told.jobs] == [1]
    assert [job.job for job in page(history, outcomes=["failed"]).jobs] == [1], "blocks without one are not looked at"
    history.ended(job_of(12 * _SEGMENT_JOBS), "failed", "ValueError: no")
    assert numbers(history, error="no") == [12 * _SEGMENT_JOBS]
    assert page(history, error="no").before == 0


def test_jobs_are_found_by_name_outcome_time_and_number(history, clock):
    batch(history, [1, 2], name="fit")
    batch(history, [3], name="load")
    clock.now = 200.0
    history.ended(job_of(4, "fits", began=150.0), "timed_out")
    assert numbers(history, name="fit*") == [4, 2, 1]
    assert numbers(history, outcomes=["failed", "timed_out"]) == [4]
    assert numbers(history, since=150 + AHEAD) == [4]
    assert numbers(history, since=500 + AHEAD) == []
    found = history.find(3)
    assert found is not None
    assert found.name == "load"
    assert history.find(9) is None


def test_failures_are_found_by_error_and_worker(history):
    batch(history, [1])
    for number, error in ((2, "OSError: Disk full"), (3, "ValueError: x"), (4, "OSError: disk FULL: /tmp")):
        failed = job_of(number, began=90.0)
        failed.placement.worker = "n2" if number == 4 else "n1"
        history.ended(failed, "failed", error)
    assert numbers(history, error="disk full") == [4, 2]
    assert numbers(history, worker="n1") == [3, 2, 1]
    assert numbers(history, worker="n*", error="disk full", name="f*") == [4, 2]
    assert numbers(history, worker="n") == numbers(history, error="no such") == []


def test_one_job_is_asked_for_by_its_number(history):
    batch(history, range(1, 3 * _SEGMENT_JOBS))
    batch(history, [5_000])
    told = page(history, job=1_500)
    assert ([job.job for job in told.jobs], told.before) == ([1_500], 0)
    assert page(history, job=9).jobs[0].attempts == 1
    assert page(history, job=6_000).jobs == []


def test_a_worker_that_joined_after_a_job_had_ended_is_another_one(history, clock):
    history.joined("n1")
    clock.now = 110.0
    history.ended(job_of(1, began=105.0), "failed")
    [job] = page(history).jobs
    assert not history.outlived(job, "n1")
    assert not history.outlived(job, "n2"), "of which nothing is known"
    clock.now = 120.0
    history.joined("n1")
    assert history.outlived(job, "n1")
    history.left("n1")
    assert not history.outlived(job, "n1")


def test_moments_of_submission_are_bounded(history, clock):
    for number in range(1, 100_000):
        assert history.submitted(number, number / 10) > number / 10
    assert len(history._jobs) + 1 == len(history._moments) <= 20_001
    clock.now = 10_000.0
    history.ended(job_of(99_999), "cancelled")
    assert page(history).jobs[0].queued_s == pytest.approx(10_000 - 9_999.9)


def test_the_first_line_of_an_error_is_short():
    assert first_line("\n  ValueError: one \ntwo") == "ValueError: one"
    assert len(first_line("x" * 1_000)) == 200
    assert first_line("") == ""


class Evil(Exception):
    def __reduce__(self):
        return (pytest.fail, ("it was rebuilt",))


def test_the_text_of_an_exception_is_read_without_rebuilding_it():
    assert told_of_error(dump_error(KeyError("x")).data) == "KeyError: 'x'"
    assert told_of_error(dump_error(ValueError()).data) == "ValueError"
    assert told_of_error(dump_error(JobMemoryError("too much")).data) == "JobMemoryError: too much"
    assert told_of_error(dump_error(Evil("no")).data).endswith("Evil: no")


@pytest.mark.parametrize(
    ("output", "errors", "last"),
    [
        (None, None, ""),
        (b" \n", "", ""),
        (b"how\n", b"step 4\ndid not converge\n", " It wrote last: did not converge"),
        ("step 4\ndone\n", None, " It wrote last: done"),
    ],
)
def test_the_text_of_a_programs_failure_has_the_last_line_that_it_wrote(output, errors, last):
    told = told_of_error(dump_error(CalledProcessError(3, ["solver"], output, errors)).data)
    assert told == f"subprocess.CalledProcessError: Command '['solver']' returned non-zero exit status 3.{last}"


def test_the_last_line_of_a_program_stands_in_one_line_with_its_exit_status_however_long_its_command_is():
    error = CalledProcessError(3, "solver \\\n" + "--seed 7 " * 100, stderr="did not converge")
    told = first_line(told_of_error(dump_error(error).data))
    assert told.startswith("subprocess.CalledProcessError: Command 'solver ")
    assert told.endswith("returned non-zero exit status 3. It wrote last: did not converge")


@pytest.mark.parametrize("data", [b"", b"garbage", b"cos\nsystem\n(S'true'\ntR.", b"x" * (1 << 21)])
def test_bytes_that_are_no_exception_say_nothing(data):
    assert told_of_error(data) == ""


def test_names_and_errors_of_any_text_are_kept(history):
    class Name(str):
        __slots__ = ()

    batch(history, [1], name=Name("fit"))
    history.ended(job_of(2, "caf\udce9"), "failed", "ValueError: \udce9")
    latest, first = page(history).jobs
    assert (latest.name, latest.error) == ("caf\\udce9", "ValueError: \\udce9")
    assert (first.name, type(first.name)) == ("fit", str)


def test_a_pattern_is_compiled_once_however_many_jobs_are_looked_at(history, monkeypatch):
    compiled = []
    monkeypatch.setattr(_patterns, "matcher", lambda pattern: compiled.append(pattern) or matcher(pattern))
    for first in range(1, 2 * _SEGMENT_JOBS, 100):
        batch(history, range(first, first + 100), name="fit" if first > 1 else "other")
    assert numbers(history, name="o*r") == list(range(100, 0, -1))
    assert compiled == ["o*r", ""], "for names, and for workers"


# --- attempts and receipts -----------------------------------------------------------------------------------------


def attempt(number, error="ValueError: no"):
    return EndedAttempt(number, "n1", "cores=[2]", "failed", error, 90.0 + AHEAD, 2.0)


def receipt(pid=1, affinity=(2,)):
    return ReceiptSpec(pid, list(affinity), {"omp": 1}, [], "cgroup")


def test_earlier_attempts_are_kept_with_their_job_and_of_no_other(history, clock, live):
    for number in (1, 2):
        history.tried(7, attempt(number, f"ValueError: {number}\nand more"))
    history.tried(9, attempt(1))
    history.tried(9, attempt(1, "ValueError: assigned again"))
    assert [one.attempt for one in page(history, job=7).earlier] == [1, 2], "while it lives"
    again = JobHistory(lambda: live, clock, ahead=lambda: AHEAD)
    assert again.restore(history.packed())
    for each in (history, again):
        batch(each, [6, 7, 8])
        each.ended(job_of(9), "failed")
        found = {job.job: [one.error for one in job.earlier] for job in page(each).jobs}
        assert found == {
            6: [],
            7: ["ValueError: 1", "ValueError: 2"],
            8: [],
            9: ["ValueError: assigned again"],
        }
        assert each.find(7).earlier == page(each).jobs[2].earlier
        assert page(each, job=7).earlier == []
        assert each._earlier.jobs == {}


def test_earlier_attempts_of_one_job_and_of_all_live_ones_are_bounded(history, monkeypatch):
    monkeypatch.setattr(_attempts, "_MOST_BYTES", 10_000)
    for job in range(1, 100):
        for number in range(1, 20):
            history.tried(job, attempt(number, "x" * 1_000))
        assert history._earlier._bytes <= 10_000
    assert [one.attempt for one in page(history, job=99).earlier] == list(range(12, 20))
    assert {len(one.error) for one in page(history, job=99).earlier} == {200}
    assert page(history, job=1).earlier == []
    for job in list(history._earlier.jobs):
        history.unwanted([job_of(job)])
    assert history._earlier._bytes == 0


def test_alike_receipts_are_kept_once_and_few_of_unlike_ones(history, monkeypatch):
    for number in range(1, 100):
        history.ended(job_of(number, began=90.0, receipt=receipt(pid=number)), "succeeded")
    assert len(history._receipts.rows) == 1
    assert page(history).jobs[0].receipt == ReceiptRow([2], {"omp": 1}, [], "cgroup")
    monkeypatch.setattr(_form, "_MOST_RECEIPTS", 10)
    for number in range(100, 200):
        history.ended(job_of(number, began=90.0, receipt=receipt(affinity=[number])), "succeeded")
        assert len(history._receipts.rows) == len(history._receipts.numbers) <= 10
        assert history.find(number).receipt.affinity == [number]
    assert history.find(100).receipt is None
    assert history.find(197).receipt.affinity == [197]


def test_receipts_are_known_to_the_next_head(history, clock, live):
    history.ended(job_of(1, began=90.0, receipt=receipt()), "succeeded")
    history.ended(job_of(2), "cancelled")
    again = JobHistory(lambda: live, clock, ahead=lambda: AHEAD)
    assert again.restore(history.packed())
    assert [job.receipt for job in page(again).jobs] == [None, ReceiptRow([2], {"omp": 1}, [], "cgroup")]
    again.ended(job_of(3, began=90.0, receipt=receipt()), "succeeded")
    assert len(again._receipts.rows) == 1


def test_attempts_and_receipts_take_two_bytes_of_a_job_that_was_tried_once(history):
    history.ended(job_of(1, began=90.0, receipt=receipt()), "failed", "ValueError: no")
    entry = msgspec.msgpack.decode(history._entries[0])
    assert len(history._entries[0]) - len(msgspec.msgpack.encode(entry[:-2])) == 2


def test_what_a_release_before_attempts_and_receipts_has_kept_is_read(history, clock, live):
    batch(history, [1, 2])
    history.ended(job_of(3), "failed", "no")
    kept = msgspec.msgpack.decode(history.packed())
    for segment in kept[1]:
        entries = msgspec.msgpack.decode(segment[-1])
        segment[-1] = msgspec.msgpack.encode([entry[:18] for entry in entries])
    again = JobHistory(lambda: live, clock, ahead=lambda: AHEAD)
    assert again.restore(msgspec.msgpack.encode(kept[:8]))
    assert page(again).jobs == page(history).jobs
