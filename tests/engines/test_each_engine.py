"""What is only one engine's: sessions that were there before, own clusters, and the queue of a task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from engine_stands import ENGINES, ROOT, redis
from limits import LIMIT_S
from waiting import until

from grainlike import CeleryBackend, Cores, DaskBackend, Executor, GPUs, Memory, RayBackend, Resource, Token

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("default")]


@pytest.fixture
def anyio_backend():
    return "asyncio"


def only(name: str) -> Any:
    return pytest.mark.skipif(name not in ENGINES, reason=f"{name} is not among GRAINLIKE_TEST_ENGINES")


def add(*values: int) -> int:
    return sum(values) + 1


@only("dask")
async def test_dask_a_local_cluster_of_our_own_is_started_and_closed():
    backend = DaskBackend(workers=1, each=Cores(2) & Resource("foo", 3))
    async with Executor(backend=backend) as executor:
        client = backend._client
        assert await executor.submit(Cores(2) & Resource("foo", 3), add, 1) == 2
    assert client.status == "closed"
    async with Executor(backend=backend) as executor:
        assert await executor.submit(Cores(1), add, 1) == 2


@only("dask")
async def test_dask_nobody_at_the_address_is_told_when_it_opens(monkeypatch):
    monkeypatch.setattr("grainlike.backends._dask.CONNECT_S", 0.5)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        async with Executor(backend=DaskBackend("tcp://127.0.0.1:1")):
            pass


@only("ray")
@pytest.mark.parametrize("engine", ["ray"], indirect=True)
async def test_x2_ray_a_session_that_was_there_is_used_and_stays(engine):
    import ray

    assert ray.is_initialized()
    session = ray.get_runtime_context().get_node_id()
    async with Executor(backend=RayBackend(num_cpus=999)) as executor:  # what it would have been started with
        assert await executor.submit(Cores(1), lambda: ray.get_runtime_context().get_node_id()) == session
    assert ray.is_initialized()


@only("ray")
@pytest.mark.parametrize("engine", ["ray"], indirect=True)
async def test_ray_requests_are_rays_own(engine):
    import ray

    def assigned() -> dict[str, Any]:
        return ray.get_runtime_context().get_assigned_resources()

    async with Executor(backend=RayBackend()) as executor:
        request = Cores(2) & GPUs(0.5) & Memory(1000) & Resource("foo", 1)
        assert await executor.submit(request, assigned) == {"CPU": 2.0, "GPU": 0.5, "memory": 1000.0, "foo": 1.0}


SESSION = """
import threading
import ray
from grainlike import RayBackend

def add(first, second):
    return first + second

backends = [RayBackend(num_cpus=1), RayBackend(num_cpus=1)]
opening = [threading.Thread(target=backend.open) for backend in backends]
for thread in opening:
    thread.start()
for thread in opening:
    thread.join()
for backend in backends:
    with backend:
        print(backend.result(backend.submit(add, 1, 2), timeout=60))
print(ray.is_initialized())
"""


@only("ray")
def test_ray_a_session_outlives_the_threads_that_open_it_and_ends_with_its_last_backend(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "worker")]), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3\n3\nFalse\n"), done.stderr
    assert "SIGTERM" not in done.stderr  # Ray warns of the thread, which is no concern of the program's


@only("celery")
async def test_x2_celery_sends_to_the_queue_that_is_given():
    from redis import Redis

    with redis() as url:
        server = Redis.from_url(url)
        async with Executor(backend=CeleryBackend(url, queue="nights", queues=["gpu"])) as executor:
            executor.submit(Cores(1), add)
            executor.submit(Cores(1) & Token("gpu"), add)
            await until(lambda: server.llen("nights") and server.llen("gpu"))  # a server tells nobody of its lists
            task = json.loads(server.lindex("nights", 0))
            assert task["headers"]["task"] == "grainlike.run_call"
            assert server.llen("celery") == 0
        server.close()


@only("celery")
async def test_celery_no_broker_is_told_when_it_opens():
    with pytest.raises(OSError, match="refused"):
        async with Executor(backend=CeleryBackend("redis://127.0.0.1:1/0")):
            pass


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_the_tutorials_pipeline_runs_there_by_changing_one_line(name, tmp_path):
    if name not in ENGINES:
        pytest.skip(f"{name} is not among GRAINLIKE_TEST_ENGINES")
    program = [sys.executable, str(ROOT / "tutorials" / "13_other_engines.py"), name]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "worker")])
    environment = {**os.environ, "PYTHONPATH": paths, "HOME": str(tmp_path)}
    done = subprocess.run(
        program, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.stdout == f"{name}: 7 succeeded in 6 jobs, the best model is right for 99 %\n", done.stderr
