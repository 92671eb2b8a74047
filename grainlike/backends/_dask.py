"""A Dask cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from grainlike.backends._base import CachedAnswer, ClosesItself, Offers, extra
from grainlike.resources import Cores, Request

__all__ = ["DaskBackend"]

_ONE = Cores(1)

CONNECT_S = 30.0
"""Seconds for which there may be no scheduler, or no worker."""


class DaskBackend(ClosesItself):
    """Runs jobs on the workers of a Dask cluster (`pip install 'grainlike[dask]'`).

    Requests become Dask's worker resources of the same names, `gpus` also `GPU`. `Cores(1)` goes to any worker; more
    cores, memory, devices and all else only where workers were started with such resources, as `dask worker ADDRESS
    --resources "cores=8 foo=2"`: what no worker has enough of is refused by name. Dask counts resources and pins
    nothing. A job with a `timeout=` runs in a process of its own beside its worker, and is killed. Without one, Dask
    continues a job that is cancelled and does not report its end.

    Args:
        cluster: the address of a scheduler, as `"tcp://scheduler:8786"`; or a `Client` or a cluster of Dask's, which
            is not closed at the end; or None for a `LocalCluster` of our own.
        workers: number of workers of the `LocalCluster`.
        each: offer of each of them; as many threads as cores.

    Raises:
        ModuleNotFoundError: Dask is not installed.

    Raises, when the executor opens:
        OSError: there is no scheduler at the address.
        TimeoutError: no worker has come within 30 s.

    Example::

        async with Executor(backend=DaskBackend("tcp://scheduler:8786")):
            report = await dag.run()
    """

    name = "dask"

    def __init__(self, cluster: Any = None, *, workers: int = 2, each: Request = _ONE) -> None:
        self._distributed = extra("distributed", "DaskBackend", "dask")
        self._cluster = cluster
        self._workers = workers
        self._each = each
        self._client: Any = None
        self._ours: list[Any] = []
        """Clients and clusters that we opened, and close."""
        self._lock = threading.Lock()
        self._offers = CachedAnswer(self._ask)

    def open(self) -> None:
        """Connect to the cluster, or start one, and wait for a worker."""
        if self._client is not None:
            return
        kind, cluster = self._distributed.Client, self._cluster
        if isinstance(cluster, kind):
            self._client = cluster
        else:
            if cluster is None:
                cluster = self._start_cluster()
            self._client = kind(cluster, set_as_default=False, timeout=CONNECT_S)
            self._ours.append(self._client)
        self._client.wait_for_workers(1, timeout=CONNECT_S)

    def _start_cluster(self) -> Any:
        # A job that killed its worker would kill the next as well: whether it runs again is for `retries=` to say.
        with extra("dask", "DaskBackend", "dask").config.set({"distributed.scheduler.allowed-failures": 0}):
            cluster = self._distributed.LocalCluster(
                n_workers=self._workers,
                threads_per_worker=max(1, self._each.N),
                resources={name: float(self._each[name]) for name in self._each},
                host="127.0.0.1",
                dashboard_address=None,
                # It serves its state without a dashboard, too, and warns where Dask's usual port for that is taken.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            )
        self._ours.append(cluster)
        return cluster

    def _ask(self) -> Offers:
        """Return the resources with which each worker was started."""
        info = self._client.scheduler_info(n_workers=-1)
        return [dict(worker["resources"]) for worker in info["workers"].values()]

    @property
    def honours(self) -> frozenset[str]:
        """The names that some worker offers, and `cores`."""
        names = {name for offer in self._offers() for name in offer}
        return frozenset({"cores", *names, *(["gpus"] if "GPU" in names else [])})

    def refusal(self, request: Request) -> str | None:
        """Return why no worker that is here could ever run this request; None if one could."""
        offers = self._offers()
        if any(
            all(offer.get(name, 0) >= amount for name, amount in _asked(request, offer).items()) for offer in offers
        ):
            return None
        short = [name for name in request if not any(_gives(offer, request, name) for offer in offers)]
        return (
            f"{', '.join(short) or str(request)} in {request}: no worker offers so much (see dask worker --resources)"
        )

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have `fn(*args, **kwargs)` called on some worker."""
        return self._client.submit(fn, *args, **kwargs, key=f"grainlike-{uuid4().hex}", pure=False)

    def submit_for(self, request: Request, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Call `fn(*args)` on a worker that can give the request."""
        names = {name for offer in self._offers() for name in offer}
        resources = _asked(request, dict.fromkeys(names, 0.0))
        key = f"grainlike-{uuid4().hex}"
        return self._client.submit(fn, *args, key=key, pure=False, resources=resources or None)

    def on_done(self, future: Any, call: Callable[[], None]) -> None:
        """Call when there is a result."""
        future.add_done_callback(lambda _: call())

    def result(self, future: Any, timeout: float | None = None) -> Any:
        """Return the result, or raise the exception; TimeoutError when it is not there in so many seconds."""
        try:
            return future.result(timeout)
        finally:
            if future.done():
                future.release()

    def cancel(self, future: Any) -> None:
        """Take it out of the queue; a job that runs already continues."""
        future.cancel(force=True)

    def shutdown(self, wait: bool = True) -> None:  # noqa: ARG002 - closing is waiting
        """Close what was opened here."""
        with self._lock:
            while self._ours:
                self._ours.pop().close()
            self._client = None  # the next `open` connects again
            self._offers.forget()


def _asked(request: Request, offer: dict[str, float]) -> dict[str, float]:
    """Return a request in Dask's words. One core is one of a worker's threads where cores are not counted."""
    asked = {}
    for name in request:
        if name == "cores" and name not in offer and request.N == 1:
            continue
        asked["GPU" if name == "gpus" and name not in offer and "GPU" in offer else name] = float(request[name])
    return asked


def _gives(offer: dict[str, float], request: Request, name: str) -> bool:
    (asked,) = _asked(Request({name: request[name]}), offer).items() or [("", 0.0)]
    return offer.get(asked[0], 0.0) >= asked[1]
