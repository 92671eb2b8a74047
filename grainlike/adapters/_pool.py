"""`GrainlikePool`: the interface of `concurrent.futures`, with requests."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor as FuturesExecutor
from concurrent.futures import Future
from functools import partial
from itertools import chain, islice
from os import PathLike
from typing import Any, TypeVar
from uuid import uuid4

from grainlike.adapters._calls import call_after, call_after_async, call_counted, call_each, name_of_called
from grainlike.adapters._thread import ExecutorThread
from grainlike.graph import Delayed, Retry, delayed
from grainlike.resources import Cores, Request, as_request

__all__ = ["GrainlikePool"]

T = TypeVar("T")

ONE_ATTEMPT = Retry(0, losses=0)
"""A call of a pool is made once, as the standard library makes it: it may have done half of its work."""


class GrainlikePool(FuturesExecutor):
    """A `concurrent.futures.Executor` whose calls run in slots: each gets `request`.

    It is used from plain code and from any threads; its event loop runs in a thread of its own. What the standard
    library documents of executors and futures holds here: `submit`, `map`, `shutdown`, `with`, `cancel` (of calls that
    have not begun), `concurrent.futures.wait`, `as_completed`, callbacks, `loop.run_in_executor`. Plain functions run
    in processes, as in a `ProcessPoolExecutor`. These are the differences:

    - Lambdas, closures and functions of `__main__` can be submitted, and `async def` functions.
    - A process that dies fails its own call, with `WorkerLostError`, a `BrokenProcessPool`; the pool stays usable.
    - What cannot be pickled fails with `SerializationError`, a `PicklingError` and a `TypeError`, in the future.
    - Errors have a note with the worker and slots they came from.
    - A request that can never be given fails the call with `UnsatisfiableError`.

    Args:
        request: request of each call; `submit_as` takes another.
        initializer: called once in each process before its first call, with `initargs`; in each thread of a
            `ThreadBackend`. When it raises, the pool is broken: what is open and what is submitted then fails with a
            `BrokenProcessPool`.
        initargs: the arguments of `initializer`. They are sent to each worker once.
        max_tasks_per_child: number of calls of plain functions that a process makes before another replaces it; by
            default as many as come. A chunk of `map` counts as one. Coroutines, which share a process, are not
            counted.
        retries: number of times that a call which failed, or whose process died, is made again, as
            `@delayed(retries=...)` takes it: by default never, as with `Retry(0, losses=0)`. Of a graph for `start`,
            its functions have their own.
        head: the address of a running head, or the path of its `client.json`: calls run on its workers, see
            `connect`, whose options then are `options`.
        options: those of `grainlike.Executor`: `local=Node(4, "8Gi")`, `listen=` for workers that connect, and so on.

    It returns when the executor is open. A pool that is dropped ends when its last call has; a program that ends waits
    for all calls, as it does with the standard library's.

    Raises:
        TypeError, ValueError, OSError: as `grainlike.Executor`, or with `head=` as `connect`.

    Example::

        with GrainlikePool(Cores(2), local=Cores(4)) as pool:
            print(list(pool.map(fit, range(10))))
    """

    def __init__(
        self,
        request: Request | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        max_tasks_per_child: int | None = None,
        retries: int | Retry = ONE_ATTEMPT,
        head: str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        self.request: Request = Cores(1) if request is None else as_request(request)
        """Request of each call."""
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        _check_max_tasks(max_tasks_per_child, options.get("backend"))
        self._retries = retries
        self.is_here: bool = all(options.get(name) is None for name in ("listen", "backend")) and head is None
        """True if all calls run in processes on this machine."""
        self._through: dict[bool, Callable[..., Any]] = {}
        """Wrappers that call plain functions (False) and coroutine functions (True), where they are not called
        directly.
        """
        token = uuid4().hex
        if initializer is not None:
            begin = (token, initializer, tuple(initargs))
            self._through = {False: partial(call_after, *begin), True: partial(call_after_async, *begin)}
        if max_tasks_per_child is not None:
            through = self._through.get(False)
            counted = partial(call_counted, token, max_tasks_per_child)
            self._through[False] = counted if through is None else partial(counted, through)
        self._thread = ExecutorThread({"head": head, **options})
        weakref.finalize(self, self._thread.end).atexit = False  # then its thread waits for what was submitted

    def __repr__(self) -> str:
        return f"<GrainlikePool of {self.request} on {self._thread.executor!r}>"

    @property
    def address(self) -> str | None:
        """Address to which workers connect; None without `listen=`."""
        return self._thread.executor.address

    def slots(self, request: Request | None = None) -> int:
        """Return how many calls the workers that are here can run at once, by their cores; at least 1.

        `request` is what each of them asks for, by default the pool's own.

        Raises:
            RuntimeError: the pool was shut down.

        Example::

            chunks = np.array_split(data, 4 * pool.slots())
        """
        asked = self.request if request is None else request
        return max(1, sum(worker.resources.N // (asked.N or 1) for worker in self._thread.workers()))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have `fn(*args, **kwargs)` run, and return its future.

        Raises:
            RuntimeError: the pool was shut down; `BrokenProcessPool`, one of these, if its thread was ended or its
                initializer raised.
            TypeError: `fn` cannot be called, or is a generator function, whose values could not be sent.

        Example::

            future = pool.submit(fit, data)
            print(future.result())
        """
        return self.submit_as(self.request, fn, *args, **kwargs)

    def submit_as(self, request: Request, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """`submit` with a request of this call's own.

        Example::

            future = pool.submit_as(Cores(4) & Memory("2Gi"), fit, table)
        """
        return self.start(self._placeholder(request, fn, args, kwargs))

    def _placeholder(
        self, request: Request, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Delayed[Any]:
        placeholder: Delayed[Any]
        plain = delayed(fn, retries=self._retries, name=name_of_called(fn, args))
        through = self._through.get(plain.function.is_async) if self._through else None
        if through is None:
            placeholder = (plain @ request)(*args, **kwargs)
        else:
            run = delayed(through, name=plain.function.name, retries=self._retries)
            placeholder = (run @ request)(fn, *args, **kwargs)
        return placeholder

    def start(self, placeholder: Delayed[T]) -> Future[T]:
        """Start a graph that was written with delayed functions, and return a future of its value.

        Example::

            future = pool.start((add @ Cores(1))((load @ Cores(1))(1), (load @ Cores(1))(2)))
        """
        return self._thread.start(placeholder)

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Map `fn` over the iterables, as the built-in `map`, at once and in slots; values come in order.

        Args:
            fn: function to call with an item of each iterable.
            iterables: read to their ends at once.
            timeout: seconds after this call for which a value may be waited for.
            chunksize: number of calls sent together, which run one after another in the same slots.

        Raises:
            ValueError: `chunksize` is less than 1.
            TimeoutError: from the iterator, when a value comes too late.
            Exception: what a call raises, as it is, from the iterator, which ends with it.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        pieces = super().map(partial(call_each, fn), _pieces(zip(*iterables, strict=False), chunksize), timeout=timeout)
        return chain.from_iterable(pieces)

    def abandon(self, futures: Iterable[Future[Any]]) -> None:
        """Cancel calls, and end those that run, too: `future.cancel()` leaves these alone.

        Futures of calls that ran raise `JobCancelledError`. It does not wait.

        Example::

            done, not_done = wait(futures, return_when=FIRST_EXCEPTION)
            pool.abandon(not_done)
        """
        self._thread.abandon(futures)

    def call_back(self, future: Future[T], fn: Callable[[Future[T]], object]) -> None:
        """Call `fn(future)` in the pool's thread once one of its futures is done, one such call after another.

        Example::

            pool.call_back(pool.submit(fit, table), print)
        """
        self._thread.call_back(future, fn)

    def end_when_idle(self, seconds: float) -> bool:
        """Shut the pool down after so many seconds, unless `keep_open` is called before; False if it is shut down."""
        return self._thread.end_after(seconds)

    def keep_open(self) -> bool:
        """Undo `end_when_idle`; return False if the pool is shut down."""
        return self._thread.keep()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end with the last of those that were submitted.

        Args:
            wait: return when all calls have ended, and no thread and no process of the pool is left.
            cancel_futures: cancel the calls that have not begun.

        Example::

            pool.shutdown(wait=False, cancel_futures=True)
        """
        self._thread.end(cancel=cancel_futures)
        if wait:
            self._thread.join()


def _check_max_tasks(most: object, backend: object) -> None:
    if most is None:
        return
    if not isinstance(most, int):
        raise TypeError("max_tasks_per_child must be an integer")
    if most <= 0:
        raise ValueError("max_tasks_per_child must be >= 1")
    if backend is not None:
        raise ValueError(f"max_tasks_per_child= is for processes of grainlike's own, and {backend!r} has others")


def _pieces(rows: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while piece := list(islice(rows, size)):
        yield piece
