"""A Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from grainlike.backends._base import CachedAnswer, ClosesItself, Offers, extra
from grainlike.resources import Request

__all__ = ["RayBackend"]

_OWN = {"cores": "CPU", "gpus": "GPU", "memory": "memory"}
"""Ray's names of resources for which it has options of its own."""

CONNECT_S = 5.0
"""Seconds within which something has to answer at the address of a cluster: Ray itself tries for minutes."""


class RayBackend(ClosesItself):
    """Runs jobs as tasks of a Ray cluster (`pip install 'grainlike[ray]'`).

    `cores`, `gpus` and `memory` become `num_cpus`, `num_gpus` and `memory`, and other names Ray's custom resources;
    what no node of the cluster has enough of is refused by name. Ray counts them, and shows devices by
    `CUDA_VISIBLE_DEVICES`. A job that is cancelled is killed with its process; so is one past its `timeout=`.

    A Ray session that is there already is used and left as it is. Otherwise one is started, with the options `init`;
    further backends of the program use it too, and the last that is shut down ends it.

    Args:
        address: of a cluster, as `"auto"` or `"ray://host:10001"`; None for a session of this machine's.
        init: arguments of `ray.init`, as `num_cpus=4`, `resources={"foo": 2}`.

    Raises:
        ModuleNotFoundError: Ray is not installed.

    Raises, when the executor opens:
        ConnectionError: there is no cluster at the address; told within seconds where nothing answers there.

    Example::

        async with Executor(backend=RayBackend(num_cpus=4)):
            report = await dag.run()
    """

    name = "ray"

    def __init__(self, address: str | None = None, **init: Any) -> None:
        self._ray = extra("ray", "RayBackend", "ray")
        self._address = address
        self._init = init
        self._ours = False
        self._remote: dict[Callable[..., Any], Any] = {}
        self._lock = threading.Lock()
        self._offers = CachedAnswer(self._ask)

    def open(self) -> None:
        """Use the session that is there, or start one."""
        if self._ours:
            return
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
        if self._address is None:
            settings |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        self._ours = _session.join(self._ray, self._address, settings | self._init)
        self._offers.forget()

    def _ask(self) -> Offers:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    @property
    def honours(self) -> frozenset[str]:
        """The names that some node has, in our words; without any node those that Ray has, and `refusal` tells."""
        offers = self._offers()
        if not offers:
            return frozenset(_OWN)
        theirs = {name for offer in offers for name in offer if not name.startswith(("node:", "object_store"))}
        ours = {name for name, their in _OWN.items() if their in theirs}
        return frozenset(ours | (theirs - set(_OWN.values())))

    def refusal(self, request: Request) -> str | None:
        """Return why no node that is here could ever run this request; None if one could."""
        asked = {_OWN.get(name, name): float(request[name]) for name in request}
        offers = self._offers()
        if not offers:
            return f"{request}: no node of the cluster is alive"
        if any(all(offer.get(name, 0.0) >= amount for name, amount in asked.items()) for offer in offers):
            return None
        short = [
            name
            for name in request
            if not any(offer.get(_OWN.get(name, name), 0.0) >= float(request[name]) for offer in offers)
        ]
        return f"{', '.join(short) or str(request)} in {request}: no node has so much"

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have `fn(*args, **kwargs)` called as a task of one core."""
        return self._task(fn).remote(*args, **kwargs)

    def submit_for(self, request: Request, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Call `fn(*args)` with the resources of the request."""
        options: dict[str, Any] = {"num_cpus": request.N}
        if "gpus" in request:
            options["num_gpus"] = float(request["gpus"])
        if "memory" in request:
            options["memory"] = int(request["memory"])
        custom = {name: float(request[name]) for name in request if name not in _OWN}
        return self._task(fn).options(**options, resources=custom or None).remote(*args)

    def _task(self, fn: Callable[..., Any]) -> Any:
        with self._lock:
            if fn not in self._remote:
                self._remote[fn] = self._ray.remote(max_retries=0)(fn)
            return self._remote[fn]

    def on_done(self, future: Any, call: Callable[[], None]) -> None:
        """Call when there is a result."""
        future.future().add_done_callback(lambda _: call())

    def result(self, future: Any, timeout: float | None = None) -> Any:
        """Return the result, or raise the exception; TimeoutError when it is not there in so many seconds."""
        return self._ray.get(future, timeout=timeout)

    def cancel(self, future: Any) -> None:
        """End it, with its process."""
        self._ray.cancel(future, force=True)

    def shutdown(self, wait: bool = True) -> None:  # noqa: ARG002 - Ray's own waits
        """End the session, if it was started here."""
        with self._lock:
            if self._ours:
                self._ours = False
                _session.leave(self._ray)


class _Session:
    """Ray session that backends of this process started: a process has one at a time, and the last backend ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._ended = threading.Event()

    def join(self, ray: Any, address: str | None, settings: dict[str, Any]) -> bool:
        """Use the session that is there, or start one. Return whether it is ours, and to be left."""
        with self._lock:
            if not ray.is_initialized():
                self._ended.set()  # of one that the program has shut down itself
                self._start(ray, address, settings)
                self._users = 0
            elif not self._users:
                return False
            self._users += 1
            return True

    def leave(self, ray: Any) -> None:
        """Use it no more."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                ray.shutdown()
                self._ended.set()

    def _start(self, ray: Any, address: str | None, settings: dict[str, Any]) -> None:
        """Start a session in a thread that lives as long as the session.

        Ray has the kernel kill its servers when the thread that started them ends (PR_SET_PDEATHSIG, see prctl(2)). A
        thread of a pool ends when it has been idle for some seconds.
        """
        started: Future[None] = Future()
        self._ended = ended = threading.Event()

        def run() -> None:
            try:
                _check_answers(address)
                with _no_word_of_sigterm():
                    ray.init(address, **settings)
            except BaseException as error:  # noqa: BLE001 - raised by whoever opens
                started.set_exception(error)
            else:
                started.set_result(None)
                ended.wait()

        threading.Thread(target=run, name="ray session", daemon=True).start()
        started.result()


_session = _Session()


def _check_answers(address: str | None) -> None:
    """Raise `ConnectionError` if nothing answers at the host and port of a cluster that Ray would connect to."""
    asked = os.environ.get("RAY_ADDRESS", "") if address in (None, "auto") else address or ""
    host, _, port = asked.removeprefix("ray://").partition("?")[0].rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        raise ConnectionError(
            f"no Ray cluster answers at {asked}: {error}. `ray start --head` starts one there; RayBackend() starts a "
            "session on this machine where RAY_ADDRESS is not set"
        ) from None


@contextmanager
def _no_word_of_sigterm() -> Iterator[None]:
    """Context manager: let Ray not warn that it sets no handler of SIGTERM in our thread. Signals are the program's."""

    def keeps(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("SIGTERM handler is not set")

    logger = logging.getLogger("ray._private.worker")
    logger.addFilter(keeps)
    try:
        yield
    finally:
        logger.removeFilter(keeps)
