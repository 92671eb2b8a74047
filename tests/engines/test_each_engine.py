"""What is only one engine's: sessions that were there before, own clusters, and the queue of a task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from engine_stands import ENGINES, ROOT, celery_worker, redis
from limits import LIMIT_S
from waiting import until, until_blocking, until_called, until_files

from grainlike import (
    CeleryBackend,
    Cores,
    DaskBackend,
    Executor,
    GPUs,
    Memory,
    RayBackend,
    Resource,
    Token,
    WorkerLostError,
    delayed,
    info,
    start,
)
from grainlike.backends import _celery_workers

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
async def test_ray_nobody_at_the_address_is_told_when_it_opens():
    with pytest.raises(ConnectionError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"):
        async with Executor(backend=RayBackend("127.0.0.1:1")):
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
            await until(lambda: {"get", "unsubscribe"} <= commands(server))  # its state, and its end
        await until(lambda: not {"get", "unsubscribe"} & commands(server))  # a collector of garbage warns of sockets
        server.close()


def commands(server: Any) -> set[str]:
    """Return the last command of each connection to a Redis server."""
    return {connection["cmd"] for connection in server.client_list()}


@only("celery")
async def test_celery_no_broker_is_told_when_it_opens():
    with pytest.raises(OSError, match="refused"):
        async with Executor(backend=CeleryBackend("redis://127.0.0.1:1/0")):
            pass


def stay(folder: str) -> int:
    """Make a file that names this process, and go on when there is a byte in the FIFO `go`."""
    Path(folder, f"began-{os.getpid()}").touch()
    with Path(folder, "go").open("rb", buffering=0) as fifo:
        fifo.read(1)
    return 7


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Have one `stay` go on, now or when it comes."""
    os.mkfifo(tmp_path / "go")
    fifo = os.open(tmp_path / "go", os.O_RDWR)  # with both ends open, nobody waits for the other
    yield lambda: os.write(fifo, b"x") and None
    os.close(fifo)


async def gives_seven(r_: Any) -> None:
    assert await r_ == 7


async def begun(folder: Path, count: int = 1) -> None:
    await until_files(folder, lambda: len(list(folder.glob("began-*"))) >= count)


@only("celery")
async def test_celery_a_job_whose_whole_worker_is_killed_fails_with_a_reason(tmp_path, go, monkeypatch):
    monkeypatch.setattr(_celery_workers, "LOOK_S", 0.2)
    with redis() as url, celery_worker(url, "--concurrency", "1", "-n", "first@here", heartbeat_s=0.2) as worker:
        async with Executor(backend=CeleryBackend(url)) as executor:
            r_ = executor.submit(Cores(1), stay, str(tmp_path))
            await begun(tmp_path)
            os.killpg(worker.pid, signal.SIGKILL)
            with pytest.raises(
                WorkerLostError, match=r"gave no answer for stay: .*Celery's worker first@here .*retries="
            ):
                await r_


@only("celery")
async def test_celery_a_worker_that_is_started_again_is_not_taken_for_the_one_that_was_killed(
    tmp_path, go, monkeypatch
):
    monkeypatch.setattr(_celery_workers, "LOOK_S", 1.0)  # so that the second one, too, has 5 s for a heartbeat
    options = ["--concurrency", "1", "-n", "first@here"]
    with redis() as url, celery_worker(url, *options, heartbeat_s=0.2) as worker:
        async with Executor(backend=CeleryBackend(url)):
            r_ = start((delayed(stay, retries=1) @ Cores(1))(str(tmp_path)))
            await begun(tmp_path)
            os.killpg(worker.pid, signal.SIGKILL)
            with celery_worker(url, *options, heartbeat_s=0.2):
                await begun(tmp_path, 2)
                go()
                assert await r_ == 7
                assert info(r_).attempt == 2


@only("celery")
@pytest.mark.parametrize("told", ["to go on", "to end"])
async def test_celery_a_worker_that_lives_is_not_lost(tmp_path, go, monkeypatch, told):
    monkeypatch.setattr(_celery_workers, "LOOK_S", 1.0)  # so that it has 5 s for a heartbeat
    with redis() as url, celery_worker(url, "--concurrency", "1", heartbeat_s=0.1) as worker:
        async with Executor(backend=CeleryBackend(url)) as executor:
            r_ = executor.submit(Cores(1), stay, str(tmp_path))
            await begun(tmp_path)
            if told == "to end":
                worker.terminate()  # it answers no questions from now on, and waits for the job
            looks = count()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(gives_seven, r_)  # it ends the wait, if it fails
                await until_called(
                    _celery_workers.WorkersWatch, "_look_at", lambda: next(looks) > _celery_workers.MISSED + 1
                )
                go()


@only("celery")
async def test_celery_a_result_that_comes_at_the_last_moment_is_given(tmp_path, go, monkeypatch):
    with redis() as url, celery_worker(url, "--concurrency", "1"):
        backend = CeleryBackend(url)

        def ends_meanwhile(_: object, task: str) -> str | None:
            if not list(tmp_path.glob("began-*")):
                return None
            go()
            until_blocking(lambda: backend._app.backend.get_task_meta(task)["status"] == "SUCCESS")
            return "it is taken to be lost"

        monkeypatch.setattr(_celery_workers.WorkersWatch, "why_lost", ends_meanwhile)
        async with Executor(backend=backend) as executor:
            assert await executor.submit(Cores(1), stay, str(tmp_path)) == 7


@only("celery")
@pytest.mark.parametrize("pool", ["solo", "threads"])
async def test_celery_a_worker_that_a_job_may_silence_is_not_watched(tmp_path, go, pool):
    with redis() as url, celery_worker(url, "--concurrency", "1", "--pool", pool, heartbeat_s=0.1):
        backend = CeleryBackend(url)
        async with Executor(backend=backend) as executor:
            r_ = executor.submit(Cores(1), stay, str(tmp_path))
            await begun(tmp_path)
            looks = count()
            await until_called(_celery_workers.WorkersWatch, "look", lambda: next(looks) > 2)
            assert not backend._workers._begun
            go()
            assert await r_ == 7


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
