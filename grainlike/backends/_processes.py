"""Processes of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from grainlike.backends._base import ClosesItself
from grainlike.calls import BackendAnswer, BackendCall, CallProcess, CallProcessLostError, run_call
from grainlike.errors import WorkerLostError
from grainlike.payload import Payload, dump_arguments, dump_function, load_error, load_value
from grainlike.resources import Cores, Request
from grainlike.system import import_paths

__all__ = ["ProcessBackend"]


class ProcessBackend(ClosesItself):
    """Runs jobs in processes of this machine, kept for the next; nothing else of grainlike's takes part.

    It honours `cores`, counted and not pinned: jobs hold at most `processes` of them at a time. A job that is
    cancelled, or past its `timeout=`, is killed with its process, and the next one gets a new process. One whose
    process dies fails with `WorkerLostError`, alone.

    Args:
        processes: number of processes, and of cores. They are started when they are needed.

    Example::

        async with Executor(backend=ProcessBackend(4)):
            report = await dag.run()
    """

    name = "processes"
    honours: frozenset[str] = frozenset({"cores"})

    def __init__(self, processes: int) -> None:
        self.offer: Request = Cores(processes)
        self._processes = processes
        self._pool = self._make_pool()
        self._lock = threading.Lock()
        self._idle: list[CallProcess] = []
        self._busy: dict[Future[Any], CallProcess] = {}
        self._over = False

    def _make_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._processes, thread_name_prefix="grainlike process")

    def open(self) -> None:
        """Take calls again after a shutdown: a program may use one backend in one block after another."""
        with self._lock:
            if self._over:
                self._over, self._pool = False, self._make_pool()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have `fn(*args, **kwargs)` called in a process.

        Raises:
            SerializationError: the function or an argument cannot travel.
        """
        future: Future[Any] = Future()
        if fn is run_call:
            self._pool.submit(self._serve, future, args[0], _as_it_is)
        else:
            self._pool.submit(self._serve, future, _packed(fn, args, kwargs), _opened)
        return future

    def _serve(self, future: Future[Any], call: BackendCall, opened: Callable[[BackendAnswer], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(opened(self._ask(future, call)))
        except CallProcessLostError as error:
            future.set_exception(WorkerLostError(f"{call.name}: {error}"))
        except BaseException as error:  # noqa: BLE001 - a thread has no caller to raise it to
            future.set_exception(error)

    def _ask(self, future: Future[Any], call: BackendCall) -> BackendAnswer:
        with self._lock:
            if self._over:
                raise CallProcessLostError("its backend was shut down")
            child = self._living()
            self._busy[future] = child
        lost = True
        try:
            answer = child.ask(call._replace(timeout=None), call.timeout)
            lost = False
        except TimeoutError:
            return BackendAnswer(False, b"", (), f"pid {child.pid}", call.timeout or 0.0, 0.0, 0, timed_out=True)
        finally:
            with self._lock:
                del self._busy[future]
                if not lost and not self._over:
                    self._idle.append(child)
                    child = None  # type: ignore[assignment]
            if child is not None:
                child.close()
        return answer

    def _living(self) -> CallProcess:
        """An idle process, or a new one. One that was killed while it was idle is no call's fault; under the lock."""
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            child.close()
        return CallProcess()

    def on_done(self, future: Future[Any], call: Callable[[], None]) -> None:
        """Call when there is a result."""
        future.add_done_callback(lambda _: call())

    def result(self, future: Future[Any], timeout: float | None = None) -> Any:
        """Return the result, or raise the exception; TimeoutError when it is not there in so many seconds."""
        return future.result(timeout)

    def cancel(self, future: Future[Any]) -> None:
        """End the call, with its process."""
        future.cancel()
        with self._lock:
            child = self._busy.get(future)
            if child is not None:
                child.kill()

    def shutdown(self, wait: bool = True) -> None:
        """End the processes, with what runs in them."""
        with self._lock:
            self._over = True
            children = [*self._busy.values()]
            idle, self._idle = self._idle, []
        for child in children:
            child.kill()
        for child in idle:
            child.close()
        self._pool.shutdown(wait=wait, cancel_futures=True)


def _as_it_is(answer: BackendAnswer) -> BackendAnswer:
    """An executor opens answers itself."""
    return answer


def _packed(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> BackendCall:
    name = getattr(fn, "__name__", type(fn).__name__)
    packed = dump_arguments(args, kwargs, what=name).detached()
    buffers = tuple(bytes(buffer) for buffer in packed.buffers)
    blob = dump_function(fn).data
    return BackendCall(blob, bytes(packed.data), buffers, 0, name, 1, "", "cores=[0]", None, tuple(import_paths()))


def _opened(answer: BackendAnswer) -> Any:
    payload = Payload(answer.data, answer.buffers)
    if answer.good:
        return load_value(payload)
    raise load_error(payload)
