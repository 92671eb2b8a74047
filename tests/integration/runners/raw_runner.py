"""A real runner process, driven by raw frames over its socket; and gates at which its jobs wait."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Self

import pytest
from limits import LIMIT_S

from grainlike.payload import Payload, dump_arguments, dump_function, load_error, load_value
from grainlike.wire import (
    TRUSTED,
    Code,
    Completed,
    Define,
    FrameDecoder,
    FunctionSpec,
    Message,
    Ready,
    ReceiptSpec,
    Renew,
    Run,
    Setup,
    encode_frame,
    unpack_parcels,
)
from grainlike_worker.ipc._claims import ClaimPage

__all__ = [
    "CORES",
    "LIMIT_S",
    "TERMINATED",
    "Gate",
    "Runner",
    "alarm",
    "by_value",
    "definition_of",
    "environment",
    "linux_only",
    "needs_two_cores",
    "quick",
    "stop_at_gate",
]

LINUX = sys.platform == "linux"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
ROOT = Path(__file__).parents[3]
TERMINATED = 128 + signal.SIGTERM

needs_two_cores = pytest.mark.skipif(len(CORES) < 2, reason="pinning to one of one core proves nothing")
linux_only = pytest.mark.skipif(not LINUX, reason="only Linux can do this")


def environment() -> dict[str, str]:
    """In which a process finds this code and no test."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}


class Runner:
    """An "own" runner and the daemon's end of its socket, blocking."""

    def __init__(
        self,
        *functions: Callable[..., object],
        claims: ClaimPage | None = None,
        paths: Sequence[str] = (),
        records: int | None = None,
    ):
        near, far = socket.socketpair()
        command = [sys.executable, "-P", "-m", "grainlike_worker.runner", "--own"]
        command += ["--fd", str(far.fileno()), "--parent", str(os.getpid())]
        fds = [far.fileno()]
        if claims is not None:
            command += ["--claims", str(claims.fd)]
            fds.append(claims.fd)
        if records is not None:
            command += ["--records", str(records)]
            fds.append(records)
        self.process = subprocess.Popen(
            command, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True, env=environment()
        )
        far.close()
        near.settimeout(LIMIT_S)
        self.socket = near
        self.decoder = FrameDecoder(TRUSTED)
        self.batches: list[Completed] = []
        self.readied: list[int] = []
        """Where it said that it was ready: after how many batches."""
        self.renews = False
        self.codes: dict[int, Code] = {}
        self.values: dict[int, Any] = {}
        self.send(Setup("node-1", list(paths)))
        self.define(*functions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def send(self, message: Message, buffers: Sequence[bytes] = ()) -> None:
        for piece in encode_frame(message, buffers):
            self.socket.sendall(piece)

    def define(self, *functions: Callable[..., object]) -> None:
        self.send(*definition_of(functions))

    def run_limited(self, job: int, fn: int, deadline: float, limit: float) -> None:
        """Send a job without arguments that may run for so long."""
        data = [dump_arguments((), {}, what="f").data]
        self.send(Run(1, "cores=[0]", [job], [1], [fn], [deadline], data, [], limit))

    def run(
        self,
        jobs: dict[int, tuple[int, tuple[object, ...]]],
        allocation: str = "cores=[0]",
        *,
        limit: float | None = None,
        limits: tuple[float | None, ...] = (),
        apart: bool = False,
    ) -> None:
        """Send one run-list: job number -> (function number, arguments)."""
        count = len(jobs)
        data = [dump_arguments(args, {}, what="f").data for _, args in jobs.values()]
        fns = [fn for fn, _ in jobs.values()]
        deadline = None if limit is None else time.monotonic() + limit
        columns = list(jobs), [1] * count, fns, [deadline] * count, data
        self.send(Run(1, allocation, *columns, [], limit, apart=apart, limits=limits))

    def until(self, *jobs: int) -> None:
        while not set(jobs) <= set(self.codes):
            assert self.receive(), "the runner closed its link"

    def receive(self) -> bool:
        """Take one read's outcomes; False at the end of the stream."""
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            return False
        for message, buffers in self.decoder.feed(data):
            if isinstance(message, Ready):
                self.readied.append(len(self.batches))
                continue
            if isinstance(message, Renew):
                self.renews = True
                continue
            assert isinstance(message, Completed)
            self.batches.append(message)
            parcels = unpack_parcels(message.data, message.counts, buffers)
            for job, code, (inband, views) in zip(message.jobs, message.codes, parcels, strict=True):
                assert job not in self.codes, "answered twice"
                self.codes[job] = Code(code)
                if code == Code.SUCCEEDED:
                    self.values[job] = load_value(Payload(inband, tuple(views)))
                elif code == Code.FAILED:
                    self.values[job] = load_error(Payload(inband))
        return bool(data)

    def until_end(self) -> int:
        """Take what still comes, and return the exit code."""
        while self.receive():
            pass
        return self.process.wait(LIMIT_S)

    def call(self, fn: int, *args: object, allocation: str = "cores=[0]", job: int = 0) -> Any:
        """Run one job and return its value."""
        self.codes.pop(job, None)
        self.run({job: (fn, args)}, allocation)
        self.until(job)
        assert self.codes[job] == Code.SUCCEEDED, self.values.get(job)
        return self.values[job]

    @property
    def receipt(self) -> ReceiptSpec:
        """The receipt of the last lease."""
        return next(batch.receipt for batch in reversed(self.batches) if batch.receipt is not None)


def definition_of(functions: Sequence[Callable[..., object]]) -> tuple[Define, list[bytes]]:
    """The message that gives these functions the numbers 0, 1, ... and the names f0, f1, ..., and its buffers."""
    blobs = [dump_function(function) for function in functions]
    specs = [
        FunctionSpec(fn, blob.digest, f"f{fn}", iscoroutinefunction(function), None)
        for fn, (blob, function) in enumerate(zip(blobs, functions, strict=True))
    ]
    return Define(specs, []), [blob.data for blob in blobs]


class Gate:
    """A named pipe: a job says that it has begun, and waits until it is let go."""

    def __init__(self, directory: Path) -> None:
        self.begun, self.go = str(directory / "begun"), str(directory / "go")
        os.mkfifo(self.begun)
        os.mkfifo(self.go)

    @property
    def args(self) -> tuple[str, str]:
        return self.begun, self.go

    def wait(self) -> None:
        """Until the job has begun."""
        with alarm():
            Path(self.begun).read_text()

    def open(self) -> None:
        """Let the job go."""
        with alarm():
            Path(self.go).write_text("go")


@contextmanager
def alarm() -> Iterator[None]:
    """Opening a pipe has no time limit of its own."""

    def late(*_: object) -> None:
        raise TimeoutError("the job did not come to its gate")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(LIMIT_S))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def by_value(function: Callable[..., object]) -> Callable[..., object]:
    """Make a function of a test or of this module travel by value: a runner could not import it."""
    function.__module__ = "__main__"
    function.__qualname__ = f"by_value.<locals>.{function.__name__}"
    return function


@by_value
def stop_at_gate(begun: str, go: str) -> str:
    from pathlib import Path

    Path(begun).write_text("begun")
    Path(go).read_text()
    return "through"


@by_value
def quick() -> str:
    return "quick"
