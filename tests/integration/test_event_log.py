"""Events of heads as JSON lines: what is written of workers and jobs, whoever submitted them."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import anyio
import pytest
from chain_calls import allow
from limits import LIMIT_S
from plain_calls import square
from waiting import until

from grainlike import GVAR, Cores, Executor, connect, delayed, gather, start
from grainlike.client import call
from grainlike.errors import JobCancelledError
from grainlike.head import EventLog
from grainlike.head.durable import HeadDaemon
from grainlike.scheduler import HeadScheduler
from grainlike.wire import BlockRow, PoolRow

ROOT = Path(__file__).parents[2]

ROUNDED_S = 0.001

CLOCKS_S = 1.0
"""Clocks of worker and head are compared anew with each report: on a busy machine, an end may look somewhat earlier."""


@delayed
async def bad():
    raise ValueError("unlucky\nin many words")


@delayed(retries=1)
async def second_time():
    if GVAR.job.attempt == 1:
        raise RuntimeError("not yet")


@delayed
async def parent():
    return await (square @ Cores(1))(3)


@delayed
async def forever():
    await anyio.sleep_forever()


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def of(found, event, name=None):
    return [row for row in found if row["event"] == event and name in (None, row.get("name"))]


@pytest.mark.anyio
async def test_all_that_happens_in_a_program_is_written(tmp_path):
    path = tmp_path / "events.jsonl"
    wall, own = time.time(), time.monotonic()
    async with Executor(local=Cores(2), events=path):
        assert await gather([(square @ Cores(1))(i) for i in range(5)]) == [0, 1, 4, 9, 16]
        await (second_time @ Cores(1))()
        with pytest.raises(ValueError, match="unlucky"):
            await (bad @ Cores(1))()
        await (parent @ Cores(1))()
    found = records(path)
    assert {row["v"] for row in found} == {1}
    moments = [datetime.fromisoformat(row["at"]) for row in found]
    assert all(moment.utcoffset() is not None for moment in moments)
    # Moments are rounded. How far the wall's clock is ahead is found by reading it first: they may be early.
    assert wall <= max(moment.timestamp() for moment in moments) <= time.time() + ROUNDED_S
    assert own <= min(row["monotonic_s"] for row in found) + ROUNDED_S
    assert max(row["monotonic_s"] for row in found) <= time.monotonic() + ROUNDED_S
    assert (found[0]["event"], found[-1]["event"]) == ("events_opened", "events_closed")
    assert of(found, "worker_joined") == [found[1]]
    assert found[1]["resources"] == "cores=[0,1]"

    [batch] = [row for row in of(found, "job_submitted", "square") if row["count"] == 5]
    assert (batch["job"], batch["last_job"], batch["request"], batch["parent"]) == (1, 5, "cores=1", 0)
    for job in range(1, 6):
        [began] = [row for row in of(found, "job_started") if row["job"] == job]
        [ended] = [row for row in of(found, "job_ended") if row["job"] == job]
        assert found.index(batch) < found.index(began) < found.index(ended)
        assert began["slots"] == ended["slots"] != ""
        assert (ended["outcome"], ended["error"], ended["worker"], ended["attempt"]) == ("succeeded", "", "local", 1)
        assert ended["queued_s"] >= 0
        assert ended["ran_s"] > 0
        assert ended["peak_memory_bytes"] > 0
        assert ended["monotonic_s"] >= began["monotonic_s"] - CLOCKS_S

    [again] = of(found, "job_requeued")
    assert (again["name"], again["outcome"], again["attempt"]) == ("second_time", "failed", 1)
    assert [row["attempt"] for row in of(found, "job_started", "second_time")] == [1, 2]
    assert [row["attempt"] for row in of(found, "job_ended", "second_time")] == [2]
    [ended] = of(found, "job_ended", "bad")
    assert (ended["outcome"], ended["error"]) == ("failed", "ValueError: unlucky")
    [carrier] = of(found, "job_ended", "parent")
    nested = [row for row in found if row.get("parent") == carrier["job"]]
    assert [row["event"] for row in nested] == ["job_submitted", "job_started", "job_ended"]


@pytest.mark.anyio
async def test_links_of_a_chain_have_a_start_and_an_end_each(tmp_path, monkeypatch):
    monkeypatch.setattr(HeadScheduler, "pace", lambda scheduler, fn: 1e-5)
    path = tmp_path / "events.jsonl"
    async with Executor(local=Cores(1), events=path):
        await (delayed(allow) @ Cores(1))(3600.0)  # on a busy machine a chain gives back what it has not begun
        chained = square @ Cores(1)
        assert await chained(chained(chained(2))) == 256
    found = records(path)
    assert [row["count"] for row in of(found, "job_submitted", "square")] == [1], "it was no chain"
    began, ended = ([row["job"] for row in of(found, event, "square")] for event in ("job_started", "job_ended"))
    assert sorted(began) == sorted(ended)
    assert len(set(began)) == 3
    for job in began:
        [start_of], [end_of] = (
            [row for row in of(found, event) if row["job"] == job] for event in ("job_started", "job_ended")
        )
        assert start_of["slots"] == end_of["slots"] == "cores=[0]"
        assert start_of["monotonic_s"] <= end_of["monotonic_s"] + CLOCKS_S


@pytest.mark.anyio
async def test_a_cancelled_job_ends_as_such(tmp_path):
    path = tmp_path / "events.jsonl"
    async with Executor(local=Cores(1), events=path) as executor:
        running = start((forever @ Cores(1))())
        await until(lambda: executor._service.head.view.running())
    [ended] = of(records(path), "job_ended")
    assert (ended["name"], ended["outcome"]) == ("forever", "cancelled")
    with pytest.raises(JobCancelledError):
        await running


@pytest.mark.asyncio
async def test_a_head_writes_what_its_clients_do(tmp_path, private_state):
    path = tmp_path / "events.jsonl"
    async with HeadDaemon("tcp://127.0.0.1:0", events=path), connect() as executor:
        start((square @ Cores(1))(2))
        await until(lambda: "job_submitted" in path.read_text())
        program = executor._service.client._handshake.hello.name
    found = records(path)
    [submitted], [ended] = of(found, "job_submitted"), of(found, "job_ended")
    assert submitted["client"] == ended["client"] > 0
    assert submitted["program"] == ended["program"] == program
    assert (ended["outcome"], ended["ran_s"], ended["worker"]) == ("cancelled", None, "")


@pytest.mark.asyncio
async def test_head_start_writes_events_to_its_standard_output_alone(tmp_path, private_state):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grainlike", "head", "start", "--listen", "tcp://127.0.0.1:0", "--events", "-"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    async with asyncio.timeout(LIMIT_S):
        first = json.loads(await process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) async for line in process.stdout]
        await process.wait()
    assert process.returncode == 0
    assert (first["event"], first["pid"]) == ("events_opened", process.pid)
    assert [row["event"] for row in rest] == ["events_closed"]


@pytest.mark.asyncio
async def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path, private_state):
    with pytest.raises(FileNotFoundError):
        async with Executor(local=Cores(1), events=tmp_path / "none" / "events"):
            pass
    async with HeadDaemon("tcp://127.0.0.1:0") as head:
        with pytest.raises(FileNotFoundError):
            async with HeadDaemon("tcp://127.0.0.1:0", events=tmp_path / "none" / "events"):
                pass
        async with call() as client:  # the current head is still the other one
            assert str(client.link.peer) in head.address


@pytest.mark.asyncio
async def test_a_head_that_cannot_listen_leaves_its_file_closed(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="in use"):  # that nothing is left open is looked at after each test
            async with HeadDaemon(listen, insecure=True, events=tmp_path / "events"):
                pass


@pytest.fixture
def log():
    return EventLog(None, None, lambda: 5.0, wall=lambda: 1005.0, most=3)


def test_pools_and_blocks_are_told_of_when_they_have_changed(log):
    pool = PoolRow("cpu", "slurm", "cores=4", 0, 4, 2, 1, 0, "", 0.0)
    block = BlockRow("cpu-1", "cpu", "slurm", "17", "pending", "Priority", "", 0, 1.0, None, None, "")
    log.fleet([pool], [block])
    told = log.take(10)
    assert [row["event"] for row in told] == ["pool_changed", "block_changed"]
    assert (told[0]["pending"], told[1]["native"], told[1]["state"]) == (1, "17", "pending")
    log.fleet([pool], [block])
    assert log.take(10) == []
    log.fleet([], [])
    assert [row["event"] for row in log.take(10)] == ["pool_removed"]


def test_what_nobody_takes_is_dropped_with_a_count(log):
    class Worker:
        name, offer = "n1", "cores=[0]"

    for _ in range(5):
        log.joined(Worker)
    told = log.take(10)
    assert [row["event"] for row in told] == ["events_dropped", *["worker_joined"] * 3]
    assert told[0]["count"] == 2
    assert told[1]["at"] == "1970-01-01T00:16:45.000000+00:00"
    assert len(log) == 0
