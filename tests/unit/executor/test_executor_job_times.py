"""When a job ran, as the head keeps it for `info`."""

from grainlike.graph import delayed, info, node_of
from grainlike.jobs._job import Job
from grainlike.resources import Cores


def test_info_tells_the_times_and_a_new_attempt_has_none_yet() -> None:
    r_ = (delayed(print) @ Cores(1))()
    node = node_of(r_)
    job = Job(1, 1, node, (b"", ()))
    node.record = job
    placement = job.assigned("n1", 1)
    assert (info(r_).began, info(r_).ended) == (None, None)
    placement.began, placement.ended = 3.0, 4.5
    assert (info(r_).began, info(r_).ended) == (3.0, 4.5)
    assert job.elapsed_s() == 1.5
    job.assigned("n2", 2)
    assert (info(r_).began, info(r_).ended) == (None, None)
