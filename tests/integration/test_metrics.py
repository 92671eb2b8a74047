"""Metrics of heads: the figures of a real one, over HTTP and for its clients, and what a scrape costs."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import anyio
import anyio.to_thread
import pytest
from counting import counted
from limits import LIMIT_S
from prometheus_client.parser import text_string_to_metric_families
from waiting import until

from grainlike import Cores, Executor, Memory, delayed, gather, start
from grainlike.client import call
from grainlike.head.durable import HeadDaemon
from grainlike.telemetry import metrics_text


@delayed
async def forever():
    await anyio.sleep_forever()


@delayed
async def fails():
    raise ValueError("unlucky")


@pytest.fixture
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.anyio
async def test_the_figures_of_a_program_are_those_of_its_jobs():
    async with Executor(local=Cores(2) & Memory("1Gi")) as executor, anyio.create_task_group() as tasks:
        client = await executor._service.connect_viewer(tasks)
        before = samples(await metrics_text(client))
        assert before["grainlike_worker_cores_in_use", ("worker", "local")] == 0
        await gather([(fails @ Cores(1))() for _ in range(2)], return_exceptions=True)
        running = [start((forever @ Cores(1))()) for _ in range(5)]
        await until(lambda: len(executor._service.head.view.running()) == 2)
        found = samples(await metrics_text(client))
        assert found["grainlike_jobs", ("state", "running")] == 2
        assert found["grainlike_jobs", ("state", "queued")] + found["grainlike_jobs", ("state", "assigned")] == 3
        assert found["grainlike_jobs_ended_total", ("outcome", "failed")] == 2
        assert found["grainlike_job_run_seconds_total",] > 0
        assert found["grainlike_worker_cores", ("worker", "local")] == 2
        assert found["grainlike_worker_cores_in_use", ("worker", "local")] == 2
        assert found["grainlike_worker_memory_bytes", ("worker", "local")] == 2**30
        assert found["grainlike_worker_jobs", ("worker", "local")] == 2
        assert found["grainlike_workers", ("state", "up")] == 1
        assert found["grainlike_history_jobs",] == 2
        assert found["grainlike_clients",] == 1
        tasks.cancel_scope.cancel()
        del running


@pytest.mark.asyncio
async def test_a_head_answers_over_http_and_its_clients_likewise(private_state):
    async with HeadDaemon("tcp://127.0.0.1:0", metrics="127.0.0.1:0") as head, call() as client:
        with await anyio.to_thread.run_sync(urlopen, f"http://{head.metrics_address}/metrics") as answer:
            over_http = samples(answer.read().decode())
        over_link = samples(await metrics_text(client))
        assert over_http.keys() == over_link.keys()
        assert over_http["grainlike_clients",] == over_link["grainlike_clients",] == 1
        assert over_http["grainlike_workers", ("state", "up")] == 0
        [build] = [dict(labels) for name, *labels in over_http if name == "grainlike_build_info"]
        assert build["cluster"] == client.welcome.cluster


@pytest.mark.asyncio
async def test_a_port_in_use_is_an_error_at_the_start_that_ends_no_job(private_state, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"metrics cannot be served at {at}"):
            async with HeadDaemon("tcp://127.0.0.1:0", metrics=at, journal=tmp_path / "journal"):
                pass
    with pytest.raises(ValueError, match="HOST:PORT"):
        HeadDaemon("tcp://127.0.0.1:0", metrics="nowhere")


@pytest.mark.asyncio
async def test_head_start_says_where_its_metrics_are(private_state):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grainlike", "head", "start", "--listen", "tcp://127.0.0.1:0"),
        *("--metrics", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    async with asyncio.timeout(LIMIT_S):
        greeting = (await process.stdout.readline()).decode()
        [url] = re.findall(r"; metrics at (http://\S+/metrics)\n", greeting)
        with await anyio.to_thread.run_sync(urlopen, url) as answer:
            assert samples(answer.read().decode())["grainlike_clients",] == 0
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.asyncio
async def test_a_scrape_costs_no_more_for_a_long_queue():
    async def cost(jobs):
        async with Executor(local=None, listen="tcp://127.0.0.1:0", insecure=True) as executor:
            service = executor._service._service
            waiting = [start((forever @ Cores(64))()) for _ in range(jobs)]
            await until(lambda: service.head.view.unended == jobs)
            with counted() as count:
                facts = service.metrics()
            assert (facts.jobs, facts.queue_groups) == ({"queued": jobs}, 1)
            del waiting
            return count.python

    assert await cost(3_000) == await cost(10)
