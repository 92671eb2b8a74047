"""A backend of joblib's that runs calls in slots."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from grainlike.adapters._calls import call
from grainlike.adapters._pool import GrainlikePool
from grainlike.executor import Executor
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


def register_joblib() -> None:
    """Make the backend `"grainlike"` known to joblib. Any number of times.

    `joblib.parallel_config("grainlike", ...)` then takes these, all of which may be left out:

    - `request`: what each call asks for, `Cores(1)` by default. A `Parallel` inside a call has as many threads as the
      call has cores, unless its own `n_jobs` says less; thread pools of NumPy and its like are set to the cores, too.
    - `pool`: a `GrainlikePool` to use, whose workers stay from one `Parallel` to the next. It is not shut down.
    - the options of `grainlike.Executor`, for a pool that is opened for each `Parallel` and closed with it.

    `n_jobs` is how many calls run at once: by default, and for -1, as many as there are slots, and never more; 1 means
    one after another in this process, without slots, as with every backend. With `pool=` it is how many are handed in
    at a time, and slots say how many of them run. `inner_max_num_threads` is refused: `request` says it.

    Raises, when the adapter is first asked for:
        ImportError: joblib is not installed.

    Example::

        register_joblib()
        with joblib.parallel_config("grainlike", request=Cores(2)):
            GridSearchCV(model, grid).fit(x, y)
    """
    register_parallel_backend("grainlike", GrainlikeBackend)


class GrainlikeBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """What joblib makes of `"grainlike"`; its methods are those of joblib's own backends."""

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
        if pool is not None and options:
            raise TypeError(f"a pool that is open takes no options: leave {', '.join(options)} out, or pool=")
        self._request = as_request(request) if request is not None else Cores(1) if pool is None else pool.request
        self._given = pool
        self._options = options
        self._pool: GrainlikePool | None = None
        self._open: set[Future[Any]] = set()
        """The batches that have not ended."""

    def effective_n_jobs(self, n_jobs: int | None) -> Any:
        """How many calls run at once."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        slots = self._slots()
        if n_jobs is None:
            return 1
        return max(1, slots + 1 + n_jobs) if n_jobs < 0 else min(n_jobs, slots)

    def _slots(self) -> int:
        if self._given is not None:
            return self._given.slots(self._request)
        offer = Executor(**self._options).offer
        return max(1, (0 if offer is None else offer.N) // self._cores)

    @property
    def _cores(self) -> int:
        """Those of one call."""
        return self._request.N or 1

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: Any = None,  # noqa: ARG002 - a hint for whoever chooses a backend, and this one is chosen
        require: Any = None,  # noqa: ARG002 - likewise
        **_: Any,
    ) -> Any:
        """Open a pool, unless one was given."""
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        n_jobs = self.effective_n_jobs(n_jobs)
        self.parallel = parallel
        if self._given is not None:
            self._pool = self._given
        else:
            options = {"local": Cores(n_jobs * self._cores), **self._options}
            self._pool = GrainlikePool(self._request, **options)
        return max(2, n_jobs)  # of 1 joblib would run the calls here, without slots

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Run a batch of calls."""
        assert self._pool is not None
        future: Future[Any] = self._pool.submit_as(self._request, call, func)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """What a batch gave."""
        return out.result()

    def terminate(self) -> None:
        """Close what `configure` has opened."""
        pool, self._pool = self._pool, None
        if pool is not None and pool is not self._given:
            pool.shutdown(cancel_futures=True)
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A call has failed: end the others, those that run too, and be there for the next, if there is one."""
        if self._pool is not None:
            self._pool.abandon(list(self._open))
        self.terminate()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def get_nested_backend(self) -> Any:
        """What a `Parallel` inside a call uses: threads, one on each core of the call."""
        level = (self.nesting_level or 0) + 1
        inner = ThreadingBackend if self._cores > 1 and level == 1 else SequentialBackend
        return inner(nesting_level=level), self._cores
