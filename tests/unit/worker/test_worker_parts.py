"""The parts of a runner that need no process: claims, columns, leases, exits, coroutines in contexts of their own."""

import os
import signal
from contextvars import ContextVar, copy_context

import pytest

from grainlike.payload import Payload
from grainlike.wire import FROM_WORKER, Code, FrameDecoder, LeaseStart, ReceiptSpec, Run, encode_frame
from grainlike_worker.daemon._report import ReportDraft
from grainlike_worker.daemon._spawn import describe_exit
from grainlike_worker.ipc._claims import IDLE, NO_BARRIER, ClaimPage
from grainlike_worker.runner.common._coroutines import SuspendedCoroutine
from grainlike_worker.runner.common._job_directories import JobDirectories
from grainlike_worker.runner.common._lease import RunnerLease
from grainlike_worker.runner.common._outcomes import FLUSH_S, OutcomeBatch


def a_lease(count: int, lease: int = 7) -> RunnerLease:
    jobs = list(range(10, 10 + count))
    message = Run(lease, "cores=[0]", jobs, [1] * count, [0] * count, [None] * count, [b"x"] * count, [])
    return RunnerLease(message, [], 0.0, JobDirectories(None))


def test_a_claims_page_is_one_memory_for_both_sides() -> None:
    daemon = ClaimPage.create()
    runner = ClaimPage.attach(os.dup(daemon.fd))
    assert (runner.started, runner.barrier) == (IDLE, NO_BARRIER)
    runner.started = 4
    daemon.barrier = 6
    assert (daemon.started, runner.barrier) == (4, 6)
    assert (daemon.barrier, runner.started) == (6, 4)
    runner.close()
    daemon.close()
    daemon.close()


def test_columns_are_due_by_the_clock_by_count_and_for_buffers() -> None:
    columns = OutcomeBatch(1, now=100.0)
    columns.ran(1, 1, Code.SUCCEEDED, Payload(b"v"), 100.0, 0.1, 0.1)
    assert columns.due_at == 100.0 + FLUSH_S
    columns.ran(2, 1, Code.SUCCEEDED, Payload(b"v", (b"big",)), 100.0, 0.1, 0.1)
    assert columns.due_at <= 100.0
    taken, _ = columns.take(0)
    assert columns.due_at == taken.sent_at + FLUSH_S
    for job in range(512):
        columns.never_ran(job, 1, Code.RETURNED)
    assert columns.due_at <= taken.sent_at
    taken, _ = columns.take(0)
    columns.succeeded(list(range(512)), [1] * 512, [b"v"] * 512, 100.0, [100.0] * 512, 0.0)
    assert columns.due_at <= taken.sent_at


def test_taken_columns_are_whole_and_the_receipt_travels_once() -> None:
    columns = OutcomeBatch(3, now=0.0)
    columns.receipt = ReceiptSpec(1, [0], {}, [], "none")
    columns.awaited = True
    columns.ran(5, 2, Code.SUCCEEDED, Payload(bytearray(b"v"), (b"big",)), 1.0, 0.5, 0.25)
    columns.never_ran(6, 1, Code.RETURNED)
    first, buffers = columns.take(4096)
    assert (first.jobs, first.attempts, first.codes) == ([5, 6], [2, 1], [Code.SUCCEEDED, Code.RETURNED])
    assert (first.data, first.counts, buffers) == ([b"v", b""], [1, 0], [b"big"])
    assert (first.begun, first.wall, first.cpu, first.rss) == ([1.0, 0.0], [0.5, 0.0], [0.25, 0.0], [4096, 4096])
    assert first.receipt is not None
    assert first.awaited is True
    assert not columns
    columns.never_ran(7, 1, Code.RETURNED)
    second, _ = columns.take(0)
    assert (second.jobs, second.receipt, second.awaited) == ([7], None, True)


def test_jobs_that_ran_well_share_what_cpu_time_they_used_together() -> None:
    columns = OutcomeBatch(3, now=0.0)
    columns.ran(5, 2, Code.SUCCEEDED, Payload(b"v", (b"big",)), 0.0, 1.0, 1.0)
    columns.succeeded([6, 7], [1, 3], [b"a", b"b"], 1.0, [1.5, 4.5], 0.5)
    message, buffers = columns.take(4096)
    assert (message.jobs, message.attempts, message.codes) == ([5, 6, 7], [2, 1, 3], [Code.SUCCEEDED] * 3)
    assert (message.data, message.counts, buffers) == ([b"v", b"a", b"b"], [1, 0, 0], [b"big"])
    assert message.begun == [0.0, 1.0, 1.5]
    assert message.wall == [1.0, 0.5, 3.0]
    assert message.cpu == [1.0, 0.25, 1.5]


def test_values_that_do_not_fit_together_travel_apart() -> None:
    columns = OutcomeBatch(3, now=0.0)
    large = bytes(20_000)
    columns.succeeded([6, 7], [1, 1], [b"a", large], 0.0, [0.5, 1.0], 1.0)
    message, buffers = columns.take(0)
    assert (message.data, message.counts, buffers) == ([b"a", b""], [0, 1], [large])


def test_what_a_lease_runs_next_are_calls_of_one_function() -> None:
    run = Run(7, "cores=[0]", [10, 11, 12, 13], [1, 2, 1, 1], [4, 4, 5, 4], [None] * 4, [b"x", b"y", b"z", b"w"], [])
    lease = RunnerLease(run, [], 0.0, JobDirectories(None))
    told = [(info.id, info.name, info.attempt, arguments) for info, arguments in lease.upcoming("f")]
    assert told == [(10, "f", 1, (b"x", ())), (11, "f", 2, (b"y", ()))]
    lease.ran_well([b"1", b"2"], 0.0, [0.5, 1.0], 1.0)
    assert [info.id for info, _ in lease.upcoming("g")] == [12]
    lease.ran_well([b"3"], 1.0, [1.5], 1.0)
    assert [(info.id, arguments) for info, arguments in lease.upcoming("f")] == [(13, (b"w", ()))]


def test_of_a_lease_with_stopped_jobs_or_large_arguments_one_runs_next() -> None:
    lease = a_lease(4)
    lease.stop([12])
    assert [(info.id, arguments) for info, arguments in lease.upcoming("f")] == [(10, None)]
    run = Run(7, "cores=[0]", [10, 11], [1, 1], [0, 0], [None] * 2, [b"x", b""], [0, 1])
    large = RunnerLease(run, [b"large"], 0.0, JobDirectories(None))
    assert [(info.id, arguments) for info, arguments in large.upcoming("f")] == [(10, None)]
    assert large.arguments() == (b"x", [])


def test_a_lease_hands_back_what_is_behind_and_knows_who_was_stopped() -> None:
    lease = a_lease(4)
    lease.ran(Code.SUCCEEDED, Payload(b""), 0.0, 0.0, 0.0)
    lease.stop([10, 12, 99])
    assert lease.stopped == {12}
    assert not lease.current_is_stopped
    lease.hand_back(lease.index + 1)
    assert (lease.index, lease.end) == (1, 2)
    message, _ = lease.columns.take(0)
    assert message.jobs == [10, 12, 13]
    assert message.codes == [Code.SUCCEEDED, Code.CANCELLED, Code.RETURNED]
    lease.stop([11, 13])
    assert lease.stopped == {11, 12}
    assert lease.current_is_stopped


def test_arguments_are_given_out_once_so_that_they_can_be_freed() -> None:
    lease = a_lease(1)
    assert lease.arguments() == Payload(b"x")
    assert lease.arguments() == Payload(b"")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-signal.SIGKILL, "killed by SIGKILL"),
        (-signal.SIGSEGV, "segmentation fault (SIGSEGV)"),
        (-120, "killed by signal 120"),
    ],
)
def test_exits_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words


class Ask:
    """Something to await that hands a question to whoever drives, and returns the answer."""

    def __init__(self, question: str) -> None:
        self.question = question

    def __await__(self):
        return (yield self.question)


def test_each_step_of_a_coroutine_runs_in_its_own_context() -> None:
    mark = ContextVar("mark", default="outside")
    seen = []

    async def job() -> str:
        mark.set("inside")
        seen.append(await Ask("first"))
        seen.append(mark.get())
        try:
            await Ask("second")
        except ValueError:
            seen.append(mark.get())
        return "value"

    context = copy_context()
    coroutine = job()
    words = memoryview(bytearray(16)).cast("d")
    first = context.run(coroutine.send, None)
    suspended = SuspendedCoroutine(context, coroutine, first, words, 7, lambda seconds: None).__await__()
    assert next(suspended) == "first"
    assert mark.get() == "outside"
    assert suspended.send("answer") == "second"
    with pytest.raises(StopIteration) as stop:
        suspended.throw(ValueError())
    assert stop.value.value == "value"
    assert seen == ["answer", "inside", "inside"]
    assert mark.get() == "outside"


@pytest.mark.parametrize("size", [0, 60])
def test_a_report_that_is_told_when_it_is_full_is_far_below_what_a_head_takes(size: int) -> None:
    """The worst turns: leases that end at once, with as many or as large values as they may have in a header."""
    decoder = FrameDecoder(FROM_WORKER)
    draft = ReportDraft()
    told = rows = 0
    for number in range(60):
        columns = OutcomeBatch(number, now=0.0)
        for job in range(256):
            columns.ran(2**40 + job, 1, Code.SUCCEEDED, Payload(bytes(job * size)), 1.0, 0.5, 0.25)
        draft.add_completed(*columns.take(2**30))
        draft.ended.append(number)
        if draft.full:
            pieces = b"".join(bytes(piece) for piece in encode_frame(draft.message(1.0), draft.buffers))
            assert int.from_bytes(pieces[:4], "little") < FROM_WORKER.header * 3 // 4
            (frame,) = decoder.feed(pieces)
            assert len(frame.buffers) < FROM_WORKER.buffers
            draft, told, rows = ReportDraft(), told + 1, rows + 256 * len(frame.message.completed)
    assert told >= 1
    assert rows >= 256 * told


def test_a_large_value_fills_a_report() -> None:
    draft = ReportDraft()
    columns = OutcomeBatch(1, now=0.0)
    columns.ran(1, 1, Code.SUCCEEDED, Payload(b"", (bytes(4_000_000),)), 1.0, 0.5, 0.25)
    draft.add_completed(*columns.take(0))
    assert not draft.full
    columns.ran(2, 1, Code.SUCCEEDED, Payload(b"", (bytes(17_000_000),)), 1.0, 0.5, 0.25)
    draft.add_completed(*columns.take(0))
    assert draft.full


def test_a_turn_of_nothing_but_beginnings_fills_a_report_too() -> None:
    draft = ReportDraft()
    starts = 0
    while not draft.full and starts < 20_000:
        starts += 1
        draft.add_started(LeaseStart(starts, 1, "cores=[7]", [starts], [1], 1.0))
    assert draft.full
    assert starts > 1000
    (piece,) = encode_frame(draft.message(1.0))
    assert len(piece) < FROM_WORKER.header // 2
