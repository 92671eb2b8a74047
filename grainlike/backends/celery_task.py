"""Task that Celery's workers must load: `celery -A proj worker --include grainlike.backends.celery_task`.

Celery forgets a task whose worker was killed. So the task says in its state, `STARTED`, which worker began it, and the
main process of that worker writes heartbeats among the results. It runs no jobs, so no job can stop them. They go on
while a worker that was told to end waits for its tasks, and answers Celery's `ping` no more.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from base64 import b64decode, b64encode
from itertools import count
from typing import Any
from uuid import uuid4

from celery import shared_task, signals  # type: ignore[import-not-found, import-untyped, unused-ignore]

from grainlike.calls import run_call
from grainlike.payload import Payload, dump_value, load_value

__all__ = ["HEARTBEAT_S", "NAME", "packed", "run_packed", "unpacked"]

NAME = "grainlike.run_call"

HEARTBEAT_S = 10.0
"""Seconds between two heartbeats of a worker that has tasks of ours."""

_logger = logging.getLogger("grainlike")

_ID_VARIABLE = "GRAINLIKE_CELERY_WORKER"
"""Environment variable by which a worker's children know its id, where they are not forked."""


def packed(what: object) -> str:
    """Return an object as text, for whatever serializer a Celery app has."""
    return b64encode(dump_value(what).data).decode()


def unpacked(text: str) -> object:
    """Return the object of such a text."""
    return load_value(Payload(b64decode(text)))


@shared_task(name=NAME, bind=True)  # type: ignore[untyped-decorator, unused-ignore]
def run_packed(task: Any, text: str) -> str:
    """Perform a call."""
    _say_who_began(task)
    return packed(run_call(unpacked(text)))  # type: ignore[arg-type]


def _say_who_began(task: Any) -> None:
    if _heartbeats.is_child:
        try:
            task.update_state(state="STARTED", meta={"worker": _heartbeats.id, "name": task.request.hostname})
        except Exception:  # whatever a result backend raises: it may be there again for the job's own result
            _logger.warning("task %s could not say that it was started", task.request.id, exc_info=True)


class _Heartbeats:
    """Heartbeats of a worker's main process, in a thread, for as long as there are tasks of ours."""

    def __init__(self) -> None:
        self.id = uuid4().hex
        """Id of this run of the worker: one that is started again under the same name has another."""
        self.is_child = False
        """True in a worker's processes for tasks, of the pool `prefork`."""
        self._main = 0
        self._received = threading.Event()
        self._thread: threading.Thread | None = None

    def worker_begins(self, **_: Any) -> None:
        """Take note that this is the main process of a worker, before it starts others."""
        self._main = os.getpid()
        os.environ[_ID_VARIABLE] = self.id

    def process_begins(self, **_: Any) -> None:
        """Take note that this process performs tasks; in pools other than `prefork` it is the main one."""
        if os.getpid() != self._main:
            self.is_child = True
            self.id = os.environ.get(_ID_VARIABLE, self.id)

    def task_received(self, sender: Any, request: Any, **_: Any) -> None:
        """Have heartbeats written: `sender`, a consumer of Celery's, has one of our tasks.

        Only where tasks have processes of their own. In another pool a call that does not let go of Python's lock would
        stop the heartbeats, though the worker lives.
        """
        if request.name != NAME or type(sender.pool).__module__ != "celery.concurrency.prefork":
            return
        self._received.set()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._beat, args=[sender.app], name="grainlike heartbeats", daemon=True
            )
            self._thread.start()

    def _beat(self, app: Any) -> None:
        for number in count():
            if not _has_tasks():
                self._received.wait()
            self._received.clear()
            try:
                app.backend.store_result(self.id, number, "HEARTBEAT")
            except Exception:  # whatever a result backend raises: it may be there again for the next
                _logger.debug("a heartbeat could not be written", exc_info=True)
            time.sleep(HEARTBEAT_S)


def _has_tasks() -> bool:
    """Return True if this worker has tasks of ours that have not ended."""
    from celery.worker import state  # type: ignore[import-not-found, import-untyped, unused-ignore]  # of workers alone

    try:
        return any(request.name == NAME for request in [*state.requests.values(), *state.active_requests])
    except RuntimeError:  # they changed meanwhile
        return True


_heartbeats = _Heartbeats()
signals.worker_init.connect(_heartbeats.worker_begins)
signals.worker_process_init.connect(_heartbeats.process_begins)
signals.task_received.connect(_heartbeats.task_received)
