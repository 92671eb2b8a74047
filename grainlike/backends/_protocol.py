"""Interface that a backend must have to run jobs, and its optional parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Protocol, runtime_checkable

import anyio
import anyio.to_thread

from grainlike.resources import Allocation, Request

__all__ = ["Backend", "BackendAdapter"]


@runtime_checkable
class Backend(Protocol):
    """Backend: any object that runs functions elsewhere. Its methods may be `async def` as well.

    That is all that is needed. A call that it is given is an importable function with arguments that pickle, so it
    needs no support for closures or `__main__`. An engine like this one takes `Cores(1)` for one call, and refuses
    all else.

    It may also have:

    - `honours`: the names of the resources that it honours, as `{"cores", "foo"}`; and `submit_for(request, fn,
      *args)`, called in place of `submit`, which passes it the request.
    - `refusal(request)`: one sentence on why it never could, or None.
    - `offer`: the amounts of them, as `Cores(4)`: then that is counted here, and nothing is submitted before
      there is room.
    - `cancel(future)`: the result is wanted no more.
    - `on_done(future, call)`: call `call()`, from any thread, when `result` would not wait.
    - `in_process = True`: its calls run in this process, and get their arguments as they are.
    - `open()`: called first, in the event loop's own time.
    """

    name: str

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Have `fn(*args, **kwargs)` called, and return at once something that stands for its result."""

    def result(self, future: Any, timeout: float | None = None) -> Any:
        """Return the result of a call, or raise its exception; TimeoutError if it is not there in so many seconds."""

    def shutdown(self, wait: bool = True) -> Any:
        """End it. It may be called again then, and does nothing."""


NEEDED = ("submit", "result", "shutdown")


class BackendAdapter:
    """A backend, with the ways in which it is talked to found out once.

    Raises:
        TypeError: the object lacks a method that every backend has; the message names it.
    """

    def __init__(self, backend: Any) -> None:
        lacks = [method for method in NEEDED if not callable(getattr(backend, method, None))]
        if not isinstance(getattr(backend, "name", None), str):
            lacks.insert(0, "name (a string)")
        if lacks:
            wanted = "backend= takes an object with name, submit, result and shutdown"
            raise TypeError(f"{wanted}; {backend!r} has no {', '.join(lacks)}")
        self.backend = backend
        self.name: str = backend.name
        self.in_process: bool = getattr(backend, "in_process", False)
        self.says_what_it_honours: bool = inspect.getattr_static(backend, "honours", None) is not None
        self.cancels: bool = hasattr(backend, "cancel")
        self.tells_when_done: bool = hasattr(backend, "on_done")
        self.hears_requests: bool = hasattr(backend, "submit_for")

    @property
    def honours(self) -> Collection[str]:
        """Names of the resources that it honours; a backend may have them only when it is open."""
        return getattr(self.backend, "honours", ("cores",))

    @property
    def offer(self) -> Allocation | Request | None:
        """Amounts that are counted here; None where the backend counts."""
        return getattr(self.backend, "offer", None)

    def refusal(self, request: Request) -> str | None:
        """Return why it never could give this request, by name; None if it may."""
        why = self._unhonoured(request)
        if why is None and hasattr(self.backend, "refusal"):
            why = self.backend.refusal(request)
        return None if why is None else f"backend {self.name!r} can not honour {why}"

    def _unhonoured(self, request: Request) -> str | None:
        if len(request.options) > 1:
            return f"the choice in {request}: say which"
        known = ", ".join(sorted(self.honours)) or "no resource"
        for part in request.parts:
            if part not in self.honours:
                return f"{part} in {request}: it honours {known}"
        if request.pack is not None:
            return f"pack={request.pack!r}: it has no layout"
        if not self.says_what_it_honours and request.N > 1:
            return f"cores in {request}: it does not say which resources it honours, so a call is one core"
        return None

    async def ask(self, method: str, *args: Any, limiter: anyio.CapacityLimiter, abandon: bool = False) -> Any:
        """Call one of its methods, in a thread unless it is async: it may wait."""
        function: Callable[..., Any] = getattr(self.backend, method)
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        answer = await anyio.to_thread.run_sync(partial(function, *args), limiter=limiter, abandon_on_cancel=abandon)
        # A future may be awaitable, as Dask's are, and what stands for a result is not to be awaited here.
        return await answer if inspect.iscoroutine(answer) else answer
