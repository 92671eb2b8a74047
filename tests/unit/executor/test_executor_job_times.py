"""When a job ran, as the head keeps it for `info`."""

import time

from grainlike.engine import Engine
from grainlike.graph import delayed, gather, info, node_of
from grainlike.head.server._storage import NoStorage
from grainlike.jobs._job import Job
from grainlike.net import memory_pair
from grainlike.resources import Cores, parse_allocation
from grainlike.wire import Blocked, Frame, Hello, LeaseStart, Output, Report


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


def test_what_is_told_of_one_job_of_a_lease_is_not_said_of_the_others() -> None:
    engine = Engine(None, lambda call: None, fail_fast=True)
    engine.jobs = head = NoStorage().make_head(engine, lambda at: None, closed=False)
    engine.release_hold()
    hello = Hello("worker", 1, 1, "3.11", {}, "n1", "0" * 16, 1, "cores=[0, 1, 2]", [])
    peer = head.join(hello, parse_allocation("cores=[0, 1, 2]"), "n1", memory_pair()[0])
    calls = [(delayed(print) @ Cores(1))(number) for number in range(3)]
    engine.start([node_of(gather(calls))])
    jobs = [node_of(r_).record for r_ in calls]
    numbers, now = [job.id for job in jobs], time.monotonic()
    (cls,) = head.state.scheduler.shapes
    rest = [1] * 3
    starts = [
        LeaseStart(lease, cls, slots, part, rest[: len(part)], now)
        for lease, slots, part in ((1, "cores=[0]", numbers[:2]), (2, "cores=[1]", numbers[2:]))
    ]
    said = [Output(numbers[0], 1, [1], [b"the end"], last_words=True), Blocked(numbers[1], 1.5, "a stack")]
    head.hear(peer, [Frame(message, []) for message in (Report(now, starts, [], []), *said)])
    assert [job.slots for job in jobs] == ["cores=[0]", "cores=[0]", "cores=[1]"]
    assert [job.last_words is None for job in jobs] == [False, True, True]
    assert [job.placement.blocks_since is None for job in jobs] == [True, False, True]
    jobs[0].stopped(now + 1)
    assert [job.placement.used is None for job in jobs] == [False, True, True]
    jobs[0].waits_again()
    assert [job.slots for job in jobs] == [None, "cores=[0]", "cores=[1]"]
