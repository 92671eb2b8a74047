"""What a head answers its clients comes to them as it was: each field in its own place."""

import msgspec

from grainlike import Cores, Memory
from grainlike.jobs._records import WorkerInfo
from grainlike.jobs._rows import explanation_of, job_is, worker_info, worker_row
from grainlike.resources import EMPTY, parse_allocation
from grainlike.scheduler import Explanation
from grainlike.wire import FrameDecoder, WorkersAre, encode_frame

WORKER = WorkerInfo(
    "n1",
    parse_allocation("cores=[2,3]"),
    (3,),
    71,
    5,
    6,
    0.25,
    "cgroup",
    "it is silent",
    (2,),
    "cpu-7",
    "node3",
    5,
    6,
    "tcp://n1:7",
)

EXPLANATION = Explanation(
    7,
    "queued",
    2,
    Cores(4) & Memory("1Gi"),
    "room",
    worker="n1",
    before=3,
    nearest="n2",
    holders=(4, 5),
    starts_in_s=1.5,
    would_start_with=Cores(1),
    members=("n3", "n4"),
    lacking=6,
)


def sent(message):
    """As it comes out at the other end."""
    (frame,) = FrameDecoder().feed(b"".join(encode_frame(message)))
    return frame.message


def test_a_worker_comes_as_it_went():
    told = sent(WorkersAre(1, [worker_row(WORKER)]))
    assert worker_info(told.workers[0]) == WORKER


def test_an_explanation_comes_with_the_heads_own_words():
    answer = sent(job_is(9, "fit", EXPLANATION))
    assert (answer.ask, answer.name) == (9, "fit")
    told = explanation_of(answer)
    assert str(told) == str(EXPLANATION) == told.words
    assert msgspec.structs.replace(told, words="") == EXPLANATION


def test_what_an_explanation_does_not_say_is_not_said_there_either():
    told = explanation_of(sent(job_is(9, "fit", Explanation(0, "lazy", 0, EMPTY))))
    assert (told.request, told.would_start_with, told.holders) == (EMPTY, None, ())
