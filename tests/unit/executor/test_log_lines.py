"""Bytes of many streams and attempts, cut into lines."""

from collections import Counter
from contextlib import aclosing
from itertools import count
from types import SimpleNamespace

import anyio
import pytest
from limits import LIMIT_S

from grainlike.head import _logs
from grainlike.head._logs import LONGEST_LINE, EndedSource, LogFollower, LogRouter, _Lines
from grainlike.jobs._job import Job
from grainlike.wire import EndedJob, Follow, Output, OutputStream

OUT, ERR, NOTE = OutputStream.STDOUT, OutputStream.STDERR, OutputStream.NOTE


def told(lines):
    return [(str(line), line.attempt, line.stream) for line in lines]


def test_lines_are_put_together_stream_by_stream_wherever_they_were_torn():
    lines = _Lines()
    text = "grüße\r\nzwei\n".encode()
    found = [line for at in range(len(text)) for line in lines.feed(1, OUT, text[at : at + 1])]
    assert told(found) == [("grüße", 1, "stdout"), ("zwei", 1, "stdout")]
    assert lines.feed(1, OUT, b"ou") == lines.feed(1, ERR, b"er") == []
    assert told(lines.feed(1, OUT, b"t\nx")) == [("out", 1, "stdout")]
    assert told(lines.end()) == [("er", 1, "stderr"), ("x", 1, "stdout")]
    assert lines.end() == []


def test_what_an_attempt_left_without_a_line_end_comes_before_the_next_attempt():
    lines = _Lines()
    lines.feed(1, OUT, b"half")
    assert told(lines.feed(2, OUT, b"new\n")) == [("half", 1, "stdout"), ("new", 2, "stdout")]


def test_notes_are_lines_of_their_own_and_bytes_that_are_no_text_are_shown():
    lines = _Lines()
    assert told(lines.feed(1, NOTE, b"[5 bytes]")) == [("[5 bytes]", 1, "note")]
    assert told(lines.feed(1, OUT, b"a\xffb\n\n")) == [("a\\xffb", 1, "stdout"), ("", 1, "stdout")]


def test_a_line_without_end_comes_in_pieces():
    lines = _Lines()
    found = lines.feed(1, OUT, b"x" * (LONGEST_LINE * 2 + 5))
    assert [len(line) for line in found] == [LONGEST_LINE] * 2
    assert [len(line) for line in lines.end()] == [5]


class Worker:
    """A worker as a listener knows it."""

    def __init__(self, number):
        self.number = number
        self.name = f"n{number}"
        self.told = []

    def post(self, message):
        self.told.append(message)


@pytest.fixture
def asked():
    """A listener to job 3, and the two workers that it has asked."""
    listener = LogFollower(7, SimpleNamespace(finished=True, record=None), Worker.post)
    workers = Worker(1), Worker(2)
    for worker in workers:
        listener.ask(Job(3, 1, listener.node, (b"", ())), worker)
        listener.ask(Job(3, 1, listener.node, (b"", ())), worker)
    return listener, *workers


def output(text, attempt=1, job=3, **more):
    return Output(job, attempt, [OUT], [text.encode()], **more)


@pytest.mark.anyio
async def test_output_is_passed_to_its_own_readers_and_tried_with_no_others(monkeypatch):
    calls = Counter()
    for name in ("hear", "ask"):
        real = getattr(LogFollower, name)
        monkeypatch.setattr(LogFollower, name, lambda *a, real=real, name=name: (calls.update([name]), real(*a))[1])
    router, worker = LogRouter(Worker.post, count(1).__next__), Worker(1)
    nodes = [SimpleNamespace(finished=False, record=None, waiters=None) for _ in range(50)]
    jobs = [Job(number, 1, node, (b"", ())) for number, node in enumerate(nodes)]
    found = []

    async def read(node):
        async with aclosing(router.lines(node, [worker])) as lines:
            found.extend([str(line) async for line in lines])

    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            for node in (*nodes, nodes[7]):  # one has two readers
                tasks.start_soon(read, node)
            await anyio.wait_all_tasks_blocked()
            router.assigned(worker, jobs)
            assert sorted(message.job for message in worker.told) == sorted([*range(50), 7])
            for message in worker.told[:]:
                router.hear(worker, output("", job=message.job, follower=message.follower, caught_up=True))
            for job in range(50):
                router.hear(worker, output(f"{job}\n", job=job))
            await anyio.wait_all_tasks_blocked()
            assert calls == {"ask": 51, "hear": 2 * 49 + 3 * 2}  # both readers are tried with what is for one of them
            for node in nodes[:25]:
                node.finished = True
                for waiter in node.waiters[:]:
                    waiter()
            await anyio.wait_all_tasks_blocked()
            router.left(worker)
            router.hear(worker, output("late\n", job=30))
            tasks.cancel_scope.cancel()
    assert not router.listeners
    assert (router._by_job, router._by_node) == ({}, {})
    assert sorted(map(int, found)) == sorted([*range(25), 7])  # of the others, nobody has read to the end


async def rest(listener):
    found = []
    with anyio.fail_after(LIMIT_S):
        while (lines := await listener.wait([])) is not None:
            found += told(lines)
    return found


@pytest.mark.anyio
async def test_a_listener_hears_what_is_meant_for_it_once_and_attempt_by_attempt(asked):
    listener, one, two = asked
    assert one.told == two.told == [Follow(3, 7, True)]
    listener.hear(two, output("on its way to others\n", attempt=2))
    listener.hear(two, output("replay two\n", attempt=2, follower=7))
    listener.hear(two, output("for another\n", attempt=2, follower=8))
    listener.hear(two, output("", follower=7, caught_up=True))
    listener.hear(two, output("live\n", attempt=2))
    listener.hear(two, output("another job\n", job=4))
    listener.hear(one, output("replay one\n", follower=7))
    listener.hear(one, output("", follower=7, caught_up=True))
    assert await rest(listener) == [("replay one", 1, "stdout"), ("replay two", 2, "stdout"), ("live", 2, "stdout")]
    listener.leave()
    assert one.told[-1] == Follow(3, 7, False)


@pytest.mark.anyio
async def test_a_worker_that_is_lost_is_not_waited_for(asked):
    listener, one, two = asked
    listener.hear(one, output("", follower=7, caught_up=True))
    with anyio.move_on_after(0.01) as scope:
        await rest(listener)
    assert scope.cancelled_caught
    listener.lose(two)
    assert await rest(listener) == []
    listener.leave()
    assert two.told == [Follow(3, 7, True)]


@pytest.mark.anyio
async def test_who_reads_too_slowly_is_told_how_much_is_left_out(asked, monkeypatch):
    monkeypatch.setattr(_logs, "_UNREAD", 10)
    listener, one, two = asked
    listener.lose(two)
    listener.hear(one, output("", follower=7, caught_up=True))
    for text in ("12345\n", "abcde\n"):
        listener.hear(one, output(text))
    assert await rest(listener) == [("[6 bytes came faster than they were read]", 1, "note"), ("abcde", 1, "stdout")]


@pytest.mark.anyio
async def test_a_worker_that_does_not_answer_is_given_up_after_a_while(asked, monkeypatch):
    monkeypatch.setattr(_logs, "ANSWER_S", 0.01)
    listener, one, _ = asked
    listener.hear(one, output("replay\n", follower=7))
    listener.hear(one, output("", follower=7, caught_up=True))
    late = "[worker n2 has not answered for 0.01 s: what the job wrote there is left out]"
    assert await rest(listener) == [(late, 0, "note"), ("replay", 1, "stdout")]
    assert listener.silence == ""


@pytest.mark.anyio
async def test_that_output_was_dropped_is_told_to_who_got_none_of_a_job_that_has_ended(asked):
    listener, one, two = asked
    listener.hear(one, Output(3, 0, [NOTE], [b"[dropped]"], 7, caught_up=True))
    listener.hear(two, Output(3, 0, [], [], 7, caught_up=True))
    assert await rest(listener) == []
    assert listener.silence == "[dropped]"
    listener.node.finished = False
    assert listener.silence == "", "it has not run there yet"


@pytest.mark.parametrize(
    ("ended", "places", "silence"),
    [
        (None, [("n1", 0), ("n2", 0)], "has forgotten where it ran"),
        (("n1", 1, 2.0), [("n1", 1)], ""),
        (("n1", 2, 2.0), [("n1", 0), ("n2", 0)], ""),
        (("n3", 2, 2.0), [("n1", 0), ("n2", 0), ("n3", 2)], ""),
        (("", 0, None), [], "never sent to a worker"),
    ],
)
def test_output_of_a_job_that_has_ended_is_asked_for_where_it_may_be(ended, places, silence):
    if ended is not None:
        worker, attempts, ran = ended
        ended = EndedJob(3, "fit", "failed", "", worker, "", "", attempts, 0, "", 0, None, ran, 0.0, 0, 0.0)
    source = EndedSource(3, ["n1", "n2"], ended)
    assert source.record.places() == places
    assert silence in source.silence
    assert bool(silence) == bool(source.silence)
