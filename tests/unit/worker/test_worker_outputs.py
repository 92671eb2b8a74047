"""What the worker keeps of output, and whom it tells: bounded, in order, and each byte once."""

import os
import tempfile
from contextlib import closing

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike.payload import dump_error
from grainlike.wire import Code, Completed, Output, OutputStream
from grainlike_worker.daemon import _output_pipes, _output_store
from grainlike_worker.daemon._output import Outputs
from grainlike_worker.daemon._output_store import HEAD_BYTES, TAIL_BYTES, AttemptOutput, PieceRing, Spool
from grainlike_worker.ipc import _steps

OUT, ERR, NOTE = OutputStream.STDOUT, OutputStream.STDERR, OutputStream.NOTE


@pytest.fixture
def spool():
    spool = Spool(size=64 * 1024)
    yield spool
    spool.close()


class Head:
    """Hears what the worker posts."""

    def __init__(self):
        self.heard: list[Output] = []
        self.has_data = anyio.Event()
        self.outputs = Outputs(self.hear)

    def hear(self, message):
        self.heard.append(message)
        if message.data:
            self.has_data.set()

    def take(self):
        taken = [(m.follower, s, d) for m in self.heard for s, d in zip(m.streams, m.data, strict=True)]
        self.heard.clear()
        return taken


@pytest.fixture
def head():
    head = Head()
    yield head
    head.outputs.close()


def ended(job, attempt=1, code=Code.SUCCEEDED):
    return Completed(1, [job], [attempt], [code], [0.0], [0.0], [0.0], [0], [b""], [], 0.0)


def whole(record):
    return b"".join(data for stream, data in record.pieces() if stream is not NOTE)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_a_record_gives_back_what_went_in_stream_by_stream_and_in_order(spool):
    record = AttemptOutput(1, 1, spool)
    pieces = [(OUT, b"a" * 5000), (ERR, b"b" * 5000), (OUT, b"c"), (OUT, b"d"), (ERR, b"e")]
    for stream, data in pieces:
        assert record.add(stream, data) == len(data)
    expected = [*pieces[:2], (OUT, b"cd"), (ERR, b"e")]
    assert list(record.pieces()) == expected
    record.end()
    assert list(record.pieces()) == expected
    assert record.last(3) == b"cde"


def test_of_long_output_the_beginning_and_the_end_are_kept_and_how_much_is_not_is_told():
    spool = Spool()
    record = AttemptOutput(1, 1, spool)
    line = b"0123456789" * 1000
    heads = sum(record.add(OUT, line) for _ in range(300))
    assert heads == HEAD_BYTES
    record.add(OUT, b"the end")
    record.end()
    notes = [data for stream, data in record.pieces() if stream is NOTE]
    left = 3_000_007 - HEAD_BYTES - TAIL_BYTES
    assert notes == [f"[{left:,} bytes are left out here]".replace(",", " ").encode()]
    assert len(whole(record)) == HEAD_BYTES + TAIL_BYTES
    assert whole(record)[:20_000] == line * 2
    assert whole(record).endswith(b"the end")
    spool.close()


def test_the_spool_drops_the_oldest_and_says_what_is_gone(spool):
    first, second = AttemptOutput(1, 1, spool), AttemptOutput(2, 1, spool)
    first.add(OUT, b"x" * 10_000)
    for _ in range(12):
        second.add(OUT, b"y" * 10_000)
    assert list(first.pieces()) == [(NOTE, b"[10 000 bytes are left out here]")]
    assert whole(second).count(b"y") >= 60_000
    assert any(stream is NOTE for stream, _ in second.pieces())


def test_the_spool_leaves_three_quarters_of_a_small_disk_to_jobs(tmp_path, monkeypatch):
    free = 1_000_000
    opened = []

    def open_there(**_: object) -> tuple[int, str]:
        path = tmp_path / str(len(opened))
        opened.append(os.open(path, os.O_CREAT | os.O_RDWR))
        return opened[-1], str(path)

    monkeypatch.setattr(_output_store, "free_bytes", lambda _: free)
    monkeypatch.setattr(tempfile, "mkstemp", open_there)
    with closing(Spool()) as spool:
        records = [AttemptOutput(job, 1, spool) for job in range(100)]
        for record in records:
            record.add(OUT, b"x" * 30_000)
            assert sum(os.fstat(fd).st_size for fd in spool._files.values()) <= free // 4
        assert whole(records[-1]) == b"x" * 30_000
        assert list(records[0].pieces()) == [(NOTE, b"[30 000 bytes are left out here]")]
        records[-1].add(OUT, b"y" * (free // 8 + 1))
        assert whole(records[-1]) == b"x" * 30_000, "what is too large to be kept drops nothing that is kept"


def test_a_disk_that_takes_nothing_loses_the_output_and_not_the_worker(spool, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    record = AttemptOutput(1, 1, spool)
    record.add(OUT, b"x" * 10_000)
    record.add(OUT, b"y")
    assert list(record.pieces()) == [(NOTE, b"[10 000 bytes are left out here]"), (OUT, b"y")]


def test_a_ring_keeps_exactly_its_last_bytes():
    ring = PieceRing(5)
    for data in (b"ab", b"cd", b"efg"):
        ring.add(OUT, data)
    assert ring.take() == [(NOTE, b"[2 bytes are left out here]"), (OUT, b"cd"), (OUT, b"efg")]
    ring.add(ERR, b"0123456")
    assert ring.take() == [(NOTE, b"[2 bytes are left out here]"), (ERR, b"23456")]
    assert ring.take() == []


# --- who is told -----------------------------------------------------------------------------------------------------


def test_nobody_is_told_of_what_nobody_follows(head):
    head.outputs.add(1, 1, OUT, b"a")
    head.outputs.completed(ended(1))
    assert head.heard == []
    assert not head.outputs.open


def test_a_follower_hears_what_there_was_and_then_what_comes_each_once(head):
    head.outputs.add(1, 1, OUT, b"a")
    head.outputs.completed(ended(1, code=Code.FAILED))
    head.outputs.add(1, 2, OUT, b"b")
    assert head.outputs.follow(1, 7)
    assert head.heard[-1].caught_up
    assert head.take() == [(7, OUT, b"a"), (7, OUT, b"b")]
    head.outputs.add(1, 2, ERR, b"c")
    head.outputs.add(2, 1, ERR, b"not followed")
    assert head.take() == [(0, ERR, b"c")]
    assert not head.outputs.follow(1, 8)
    assert head.take() == [(8, OUT, b"a"), (8, OUT, b"b"), (8, ERR, b"c")]
    head.outputs.unfollow(1, 7)
    head.outputs.add(1, 2, OUT, b"d")
    assert head.take() == [(0, OUT, b"d")]
    head.outputs.unfollow(1, 8)
    head.outputs.add(1, 2, OUT, b"e")
    assert head.take() == []
    assert not head.outputs.pulse()


def test_past_its_beginning_output_is_told_at_intervals_and_at_the_end(head):
    head.outputs.follow(1, 7)
    head.outputs.add(1, 1, OUT, b"x" * HEAD_BYTES)
    assert sum(len(data) for _, _, data in head.take()) == HEAD_BYTES
    head.outputs.add(1, 1, OUT, b"later")
    assert head.take() == []
    assert head.outputs.pulse()
    assert head.take() == [(0, OUT, b"later")]
    head.outputs.add(1, 1, OUT, b"y" * (TAIL_BYTES + 10))
    head.outputs.follow(1, 8)
    told = head.take()
    first = [(stream, len(data)) for follower, stream, data in told if follower == 0]
    assert first == [(NOTE, len(b"[10 bytes are left out here]")), (OUT, TAIL_BYTES)]
    assert (
        sum(len(data) for follower, stream, data in told if follower == 8 and stream is OUT) == HEAD_BYTES + TAIL_BYTES
    )
    head.outputs.add(1, 1, OUT, b"the end")
    head.outputs.completed(ended(1))
    assert head.take() == [(0, OUT, b"the end")]


def test_a_job_that_dies_with_its_runner_leaves_its_last_words_and_its_runners(head):
    tap = head.outputs.tap(1)
    tap.told(1, 1, OUT, b"x" * 5000 + b"mine")
    tap.raw(ERR, b"whose")
    with head.outputs.dying(tap):
        head.outputs.completed(ended(1, code=Code.CRASHED))
    (words,) = head.heard
    assert words.last_words
    assert words.streams == [OUT, OutputStream.RUNNER]
    assert words.data == [(b"x" * 5000 + b"mine")[-4096:], b"whose"]


def test_a_retry_that_goes_back_unstarted_ends_nothing(head):
    head.outputs.add(1, 1, OUT, b"a")
    head.outputs.completed(ended(1, code=Code.RETURNED))
    assert head.outputs
    head.outputs.completed(ended(1, attempt=2))
    assert head.outputs
    head.outputs.completed(ended(1))
    assert not head.outputs.open


def test_descriptors_of_a_lease_are_its_only_jobs(head):
    tap = head.outputs.tap(1)
    head.outputs.follow(5, 1)
    head.outputs.follow(6, 1)
    head.heard.clear()
    tap.lease([5, 6], [1, 2])
    assert tap.crowded
    tap.only(1)
    assert not tap.crowded
    tap.raw(OUT, b"a")
    assert [(m.job, m.attempt, m.data) for m in head.heard] == [(6, 2, [b"a"])]


def test_only_so_many_ended_attempts_are_remembered(head, monkeypatch):
    monkeypatch.setattr("grainlike_worker.daemon._output.MOST_RECORDS", 2)
    for job in (1, 2, 3):
        head.outputs.add(job, 1, OUT, b"%d" % job)
        head.outputs.completed(ended(job))
    for job in (2, 3, 4):
        head.outputs.follow(job, 1)
    assert head.take() == [(1, OUT, b"2"), (1, OUT, b"3")], "of job 4 none was dropped: it wrote nothing"
    head.outputs.follow(1, 1)
    words = "[if it wrote anything, that is not kept any more: workers keep what the last 2 attempts wrote]"
    assert (head.heard[-1].caught_up, head.take()) == (True, [(1, NOTE, words.encode())])


def held(*records):
    """Bytes of output that records hold in memory."""
    pieces = [piece for record in records for piece in record._pending]
    pieces += [piece for record in records if record._tail is not None for piece in record._tail.pieces()]
    return sum(len(data) for _, data in pieces)


def test_an_attempt_that_has_ended_holds_nothing_of_its_output_in_memory():
    spool = Spool()
    record = AttemptOutput(1, 1, spool)
    record.add(OUT, b"x" * (HEAD_BYTES + 3 * TAIL_BYTES))
    record.add(ERR, b"the end")
    before = list(record.pieces())
    assert held(record) > TAIL_BYTES
    record.end()
    assert held(record) == 0
    assert list(record.pieces()) == before
    record.add(ERR, b" and more")
    record.end()
    assert list(record.pieces())[-1] == (ERR, b" and more")
    spool.close()


def test_of_links_of_a_chain_only_the_last_one_holds_output_in_memory(head):
    head.outputs._known = ()
    for link in range(1, 6):
        for _ in range(3):
            head.outputs.add(link, 1, OUT, b"%d" % link * 1000)
    records = [record for (record,) in head.outputs._records.values()]
    assert [held(record) for record in records] == [0, 0, 0, 0, 3000]
    head.outputs.follow(2, 7)
    assert b"".join(data for _, _, data in head.take()) == b"2" * 3000


@pytest.fixture
def passed_over(monkeypatch):
    """Returns when the output of pipes has been left where it is, so many times."""
    sleep, count, more = anyio.sleep, 0, anyio.Event()

    async def sleeps(seconds):
        nonlocal count, more
        count += 1
        more.set()
        more = anyio.Event()
        await sleep(seconds)

    async def passed_over(times):
        with anyio.fail_after(LIMIT_S):
            while count < times:
                await more.wait()

    monkeypatch.setattr(anyio, "sleep", sleeps)
    return passed_over


@pytest.mark.anyio
async def test_the_output_of_a_run_list_is_left_to_its_runner_until_one_job_is_left(head, passed_over, monkeypatch):
    monkeypatch.setattr(_output_pipes, "PATIENCE_S", 0.001)
    with closing(_output_pipes.OutputPipes(framed=False)) as pipes:
        tap = head.outputs.tap(1)
        tap.lease([5, 6], [1, 1])
        head.outputs.follow(6, 1)
        os.write(pipes.given["--stdout"], b"whose")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.run, tap)
            await passed_over(3)
            pipes.drain(tap)
            assert os.read(pipes.held[0], 100) == b"whose"
            tap.only(1)
            os.write(pipes.given["--stderr"], b"its own")
            await head.has_data.wait()
            tasks.cancel_scope.cancel()
    assert head.take() == [(0, ERR, b"its own")]


@pytest.mark.anyio
async def test_a_lease_that_has_just_begun_may_be_a_chain_whose_output_is_its_runners_to_tell(
    head, passed_over, monkeypatch
):
    monkeypatch.setattr(_output_pipes, "PATIENCE_S", 1000.0)
    with closing(_output_pipes.OutputPipes(framed=False)) as pipes:
        tap = head.outputs.tap(1)
        tap.lease([5], [1])
        pipes.begin()
        os.write(pipes.given["--stdout"], b"whose")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.run, tap)
            await passed_over(1)
            assert os.read(pipes.held[0], 100) == b"whose"
            os.write(pipes.given["--stdout"], b"its own")
            head.outputs.follow(5, 1)
            pipes.drain(tap)  # it has ended
            tasks.cancel_scope.cancel()
    assert head.take() == [(0, OUT, b"its own")]


@pytest.mark.anyio
@pytest.mark.parametrize("streams", [(OUT, ERR), (ERR, OUT)])
async def test_what_was_left_for_a_while_is_told_before_what_is_written_later(head, passed_over, monkeypatch, streams):
    monkeypatch.setattr(_output_pipes, "PATIENCE_S", 1000.0)
    with closing(_output_pipes.OutputPipes(framed=False)) as pipes:
        ends = [pipes.given["--stdout" if stream is OUT else "--stderr"] for stream in streams]
        tap = head.outputs.tap(1)
        tap.lease([5], [1])
        head.outputs.follow(5, 1)
        pipes.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.run, tap)
            os.write(ends[0], b"first")
            await passed_over(1)
            monkeypatch.setattr(_output_pipes, "PATIENCE_S", 0.0)  # it has had its time, and still sleeps
            os.write(ends[1], b"second")
            with anyio.fail_after(LIMIT_S):
                await head.has_data.wait()
            tasks.cancel_scope.cancel()
    assert head.take() == [(0, streams[0], b"first"), (0, streams[1], b"second")]


@pytest.mark.anyio
async def test_so_is_what_comes_while_the_wait_for_what_was_left_is_not_over(head, passed_over, monkeypatch):
    monkeypatch.setattr(_output_pipes, "PATIENCE_S", 1000.0)
    with closing(_output_pipes.OutputPipes(framed=False)) as pipes:
        tap = head.outputs.tap(1)
        tap.lease([5], [1])
        head.outputs.follow(5, 1)
        pipes.begin()
        told = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.run, tap)
            os.write(pipes.given["--stdout"], b"0")
            await passed_over(1)
            monkeypatch.setattr(_output_pipes, "PATIENCE_S", 0.0)  # it has had its time, and still sleeps
            for end in ("--stderr", "--stdout", "--stderr"):
                os.write(pipes.given[end], end.encode())
                if end == "--stderr":
                    with anyio.fail_after(LIMIT_S):
                        await head.has_data.wait()
                    head.has_data = anyio.Event()
                    told += head.take()
            tasks.cancel_scope.cancel()
    assert told == [(0, OUT, b"0"), (0, ERR, b"--stderr"), (0, OUT, b"--stdout"), (0, ERR, b"--stderr")]


@pytest.mark.anyio
async def test_the_order_is_that_of_the_job_that_runs_where_one_ended_a_moment_ago(head, passed_over, monkeypatch):
    monkeypatch.setattr(_output_pipes, "PATIENCE_S", 1000.0)
    with closing(_output_pipes.OutputPipes(framed=False)) as pipes:
        tap = head.outputs.tap(1)
        head.outputs.follow(6, 1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.run, tap)
            for job in (5, 6):
                tap.lease([job], [1])
                pipes.begin()
                for end in ("--stdout", "--stderr") if job == 6 else ("--stdout",):
                    os.write(pipes.given[end], end.encode())
                    for _ in range(10):  # what was written is seen
                        await anyio.lowlevel.checkpoint()
                await passed_over(job - 4)
                pipes.drain(tap)
            tasks.cancel_scope.cancel()
    assert head.take() == [(0, OUT, b"--stdout"), (0, ERR, b"--stderr")]


@pytest.mark.anyio
async def test_at_the_end_of_a_job_it_is_told_in_the_order_in_which_it_came(head, passed_over, monkeypatch):
    monkeypatch.setattr(_output_pipes, "PATIENCE_S", 1000.0)
    with closing(_output_pipes.OutputPipes(framed=False)) as pipes:
        tap = head.outputs.tap(1)
        tap.lease([5], [1])
        head.outputs.follow(5, 1)
        pipes.begin()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pipes.run, tap)
            for times, end in enumerate(("--stderr", "--stdout"), 1):
                os.write(pipes.given[end], end.encode())
                await passed_over(times)
            pipes.drain(tap)
            tasks.cancel_scope.cancel()
    assert head.take() == [(0, ERR, b"--stderr"), (0, OUT, b"--stdout")]


def test_frames_are_taken_apart_wherever_they_were_torn(head):
    with closing(_output_pipes.OutputPipes(framed=True)) as pipes:
        tap = head.outputs.tap(1)
        head.outputs.follow(5, 1)
        frame = _steps.HEADER.pack(ERR, 5, 1, 4) + b"text"
        for at in range(len(frame)):
            os.write(pipes.given["--told"], frame[at : at + 1])
            pipes.drain(tap)
        os.write(pipes.given["--told"], frame * 2)
        os.write(pipes.given["--stdout"], b"raw")
        pipes.drain(tap)
        assert head.take() == [(0, ERR, b"text")] * 3
        assert tap.unclaimed == b"raw"


def test_this_processs_streams_show_what_jobs_write_character_by_character(capsys):
    shown = []

    def show(job, stream, text):
        shown.append(job)
        stream.write(text)

    with closing(Outputs(lambda message: None, show=show)) as outputs:
        tap = outputs.tap(1)
        tap.lease([5], [1])
        for byte in "grün\n".encode():
            tap.raw(OUT, bytes([byte]))
        tap.told(5, 1, ERR, b"told\n")
        tap.told(5, 1, OUT, b"shown already\n", shown=True)
    assert capsys.readouterr() == ("grün\n", "told\n")
    assert set(shown) == {5}


# --- exceptions ------------------------------------------------------------------------------------------------------


def test_the_traceback_of_a_job_out_of_memory_is_kept_and_is_none_of_its_last_words(head):
    head.outputs.add(1, 1, OUT, b"the last")
    error = dump_error(MemoryError("too much"))
    completed = Completed(1, [1], [1], [Code.OUT_OF_MEMORY], [0.0], [0.0], [0.0], [0], [error.data], [], 0.0)
    head.outputs.completed(completed)
    assert head.take() == [(0, OUT, b"the last")]
    head.outputs.follow(1, 7)
    assert head.take() == [(7, OUT, b"the last"), (7, OutputStream.TRACEBACK, b"MemoryError: too much\n")]


def test_what_is_no_exception_has_no_traceback(head):
    for data, counts in ((b"anything", []), (b"", [1])):
        completed = Completed(1, [1], [1], [Code.FAILED], [0.0], [0.0], [0.0], [0], [data], counts, 0.0)
        head.outputs.completed(completed)
    head.outputs.follow(1, 7)
    assert head.take() == []
