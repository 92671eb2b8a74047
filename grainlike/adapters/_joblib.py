"""A backend of joblib's that runs calls in slots."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from grainlike.adapters._calls import call_batch
from grainlike.adapters._dask_task import cautions_of, say_again, without_warnings
from grainlike.adapters._kept import borrow, borrowed, give_back
from grainlike.adapters._memmaps import ArgumentFiles
from grainlike.adapters._pool import GrainlikePool
from grainlike.executor import offer_with
from grainlike.resources import Cores, Request, as_request

try:
    from joblib import register_parallel_backend
    from joblib._parallel_backends import (
        AutoBatchingMixin,
        FallbackToBackend,
        ParallelBackendBase,
        SequentialBackend,
        ThreadingBackend,
    )
except ImportError as error:
    raise ImportError("this adapter needs joblib: pip install 'grainlike[joblib]'") from error

__all__ = ["register_joblib"]

_OF_POOLS = ("initializer", "initargs", "max_tasks_per_child", "retries", "head")
"""The options of a pool that are none of its executor's."""

_OF_PARALLEL = ("verbose", "context", "idle_worker_timeout")
"""What a `Parallel` tells every backend, and is nothing to this one, which was chosen."""

_AT_LEAST = 2
"""Least number of jobs that a `Parallel` with an open pool is given: with 1 it would run the calls in this process,
without slots.
"""


def register_joblib() -> None:
    """Register the backend `"grainlike"` with joblib. May be called any number of times.

    `joblib.parallel_config("grainlike", ...)` then takes these, all of which may be left out, and so does a `Parallel`:

    - `request`: what each call asks for, `Cores(1)` by default. A `Parallel` inside a call has as many threads as the
      call has cores, unless its own `n_jobs` is less; thread pools of NumPy and its like are set to the cores, too.
    - `pool`: a `GrainlikePool` to use. It is not shut down.
    - `head`: the address of a running head, or the path of its `client.json`: calls run on its workers.
    - `initializer`, `initargs`, `max_tasks_per_child` and all other options of `GrainlikePool`, for a pool that is
      opened when it is needed. The next `Parallel` with the same options and `n_jobs` uses it, too; it is closed when
      it was idle for five minutes, when other options are asked for, and with the program. In a job it is closed with
      the `Parallel`.

    `n_jobs` is how many calls run at once: by default, and for -1, as many as there are slots, and never more; 1
    means one after another in this process, without slots, as with every backend. With `pool=` it is how many are
    handed in at a time, and slots determine how many of them run. `inner_max_num_threads` is refused: `request`
    determines it. Arrays with more than `max_nbytes` bytes that are arguments of calls are written to a file once,
    and mapped where they are used, as joblib's own processes do it (`mmap_mode`, `temp_folder`); where all slots are
    this program's own.

    Raises, when the adapter is first asked for:
        ImportError: joblib is not installed.

    Example::

        register_joblib()
        with joblib.parallel_config("grainlike", request=Cores(2)):
            GridSearchCV(model, grid).fit(x, y)
    """
    register_parallel_backend("grainlike", GrainlikeBackend)


class GrainlikeBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Backend `"grainlike"` of joblib; its methods are those of joblib's own backends."""

    default_n_jobs = -1
    supports_retrieve_callback = True

    def __init__(
        self,
        request: Request | None = None,
        pool: GrainlikePool | None = None,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._said = {"request": request, "pool": pool, **options}
        self._take(**self._said)
        self._how: dict[str, Any] = {}
        """What `configure` was called with."""
        self._pool: GrainlikePool | None = None
        self._borrowed: dict[str, Any] = {}
        self._memmaps: ArgumentFiles | None = None
        self._open: set[Future[Any]] = set()
        """The batches that have not ended."""
        self._call = object()
        """Replaced when batches are abandoned: joblib hears of none from before."""

    def _take(self, request: Request | None = None, pool: GrainlikePool | None = None, **options: Any) -> None:
        """Set the options: `parallel_config` gives them, and each `Parallel` may give others."""
        if pool is not None and options:
            raise TypeError(f"a pool that is open takes no options: leave {', '.join(options)} out, or pool=")
        self._request = as_request(request) if request is not None else Cores(1) if pool is None else pool.request
        self._given = pool
        self._options = options

    def effective_n_jobs(self, n_jobs: int | None) -> Any:
        """Return how many calls run at once."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        slots = self._slots()
        if n_jobs is None:
            n_jobs = self.default_n_jobs
        found = max(1, slots + 1 + n_jobs) if n_jobs < 0 else min(n_jobs, slots)
        return found if self._pool is None else max(_AT_LEAST, found)

    def _slots(self) -> int:
        if self._given is not None:
            return self._given.slots(self._request)
        if self._options.get("head") is not None:
            with borrowed(self._pool_options(0)) as pool:
                return pool.slots(self._request)
        options = {name: value for name, value in self._options.items() if name not in _OF_POOLS}
        offer = getattr(options.get("backend"), "offer", offer_with(**options))
        return max(1, (0 if offer is None else offer.N) // self._cores)

    def _pool_options(self, n_jobs: int) -> dict[str, Any]:
        """Return the options of a pool with slots for so many calls, where it is here that slots are offered."""
        elsewhere = any(self._options.get(name) is not None for name in ("head", "backend"))
        here = {} if elsewhere else {"local": Cores(n_jobs * self._cores)}
        return {"request": self._request, **here, **self._options}

    @property
    def _cores(self) -> int:
        """Number of cores of one call."""
        return self._request.N or 1

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: Any = None,  # noqa: ARG002 - a hint for the choice of a backend, and this one is chosen
        require: Any = None,  # noqa: ARG002 - likewise
        max_nbytes: int | None = None,
        mmap_mode: str | None = None,
        temp_folder: str | None = None,
        **options: Any,
    ) -> Any:
        """Open a pool, unless one was given."""
        self._how = {"max_nbytes": max_nbytes, "mmap_mode": mmap_mode, "temp_folder": temp_folder, **options}
        self._take(**{**self._said, **{name: options[name] for name in options if name not in _OF_PARALLEL}})
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1 and self.nesting_level and self._given is None:  # in a call, whose slots are all there is
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        if self._given is not None:
            self._pool = self._given
        else:
            self._borrowed = self._pool_options(n_jobs)
            self._pool = borrow(self._borrowed)
        if max_nbytes is not None and mmap_mode is not None and self._pool.is_here:
            self._memmaps = ArgumentFiles(max_nbytes, mmap_mode, temp_folder)
        return max(_AT_LEAST, n_jobs)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Run a batch of calls."""
        assert self._pool is not None
        memmaps = self._memmaps
        used = set() if memmaps is None else memmaps.replaced(getattr(func, "items", []))
        future: Future[Any] = self._pool.submit_as(self._request, call_batch, func)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        if memmaps is not None and used:
            future.add_done_callback(lambda _: memmaps.release(used))
        if callback is not None:  # in one thread: two that overlap can hide an error of the caller's iterator
            self._pool.call_back(future, partial(self._say_done, self.parallel, callback, self._call))
        return future

    def _say_done(self, parallel: Any, callback: Callable[[Any], Any], call: object, future: Future[Any]) -> None:
        """Tell a `Parallel` that a batch has ended, while its own thread hands no other batch in.

        joblib looks first whether the `Parallel` is failing, and then, under its lock, for more to do. Where its own
        thread meets an error of the caller's iterator in between, it finds nothing more to do, takes the `Parallel` for
        ended, and the error is lost.
        """
        with parallel._lock:
            if call is self._call:
                callback(future)

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return the values of a batch; its warnings are given here, by the filters of this process."""
        value = out.result()
        say_again(cautions_of(value))
        return without_warnings(value)

    def terminate(self) -> None:
        """Give back what `configure` has borrowed."""
        if self._memmaps is not None:
            self._memmaps.close()
            self._memmaps = None
        pool, self._pool = self._pool, None
        if pool is not None and pool is not self._given:
            self._abandon(pool)
            give_back(self._borrowed, pool)
        self.reset_batch_stats()

    def _abandon(self, pool: GrainlikePool) -> None:
        """End the batches that have not ended.

        A `Parallel` that is called again forgets that the call before has failed, and only then gives itself another
        id: an end that was reported in between would be that of a batch of its own.
        """
        with self.parallel._lock:
            self._call = object()
        pool.abandon(list(self._open))

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A call has failed: end the others, those that run too, and be there for the next, if there is one."""
        if self._pool is not None:
            self._abandon(self._pool)
        self.terminate()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **self._how)

    def get_nested_backend(self) -> Any:
        """Return the backend of a `Parallel` inside a call: threads, one on each core of the call."""
        level = (self.nesting_level or 0) + 1
        inner = ThreadingBackend if self._cores > 1 and level == 1 else SequentialBackend
        return inner(nesting_level=level), self._cores
