"""The engines of the contract suite, and how each is started for real.

`GRAINLIKE_TEST_ENGINES` says which: by default those that need no package. `make test-engines` names the others.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S
from ports import free_port
from waiting import until_blocking

from grainlike import DaskBackend, ProcessBackend, RayBackend, ThreadBackend

ROOT = Path(__file__).parents[2]
ENGINES = os.environ.get("GRAINLIKE_TEST_ENGINES", "threads processes").split()


@dataclass
class Engine:
    """How to make a backend of one kind, and what is expected of it.

    `counts` are the names that it honours beyond `Cores(1)`; `ends` what it can end: `"timeouts"`, `"cancelled"`.
    """

    name: str
    make: Callable[[], Any]
    counts: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    in_process: bool = False


@contextmanager
def _threads() -> Iterator[Engine]:
    yield Engine("threads", lambda: ThreadBackend(2), frozenset({"cores"}), in_process=True)


@contextmanager
def _processes() -> Iterator[Engine]:
    ends = frozenset({"timeouts", "cancelled"})
    yield Engine("processes", lambda: ProcessBackend(2), frozenset({"cores"}), ends)


@contextmanager
def _plain() -> Iterator[Engine]:
    pool = importlib.import_module("13_other_engines").Pool
    yield Engine("your own", pool, ends=frozenset({"timeouts"}))


@contextmanager
def _dask() -> Iterator[Engine]:
    import dask
    from distributed import LocalCluster

    resources = {"cores": 2, "memory": 1000, "foo": 1}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=2, threads_per_worker=2, resources=resources, host="127.0.0.1", dashboard_address=None
        ) as cluster,
    ):
        counts = frozenset({"cores", "memory", "foo"})
        yield Engine("dask", lambda: DaskBackend(cluster), counts, frozenset({"timeouts"}))


@contextmanager
def _dask_scheduler() -> Iterator[Engine]:
    """A scheduler and workers that somebody else started, in processes of their own."""
    from distributed import Client

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        common = ["--host", "127.0.0.1", "--no-dashboard"]
        settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(port), *common]
        stack.enter_context(running(scheduler, folder, **settings))
        for number in range(2):
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "2", *common]
            worker += ["--resources", "cores=2 memory=1000 foo=1", "--name", f"w{number}", "--local-directory", folder]
            stack.enter_context(running(worker, folder))
        with Client(address, timeout=LIMIT_S, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=LIMIT_S)  # a backend waits for less long, and for one
        counts = frozenset({"cores", "memory", "foo"})
        yield Engine("dask, by address", lambda: DaskBackend(address), counts, frozenset({"timeouts"}))


@contextmanager
def _ray() -> Iterator[Engine]:
    import ray

    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112 - else it ends tasks where others take the memory
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        options = {
            "num_cpus": 4,
            "num_gpus": 2,  # logical: Ray counts them, and shows their numbers
            "resources": {"foo": 2},
            "include_dashboard": False,
            "log_to_driver": False,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": folder,
        }
        try:
            _start_ray(options)
            counts = frozenset({"cores", "memory", "gpus", "foo"})
            yield Engine("ray", RayBackend, counts, frozenset({"timeouts", "cancelled"}))
        finally:
            ray.shutdown()


def _start_ray(options: dict[str, Any]) -> None:
    """Start Ray, again where it says that its daemons took longer than 30 s, which no option changes."""
    import ray

    def started() -> bool:
        try:
            ray.init(**options)
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            return False
        return True

    until_blocking(started)


@contextmanager
def _celery() -> Iterator[Engine]:
    from grainlike import CeleryBackend

    with redis() as url, celery_worker(url, "--concurrency", "4", "-Q", "batch,big"):
        yield Engine(
            "celery",
            lambda: CeleryBackend(url, queue="batch", queues=["big"]),
            frozenset({"token"}),
            frozenset({"timeouts", "cancelled"}),
        )


@contextmanager
def celery_worker(url: str, *options: str, heartbeat_s: float | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of Celery's, with options of `celery worker`; `heartbeat_s` takes the place of its `HEARTBEAT_S`."""
    lines = ["from celery import Celery", f"app = Celery('proj', broker={url!r}, backend={url!r})"]
    if heartbeat_s is not None:
        lines += ["import grainlike.backends.celery_task as task", f"task.HEARTBEAT_S = {heartbeat_s!r}"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "proj.py").write_text("\n".join(lines) + "\n")
        worker = [sys.executable, "-m", "celery", "-A", "proj", "worker", *options]
        worker += ["--include", "grainlike.backends.celery_task", "--without-gossip", "--without-mingle"]
        with running([*worker, "-l", "warning"], folder) as program:
            yield program


STARTS: dict[str, Callable[[], Any]] = {
    "threads": _threads,
    "processes": _processes,
    "plain": _plain,
    "dask": _dask,
    "dask-scheduler": _dask_scheduler,
    "ray": _ray,
    "celery": _celery,
}


@contextmanager
def redis() -> Iterator[str]:
    """A Redis server of our own, which keeps nothing."""
    server = shutil.which("redis-server")
    if server is None:
        pytest.fail("redis-server is not installed: apt-get install redis-server", pytrace=False)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        with running([server, *arguments], folder):
            until_blocking(lambda: _connects(port))  # redis-server tells nobody that it listens
            yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def running(argv: list[str], folder: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program beside the tests, ended with all that it started."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "worker"), str(Path(__file__).parent)])
    log = Path(folder, f"{Path(argv[0]).name}-{time.monotonic_ns()}.log")
    with log.open("wb") as output:
        program = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield program
    finally:
        program.terminate()
        with suppress(subprocess.TimeoutExpired):
            program.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def _connects(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
