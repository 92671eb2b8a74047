"""The workers of a Celery app."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from grainlike.backends._base import ClosesItself, extra
from grainlike.backends._celery_workers import WorkersWatch
from grainlike.calls import BackendCall, run_call
from grainlike.errors import WorkerLostError
from grainlike.resources import Request

__all__ = ["CeleryBackend"]

_ENDED = ("SUCCESS", "FAILURE", "REVOKED")

LOOK_S = 0.02
"""Seconds between two checks of which tasks have ended."""


class CeleryBackend(ClosesItself):
    """Runs jobs as tasks of a Celery app (`pip install 'grainlike[celery]'`), which needs a result backend.

    Its workers must load one more task: `celery -A proj worker --include grainlike.backends.celery_task`. Tasks carry
    code: anyone who can write to the broker can run code on them.

    Celery counts processes, so a job is `Cores(1)`, in the given queue; `Token("gpu")` goes to the queue `gpu`, if
    `queues` names it. All else is refused by name. A job that is cancelled is killed with its process, on workers with
    processes; so is one past its `timeout=`, on any. One whose whole worker is killed fails with `WorkerLostError`
    within about a minute, on workers with processes (Celery's pool `prefork`); on others it never ends.

    Args:
        app: a Celery app, or the URL of a broker that keeps results too, as `"redis://host:6379/0"`.
        queue: name of the queue for jobs.
        queues: further queues, for tokens of these names.

    Raises:
        ModuleNotFoundError: Celery is not installed.

    Raises, when the executor opens:
        OSError: there is no broker.

    Example::

        async with Executor(backend=CeleryBackend("redis://localhost:6379/0", queue="batch")):
            report = await dag.run()
    """

    name = "celery"
    honours: frozenset[str] = frozenset({"cores", "token"})

    def __init__(self, app: Any, *, queue: str = "celery", queues: Iterable[str] = ()) -> None:
        celery = extra("celery", "CeleryBackend", "celery")
        self._task = extra("grainlike.backends.celery_task", "CeleryBackend", "celery")
        self._app = celery.Celery("grainlike", broker=app, backend=app) if isinstance(app, str) else app
        self._close_app = isinstance(app, str)
        self._queue = queue
        self._queues = frozenset(queues)
        self._watched: dict[str, Callable[[], None]] = {}
        self._workers = WorkersWatch(self._heartbeat)
        self._lost: dict[str, str] = {}
        """Why tasks will have no result."""
        self._changed = threading.Condition()
        self._looker: threading.Thread | None = None
        """Thread that looks; one that is this no more ends."""
        self._stores: dict[int, Any] = {}
        """Celery's own objects that keep results, by identity: each thread is given one with connections of its own."""

    def open(self) -> None:
        """Check that there is a broker.

        Raises:
            OSError: there is none.
        """
        try:
            with self._app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1)
        except extra("kombu.exceptions", "CeleryBackend", "celery").OperationalError as error:
            raise ConnectionError(f"there is no broker for Celery: {error}") from error

    def refusal(self, request: Request) -> str | None:
        """Return why no worker could run this request; None if one could."""
        if request.N > 1:
            return f"cores in {request}: one of Celery's processes is one core"
        if len(request.tokens) > 1:
            return f"token in {request}: a task goes to one queue"
        unknown = [token for token in request.tokens if token not in self._queues]
        return f"token in {request}: queues= has no {unknown[0]!r}" if unknown else None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Send a call to the queue."""
        return self._send(self._queue, fn, args, kwargs)

    def submit_for(self, request: Request, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Send a call to the queue that its request names."""
        return self._send(request.tokens[0] if request.tokens else self._queue, fn, args, {})

    def _send(self, queue: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the number of the task alone: Celery's own object for a result may be used in one thread only."""
        if fn is not run_call or kwargs or not isinstance(args[0], BackendCall):
            raise TypeError("Celery's workers know one task, which performs packed calls")
        self._store()  # that of this thread, which is told of the task
        sent = self._app.send_task(self._task.NAME, [self._task.packed(args[0])], queue=queue)
        return str(sent.id)

    # --- results -----------------------------------------------------------------------------------------------------

    def on_done(self, future: str, call: Callable[[], None]) -> None:
        """Call when there is a result."""
        with self._changed:
            self._watched[future] = call
            if self._looker is None:
                self._looker = threading.Thread(target=self._look, name="grainlike celery", daemon=True)
                self._looker.start()
            self._changed.notify()

    def _look(self) -> None:
        """Ask for the states of tasks, one thread for all."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched or self._is_over())
                if self._is_over():
                    return
                watched = dict(self._watched)
            for task, call in watched.items():
                if self._has_ended(task):
                    self._watched.pop(task, None)
                    self._workers.forget(task)
                    call()
            with suppress(Exception):  # the tasks' own states are kept in the same place, and will tell
                self._workers.look()
            with self._changed:
                self._changed.wait_for(self._is_over, LOOK_S)

    def _is_over(self) -> bool:
        return self._looker is not threading.current_thread()

    def _has_ended(self, task: str) -> bool:
        try:
            meta = self._store().get_task_meta(task)
        except Exception:  # noqa: BLE001 - whatever a broker's client raises; `result` will raise it again, and be heard
            return True
        if meta["status"] in _ENDED:
            return True
        if meta["status"] == "STARTED":
            self._workers.began(task, meta["result"])
        # By looks that were before this state was read: a result that came at the last moment is there.
        why = self._workers.why_lost(task)
        if why is not None:
            self._lost[task] = why
        return why is not None

    def _heartbeat(self, worker: str) -> object:
        return self._store().get_task_meta(worker)["result"]

    def result(self, future: str, timeout: float | None = None) -> Any:
        """Return the result, or raise the exception; TimeoutError when it is not there in so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        why = self._lost.pop(future, None)
        store = self._store()
        while (meta := store.get_task_meta(future))["status"] not in _ENDED:
            if why is not None:
                raise WorkerLostError(why)
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"task {future} has not ended within {timeout:g} s")
            time.sleep(LOOK_S)
        store.forget(future)
        if meta["status"] == "SUCCESS":
            return self._task.unpacked(meta["result"])
        error = meta["result"]
        raise error if isinstance(error, Exception) else RuntimeError(f"task {future} was {meta['status'].lower()}")

    def _store(self) -> Any:
        """Return what keeps results, as this thread may use it."""
        store = self._app.backend
        if self._close_app:  # those of another's app are that one's to close, and go with their threads
            self._stores[id(store)] = store
        return store

    def cancel(self, future: str) -> None:
        """End it, with its process if it runs."""
        self._app.control.revoke(future, terminate=True, signal="SIGKILL")

    def shutdown(self, wait: bool = True) -> None:
        """Stop looking for results. The app's workers keep running, for they are not ours."""
        with self._changed:
            looker, self._looker = self._looker, None
            self._changed.notify_all()
        if wait and looker is not None:
            looker.join()
        if self._close_app:
            while self._stores:
                _disconnect(self._stores.popitem()[1])
            self._app.close()


def _disconnect(store: Any) -> None:
    """Close connections to results, which Celery leaves to the garbage collector; those to brokers all apps share."""
    client = vars(store).get("client")  # made when first used
    if hasattr(client, "connection_pool"):  # Redis: of all stores, the one that keeps connections
        client.connection_pool.disconnect()
