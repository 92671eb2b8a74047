"""Functions that nobody can call any more are dropped wherever they are: head, journal, worker and runners."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from journaled_heads import Nobody, made_again
from limits import LIMIT_S

from grainlike import Cores, Executor, connect, delayed, gather
from grainlike.head import _functions
from grainlike.head._functions import FunctionTable
from grainlike.head.durable import HeadDaemon
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._snapshot import began_here, draw_head, read_head, read_title
from grainlike_worker.daemon._daemon import _Daemon
from grainlike_worker.runner.common._functions import LoadedFunctions

pytestmark = pytest.mark.asyncio

ROOT = Path(__file__).parents[2]
FEW = 8
"""How many functions stay here though nobody owns them."""


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setattr(_functions, "UNOWNED_MOST", FEW)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    _others[:] = [found for found in gc.get_objects() if type(found) in (_Daemon, FunctionTable, LoadedFunctions)]
    yield
    _others.clear()


_others: list[object] = []
"""Heads and workers of earlier tests in this process: a pool that joblib keeps, and what the collector has not seen."""


def _own(kind):
    """Those of a class that belong to the test."""
    others = set(map(id, _others))
    return [found for found in gc.get_objects() if type(found) is kind and id(found) not in others]


def closure(number, size=1000):
    blob = number.to_bytes(4, "big") * (size // 4)

    def f(x):
        return blob[:4], x

    return delayed(f)


def of_runner():
    """How many functions the process that runs this holds."""
    return sum(found.count for found in _own(LoadedFunctions))


async def of_coroutines():
    return of_runner()


def of_daemon():
    """How many functions the worker in this process holds, and its scheduler."""
    [daemon] = _own(_Daemon)
    return len(daemon._functions), len(daemon._scheduler._functions)


def of_head():
    """The functions of the one head that has been told of any: a client has a head without workers."""
    gc.collect()
    return max(_own(FunctionTable), key=lambda found: found._last)


async def test_a_program_that_makes_closures_for_ever_does_not_grow():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        count = delayed(of_runner) @ Cores(1)
        for number in range(120):
            f = closure(number)
            assert await (f @ Cores(1))(number) == (number.to_bytes(4, "big"), number)
        del f
        gc.collect()
        for _ in range(4):
            held = await count()
        assert of_head().count <= FEW + 4
        assert held <= FEW + 4
        assert max(of_daemon()) <= FEW + 4


async def test_coroutines_in_the_loop_are_let_go_too():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        for number in range(60):

            async def f(number=number):
                return number

            assert await (delayed(f) @ Cores(1))() == number
        del f
        gc.collect()
        for _ in range(4):
            held = await (delayed(of_coroutines) @ Cores(1))()
        assert held <= FEW + 4


TELLS = """
import gc, os, signal
def tell(*_):
    from grainlike_worker.daemon._daemon import _Daemon
    [daemon] = [found for found in gc.get_objects() if type(found) is _Daemon]
    with open(os.environ["TELL"], "w") as fifo:
        fifo.write(str(len(daemon._functions)))
signal.signal(signal.SIGUSR1, tell)
"""


@contextlib.contextmanager
def a_worker(address, fifo):
    """A worker in a process of its own; gives a way to ask how many functions it holds."""
    os.mkfifo(fifo)
    run = f"{TELLS}\nimport sys; from grainlike_worker.__main__ import main; sys.exit(main())"
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "TELL": str(fifo)}
    process = subprocess.Popen([sys.executable, "-c", run, "--head", address, "--resources", "cores=1"], env=env)

    async def ask():
        process.send_signal(signal.SIGUSR1)
        return int(await asyncio.to_thread(fifo.read_text))

    try:
        yield ask
    finally:
        process.kill()
        process.wait()


def nobody_here():
    head = DurableHead(Nobody(), began_here(1), PersistentClock(), lambda at: None)
    return head, DurableClients(head, "c1", bool, bool, bool)


def drawn(head, clients):
    """A head as an image has it."""
    title, *rest = draw_head(head, clients, began_here(1), head.now())
    read_title(title)
    later, others = nobody_here()
    read_head(iter(rest), later, others)
    return later


def table(functions):
    return functions._specs, list(functions._unowned), functions._by_client, functions._by_job, functions._last


async def test_what_a_client_sent_goes_with_it_at_head_journal_worker_and_runners(tmp_path):
    journal = tmp_path / "journal"
    async with asyncio.timeout(LIMIT_S), HeadDaemon("tcp://127.0.0.1:0", journal=journal) as daemon:
        daemon.leaves = True
        with a_worker(daemon.address, tmp_path / "fifo") as held_by_worker:
            stays_for = closure(100_000)
            async with connect() as stays:
                await stays.wait_for_workers(1)
                assert (await (stays_for @ Cores(1))(1))[1] == 1
                for client in range(3):
                    async with connect():
                        fs = [closure(client * 100 + number) for number in range(40)]
                        running_ = [(f @ Cores(1))(1) for f in fs]
                        assert len(await gather(running_)) == 40
                        assert of_head().count >= 40
                        assert await held_by_worker() >= 40
                assert (await (stays_for @ Cores(1))(2))[1] == 2  # shared with nobody, and not sent again
                counts = [await (delayed(of_runner) @ Cores(1))() for _ in range(4)]
                assert counts[-1] <= FEW + 4
                assert await held_by_worker() <= FEW + 4
                assert of_head().count <= FEW + 4
                assert len(of_head()._by_client) == 1
                replayed, clients = made_again(journal, tmp_path, 1)
                assert table(replayed.state.functions) == table(of_head())
                later = drawn(replayed, clients)
                assert table(later.state.functions) == table(replayed.state.functions)
                held = sum(len(blob.data) for blob in later.state.functions._blobs.values())
                assert held < 40 * 1000  # each of the clients had sent as much


async def test_a_client_that_stays_lets_go_of_closures_that_it_has_dropped():
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0", local=Cores(1)), connect():
        for number in range(60):
            f = closure(number)
            assert (await (f @ Cores(1))(number))[1] == number
        del f
        gc.collect()
        for _ in range(4):
            await (delayed(of_runner) @ Cores(1))()
        assert of_head().count <= FEW + 4
        again = closure(3)
        assert (await (again @ Cores(1))(5))[1] == 5


async def test_jobs_send_what_they_call_anew_and_it_goes_with_them():
    async def parent(first):
        from grainlike import Cores, delayed, gather

        def one(number):
            async def child(x):
                return x + number

            return delayed(child) @ Cores(1)

        children = [one(number) for number in range(first, first + 10)]
        return sum(await gather([child(1) for child in children] + [child(1) for child in children]))

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        for first in range(0, 60, 10):
            assert await (delayed(parent) @ Cores(1))(first) == 2 * sum(range(first + 1, first + 11))
        for _ in range(4):
            await (delayed(of_coroutines) @ Cores(1))()
        assert of_head().count <= FEW + 4
        assert not of_head()._by_job
