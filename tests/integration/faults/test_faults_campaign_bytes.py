"""Bytes of large arguments of a session's calls: two workers have them before the head has the call."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from argument_calls import entered, sum_of, total
from far import far_workers, head_of, lose, records, replicas
from heads import ELSEWHERE, head_with_journal
from waiting import until

from grainlike import Cores, ValueLostError, cancel, connect, delayed_value, gather, info
from grainlike.client import _connection, _held_calls
from grainlike.client._held_calls import HeldCalls
from grainlike.client._remote_values import RemoteValues
from grainlike.graph import node_behind
from grainlike.head.values import _credit

pytestmark = pytest.mark.asyncio

SIZE = 4_000_000
LARGE = 20_000_000
PROGRAM = Path(__file__).parents[2] / "helpers" / "campaign_program.py"


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Calls are held however long a busy machine takes."""
    monkeypatch.setattr(_held_calls, "HELD_S", 1000.0)


def numbers(size: int = SIZE, kind: float = 1.0) -> np.ndarray:
    return np.full(size // 8, kind)


def own(executor) -> list[int]:
    """The values of programs' own that the head knows."""
    return [value.id for value in records(executor).values() if value.fn is None]


async def at_rest(executor) -> None:
    gc.collect()
    await until(lambda: not (records(executor) or replicas(executor)))
    assert not head_of(executor).state.jobs
    assert not head_of(executor).state.origins


@contextlib.asynccontextmanager
async def session(start_worker, *names, more=()):
    """A head in this process with far workers of one core, and a program of a session."""
    async with (
        far_workers(start_worker, *names, resources="cores=1", more=more) as (head, workers),
        connect(head.address, session="s") as client,
    ):
        await client.wait_for_workers(len(names))
        yield client, head, workers


@contextlib.asynccontextmanager
async def program(address, size, go_on, *names):
    """A program that has named calls, which the head has; and how many bytes it sent."""
    environment = {**os.environ, "PYTHONPATH": f"{PROGRAM.parent}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, str(PROGRAM), address, str(size), str(go_on), *names]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)  # noqa: ASYNC220 - quick
    try:
        said = await asyncio.to_thread(process.stdout.readline)
        assert said.startswith("accepted"), said
        yield process, int(said.split()[1])
    finally:
        process.kill()
        process.communicate()


@contextlib.asynccontextmanager
async def campaign(start_worker, directory, *workers):
    """A head with a journal in a process of its own, and far workers of one core; the last is the pipe of `entered`."""
    go_on = directory / "go on"
    os.mkfifo(go_on)
    async with head_with_journal(directory) as heads:
        started = {
            name: start_worker(heads.address, name=name, resources="cores=1", first=ELSEWHERE.format(name=name))
            for name in workers
        }
        async with connect(heads.address) as client:
            await client.wait_for_workers(len(workers))
        yield heads, started, go_on


@contextlib.contextmanager
def written(go_on: Path):
    """Let jobs that wait at the pipe go on, also those that come meanwhile. One of a lost worker may take a byte."""
    with go_on.open("r+b", buffering=0) as pipe:
        pipe.write(b"x" * 4)
        yield


# --- the journal -----------------------------------------------------------------------------------------------------


async def test_a_large_argument_of_named_calls_is_in_no_journal_and_is_sent_once(start_worker, tmp_path):
    async with (
        campaign(start_worker, tmp_path, "n1", "n2") as (heads, _, _),
        connect(heads.address, session="s") as client,
    ):
        size = heads.size
        model_ = delayed_value(numbers(LARGE))
        assert (await client.name("one", (total @ Cores(1))(model_)))[1] == LARGE / 8
        assert (await client.name("two", (total @ Cores(1))(model_)))[1] == LARGE / 8
        assert heads.size - size < 50_000
        assert LARGE < client.report().sent < 1.02 * LARGE
        assert info(model_).where == ("n1", "n2")
        assert await client.name("three", (sum_of @ Cores(1))(numbers(LARGE))) == LARGE / 8
        assert await client.name("four", (sum_of @ Cores(1))(b"b" * LARGE)) == LARGE * ord("b")
        assert await (sum_of @ Cores(1))(numbers(LARGE)) == LARGE / 8  # without a name
        assert heads.size - size < 100_000


async def test_leaving_waits_until_the_head_has_the_calls(start_worker, tmp_path):
    async with campaign(start_worker, tmp_path, "n1", "n2") as (heads, _, _):
        size = heads.size
        async with connect(heads.address, session="s") as client:
            await client.wait_for_workers(2)
            call_ = client.name("one", (sum_of @ Cores(1))(numbers(LARGE)))
            client.name("two", (sum_of @ Cores(1))([call_, 2.0]))
        assert heads.size - size < 50_000
        async with connect(heads.address, session="s") as client:
            assert await gather(list(client.placeholders().values())) == [LARGE / 8, LARGE / 8 + 2]


# --- programs, heads and workers that are killed ---------------------------------------------------------------------


async def test_a_call_goes_on_when_its_program_is_killed_once_it_is_accepted(start_worker, tmp_path):
    async with campaign(start_worker, tmp_path, "n1", "n2") as (heads, _, go_on):
        async with program(heads.address, LARGE, go_on, "one", "two") as (process, sent):
            assert LARGE < sent < 1.02 * LARGE
            process.kill()
            process.wait()
        await heads.kill_and_begin()
        assert heads.size < 1_000_000
        async with connect(heads.address, session="s") as client:
            with written(go_on):
                assert await gather(list(client.placeholders().values())) == [LARGE / 8] * 2


async def test_a_call_goes_on_when_a_worker_with_its_argument_is_killed(start_worker, tmp_path):
    async with campaign(start_worker, tmp_path, "n1", "n2") as (heads, workers, go_on):
        async with program(heads.address, LARGE, go_on, "one") as (process, _):
            process.kill()
            process.wait()
        async with connect(heads.address, session="s") as client:
            call_ = client.placeholders()["one"]
            await until(lambda: info(call_).worker)
            workers[info(call_).worker].process.kill()
            with written(go_on):
                assert await call_ == LARGE / 8


async def test_a_call_says_what_was_lost_when_the_only_worker_with_its_argument_is_killed(start_worker, tmp_path):
    async with campaign(start_worker, tmp_path, "n1") as (heads, workers, go_on):
        async with program(heads.address, LARGE, go_on, "one") as (process, _):
            process.kill()
            process.wait()
        async with connect(heads.address, session="s") as client:
            call_ = client.placeholders()["one"]
            await until(lambda: info(call_).worker)
            workers["n1"].process.kill()
            with pytest.raises(ValueLostError, match=r"worker n1 was lost with it.*the program had given it"):
                await call_


async def test_a_call_is_accepted_after_the_head_was_killed_as_its_argument_was_on_the_way(
    start_worker, tmp_path, monkeypatch
):
    async with (
        campaign(start_worker, tmp_path, "n1", "n2") as (heads, _, _),
        connect(heads.address, session="s") as client,
    ):
        asked = []
        monkeypatch.setattr(RemoteValues, "_send", lambda *asked_for: asked.append(asked_for))  # nothing moves
        call_ = client.name("one", (sum_of @ Cores(1))(numbers(LARGE)))
        await until(lambda: asked)
        monkeypatch.undo()
        await heads.kill_and_begin()
        assert await call_ == LARGE / 8
        assert heads.size < 1_000_000


async def test_a_head_that_is_away_for_long_gets_no_arguments_into_its_journal(start_worker, tmp_path, monkeypatch):
    async with (
        campaign(start_worker, tmp_path, "n1", "n2") as (heads, _, _),
        connect(heads.address, session="s") as client,
    ):
        asked, looks = [], []
        monkeypatch.setattr(RemoteValues, "_send", lambda *asked_for: asked.append(asked_for))  # nothing moves
        call_ = client.name("one", (sum_of @ Cores(1))(numbers(LARGE)))
        await until(lambda: asked)
        monkeypatch.undo()
        heads.kill()
        await until(lambda: not client._service._values.linked)
        monkeypatch.setattr(_held_calls, "LOOK_S", 0.01)
        monkeypatch.setattr(_held_calls, "HELD_S", 0.02)
        monkeypatch.setattr(HeldCalls, "_ask_again", lambda _: looks.append(None))
        await until(lambda: len(looks) > 4 or not client._service.runner.is_held(node_behind(call_)))
        monkeypatch.undo()
        monkeypatch.setattr(_held_calls, "HELD_S", 1000.0)
        await heads.begin()
        assert await call_ == LARGE / 8
        assert heads.size < 1_000_000


async def test_leaving_does_not_wait_for_a_head_that_is_away(start_worker, tmp_path, monkeypatch):
    async with campaign(start_worker, tmp_path, "n1", "n2") as (heads, _, _):
        asked = []
        async with connect(heads.address, session="s") as client:
            monkeypatch.setattr(RemoteValues, "_send", lambda *asked_for: asked.append(asked_for))
            client.name("one", (sum_of @ Cores(1))(numbers(LARGE)))
            await until(lambda: asked)
            heads.kill()
            await until(lambda: not client._service._values.linked)
            monkeypatch.setattr(_held_calls, "HELD_S", 0.5)
            monkeypatch.setattr(_connection, "LEAVE_S", 0.1)


async def test_the_program_gives_an_argument_again_while_it_is_here(start_worker, tmp_path):
    go_on = tmp_path / "go on"
    os.mkfifo(go_on)
    async with session(start_worker, "n1") as (client, head, workers):
        call_ = client.name("one", (entered @ Cores(1))(numbers(), str(go_on)))
        await until(lambda: info(call_).worker)
        await lose(head, workers, "n1")
        start_worker(head.address, name="n2", resources="cores=1", first=ELSEWHERE.format(name="n2"))
        with written(go_on):
            assert await call_ == SIZE / 8


# --- before a call is accepted ---------------------------------------------------------------------------------------


async def test_a_call_is_not_there_before_workers_have_its_argument(start_worker, monkeypatch):
    monkeypatch.setattr(_credit, "_WINDOW_BYTES", 0)  # nothing moves
    async with session(start_worker, "n1", "n2") as (client, head, _):
        call_ = client.name("one", (sum_of @ Cores(1))(numbers()))
        after_ = client.name("two", (sum_of @ Cores(1))([call_, 2.0]))
        await until(lambda: head_of(head).state.transfers)
        assert await client.named("s") == {}
        assert "large arguments" in str(await client.explain(call_))
        assert await client.name("small", (sum_of @ Cores(1))([1.0])) == 1.0  # others do not wait for it
        cancel(call_)
        del call_, after_
        await at_rest(head)
        assert list(await client.named("s")) == ["small"]


async def test_a_name_that_is_forgotten_before_its_call_is_accepted_is_free(start_worker, monkeypatch):
    asked, send = [], RemoteValues._send
    monkeypatch.setattr(RemoteValues, "_send", lambda *asked_for: asked.append(asked_for))  # nothing moves
    async with session(start_worker, "n1", "n2") as (client, _, _):
        call_ = client.name("one", (sum_of @ Cores(1))(numbers()))
        await until(lambda: asked)
        await client.forget("one")
        assert await client.name("one", (sum_of @ Cores(1))([1.0])) == 1.0
        monkeypatch.undo()
        for each in asked:
            send(*each)
        assert await call_ == SIZE / 8


async def test_a_call_that_finds_no_room_for_its_argument_takes_it_along(start_worker, monkeypatch):
    monkeypatch.setattr(_credit, "_WINDOW_BYTES", 0)
    monkeypatch.setattr(_held_calls, "HELD_S", 0.1)
    async with session(start_worker, "n1", "n2") as (client, head, _):
        model_ = delayed_value(numbers())
        assert await client.name("one", (sum_of @ Cores(1))(model_)) == SIZE / 8
        assert await (sum_of @ Cores(1))(numbers()) == SIZE / 8
        assert len(own(head)) == 1


async def test_a_call_that_cannot_take_its_argument_along_fails_with_what_needs_it(start_worker, monkeypatch):
    monkeypatch.setattr(_credit, "_WINDOW_BYTES", 0)
    monkeypatch.setattr(_held_calls, "HELD_S", 0.1)
    async with session(start_worker, "n1") as (client, _, _):
        monkeypatch.setattr(client._service._values, "payloads", _no_memory)
        with pytest.raises(MemoryError, match="none is left"):
            await client.name("one", (sum_of @ Cores(1))([(sum_of @ Cores(1))(numbers()), 1.0]))
        assert await client.named("s") == {}
        assert not client._service.runner._unheard


def _no_memory(_):
    raise MemoryError("none is left")


async def test_a_call_without_a_worker_takes_its_argument_along(start_worker):
    async with session(start_worker) as (client, head, _):
        call_ = client.name("one", (total @ Cores(1))(numbers()))
        await until(lambda: head_of(head).state.jobs)
        assert own(head) == []
        start_worker(head.address, name="n1", first=ELSEWHERE.format(name="n1"))
        assert await call_ == ("n1", SIZE / 8)


async def test_a_call_whose_workers_are_lost_meanwhile_takes_its_argument_along(start_worker, monkeypatch):
    monkeypatch.setattr(_credit, "_WINDOW_BYTES", 0)
    async with session(start_worker, "n1") as (client, head, workers):
        call_ = client.name("one", (total @ Cores(1))(numbers()))
        await until(lambda: head_of(head).state.transfers)
        await lose(head, workers, "n1")
        await until(lambda: head_of(head).state.jobs)
        start_worker(head.address, name="n2", first=ELSEWHERE.format(name="n2"))
        assert await call_ == ("n2", SIZE / 8)


async def test_an_argument_larger_than_a_store_travels_with_its_call(start_worker):
    more = ("--store", str(SIZE // 2), "--scratch-limit", "0")
    async with session(start_worker, "n1", more=more) as (client, head, _):
        assert await client.name("one", (total @ Cores(1))(numbers())) == ("n1", SIZE / 8)
        assert own(head) == []


async def test_arguments_reach_workers_without_data_servers(start_worker):
    async with session(start_worker, "n1", "n2", more=("--data", "off")) as (client, head, _):
        array = numbers()
        call_ = client.name("one", (total @ Cores(1))(array))
        assert (await call_)[1] == SIZE / 8
        assert head_of(head).values.relayed > SIZE
        del call_
        await at_rest(head)


async def test_two_sessions_have_arguments_of_their_own(start_worker):
    async with far_workers(start_worker, "n1", "n2", resources="cores=1") as (head, _):

        async def one(kind):
            async with connect(head.address, session=f"s{kind}") as client:
                calls = [client.name(f"{at}", (total @ Cores(1))(numbers(kind=kind))) for at in range(3)]
                return [found for _, found in await gather(calls)]

        assert await asyncio.gather(one(1.0), one(2.0)) == [[SIZE / 8] * 3, [SIZE / 4] * 3]
        await at_rest(head)


async def test_a_graph_goes_when_workers_have_what_its_first_calls_need(start_worker):
    async with session(start_worker, "n1", "n2") as (client, head, _):
        model_, array = delayed_value(numbers()), numbers(kind=2.0)
        sums = [(sum_of @ Cores(1))(given) for given in (model_, array + 0, array)]
        end_ = client.name("end", (sum_of @ Cores(1))([sums[0] + 1, sums[1], sums[2], (sum_of @ Cores(1))([1.0])]))
        assert await end_ == SIZE / 8 + 1 + 2 * SIZE / 4 + 1
        assert client.report().sent < 3.1 * SIZE
        del model_, sums, end_
        await at_rest(head)
