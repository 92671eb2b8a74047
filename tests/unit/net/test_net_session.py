"""What of a conversation passes a value that is large, and what keeps its place."""

from __future__ import annotations

import socket

import anyio
import pytest

from grainlike.net import ByteLink, ResumableSession, adopt
from grainlike.wire import Ack, AskHead, Beat, Done, Frame, Goodbye, Message, Withdraw

pytestmark = pytest.mark.anyio

LARGE = bytes(20 * 1024 * 1024)


async def test_questions_answers_and_beats_pass_a_large_value_and_a_goodbye_does_not() -> None:
    near, far = [await adopt(sock) for sock in socket.socketpair()]
    assert isinstance(near, ByteLink)
    assert isinstance(far, ByteLink)
    near.trust()
    far.trust()
    ours, theirs = ResumableSession(near), ResumableSession(far)
    came: list[Message] = []
    over = anyio.Event()

    def hear(frames: list[Frame]) -> None:
        came.extend(frame.message for frame in theirs.hear(frames))
        if theirs.over is not None:
            over.set()

    async with anyio.create_task_group() as tasks:
        ours.post(Withdraw(0, 0, [1]), [LARGE])
        ours.post(Withdraw(0, 0, [2]))
        tasks.start_soon(near.run, lambda _: None)
        await anyio.wait_all_tasks_blocked()  # the socket is full
        for message in (AskHead(1), Done(2), Beat(3), Goodbye("that is all")):
            ours.post(message)
        tasks.start_soon(far.run, hear)
        await over.wait()
        near.close()
    assert came == [AskHead(1), Done(2), Beat(3), Withdraw(0, 0, [1]), Withdraw(0, 0, [2])]
    assert theirs.over == "that is all"


async def test_an_acknowledgement_passes_a_large_value() -> None:
    near, far = [await adopt(sock) for sock in socket.socketpair()]
    assert isinstance(near, ByteLink)
    near.trust()
    far.trust()
    ours = ResumableSession(near)
    came: list[Message] = []
    whole = anyio.Event()

    def hear(frames: list[Frame]) -> None:
        came.extend(frame.message for frame in frames)
        if len(came) == 2:
            whole.set()

    async with anyio.create_task_group() as tasks:
        ours.post(Withdraw(0, 0, [1]), [LARGE])
        tasks.start_soon(near.run, lambda _: None)
        await anyio.wait_all_tasks_blocked()
        ours.hear([Frame(Withdraw(0, 0, [2]), [LARGE])])  # so large that it is acknowledged at once
        tasks.start_soon(far.run, hear)
        await whole.wait()
        near.close()
    assert came == [Ack(1), Withdraw(0, 0, [1])]
