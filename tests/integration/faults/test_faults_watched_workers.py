"""A connected program looks at the workers of its head: what they do now, and which of them are silent."""

import asyncio
import os
import signal

import pytest
from fault_calls import wait_at
from limits import LIMIT_S
from waiting import until, until_called

from grainlike import Cores, Executor, connect, delayed, start
from grainlike.client import _remote_head
from grainlike.head.server import ClientRegistry, _accept
from grainlike.wire import AskWorkers

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


@pytest.fixture
def questions(monkeypatch):
    """Questions for the workers that clients have asked."""
    found, hear = [], ClientRegistry.hear

    def heard(self, connection, frames):
        found.extend(frame.message for frame in frames if isinstance(frame.message, AskWorkers))
        hear(self, connection, frames)

    monkeypatch.setattr(ClientRegistry, "hear", heard)
    return found


async def test_it_sees_which_have_jobs_now_and_asks_nothing_while_it_does_not_look(gates, monkeypatch, questions):
    monkeypatch.setattr(_remote_head, "RENEW_S", 0.05)
    monkeypatch.setattr(_remote_head, "LOOKED_S", 0.5)
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN, local=Cores(2)) as head:  # noqa: SIM117
        async with connect(head.address) as executor:
            runs_ = start((delayed(wait_at) @ Cores(1))(gate.visit, "job"))
            visitor = await gate.arrival()
            assert len(questions) == 1
            await until(lambda: executor.workers()[0].running == 1)
            visitor.release()
            await runs_
            await until(lambda: executor.workers()[0].running == 0)
            await until(lambda: not executor._remote._renews)
            asked = len(questions)
            assert asked > 1
            await asyncio.to_thread(executor.workers)  # another thread's look: the next heartbeat begins to ask
            assert len(questions) == asked
            executor._remote.client.beat()
            await until_called(ClientRegistry, "hear", lambda: len(questions) > asked)


async def test_it_sees_the_first_time_that_one_is_silent_or_heard_of_again(start_worker, monkeypatch):
    monkeypatch.setattr(_remote_head, "LOOKED_S", 0.0)  # it never asks
    monkeypatch.setattr(_accept, "SUSPECT_S", 0.3)
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.1)
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as head:
        worker = start_worker(head.address, name="n1")
        async with connect(head.address) as executor:
            await executor.wait_for_workers(1)
            os.kill(worker.pid, signal.SIGSTOP)
            await until(lambda: executor.workers()[0].shut)
            assert executor.workers()[0].shut == head.workers()[0].shut == "it is silent"
            os.kill(worker.pid, signal.SIGCONT)
            await until(lambda: not executor.workers()[0].shut)
