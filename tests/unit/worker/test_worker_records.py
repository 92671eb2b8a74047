"""The pipe through which runners send records of `logging`, and the worker's bounds on them."""

import fcntl
import logging
import os
import struct
from contextlib import closing, contextmanager
from contextvars import copy_context

import msgspec
import pytest

from grainlike.context import JobInfo, enter_job
from grainlike.errors import ProtocolError
from grainlike.head._validation import check_frames
from grainlike.joblogging import LogLevels, Rate, pack_dropped, unpack
from grainlike.resources import NO_ALLOCATION
from grainlike.wire import RECORD_BYTES, Code, Completed, Frame, LoggedRecords, OutputStream
from grainlike_worker.daemon import _record_relay
from grainlike_worker.daemon._output import Outputs
from grainlike_worker.daemon._output_pipes import OutputPipes
from grainlike_worker.daemon._record_relay import RecordRelay
from grainlike_worker.ipc._record_frames import CARRIER, PIPE_BYTES, RecordFrames, send_record
from grainlike_worker.runner.common import _job_records
from grainlike_worker.runner.common._job_records import JobRecords

LEVELS = LogLevels(0, {"": logging.WARNING, "app": logging.INFO})


@pytest.fixture
def pipe():
    near, far = os.pipe()
    os.set_blocking(near, False)
    os.set_blocking(far, False)
    yield near, far
    os.close(near)
    os.close(far)


def record(size, job=1):
    return CARRIER.pack(job, 1) + b"x" * size


# --- the pipe --------------------------------------------------------------------------------------------------------


def test_records_of_all_sizes_come_out_whole_however_they_are_read(pipe):
    near, far = pipe
    sent = [record(size) for size in (0, 1, 4000, 4089, 4090, 20_000)]
    assert all(send_record(far, one) for one in sent)
    frames = RecordFrames()
    data = os.read(near, 1 << 20)
    assert [whole for byte in data for whole in frames.feed(bytes([byte]))] == sent


def test_a_full_pipe_takes_no_more_and_loses_no_part(pipe):
    near, far = pipe
    count = 0
    while send_record(far, record(10_000)):
        count += 1
    assert not send_record(far, record(10_000)), "and it does not wait"
    frames = RecordFrames()
    whole = list(frames.feed(os.read(near, 1 << 20)))
    assert whole == [record(10_000)] * count
    assert send_record(far, record(5))
    assert list(frames.feed(os.read(near, 1 << 20))) == [record(5)], (
        "the part of the one that was lost is no part of it"
    )


def test_two_writers_do_not_mix_their_parts(pipe):
    near, far = pipe
    child = os.fork()
    if not child:
        os._exit(0 if send_record(far, record(9_000, job=2)) else 1)
    assert send_record(far, record(9_000, job=1))
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(RecordFrames().feed(os.read(near, 1 << 20))) == sorted([record(9_000, 1), record(9_000, 2)])


def test_what_is_no_part_is_refused():
    with pytest.raises(ValueError, match="too long"):
        list(RecordFrames().feed(b"\xff" * 100))


def test_a_record_that_does_not_end_is_dropped():
    part = struct.pack("<IHB", 1, 4000, 0) + b"x" * 4000
    frames = RecordFrames()
    assert list(frames.feed(struct.pack("<IHB", 1, 0, 1) + part * 200)) == []
    assert list(frames.feed(struct.pack("<IHB", 1, 4000, 2) + b"x" * 4000)) == []
    for pid in range(2, 40):  # writers that end in the middle
        assert list(frames.feed(struct.pack("<IHB", pid, 0, 1) + struct.pack("<IHB", pid, 4000, 0) + b"x" * 4000)) == []
    assert len(frames._parts) <= 16


# --- in the runner ---------------------------------------------------------------------------------------------------


@pytest.fixture
def records(pipe):
    before = logging.basicConfig
    records = JobRecords(pipe[1])
    yield records
    records.hold(None)
    logging.basicConfig = before


@contextmanager
def no_handlers():
    """A root logger without handlers, such as a runner's: pytest adds its own for the time of a test."""
    before = logging.root.handlers[:]
    logging.root.handlers.clear()
    try:
        yield
    finally:
        logging.root.handlers[:] = before


def log_as(job, messages):
    enter_job(NO_ALLOCATION, "n1", JobInfo(job, f"job{job}", 1, None), logs=LEVELS)
    with no_handlers():
        for message in messages:
            logging.getLogger("app").info(message)


def heard(near):
    try:
        data = os.read(near, 1 << 20)
    except BlockingIOError:
        return []
    return [unpack(whole[CARRIER.size :]) for whole in RecordFrames().feed(data)]


def test_levels_are_held_and_put_back_but_for_those_that_a_job_has_changed(records):
    own, others = logging.getLogger("app"), logging.getLogger("of.a.job")
    records.hold(LEVELS)
    assert (own.level, logging.root.level, others.level) == (logging.INFO, logging.WARNING, logging.NOTSET)
    records.hold(LogLevels(logging.DEBUG, {"": logging.ERROR, "of.a.job": logging.INFO}))
    assert (own.level, logging.root.level, others.level) == (logging.NOTSET, logging.ERROR, logging.INFO)
    assert logging.root.manager.disable == logging.DEBUG
    others.setLevel(logging.DEBUG)
    records.hold(None)
    assert (logging.root.level, others.level, logging.root.parent) == (logging.WARNING, logging.DEBUG, None)
    assert logging.root.manager.disable == 0
    records.hold(LogLevels(0, {"": logging.WARNING, "of.a.job": logging.INFO}))
    assert others.level == logging.DEBUG
    others.setLevel(logging.NOTSET)


def test_a_job_of_a_program_that_shares_the_process_keeps_to_its_own_levels(records, pipe):
    records.admit(LEVELS)
    records.admit(LogLevels(0, {"": logging.DEBUG}))
    assert logging.getLogger("app").isEnabledFor(logging.DEBUG)
    copy_context().run(log_as, 1, ["info"])
    with no_handlers():
        copy_context().run(lambda: (log_as(1, []), logging.getLogger("app").debug("below its level")))
    assert [entry.message for entry in heard(pipe[0])] == ["info"]


def test_a_job_that_floods_loses_records_with_a_count_and_others_do_not(records, pipe, monkeypatch):
    monkeypatch.setattr(_job_records, "JOB_RATE", Rate(0.001, 10_000, 3_000))
    records.hold(LEVELS)
    for job in (1, 2):
        copy_context().run(log_as, job, [str(number) for number in range(5 if job == 1 else 2)])
    assert [(entry.job, entry.message) for entry in heard(pipe[0])] == [
        *((1, str(number)) for number in range(3)),
        *((2, str(number)) for number in range(2)),
    ]
    assert records.logged
    records.ended([1, 2])
    assert [(entry.job, entry.job_name, entry.dropped) for entry in heard(pipe[0])] == [(1, "job1", 2)]
    assert not records.logged


def test_a_pipe_that_nobody_reads_costs_records_and_no_time(records, pipe):
    records.hold(LEVELS)
    copy_context().run(log_as, 1, ["x" * 1000] * 4_000)
    assert fcntl.fcntl(pipe[1], fcntl.F_GETPIPE_SZ) == PIPE_BYTES, "it was made larger first"
    arrived = len(heard(pipe[0]))
    assert 0 < arrived < 4_000
    records.ended([1])
    assert [entry.dropped for entry in heard(pipe[0])] == [4_000 - arrived]


def test_what_no_job_logs_is_shown_as_ever(records, pipe, capsys):
    records.hold(LEVELS)
    with no_handlers():
        logging.getLogger("app").warning("of nobody")
        logging.getLogger("app").info("too low")
    assert capsys.readouterr().err == "of nobody\n"
    assert heard(pipe[0]) == []


# --- at the worker ---------------------------------------------------------------------------------------------------


def sent_by(job, message):
    entry = unpack(pack_dropped(job, "job", 1, 1))
    return CARRIER.pack(job, 1) + msgspec.msgpack.encode(
        msgspec.structs.replace(entry, dropped=0, message=message, name="app")
    )


def test_the_worker_passes_on_what_its_rate_allows_and_tells_the_rest_before_the_end(monkeypatch):
    monkeypatch.setattr(_record_relay, "WORKER_RATE", Rate(0.001, 10_000, 3_000))
    posted = []
    backlog = [0]
    outputs = Outputs(posted.append)
    relay = RecordRelay(posted.append, lambda: backlog[0], in_program=True)
    with closing(outputs):
        relay.take(outputs.tap(1), [sent_by(1, "a"), b"\x00" * CARRIER.size + b"no record", sent_by(1, "b")])
        backlog[0] = _record_relay.UNSENT_BYTES + 1
        relay.take(outputs.tap(1), [sent_by(1, "c"), sent_by(2, "d")])
        backlog[0] = 0
        relay.take(
            outputs.tap(1), [sent_by(1, "e"), sent_by(1, "f"), CARRIER.pack(1, 1) + pack_dropped(1, "job", 1, 10)]
        )
        assert [[unpack(one).message for one in told.records] for told in posted] == [["a", "b"], ["e"]]
        posted.clear()
        relay.completed(Completed(1, [1], [1], [Code.SUCCEEDED], [0.0], [0.0], [0.0], [0], [b""], [], 0.0))
        assert [(told.jobs, unpack(told.records[0]).dropped) for told in posted] == [([1], 12)]
        assert list(relay.dropped) == [2]
        posted.clear()
        outputs.follow(1, 5)
        (shown, _) = posted
        assert set(shown.streams) == {OutputStream.LOG}
        assert b"".join(shown.data) == b"WARNING:app:a\nWARNING:app:b\nWARNING:app:e\n"


@pytest.mark.anyio
async def test_pipes_are_drained_of_records_even_of_a_run_list():
    with closing(OutputPipes(framed=False)) as pipes:
        heard = []
        outputs = Outputs(heard.append)
        tap = outputs.tap(1)
        tap.on_records = lambda tap, records: heard.append(records)
        tap.lease([1, 2], [1, 1])
        fd = pipes.given["--records"]
        os.set_blocking(fd, False)
        assert send_record(fd, record(10))
        os.write(pipes.given["--stdout"], b"whose")
        pipes.drain(tap)
        assert heard == [[record(10)]]
        os.write(fd, b"\xff" * 20)
        pipes.drain(tap)
        assert send_record(fd, record(11))
        pipes.drain(tap)
        assert heard == [[record(10)], [record(11)]], "what follows rubbish that was read alone is understood"
        outputs.close()


# --- at the head -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (LoggedRecords([1], [1, 2], [b""]), "a column of LoggedRecords has 2 rows of 1"),
        (LoggedRecords([1, 2], [1], [b""]), "a column of LoggedRecords has 2 rows of 1"),
        (LoggedRecords([1], [1], [b"x" * (RECORD_BYTES + 1)]), "a record of a job has 524289 bytes"),
    ],
)
def test_a_head_refuses_malformed_records(message, words):
    with pytest.raises(ProtocolError, match=words):
        check_frames([Frame(message)], (), None)
    check_frames([Frame(LoggedRecords([1], [1], [b"x"]))], (), None)
