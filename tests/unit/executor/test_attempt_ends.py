"""What ended an attempt that is followed by another: from the report that is handled, or with a lost worker."""

from types import SimpleNamespace

import pytest

from grainlike import Cores
from grainlike.head._attempts import AttemptEnds
from grainlike.jobs import NO_PARCEL, Job, Placement
from grainlike.payload import dump_error
from grainlike.wire import Code, Completed, EndedAttempt, Report

NOW, AHEAD = 100.0, 1_000_000.0


def job_of(number, **placed):
    options = SimpleNamespace(timeout=3.0)
    node = SimpleNamespace(function=SimpleNamespace(name="fit", options=options), request=Cores(1))
    job = Job(number, 1, node, NO_PARCEL)
    job.placement = Placement("n1", 2, slots="cores=[1]", **{"began": 90.0, **placed})
    return job


def reported(code, *, number=7, data=b"", **more):
    """Ends of which the second is that of the job, on a worker whose clock is 10 s behind."""
    columns = {"begun": [1.0, 81.5], "wall": [1.0, 4.5], "cpu": [0.0] * 2, "rss": [0] * 2}
    completed = Completed(
        1, [5, number], [1, 2], [0, code], **columns, data=[b"", data], counts=[], sent_at=0.0, **more
    )
    ends = AttemptEnds()
    ends.report, ends.parcels, ends.skew = (
        Report(0.0, [], [completed], [], []),
        {id(completed): [NO_PARCEL, (data, ())]},
        10.0,
    )
    return ends


def test_of_a_failure_times_and_error_are_those_of_its_worker():
    ended = reported(Code.FAILED, data=dump_error(ValueError("no")).data).of(job_of(7), NOW, AHEAD)
    assert ended == EndedAttempt(2, "n1", "cores=[1]", "failed", "ValueError: no", 91.5 + AHEAD, 4.5)


@pytest.mark.parametrize(
    ("code", "outcome", "error"),
    [
        (Code.CRASHED, "crashed", "killed by SIGKILL"),
        (Code.UNSTARTED, "unstarted", "killed by SIGKILL"),
    ],
)
def test_of_a_process_that_died_the_head_knows_how_long_it_was_there(code, outcome, error):
    ended = reported(code, details={7: "killed by SIGKILL"}).of(job_of(7), NOW, AHEAD)
    assert ended == EndedAttempt(2, "n1", "cores=[1]", outcome, error, 90.0 + AHEAD, 10.0)


def test_of_a_limit_that_was_passed_it_is_told():
    ended = reported(Code.TIMED_OUT).of(job_of(7), NOW, AHEAD)
    assert (ended.outcome, ended.error) == ("timed_out", "JobTimeoutError: fit ran past its timeout of 3 s")


def test_with_a_lost_worker_the_reason_is_that_of_its_loss():
    ends = AttemptEnds()
    ends.lost = "it was silent for 30 s"
    assert ends.of(job_of(7), NOW, AHEAD) == EndedAttempt(
        2, "n1", "cores=[1]", "lost", "it was silent for 30 s", 90.0 + AHEAD, 10.0
    )
    elsewhere = reported(Code.FAILED, number=8).of(job_of(7), NOW, AHEAD)
    assert elsewhere.outcome == "lost", "the report is of others"


@pytest.mark.parametrize("code", [Code.RETURNED, Code.UNFIT])
def test_what_is_handed_back_was_no_attempt(code):
    assert reported(code).of(job_of(7), NOW, AHEAD) is None


@pytest.mark.parametrize("placed", [{"began": None}, {"slots": None}])
def test_what_had_not_begun_was_no_attempt(placed):
    job = job_of(7)
    for name, value in placed.items():
        setattr(job.placement, name, value)
    assert AttemptEnds().of(job, NOW, AHEAD) is None
